# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of nodes when another one goes away, in each way to go: each call that waits ends with
the status that the rules have for it, what has arrived stays, nobody else notices, and a node that
comes back is found again. Three hosts: who is left on the first one, who goes on the second, and
another node on the third."""

from typing import NamedTuple

import pytest
import sharing
from mcapi import (
    ATTRIBUTES, BUFFERS, DOMAIN, KINDS, PACKETS, RECEIVE, SCALARS, SEND, SLOTS, McapiError, Moved, Nodes,
    all_nodes, channel, fails, nodes, status_of, stopped,
)  # fmt: skip
from ntbrig import mcapi as programs
from outages import (
    GOES, STAYS, THIRD, boot_host, fabric, kill_host, plug, row, unplug, unplugged,
)  # fmt: skip
from shell import until


# --- ways to go


class Way(NamedTuple):
    """How a node goes, what brings its host back, whether the hosts are cut off, and what ends that which
    is left of its process."""

    go: callable
    back: callable = lambda fabric: None
    cut: bool = False
    bury: callable = lambda goes: None


def finalize(fabric, goes):
    goes.finalize()


def kill(fabric, goes):
    goes.end()


def leave(fabric, goes):
    goes.exit(3)


def kill_node(goes):
    goes.end()


def fork(fabric, goes):
    """Leave a child behind, which has what its parent had open, and which runs on."""
    goes.command("&", lambda answer: None, "fork", "storm", goes.room(64), 64, 1, 600_000)
    children = f"grep -lE '^PPid:\\s+{goes.pid}$' /proc/[0-9]*/status || true"
    found = until(lambda: goes.guest.run(children).out.split())
    goes.children = [path.split("/")[2] for path in found]
    goes.guest.run(["kill", "-9", goes.pid])


def kill_children(goes):
    goes.guest.run(["kill", "-9", *goes.children])
    goes.reap()


def become_another(fabric, goes):
    goes.become("/bin/sleep", 600)


WAYS = {
    "finalized": Way(finalize),
    "killed": Way(kill),
    "exited": Way(leave),
    "forks": Way(fork, bury=kill_children),
    "execs": Way(become_another, bury=kill_node),
    "unplugged": Way(unplug, plug, cut=True),
    "host killed": Way(kill_host, boot_host(programs.configure), cut=True),
}
# Those that each step of a channel's life is tried with in a short run: the process goes, the link goes.
SHORT = ("killed", "unplugged")
AT_EACH_STEP = [
    pytest.param(name, marks=[] if name in SHORT else pytest.mark.long) for name in WAYS
]


def free(fabric):
    """What each host has free for windows, by the kernel's account: bytes of each interface."""
    found = {}
    for guest in fabric.hosts:
        with sharing.Process(guest) as process:
            interfaces = process.interfaces() + process.interfaces(loopback=True)
            told = [process.call("INTERFACE", "mp_interface", id=number) for number in interfaces]
        found[guest.name] = sorted(each.local_free for each in told)
    return found


# --- what is under way


class Bystander:
    """Two nodes that notice nothing."""

    def __init__(self, stays, third):
        self.here, self.there = stays, third
        self.ends = stays.endpoint(), third.endpoint()
        self.channel = channel(SCALARS, third, stays)

    def goes_on(self):
        own, there = self.ends
        self.here.send(own, there, b"still here")
        assert self.there.receive(there) == b"still here"
        self.there.send_scalar(self.channel.send, 5)
        assert self.here.receive_scalar(self.channel.receive) == 5


class Messages:
    """Sends that wait for buffers, and a get of an endpoint that does not exist."""

    def __init__(self, stays, goes):
        self.stays, self.goes, self.number = stays, goes, goes.number
        own, hasty = stays.endpoint(), stays.endpoint(timeout=50)
        self.full = goes.endpoint()
        at, size = stays.passed(b"bulk")
        assert stays.attribute(self.full, "num_recv_buffers") == BUFFERS
        filled = stays.repeat(1000, "msg_send", hasty, self.full, at, size, 1)
        assert filled == Moved(BUFFERS, 0, "TIMEOUT")
        self.pending = stays.send_i(own, self.full, b"pending")
        self.blocked = stays.later.call("msg_send", own, self.full, at, size, 1)
        self.get = stays.get_i(goes.number, 99)

    def end(self, way):
        # What has waited was not sent, in whatever way the node has gone.
        assert status_of(self.pending.wait) == "TRANSMISSION"
        assert status_of(self.blocked.result) == "TRANSMISSION"
        assert self.get.test() == (False, 0)
        own, at = self.stays.endpoint(), self.stays.room(8)
        untouched = bytes([0xEE] * 8)
        self.stays.write(at, untouched)
        # A node that is not there is not the sender's error; a link is.
        expected = "TRANSMISSION" if way.cut else "SUCCESS"
        assert status_of(lambda: self.stays.send(own, self.full, b"later")) == expected
        with fails("GENERAL" if way.cut else "NODE_INVALID"):
            self.stays.call("node_get_attribute", DOMAIN, self.number, 0, at, 4)
        for number, name in enumerate(ATTRIBUTES[:-1]):
            size = 8 if name == "GET_SOURCE" else 4
            with fails("GENERAL" if way.cut else "ENDP_INVALID"):
                self.stays.call("endpoint_get_attribute", self.full, number, at, size)
        assert self.stays.read(at, 8) == untouched

    def go_on(self, again):
        endpoint = again.endpoint(99)
        self.get.wait()
        assert self.get.result() == endpoint
        own = self.stays.endpoint()
        self.stays.send(own, endpoint, b"the new one")
        assert again.receive(endpoint) == b"the new one"
        if again is self.goes:
            # It has lived on: what has failed never comes.
            assert [again.receive(self.full) for _ in range(BUFFERS)] == [b"bulk"] * BUFFERS
            self.stays.send(own, self.full, b"after all")
            assert again.receive(self.full) == b"after all"
            assert again.available(self.full) == 0


class Channels:
    """Calls that wait at both ends of channels of both kinds, and what has arrived."""

    def __init__(self, stays, goes):
        self.stays = stays
        small = {"max_payload_size": 64}
        self.out = channel(PACKETS, stays, goes, **small)
        self.back = channel(PACKETS, goes, stays, **small)
        self.more = channel(SCALARS, stays, goes)
        self.less = channel(SCALARS, goes, stays)
        idle = channel(PACKETS, goes, stays, **small)
        closing = channel(PACKETS, stays, goes, **small)
        own, there = stays.endpoint(), goes.endpoint()
        stays.connect(PACKETS, own, there).wait()
        goes.send_packet(self.back.send, b"kept")
        goes.send_scalar(self.less.send, 5, 8)
        until(lambda: stays.waiting(PACKETS, self.back.receive) == 1)
        until(lambda: stays.waiting(SCALARS, self.less.receive) == 1)
        scalars = channel(SCALARS, goes, stays)
        full = channel(SCALARS, stays, goes)
        at, size = stays.passed(b"full")
        for _ in range(SLOTS):
            stays.call("pktchan_send", self.out.send, at, size)
        self.packets = {
            "send_i": stays.send_packet_i(self.out.send, b"never").waits(),
            "send": stays.later.call("pktchan_send", self.out.send, at, size),
            "receive_i": stays.receive_packet_i(idle.receive).waits(),
            "receive": stays.later.call("pktchan_recv", idle.receive, "cell=0", "cell=0"),
        }
        self.others = {
            "receive": stays.later.call("sclchan_recv_uint32", scalars.receive),
            "open": stays.open(PACKETS, SEND, own).waits(),
        }
        self.put = stays.later.put("scalars", full.send, 0, 100_000)
        self.closes = stays.close(PACKETS, SEND, closing.send).waits()
        stays.until_asleep()

    def end(self, way):
        statuses = {name: status_of(call.result) for name, call in self.packets.items()}
        assert statuses == dict.fromkeys(self.packets, "TRANSMISSION")
        statuses = {name: status_of(call.result) for name, call in self.others.items()}
        assert statuses == dict.fromkeys(self.others, "GENERAL")
        assert self.put.result().status == "GENERAL"
        self.closes.result()
        stays = self.stays
        assert stays.take_packet(self.back.receive) == b"kept"
        assert stays.receive_scalar(self.less.receive, 8) == 5
        with fails("TRANSMISSION"):
            stays.receive_packet(self.back.receive)
        with fails("TRANSMISSION"):
            stays.send_packet(self.out.send)
        with fails("GENERAL"):
            stays.receive_scalar(self.less.receive)
        with fails("GENERAL"):
            stays.send_scalar(self.more.send, 1)

    def go_on(self, again):
        """Endpoints of channels that have ended are closed, and connected again."""
        stays, ends = self.stays, self.out
        assert "OPEN" in stays.flags(ends.out)
        stays.close(PACKETS, SEND, ends.send).wait()
        stays.close(PACKETS, RECEIVE, self.back.receive).wait()
        into = again.endpoint(max_payload_size=64)
        stays.connect(PACKETS, ends.out, into).wait()
        opens = stays.open(PACKETS, SEND, ends.out), again.open(PACKETS, RECEIVE, into)
        send, receive = (request.opened() for request in opens)
        stays.send_packet(send, b"again")
        assert again.take_packet(receive) == b"again"


@pytest.mark.parametrize("name", WAYS)
def test_who_is_left_is_told_and_nobody_else(fabric, nodes, name):
    """MC-MSG-6, MC-MSG-8, MC-GEN-9, MC-GEN-15, MC-CHAN-16, MC-FINAL-2, MC-FINAL-3, MC-FINAL-5, MC-NATTRGET-2,
    MC-EPATTRGET-2, MC-EPGETI-5, MC-INIT-6, MC-INIT-7: of messages, packets, scalars, opens, closes, gets and
    questions, each as the rules have it. The number is free then, also while a child of the node's process
    lives, or another program in its place. When all nodes are finalized, each host has the memory that it
    had before."""
    way, before = WAYS[name], free(fabric)
    stays, goes, third = (nodes.on(host) for host in (STAYS, GOES, THIRD))
    number = goes.number
    bystander = Bystander(stays, third)
    parts = [Messages(stays, goes), Channels(stays, goes)]
    way.go(fabric, goes)
    gone = goes
    try:
        try:
            for part in parts:
                part.end(way)
            bystander.goes_on()
        finally:
            way.back(fabric)
        if not way.cut or name == "host killed":
            goes = nodes.on(GOES, number)
        for part in parts:
            part.go_on(goes)
        bystander.goes_on()
        assert free(fabric) != before
    finally:
        way.bury(gone)
    nodes.clear()
    until(lambda: free(fabric) == before)


# --- each step of a channel's life

SMALL = {"max_payload_size": 64}
SEVERED = {PACKETS: "TRANSMISSION", SCALARS: "GENERAL"}


class End:
    """The end of a channel that stays, and the one that goes."""

    def __init__(self, stays, goes, kind, direction):
        self.stays, self.goes, self.kind, self.direction = stays, goes, kind, direction
        self.own, self.there = stays.endpoint(**SMALL), goes.endpoint(**SMALL)
        self.handle = self.handle_there = None

    def connect(self, there=None):
        ends = (self.own, there or self.there)
        ordered = ends if self.direction == SEND else ends[::-1]
        return self.stays.connect(self.kind, *ordered)

    def open(self):
        return self.stays.open(self.kind, self.direction, self.own)

    def open_there(self, node=None, endpoint=None):
        direction = RECEIVE if self.direction == SEND else SEND
        return (node or self.goes).open(self.kind, direction, endpoint or self.there)

    def opened(self):
        self.connect().wait()
        requests = self.open(), self.open_there()
        self.handle, self.handle_there = (request.opened() for request in requests)

    def close(self):
        return self.stays.close(self.kind, self.direction, self.handle)

    def close_there(self):
        direction = RECEIVE if self.direction == SEND else SEND
        return self.goes.close(self.kind, direction, self.handle_there)

    def move(self):
        """Send or receive something that does not wait, as far as that is possible."""
        stays, name = self.stays, f"{self.direction} {self.kind}"
        if name == f"{SEND} {PACKETS}":
            return stays.send_packet(self.handle)
        if name == f"{SEND} {SCALARS}":
            return stays.send_scalar(self.handle, 1)
        if name == f"{RECEIVE} {PACKETS}":
            return stays.receive_packet(self.handle)
        return stays.receive_scalar(self.handle)

    def serves_again(self, third):
        """It is not connected any more, and a channel of it to another node carries something."""
        until(lambda: "CONNECTED" not in self.stays.flags(self.own))
        there = third.endpoint(**SMALL)
        self.connect(there).wait()
        requests = self.open(), self.open_there(third, there)
        here, there = (request.opened() for request in requests)
        sender, send, receiver, receive = self.stays, here, third, there
        if self.direction == RECEIVE:
            sender, send, receiver, receive = receiver, receive, sender, send
        if self.kind == PACKETS:
            sender.send_packet(send, b"again")
            assert receiver.take_packet(receive) == b"again"
        else:
            sender.send_scalar(send, 7)
            assert receiver.receive_scalar(receive) == 7


def opening_alone(end):
    """Before it is connected: it waits for whoever connects it."""
    request = end.open()

    def after():
        assert request.test() == (False, 0)
        request.cancel()

    return after


def connected(end):
    end.connect().wait()
    return lambda: None


def opening_here(end):
    end.connect().wait()
    request = end.open()
    return lambda: expect(request.wait, "GENERAL")


def opening_there(end):
    end.connect().wait()
    end.open_there()
    return lambda: None


def withdrawn_there(end):
    end.connect().wait()
    end.open_there().cancel()
    request = end.open()
    # It has been told of both.
    end.goes.until_asleep()
    end.stays.until_asleep()
    assert request.test() == (False, 0)
    return lambda: expect(request.wait, "GENERAL")


def both_open(end):
    end.opened()

    def after():
        until(lambda: status_of(end.move) == SEVERED[end.kind])
        assert "OPEN" in end.stays.flags(end.own)
        end.close().wait()

    return after


def closing_here(end):
    end.opened()
    request = end.close()
    assert request.test() == (False, 0)
    return request.wait


def closed_there(end):
    end.opened()
    end.close_there()
    until(lambda: status_of(end.move) == "CHAN_INVALID")

    def after():
        expect(end.move, "CHAN_INVALID")
        end.close().wait()

    return after


def expect(use, status):
    assert status_of(use) == status


STEPS = (
    *(opening_alone, connected, opening_here, opening_there),
    *(withdrawn_there, both_open, closing_here, closed_there),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", AT_EACH_STEP)
def test_a_channel_ends_at_each_step_of_its_life(fabric, nodes, name, kind):
    """MC-CHAN-16, MC-CHAN-2, MC-CHAN-10, MC-PKTROPEN-6: whichever end stays, whatever it has asked for ends
    with the status that the rules have, and its endpoint serves for another channel."""
    way = WAYS[name]
    stays, goes, third = (nodes.on(host) for host in (STAYS, GOES, THIRD))
    ends = [(End(stays, goes, kind, end), step) for end in (SEND, RECEIVE) for step in STEPS]
    checks = [step(end) for end, step in ends]
    way.go(fabric, goes)
    try:
        for check in checks:
            check()
        for end, _ in ends:
            end.serves_again(third)
    finally:
        way.back(fabric)
        way.bury(goes)


# Of a process that stands still: one that finalizes, or exits, does not.
@pytest.mark.parametrize("name", ("killed", "unplugged", "host killed"))
def test_a_connect_that_is_not_answered_ends_with_the_owner(fabric, nodes, name):
    """MC-CHAN-16, MC-PKTCONN-6, MC-PKTCONN-7: of an owner of the lower and of the higher endpoint; the own
    endpoint is free then."""
    way = WAYS[name]
    third = nodes.on(THIRD)
    lower, goes, higher = (nodes.on(host) for host in (STAYS, GOES, STAYS))
    stays = (lower, higher)
    assert lower.number < goes.number < higher.number
    ends = [End(node, goes, kind, SEND) for node in stays for kind in KINDS]
    goes.guest.run(f"kill -STOP {goes.pid}")
    requests = [end.connect() for end in ends]
    for node in stays:
        node.until_asleep()
    assert all(request.test() == (False, 0) for request in requests)
    way.go(fabric, goes)
    try:
        expected = "GENERAL" if way.cut else "ENDP_INVALID"
        assert {status_of(request.wait) for request in requests} == {expected}
        for end in ends:
            end.serves_again(third)
    finally:
        way.back(fabric)
        if name == "unplugged":
            goes.guest.run(f"kill -CONT {goes.pid}")


def test_memory_of_nodes_that_were_killed_returns(nodes):
    """MC-FINAL-5, MC-INIT-7: of one after the other, with channels that take what memory there is; each
    one has as many slots as the first."""
    stays = nodes.on(STAYS)
    at, size = stays.passed(b"bulk")
    slots = set()
    for _ in range(12):
        goes = nodes.on(GOES)
        out, back = channel(PACKETS, stays, goes, timeout=50), channel(PACKETS, goes, stays)
        filled = stays.repeat(1000, "pktchan_send", out.send, at, size)
        assert filled.status == "TIMEOUT"
        slots.add(filled.done)
        goes.end()
        until(lambda: status_of(lambda: stays.send_packet(out.send)) == "TRANSMISSION")
        stays.close(PACKETS, SEND, out.send).wait()
        stays.close(PACKETS, RECEIVE, back.receive).wait()
    assert len(slots) == 1


def test_calls_return_while_the_other_side_stands_still(nodes):
    """MC-GEN-5, MC-EPDEL-4, MC-CANCEL-6, MC-PKTCONN-2: those that do not wait, and those
    that wait no longer than they were told."""
    stays, goes = nodes.on(STAYS), nodes.on(GOES)
    own, there, receiving = stays.endpoint(), goes.endpoint(1), stays.endpoint()
    small = {"max_payload_size": 64}
    out = channel(PACKETS, stays, goes, **small)
    back = [channel(kind, goes, stays, **small) for kind in KINDS]
    idle = channel(PACKETS, goes, stays, **small)
    scalars = channel(SCALARS, stays, goes)
    alone = [(kind, stays.endpoint(), goes.endpoint()) for kind in KINDS]
    assert stays.get(goes.number, 1) == there

    def at_once(begin, *arguments):
        request = begin(*arguments)
        assert stays.seconds < 1
        assert request.status in ("SUCCESS", "PENDING")
        return request

    with stopped(goes):
        begun = [
            at_once(stays.get_i, goes.number, 50),
            at_once(stays.receive_i, receiving),
            at_once(stays.receive_packet_i, idle.receive),
            *(at_once(stays.connect, *ends) for ends in alone),
            *(at_once(stays.open, kind, SEND, end) for kind, end, _ in alone),
            *(at_once(stays.open, kind, RECEIVE, stays.endpoint()) for kind in KINDS),
            *(at_once(stays.send_packet_i, out.send) for _ in range(SLOTS + 1)),
            *(at_once(stays.send_i, own, there, bytes(5000)) for _ in range(BUFFERS)),
            at_once(stays.close, PACKETS, SEND, out.send),
            at_once(stays.close, SCALARS, SEND, scalars.send),
            *(at_once(stays.close, ends.kind, RECEIVE, ends.receive) for ends in back),
        ]
        pending = [request for request in begun if request.status == "PENDING"]
        assert {request.status for request in begun[:7]} == {"PENDING"}
        for request in pending:
            assert status_of(lambda: request.wait(20)) in ("SUCCESS", "TIMEOUT")
            assert stays.seconds < 1
        for request in begun:
            assert status_of(request.cancel) in ("SUCCESS", "REQUEST_INVALID")
            assert stays.seconds < 5
        stays.delete(own)
        assert stays.seconds < 5
    goes.receive(there, 5000)


def test_an_owner_that_does_not_answer_is_given_up(nodes):
    """MC-EPATTRGET-2, MC-NATTRGET-2: a call that asks it ends with an error, and nothing is written; when
    it answers again, the next one succeeds."""
    stays, goes = nodes.on(STAYS), nodes.on(GOES)
    there = goes.endpoint(timeout=1234)
    assert stays.attribute(there, "timeout") == 1234
    at = stays.room(8)
    stays.write(at, bytes([0xEE] * 8))
    with stopped(goes):
        with fails("GENERAL"):
            stays.call("endpoint_get_attribute", there, ATTRIBUTES.index("TIMEOUT"), at, 4)
        assert 5 <= stays.seconds < 10
        with fails("GENERAL"):
            stays.call("node_get_attribute", DOMAIN, goes.number, 0, at, 4)
    assert stays.read(at, 8) == bytes([0xEE] * 8)
    assert stays.attribute(there, "timeout") == 1234


def pending(stays, there, full, ends):
    """Requests of each kind that are not complete, and do not become so."""
    own = stays.endpoint()
    return {
        "get": stays.get_i(there[0], 60),
        "connect": stays.connect(PACKETS, stays.endpoint(), there[1]),
        "open": stays.open(PACKETS, SEND, stays.endpoint()),
        "message": stays.send_i(own, full, b"never"),
        "receive": stays.receive_i(own),
        "packet": stays.send_packet_i(ends[0].send, b"never"),
        "receive packet": stays.receive_packet_i(ends[1].receive),
        "close": stays.close(SCALARS, SEND, ends[2].send),
    }


def test_requests_are_cancelled_whether_the_link_is_up_or_down(fabric, nodes):
    """MC-CANCEL-6, MC-PKTCONN-2: what waits for another node is withdrawn at once when nobody answers: before it
    is noticed that the link is down, and afterwards, also what was begun by then, which takes no time."""
    stays, goes = nodes.on(STAYS), nodes.on(GOES)
    full, there = goes.endpoint(), goes.endpoint()
    hasty = stays.endpoint(timeout=50)
    at, size = stays.passed(b"bulk")
    assert stays.repeat(1000, "msg_send", hasty, full, at, size, 1).status == "TIMEOUT"

    def channels():
        small = {"max_payload_size": 64, "timeout": 50}
        ends = channel(PACKETS, stays, goes, **small), channel(PACKETS, goes, stays, **small)
        assert stays.repeat(1000, "pktchan_send", ends[0].send, at, 4).status == "TIMEOUT"
        return (*ends, channel(SCALARS, stays, goes))

    def cancel(requests):
        for name, request in requests.items():
            request.cancel()
            assert stays.seconds < 1, name
            with fails("REQUEST_INVALID"):
                request.cancel()

    number = goes.number
    early, late = channels(), channels()
    with stopped(goes):
        before = pending(stays, (number, there), full, early)
        after = pending(stays, (number, there), full, late)
        # Nobody has noticed by then.
        fabric.unplug(fabric.hosts[GOES])
        try:
            cancel(before)
            unplugged(fabric)
            cancel(after)
            ends = [stays.endpoint() for _ in range(3)]
            last = {}
            for name, begin in {
                "get": lambda: stays.get_i(number, 61),
                "connect": lambda: stays.connect(PACKETS, ends[0], there),
                "connect back": lambda: stays.connect(SCALARS, there, ends[1]),
                "open": lambda: stays.open(SCALARS, SEND, ends[2]),
                "receive": lambda: stays.receive_i(hasty),
            }.items():
                try:
                    last[name] = begin()
                    assert last[name].status == "PENDING", name
                except McapiError as error:
                    # That there is no way may be known by then.
                    assert (name.split()[0], error.name) == ("connect", "GENERAL")
                assert stays.seconds < 1, name
            cancel(last)
        finally:
            plug(fabric)
    # The endpoint that was to be connected is free.
    endpoint = stays.endpoint()
    again = goes.endpoint(62)
    assert stays.get(number, 62) == again
    stays.send(endpoint, again, b"goes on")
    assert goes.receive(again) == b"goes on"


def test_two_that_met_late_keep_their_number_and_nobody_else_has_it(fabric, nodes):
    """MC-INIT-6, MC-GEN-19: the link between their hosts comes up after both were initialized. A third node
    reaches one of them, always the same, and the other one when that one has ended."""
    number = nodes.number()
    third = nodes.program(THIRD)
    unplug(fabric, None)
    try:
        early, late = nodes.on(STAYS, number), nodes.on(GOES, number)
    finally:
        plug(fabric)
    with fails("NODE_INITFAILED"):
        third.initialize(number)
    for node in (early, late):
        assert node.call("node_id_get").value & 0xFFFF_FFFF == number
    third.initialize(nodes.number())
    one, other = reached(third, number, early, late)
    one.finalize()
    # Nodes that had a session with that one find the other.
    own, there = third.endpoint(), other.endpoint(2)
    assert third.get(number, 2) == there
    third.send(own, there, b"the other one")
    assert other.receive(there) == b"the other one"
    one.initialize(nodes.number())
    one.send(one.endpoint(), one.get(number, 2), b"of two one is left")
    assert other.receive(there) == b"of two one is left"


def reached(third, number, *both):
    """Of two nodes of one number, the one that a third node reaches, and the other one."""
    ends = [node.endpoint(1) for node in both]
    there, own = third.get(number, 1), third.endpoint()
    assert ends == [there, there]
    for n in range(20):
        third.send(own, there, bytes([n]))
    until(lambda: sum(node.available(there) for node in both) == 20)
    one, other = sorted(both, key=lambda node: -node.available(there))
    assert [one.receive(there) for _ in range(20)] == [bytes([n]) for n in range(20)]
    return one, other


# --- hosts in a row


def test_hosts_without_a_bridge_in_common_are_nodes_as_others(row):
    """MC-MSG-1, MC-CHAN-3, MC-INIT-6, MC-CHAN-16: messages, packets and scalars between all three,
    numbers that are unique, and an end that is told."""
    nodes = Nodes(row.hosts)
    try:
        middle, one, other = (nodes.on(host) for host in range(3))
        assert status_of(lambda: nodes.program(1).initialize(other.number)) == "NODE_INITFAILED"
        for sender, receiver in ((one, other), (other, one), (middle, other), (one, middle)):
            own, there = sender.endpoint(), receiver.endpoint()
            sent = sender.later.put("messages", own, there, 1, 7, 100, 5000)
            assert receiver.take("messages", there, 7, 100, 5000) == Moved(100, 0, "SUCCESS")
            assert sent.result() == Moved(100, 0, "SUCCESS")
            for kind, name, size in ((PACKETS, "packets", (5000,)), (SCALARS, "scalars", ())):
                ends = channel(kind, sender, receiver, by=middle)
                sent = sender.later.put(name, ends.send, 7, 500, *size)
                taken = receiver.take(name, ends.receive, 7, 500, *size)
                assert (taken, sent.result()) == ((500, 0, "SUCCESS"),) * 2
        ends = channel(PACKETS, one, other)
        waits = other.later.call("pktchan_recv", ends.receive, "cell=0", "cell=0")
        one.end()
        with fails("TRANSMISSION"):
            waits.result()
        other.close(PACKETS, RECEIVE, ends.receive).wait()
    finally:
        nodes.end()
