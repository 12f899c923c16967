# SPDX-License-Identifier: GPL-2.0-only
"""What MCAPI's rules say of nodes on different hosts, and of those on one: by the library's C ABI.
What becomes of nodes when others go away is in `test_mcapi_failures.py`."""

import itertools
import random
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcapi import (
    ATTRIBUTES, BUFFERS, DOMAIN, FOREVER, FUNCTIONS, KINDS, LARGEST, MESSAGE, NOTHING, PACKET, PACKETS,
    RECEIVE, SCALAR, SCALARS, SEND, SLOTS, SOON, Channel, McapiError, Moved, all_nodes, channel,
    fails, nodes, pair, status_of, stopped,
)  # fmt: skip
from outages import fabric
from shell import INTACT, until

SIZES = (0, 1, 63, 64, 65, 4095, 4096, 4097, LARGEST)
TYPES = {PACKETS: PACKET, SCALARS: SCALAR}
FLAGS_OF = {PACKETS: "PKTCHAN", SCALARS: "SCLCHAN"}


def until_available(node, endpoint, count):
    until(lambda: node.available(endpoint) >= count)


def until_waiting(node, kind, handle, count):
    until(lambda: node.waiting(kind, handle) >= count)


# --- all functions


class Returns:
    """What functions return: each call is noted by the function's name."""

    def __init__(self, node):
        self.node = node
        self.noted = set()

    def _value(self, name, raw):
        self.noted.add(name)
        return raw & ((1 << FUNCTIONS[name]) - 1)

    def __call__(self, name, *arguments):
        """The status and the value of a call."""
        try:
            done = self.node.call(name, *arguments)
        except McapiError as error:
            return error.name, self._value(name, error.value)
        return done.status, self._value(name, done.value)

    def good(self, name, *arguments):
        """The value of a call that succeeds."""
        status, value = self(name, *arguments)
        assert status == "SUCCESS", (name, status)
        return value

    def begun(self, name, *arguments):
        """Begin an operation, which may be complete."""
        assert self(name, *arguments, "cell=0")[0] in ("SUCCESS", "PENDING"), name


# Functions that a program without a node may call, and the one without a status.
ANYWHERE = {"initialize", "initialize2", "node_init_attributes", "node_set_attribute"}
WIDTHS = (8, 16, 32, 64)


def without_a_node(at):
    """All functions that need a node, with arguments that could be good."""
    calls = {
        "finalize": (),
        "domain_id_get": (),
        "node_id_get": (),
        "node_start": (),
        "node_rundown": (),
        "node_get_attribute": (DOMAIN, 1, 0, at, 4),
        "endpoint_create": (1,),
        "endpoint_get_i": (DOMAIN, 1, 2, at),
        "endpoint_get": (DOMAIN, 1, 2, FOREVER),
        "endpoint_delete": (1,),
        "endpoint_get_attribute": (1, 0, at, 4),
        "endpoint_set_attribute": (1, 11, at, 4),
        "msg_send_i": (1, 2, at, 4, 0),
        "msg_send": (1, 2, at, 4, 0),
        "msg_recv_i": (1, at, 4),
        "msg_recv": (1, at, 4, at),
        "msg_available": (1,),
        "pktchan_send_i": (1, at, 4),
        "pktchan_send": (1, at, 4),
        "pktchan_recv_i": (1, at),
        "pktchan_recv": (1, at, at),
        "pktchan_release": (at,),
        "pktchan_release_test": (at,),
        "test": ("requests=1", at),
        "wait": ("requests=1", at, FOREVER),
        "wait_any": (2, "requests=1,2", at, FOREVER),
        "cancel": ("requests=1",),
    }
    for kind in KINDS:
        calls |= {f"{kind}_connect_i": (1, 2), f"{kind}_available": (1,)}
        for direction in (SEND, RECEIVE):
            calls[f"{kind}_{direction}_open_i"] = (at, 1)
            calls[f"{kind}_{direction}_close_i"] = (1,)
    for bits in WIDTHS:
        calls[f"sclchan_send_uint{bits}"] = (1, 1)
        calls[f"sclchan_recv_uint{bits}"] = (1,)
    return calls


def call_without_a_node(program, at):
    returns, calls = Returns(program), without_a_node(at)
    assert calls.keys() == FUNCTIONS.keys() - ANYWHERE
    for name, words in calls.items():
        if name.endswith("_i"):
            words = (*words, "cell=0")
        assert returns(name, *words) == ("NODE_NOTINIT", NOTHING.get(name, 0)), name


def succeed_at_an_endpoint(one, other, noted):
    """Call all functions for endpoints, messages and requests, so that they succeed."""
    returns = Returns(one)
    at = one.room(64)
    good = returns.good
    assert good("domain_id_get") == DOMAIN
    assert good("node_id_get") == one.number
    good("node_init_attributes", one.room(256))
    good("node_rundown")
    good("node_start")
    own = good("endpoint_create", 5)
    assert good("endpoint_get", DOMAIN, one.number, 5, SOON) == own
    assert other.get(one.number, 5) == own
    good("endpoint_get_i", DOMAIN, one.number, 5, at, "cell=0")
    for name in ("endpoint_get_attribute", "endpoint_set_attribute"):
        good(name, own, ATTRIBUTES.index("TIMEOUT"), f"cell={SOON}", 4)
    good("node_get_attribute", DOMAIN, other.number, 0, at, 4)
    there = other.endpoint()
    good("msg_send", own, there, at, 3, 1)
    good("msg_send_i", own, there, at, 3, 1, "cell=0")
    other.send(there, own, b"first")
    other.send(there, own, b"second")
    until_available(one, own, 2)
    assert good("msg_available", own) == 2
    good("msg_recv", own, at, 64, "cell=0")
    good("msg_recv_i", own, at, 64, "cell=0")
    posted = [one.receive_i(own) for _ in range(3)]
    assert returns("test", posted[0].cell, "cell=0") == ("PENDING", 0)
    assert returns("wait", posted[0].cell, "cell=0", 0) == ("TIMEOUT", 0)
    requests = f"requests={posted[1].handle},{posted[0].handle}"
    assert returns("wait_any", 2, requests, "cell=0", 0) == ("TIMEOUT", FOREVER)
    other.send(there, own, b"third")
    assert good("wait_any", 2, requests, "cell=0", SOON) == 1
    other.send(there, own, b"fourth")
    assert good("wait", posted[1].cell, "cell=0", SOON) == 1
    other.send(there, own, b"fifth")
    until(lambda: posted[2].test()[0])
    assert good("test", posted[2].cell, "cell=0") == 1
    good("cancel", posted[2].cell)
    # Without success, a function returns what says so.
    assert returns("endpoint_get", DOMAIN, one.number, 6, 0) == ("TIMEOUT", 0)
    assert returns("endpoint_create", 5) == ("ENDP_EXISTS", 0)
    assert returns("msg_available", there) == ("ENDP_INVALID", 0)
    over = f"requests={posted[1].handle}"
    assert returns("test", over, "cell=0") == ("REQUEST_INVALID", 0)
    assert returns("wait", over, "cell=0", SOON) == ("REQUEST_INVALID", 0)
    assert returns("wait_any", 1, over, "cell=0", SOON) == ("REQUEST_INVALID", FOREVER)
    good("endpoint_delete", own)
    noted |= returns.noted


def succeed_at_a_channel(kind, one, other, noted):
    """Call all functions for both ends of a channel, so that they succeed."""
    send, receive = Returns(one), Returns(other)
    out, into = one.endpoint(), other.endpoint()
    send.begun(f"{kind}_connect_i", out, into)
    until(lambda: "CONNECTED" in one.flags(out) & other.flags(into))
    opens = []
    for returns, direction, end in ((send, SEND, out), (receive, RECEIVE, into)):
        at = returns.node.blank()
        done = returns.node.call(f"{kind}_{direction}_open_i", at, end, "cell=0")
        opens.append((returns, at, done.cells[0]))
        returns.noted.add(f"{kind}_{direction}_open_i")
    handles = []
    for returns, at, request in opens:
        assert returns.good("wait", f"cell={request}", "cell=0", SOON) == 1
        handles.append(int.from_bytes(returns.node.read(at, 4), "little"))
    {PACKETS: carry_packets, SCALARS: carry_scalars}[kind](send, receive, *handles)
    assert receive(f"{kind}_available", 1) == ("CHAN_INVALID", 0)
    send.begun(f"{kind}_send_close_i", handles[0])
    receive.begun(f"{kind}_recv_close_i", handles[1])
    noted |= send.noted | receive.noted


def carry_scalars(send, receive, out, into):
    for bits in WIDTHS:
        value = 0x8192_A3B4_C5D6_E7F8 >> (64 - bits)
        send.good(f"sclchan_send_uint{bits}", out, value)
        until(lambda: receive.node.waiting(SCALARS, into) == 1)
        assert receive.good("sclchan_available", into) == 1
        assert receive.good(f"sclchan_recv_uint{bits}", into) == value
        assert receive(f"sclchan_recv_uint{bits}", 1) == ("CHAN_INVALID", 0)


def carry_packets(send, receive, out, into):
    at, size = send.node.passed(b"packet")
    send.good("pktchan_send", out, at, size)
    assert send.good("pktchan_release_test", at) == 1
    send.good("pktchan_send_i", out, at, size, "cell=0")
    until(lambda: receive.node.waiting(PACKETS, into) == 2)
    assert receive.good("pktchan_available", into) == 2
    place = receive.node.blank()
    receive.good("pktchan_recv", into, place, "cell=0")
    packet = int.from_bytes(receive.node.read(place, 8), "little")
    assert receive("pktchan_release_test", packet) == ("PENDING", 0)
    receive.good("pktchan_release", packet)
    assert receive("pktchan_release_test", packet) == ("BUF_INVALID", 0)
    receive.good("pktchan_recv_i", into, place, "cell=0")


def test_functions_succeed_while_there_is_a_node(nodes):
    """MC-GEN-1, MC-INIT-1: each of them, by nodes on two hosts; what it returns is right with success,
    and without success what the manual says. Before and afterwards there is no node."""
    program, other = nodes.program(0), nodes.on(1)
    noted = set(ANYWHERE)
    for _ in range(2):
        call_without_a_node(program, program.room(64))
        program.initialize(nodes.number())
        succeed_at_an_endpoint(program, other, noted)
        for kind in KINDS:
            succeed_at_a_channel(kind, program, other, noted)
        program.finalize()
    call_without_a_node(program, program.room(64))
    assert FUNCTIONS.keys() - noted == {"finalize"}


def test_a_child_is_no_node_and_becomes_another_one(pair, nodes):
    """MC-GEN-15, MC-FINAL-5, MC-INIT-6: while messages and scalars of its parent go on, each function says in
    a forked child that there is no node. A child becomes a node, talks to its parent and ends; what the
    parent has open stays, and the child's number is free."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    ends = [channel(kind, *nodes) for kind in KINDS for nodes in (pair, pair[::-1])]
    count = 20_000
    scalars = ends[2]
    sent = one.later.put("messages", own, there, 1, 7, count, 100)
    more = one.later.put("scalars", scalars.send, 9, count)
    taken = [
        other.later.take("messages", there, 7, count, 100),
        other.later.take("scalars", scalars.receive, 9, count),
    ]
    for _ in range(3):
        call_without_a_node(one.child, one.room(64))
    for moved in (sent, more, *taken):
        assert moved.result(90) == Moved(count, 0, "SUCCESS")
    for number in (nodes.number(), nodes.number()):
        visit = one.later_child.visit(number, own)
        child = other.get(number, 1)
        assert one.receive(own) == struct.pack("<Q", number)
        one.send(own, child, struct.pack("<Q", 5))
        assert visit.result() == Moved(5, 0, "SUCCESS")
        for each in ends:
            assert "OPEN" in each.sender.flags(each.out) & each.receiver.flags(each.into)
            carries(each)
        again = nodes.on(1, number)
        again.send(again.endpoint(), own, b"the number is free")
        assert one.receive(own) == b"the number is free"
    assert one.child.visit(other.number, own).status == "NODE_INITFAILED"


# --- signals and time


def until_full(node, call, *words):
    """Call a function until it has waited in vain."""
    return node.repeat(100_000, call, *words).status == "TIMEOUT"


def calls_that_wait(one, other, timeout):
    """Calls of `one` that wait for something of `other`, for so long: of each the words, and what ends
    it."""
    own = one.endpoint(timeout=timeout)
    full = other.endpoint()
    at, size = one.passed(b"bulk")
    room = one.room(64)
    quick = one.endpoint(timeout=0)
    one.attribute(full, "num_recv_buffers")
    assert until_full(one, "msg_send", quick, full, at, size, 7)
    attributes = {"max_payload_size": 64, "timeout": timeout}
    back = [channel(kind, other, one, **attributes) for kind in KINDS]
    to = [channel(kind, one, other, **attributes) for kind in KINDS]
    sends = (("pktchan_send", to[0].send, at, size), ("sclchan_send_uint32", to[1].send, 1))
    for words in sends:
        assert until_full(one, *words)
    posted = [one.receive_i(own), one.receive_i(one.endpoint())]
    there = other.endpoint()
    number = 4000
    receives = {
        "posted": lambda: other.send(there, own, b"come"),
        "packet": lambda: other.send_packet(back[0].send, b"come"),
        "scalar": lambda: other.send_scalar(back[1].send, 9, 32),
        "buffer": lambda: [other.receive(full) for _ in range(BUFFERS)],
        "slot": lambda: other.take_packet(to[0].receive),
        "line": lambda: [other.receive_scalar(to[1].receive, 32) for _ in range(256)],
        "endpoint": lambda: other.endpoint(number),
    }
    ends = {
        ("wait_any", 2, f"requests={posted[1].handle},{posted[0].handle}", "cell=0", timeout): "posted",
        ("wait", posted[0].cell, "cell=0", timeout): "posted",
        ("msg_recv", own, room, 64, "cell=0"): "posted",
        ("msg_send", own, full, at, size, 7): "buffer",
        ("pktchan_recv", back[0].receive, "cell=0", "cell=0"): "packet",
        ("pktchan_send", to[0].send, at, size): "slot",
        ("sclchan_recv_uint32", back[1].receive): "scalar",
        ("sclchan_send_uint32", to[1].send, 1): "line",
        ("endpoint_get", DOMAIN, other.number, number, timeout): "endpoint",
    }
    return {words: receives[end] for words, end in ends.items()}


def test_signals_end_no_call(pair):
    """MC-GEN-14: a thread that is interrupted by signals, a thousand times each second, waits as long
    as others do, until its time is over, and until what it waits for is there."""
    one, other = pair
    often = 1000
    for words in calls_that_wait(one, other, 250):
        with fails("TIMEOUT"):
            one.storm(often, *words)
        assert 0.25 <= one.seconds < 5, words
    calls = calls_that_wait(one, other, 3000)
    # One at a time waits for a request.
    calls.pop(next(words for words in calls if words[0] == "wait_any"))
    for words, come in calls.items():
        waits = one.later.storm(often, *words)
        time.sleep(0.2)
        assert not waits.returned(), words
        come()
        done, alarms = waits.result()
        assert done.status == "SUCCESS" and alarms > 20, words


def test_times_do_not_follow_the_clock(pair):
    """MC-TMO-2: calls that wait in vain do so for as many milliseconds as they were told, and not much
    more, also if the clock of their host is set forward or back meanwhile."""
    one, other = pair
    for words in calls_that_wait(one, other, 300):
        with fails("TIMEOUT"):
            one.call(*words)
        assert 0.3 <= one.seconds < 2, words
    for words in calls_that_wait(one, other, 1000):
        waits = one.later.call(*words)
        time.sleep(0.1)
        for step in ("+1 hour", "-2 hours", "+1 hour"):
            one.guest.run(f"date -s '{step}'")
        with fails("TIMEOUT"):
            waits.result()
        assert 1 <= waits.seconds < 3, words


# --- messages


def test_messages_of_any_size_arrive_whole(pair):
    """MC-GEN-11, MC-GEN-12, MC-BUF-2, MC-MSGSEND-5, MC-MSGRECV-1, MC-MSGRECV-4, MC-TMO-3: also without
    bytes, from no memory at all, and of the largest size; for those who wait, or have waited in vain.
    """
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    at, room = one.room(LARGEST), other.room(LARGEST)
    for size in SIZES:
        one.fill(at, size, size)
        one.call("msg_send", own, there, at, size, 1)
        done = other.call("msg_recv", there, room, LARGEST, "cell=0")
        assert done.cells == [size]
        assert other.check(room, size, size) == INTACT
    one.call("msg_send", own, there, 0, 0, 1)
    assert other.receive(there) == b""
    with fails("PARAMETER"):
        one.call("msg_send", own, there, 0, 1, 1)
    with fails("MSG_SIZE"):
        one.call("msg_send", own, there, at, LARGEST + 1, 1)
    hasty = other.endpoint(timeout=50)
    with fails("TIMEOUT"):
        other.receive(hasty)
    assert other.seconds >= 0.05
    one.send(own, hasty, b"next")
    until_available(other, hasty, 1)
    assert other.receive(hasty) == b"next"
    waits = other.later.call("msg_recv", there, room, 64, "cell=0")
    other.until_asleep()
    one.send(own, there, b"last")
    assert waits.result().cells == [4]


def test_buffers_have_any_place(pair):
    """MC-GEN-10, MC-BUF-7: anywhere in any memory of a program."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    at, room = one.allocate(4096), other.allocate(4096)
    for offset in range(64):
        one.fill(at + offset, 100, offset)
        one.call("msg_send", own, there, at + offset, 100, 1)
        to = room + 63 - offset
        assert other.call("msg_recv", there, to, 200, "cell=0").cells == [100]
        assert other.check(to, 100, offset) == INTACT


def test_buffers_may_be_used_again_at_once(pair):
    """MC-MSG-11, MC-MSGSEND-1, MC-MSGSENDI-1: when a send is complete, and after each receive."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    at, room = one.room(5000), other.room(5000)
    for n in range(8):
        one.fill(at, 5000, n)
        if n % 2:
            one.call("msg_send", own, there, at, 5000, 1)
        else:
            done = one.call("msg_send_i", own, there, at, 5000, 1, "cell=0")
            waited = one.call("wait", f"cell={done.cells[0]}", "cell=0", SOON)
            assert waited.cells[1] == 5000
        one.fill(at, 5000, 99)
        if n % 4 == 3:
            for m in range(n - 3, n + 1):
                other.call("msg_recv", there, room, 5000, "cell=0")
                assert other.check(room, 5000, m) == INTACT


def test_urgent_messages_are_received_first(pair):
    """MC-MSG-2, MC-MSG-3, MC-MSG-4, MC-MSGSENDI-4, MC-MSGAVAIL-1: the lower the number; of one
    priority the first."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    chance = random.Random(1)
    sent = [(chance.randrange(8), n) for n in range(24)]
    for n, (priority, number) in enumerate(sent):
        one.send(own, there, bytes([priority, number]), priority)
        until_available(other, there, n + 1)
    with fails("PRIORITY"):
        one.send(own, there, b"", 8)
    received = []
    for left in range(len(sent), 0, -1):
        assert other.available(there) == left
        received.append(tuple(other.receive(there)))
    assert received == sorted(sent)
    assert other.available(there) == 0


def test_a_full_endpoint_delays_nobody(pair):
    """MC-MSG-10, MC-MSG-13, MC-GEN-5, MC-GEN-9, MC-TMO-1, MC-TMO-3, MC-TMO-4, MC-MSGSEND-2, MC-MSGSEND-3,
    MC-ATTR-6: but those who send to it with that priority; what has not been sent does not come, and
    all else does."""
    one, other = pair
    own, hasty = one.endpoint(), one.endpoint(timeout=50)
    full, free = other.endpoint(), other.endpoint()
    at, size = one.passed(b"bulk")
    assert one.attribute(full, "num_recv_buffers") == BUFFERS
    filled = one.repeat(1000, "msg_send", hasty, full, at, size, 7)
    assert filled == Moved(BUFFERS, 0, "TIMEOUT")
    until_available(other, full, BUFFERS)
    assert one.attribute(full, "num_recv_buffers") == 0
    blocked = one.later.call("msg_send", own, full, at, size, 7)
    one.until_asleep()
    started = one.send_i(own, full, b"late", 7)
    assert started.status == "PENDING"
    one.send(own, free, b"elsewhere", 7)
    assert other.receive(free) == b"elsewhere"
    one.send(own, full, b"urgent", 0)
    until_available(other, full, BUFFERS + 1)
    assert not blocked.returned()
    assert other.receive(full) == b"urgent"
    received = [other.receive(full) for _ in range(BUFFERS + 2)]
    assert received == [b"bulk"] * (BUFFERS + 1) + [b"late"]
    blocked.result()
    assert started.wait() == 4
    until(lambda: one.attribute(full, "num_recv_buffers") == BUFFERS)
    assert other.available(full) == 0


def test_only_its_node_uses_an_endpoint(pair):
    """MC-MSG-5, MC-MSGRECV-2, MC-MSGAVAIL-2, MC-MSGSENDI-3, MC-EPDEL-1, MC-EPATTRSET-1, MC-ATTR-1,
    MC-EPATTRGET-1, MC-EPATTRGET-3, MC-PKTROPEN-5: others send to it, and read its attributes."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint(timeout=1234)
    at = one.room(64)
    with fails("ENDP_INVALID"):
        one.call("msg_recv", there, at, 64, "cell=0")
    with fails("ENDP_INVALID"):
        one.receive_i(there)
    with fails("ENDP_INVALID"):
        one.available(there)
    with fails("ENDP_INVALID"):
        one.send(there, own)
    with fails("ENDP_NOTOWNER"):
        one.delete(there)
    with fails("ENDP_REMOTE"):
        one.set_attribute(there, "timeout", 1)
    for kind, direction in itertools.product(KINDS, (SEND, RECEIVE)):
        with fails("ENDP_INVALID"):
            one.open(kind, direction, there)
    # Those that differ are not the same for all who ask.
    for name in set(ATTRIBUTES) - {"END", "GET_SOURCE", "GET_COUNT", "NUM_RECV_BUFFERS"}:
        assert one.attribute(there, name) == other.attribute(there, name)
    other.set_attribute(there, "timeout", 4321)
    assert one.attribute(there, "timeout") == 4321
    one.send(own, there, b"still there")
    assert other.receive(there) == b"still there"


def test_messages_for_nobody_are_discarded(pair):
    """MC-MSG-6, MC-MSG-9, MC-MSGSEND-4, MC-EPDEL-2, MC-EPDEL-7, MC-EPCREATE-3: those for an endpoint
    that is not there, or not any more, are not those of one that comes later."""
    one, other = pair
    own = one.endpoint()
    there = other.endpoint(7)
    one.send(own, there, b"queued")
    until_available(other, there, 1)
    other.delete(there)
    with fails("ENDP_INVALID"):
        other.receive(there)
    with fails("ENDP_INVALID"):
        other.available(there)
    for _ in range(2 * BUFFERS):
        one.send(own, there, b"for nobody")
    again = other.endpoint(7)
    assert again == there
    with fails("ENDP_EXISTS"):
        other.endpoint(7)
    one.send(own, again, b"for the new one")
    assert other.receive(again) == b"for the new one"
    assert other.available(again) == 0


def test_a_message_that_is_too_long_loses_its_end(pair):
    """MC-MSGRECV-3, MC-MSGRECVI-3, MC-REQ-8: its beginning is there, and nothing is written behind
    that; the next one is whole."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    room = other.room(64)
    other.write(room, bytes([0xEE] * 64))
    one.send(own, there, b"0123456789")
    one.send(own, there, b"whole")
    with fails("MSG_TRUNCATED"):
        other.call("msg_recv", there, room, 4, "cell=0")
    assert other.read(room, 64) == b"0123" + bytes([0xEE] * 60)
    assert other.receive(there) == b"whole"
    posted = other.receive_i(there, 4)
    one.send(own, there, b"abcdefgh")
    with fails("MSG_TRUNCATED"):
        posted.wait()
    assert posted.bytes(4) == b"abcd"
    with fails("REQUEST_INVALID"):
        posted.wait()
    again = other.receive_i(there, 2)
    one.send(own, there, b"xyz")
    until(lambda: status_of(again.test) == "MSG_TRUNCATED")
    with fails("MSG_TRUNCATED"):
        again.test()
    with fails("MSG_TRUNCATED"):
        again.wait()


def test_receives_are_served_in_the_order_of_their_posting(pair):
    """MC-REQ-12, MC-MSGRECVI-1, MC-MSGRECVI-4, MC-CANCEL-5: those that were withdrawn
    take nothing."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    posted = [other.receive_i(there) for _ in range(10)]
    assert {request.status for request in posted} == {"PENDING"}
    posted.pop(8).cancel()
    posted.pop(3).cancel()
    for n in range(9):
        one.send(own, there, bytes([n] * (n + 1)))
    for n, request in enumerate(posted):
        assert request.wait() == n + 1
        assert request.bytes(n + 1) == bytes([n] * (n + 1))
    assert other.receive(there) == bytes([8] * 9)


def test_many_send_to_one(nodes):
    """MC-MSG-1, MC-MSG-4, MC-GEN-8, MC-GEN-9: from each host at the same time, to an endpoint each;
    each message arrives once, in order, and where it was sent to."""
    count, size = 2000, 300
    one = nodes.on(0)
    senders = [nodes.on(host) for host in (0, 1, 2)]
    ends = [one.endpoint() for _ in senders]
    calls = [
        sender.later.put("messages", sender.endpoint(), end, n, 1000 * n, count, size)
        for n, (sender, end) in enumerate(zip(senders, ends))
    ]
    taken = [
        one.later.take("messages", end, 1000 * n, count, size) for n, end in enumerate(ends)
    ]
    assert [call.result(90) for call in calls] == [Moved(count, 0, "SUCCESS")] * 3
    assert [call.result(90) for call in taken] == [Moved(count, 0, "SUCCESS")] * 3
    assert [one.available(end) for end in ends] == [0] * 3


# --- nodes and endpoints


def test_gets_wait_until_the_endpoint_exists(nodes):
    """MC-EPGETI-1, MC-EPGETI-2, MC-EPGET-1, MC-EPGET-4, MC-EPCREATE-5, MC-EPCREATE-6, MC-EPGETI-6:
    on each host, also the owner's own; the handle is the same for all."""
    owner, peer, third = (nodes.on(host) for host in range(3))
    for timeout in (0, 50):
        with fails("TIMEOUT"):
            peer.get(owner.number, 9, timeout)
    gets = [node.get_i(owner.number, 9) for node in (owner, peer, third)]
    waits = third.later.call("endpoint_get", DOMAIN, owner.number, 9, FOREVER)
    for get in gets:
        assert get.test() == (False, 0) and get.result() == 0
    endpoint = owner.endpoint(9)
    for get in gets:
        get.wait()
        assert get.result() == endpoint
    assert waits.result().value == endpoint
    # Each of them has another one, of the same port.
    others = {node.endpoint(9) for node in (peer, third)} | {endpoint}
    assert len(others) == 3
    until(lambda: owner.attribute(endpoint, "get_count") >= 3)


def test_a_get_that_is_withdrawn_has_not_been(nodes):
    """MC-EPGETI-4, MC-EPGETI-5: nothing is written, and nothing counted; one of a node that comes
    later waits for it."""
    one = nodes.on(0)
    number = nodes.number()
    withdrawn, waits = (one.get_i(number, 3) for _ in range(2))
    withdrawn.cancel()
    other = nodes.on(1, number)
    endpoint = other.endpoint(3)
    waits.wait()
    assert (withdrawn.result(), waits.result()) == (0, endpoint)
    assert other.attribute(endpoint, "get_count") == 1
    with fails("REQUEST_INVALID"):
        withdrawn.wait()


def test_gets_count_until_those_who_got_are_gone(nodes):
    """MC-EPGETI-6: the owner is told how many have got an endpoint, and who was the last; one that is
    killed, or ends, does not count any more, and nobody has got the next endpoint of the port."""
    owner, peer, third = (nodes.on(host) for host in range(3))
    endpoint = owner.endpoint(9)
    assert owner.source(endpoint) == (FOREVER, FOREVER)
    for count, node in enumerate((peer, third, peer), 1):
        node.get(owner.number, 9)
        assert owner.attribute(endpoint, "get_count") == count
        assert owner.source(endpoint) == node.source(endpoint) == (DOMAIN, node.number)
    third.end()
    until(lambda: owner.attribute(endpoint, "get_count") == 2)
    owner.delete(endpoint)
    assert owner.endpoint(9) == endpoint
    assert owner.attribute(endpoint, "get_count") == 0
    assert owner.source(endpoint) == (FOREVER, FOREVER)
    peer.get(owner.number, 9)
    assert owner.attribute(endpoint, "get_count") == 1
    peer.finalize()
    until(lambda: owner.attribute(endpoint, "get_count") == 0)


def test_a_channel_is_got_once(pair):
    """MC-EPGETI-3, MC-EPGET-3: an endpoint for a channel; one for messages as often as anybody
    likes."""
    one, other = pair
    messages, packets = other.endpoint(1), other.endpoint(2, type=PACKET)
    for _ in range(3):
        assert one.get(other.number, 1) == messages
    assert one.get(other.number, 2) == packets
    with fails("ENDP_GET_LIMIT"):
        one.get(other.number, 2)
    with fails("ENDP_GET_LIMIT"):
        one.get_i(other.number, 2).wait()


def test_attributes_of_nodes_are_told(pair, nodes):
    """MC-NATTRGET-1, MC-NATTRGET-2: of any node that is there; of others nothing is written."""
    one, other = pair
    at = one.room(8)
    for number in (one.number, other.number):
        one.write(at, bytes([0xEE] * 4))
        one.call("node_get_attribute", DOMAIN, number, 0, at, 4)
        assert one.read(at, 4) == bytes(4)
    one.write(at, bytes([0xEE] * 4))
    with fails("NODE_INVALID"):
        one.call("node_get_attribute", DOMAIN, nodes.number(), 0, at, 4)
    with fails("ATTR_NUM"):
        one.call("node_get_attribute", DOMAIN, other.number, 1, at, 4)
    assert one.read(at, 4) == bytes([0xEE] * 4)


def test_nodes_start_and_end_together(nodes):
    """MC-INIT2-1, MC-NSTART-1, MC-NRUNDOWN-1: on three hosts, each node is told how far the others are:
    none is running before it says so, and all can talk to it by then."""
    programs = [nodes.program(host) for host in range(3)]
    for program in programs:
        program.initialize(nodes.number(), start=False)

    def states():
        """What each of them is told of all."""
        told = [tuple(asks.state(of.number) for of in programs) for asks in programs]
        assert len(set(told)) == 1
        return told[0]

    assert states() == ("INITIALIZED",) * 3
    ends = [program.endpoint() for program in programs]
    programs[0].send(ends[0], ends[2], b"before the start")
    assert programs[2].receive(ends[2]) == b"before the start"
    for count, program in enumerate(programs, 1):
        program.call("node_start")
        assert states() == ("RUNNING",) * count + ("INITIALIZED",) * (3 - count)
    for count, program in enumerate(programs, 1):
        program.call("node_rundown")
        assert states() == ("RUNDOWN",) * count + ("RUNNING",) * (3 - count)
    last = programs[2].number
    programs[2].finalize()
    with fails("NODE_INVALID"):
        programs[0].state(last)
    programs[2].initialize(nodes.number())
    assert states() == ("RUNDOWN", "RUNDOWN", "RUNNING")


def test_of_those_who_want_a_number_one_gets_it(nodes):
    """MC-INIT-6, MC-INIT-7, MC-INIT-8: on three hosts at the same time; when it has ended, another
    one does, and it can have another one itself."""
    number = nodes.number()
    programs = [nodes.program(host) for host in range(3)]
    calls = [
        program.later.call("initialize", DOMAIN, number, 0, 0, program.room(64))
        for program in programs
    ]
    statuses = [status_of(call.result) for call in calls]
    assert sorted(statuses) == ["NODE_INITFAILED"] * 2 + ["SUCCESS"]
    winner = programs[statuses.index("SUCCESS")]
    loser, last = (program for program in programs if program is not winner)
    with fails("NODE_INITFAILED"):
        loser.initialize(number)
    winner.finalize()
    loser.initialize(number)
    with fails("NODE_INITFAILED"):
        winner.initialize(number)
    winner.initialize(nodes.number())
    with fails("DOMAIN_INVALID"):
        last.initialize(nodes.number(), domain=1)
    with fails("NODE_INVALID"):
        last.initialize(0x8000)
    end = loser.endpoint(4)
    winner.send(winner.endpoint(), winner.get(number, 4), b"the new one")
    assert loser.receive(end) == b"the new one"


def test_a_node_that_ends_leaves_nothing_in_its_program(nodes):
    """MC-FINAL-7, MC-FINAL-2: no thread, no descriptor and no mapping of the device, although channels
    were open, messages queued and packets not released."""
    program, other = nodes.program(0), nodes.on(1)

    def has():
        folder = f"/proc/{program.pid}"
        count = lambda command: int(program.guest.run(f"{command} | wc -l").out)
        maps = f"grep -c mp_fabric {folder}/maps; true"
        listed = [count(f"ls {folder}/{each}") for each in ("task", "fd")]
        return (*listed, int(program.guest.run(maps).out))

    before = has()
    for _ in range(3):
        program.initialize(nodes.number())
        threads, descriptors, maps = has()
        # The service thread, and the one that connects.
        assert (threads, maps) == (before[0] + 2, 0)
        assert descriptors > before[1]
        end, there = program.endpoint(), other.endpoint()
        other.send(there, end, b"queued")
        until_available(program, end, 1)
        ends = [channel(kind, other, program) for kind in KINDS]
        other.send_packet(ends[0].send, b"not released")
        program.receive_packet(ends[0].receive)
        program.receive_i(end)
        assert has()[2] > 0
        program.finalize()
        assert has() == before


# --- requests


def test_a_request_is_released_by_waiting(pair):
    """MC-REQ-1, MC-REQ-2, MC-REQ-3, MC-REQ-4, MC-REQ-6, MC-REQ-7, MC-TEST-1, MC-TEST-2, MC-TEST-3,
    MC-WAIT-1, MC-WAIT-3, MC-WAIT-4: not by waiting in vain, and not by looking."""
    one, other = pair
    own, there, aside = one.endpoint(), other.endpoint(), other.endpoint()
    posted = other.receive_i(there)
    assert [posted.test() for _ in range(3)] == [(False, 0)] * 3
    for timeout in (0, 20, 50):
        with fails("TIMEOUT"):
            posted.wait(timeout)
    assert other.seconds >= 0.05
    one.send(own, aside, b"aside")
    until_available(other, aside, 1)
    one.send(own, there, b"seven b")
    until(lambda: posted.test()[0])
    assert [posted.test() for _ in range(3)] == [(True, 7)] * 3
    assert posted.bytes(7) == b"seven b"
    assert posted.wait(0) == 7
    for use in (posted.test, posted.wait, posted.cancel):
        with fails("REQUEST_INVALID"):
            use()
    assert other.available(aside) == 1
    # Nor is it one of another node.
    later = other.receive_i(there)
    with fails("REQUEST_INVALID"):
        one.call("wait", later.cell, "cell=0", 0)
    waits = later.waits()
    one.send(own, there, b"!")
    assert waits.result().cells[1] == 1
    sent = one.send_i(own, there, b"12345")
    until(lambda: sent.test() == (True, 5))
    assert sent.wait() == 5


def test_waiting_for_any_returns_the_one(pair):
    """MC-WAITANY-1, MC-WAITANY-2, MC-WAITANY-3, MC-WAITANY-4, MC-WAITANY-6, MC-WAITANY-7: and
    releases that one only."""
    one, other = pair
    own = one.endpoint()
    ends = [other.endpoint() for _ in range(4)]
    posted = [other.receive_i(end, 16) for end in ends]
    for timeout in (0, 20):
        with fails("TIMEOUT"):
            other.wait_any(*posted, timeout=timeout)
    for n in (2, 0, 3, 1):
        one.send(own, ends[n], bytes(n + 1))
        assert other.wait_any(*posted) == (n, n + 1)
        with fails("REQUEST_INVALID"):
            other.wait_any(*posted, timeout=0)
        posted[n] = other.receive_i(ends[n], 16)
    # The lowest of several.
    for n in (3, 1):
        one.send(own, ends[n], b"both")
        until(lambda: posted[n].test()[0])
    assert other.wait_any(*posted) == (1, 4)
    assert posted[3].wait(0) == 4
    posted[1], posted[3] = (other.receive_i(ends[n], 16) for n in (1, 3))
    # One that fails is one that is over.
    one.send(own, ends[2], bytes(20))
    with fails("MSG_TRUNCATED") as raised:
        other.wait_any(*posted)
    assert raised.value.value & 0xFFFF_FFFF == 2
    with fails("REQUEST_INVALID"):
        posted[2].wait(0)
    for n in (0, 1, 3):
        assert posted[n].test() == (False, 0)


def test_a_request_has_one_waiter(pair):
    """MC-REQ-5, MC-WAIT-6, MC-WAITANY-8, MC-TEST-6: others may look, and withdraw it."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    posted, free = other.receive_i(there), other.receive_i(other.endpoint())
    waits = posted.waits()
    other.until_asleep()
    with fails("WAIT_PENDING"):
        posted.wait(20)
    with fails("WAIT_PENDING"):
        other.wait_any(free, posted, timeout=20)
    assert posted.test() == (False, 0)
    one.send(own, there, b"for the first")
    assert waits.result().cells[1] == 13
    with fails("PARAMETER"):
        other.wait_any(free, free, timeout=0)
    with fails("PARAMETER"):
        other.wait_any(timeout=0)


def test_cancelling_wakes_who_waits(pair):
    """MC-WAIT-1, MC-WAIT-5, MC-CANCEL-2, MC-CANCEL-3, MC-CANCEL-4, MC-WAITANY-5, MC-REQ-4: and what has been
    done stands."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    posted = [other.receive_i(there) for _ in range(2)]
    waits = posted[0].waits()
    words = f"requests={posted[1].handle}"
    waits_any = other.later.call("wait_any", 1, words, "cell=0", FOREVER)
    other.until_asleep()
    for request, call, nothing in zip(posted, (waits, waits_any), (0, FOREVER)):
        request.cancel()
        with fails("REQUEST_CANCELLED") as raised:
            call.result()
        assert raised.value.value & (nothing or 0xFF) == nothing
        with fails("REQUEST_INVALID"):
            request.cancel()
    done = other.receive_i(there)
    one.send(own, there, b"kept")
    until(lambda: done.test()[0])
    done.cancel()
    assert done.bytes(4) == b"kept"
    one.send(own, there, b"next")
    assert other.receive(there) == b"next"


def test_what_is_withdrawn_was_not_sent(pair):
    """MC-MSGSENDI-2, MC-MSGSENDI-5, MC-CANCEL-5, MC-BUF-2: sends that wait for room, and those that
    there was no memory for."""
    one, other = pair
    own, there = one.endpoint(timeout=100, num_send_buffers=3), other.endpoint()
    at, size = one.passed(b"first")
    assert one.attribute(there, "num_recv_buffers") == BUFFERS
    assert one.repeat(1000, "msg_send", own, there, at, size, 1).done == BUFFERS
    waiting = [one.send_i(own, there, bytes([n])) for n in range(3)]
    with fails("MEM_LIMIT"):
        one.send_i(own, there, b"never")
    waiting.pop(1).cancel()
    assert [other.receive(there) for _ in range(BUFFERS)] == [b"first"] * BUFFERS
    assert [other.receive(there) for _ in range(2)] == [b"\0", b"\2"]
    assert [request.wait() for request in waiting] == [1, 1]
    one.send(own, there, b"last")
    assert other.receive(there) == b"last"


def test_finalizing_ends_what_the_program_waits_for(pair):
    """MC-MSG-9, MC-FINAL-1, MC-FINAL-2, MC-FINAL-4, MC-REQ-11, MC-INIT-7, MC-GEN-3: and nothing of it
    is there when the program is a node again."""
    one, other = pair
    own, there, queued = one.endpoint(), other.endpoint(5), other.endpoint(6)
    one.send(own, queued, b"queued")
    until_available(other, queued, 1)
    posted = other.receive_i(there)
    waits = posted.waits()
    receives = other.later.call("msg_recv", there, other.room(64), 64, "cell=0")
    gets = other.later.call("endpoint_get", DOMAIN, one.number, 77, FOREVER)
    other.until_asleep()
    number = other.number
    other.finalize()
    with fails("REQUEST_CANCELLED"):
        waits.result()
    for call in (receives, gets):
        with fails("NODE_NOTINIT"):
            call.result()
    for use in (other.finalize, posted.test, lambda: other.available(there), other.endpoint):
        with fails("NODE_NOTINIT"):
            use()
    # Whether it is known by now that the node has gone or not, it does not come.
    late = status_of(lambda: one.send(own, there, b"too late"))
    assert late in ("SUCCESS", "TRANSMISSION")
    other.initialize(number)
    assert (other.endpoint(5), other.endpoint(6)) == (there, queued)
    with fails("REQUEST_INVALID"):
        posted.wait(0)
    assert one.get(number, 5) == there
    one.send(own, there, b"in time")
    assert other.receive(there) == b"in time"
    assert (other.available(there), other.available(queued)) == (0, 0)


# --- channels: connecting, opening and closing


def carries(ends):
    """Something goes through a channel."""
    if ends.kind == PACKETS:
        ends.sender.send_packet(ends.send, b"through")
        assert ends.receiver.take_packet(ends.receive) == b"through"
    else:
        ends.sender.send_scalar(ends.send, 0x1234, 16)
        assert ends.receiver.receive_scalar(ends.receive, 16) == 0x1234


def opened_in(order, kind, by, out, into):
    """The channel between two endpoints, by three calls in an order, of which the last one has the
    two ends open."""
    (sender, out), (receiver, into) = out, into
    steps = {
        "connect": lambda: by.connect(kind, out, into),
        SEND: lambda: sender.open(kind, SEND, out),
        RECEIVE: lambda: receiver.open(kind, RECEIVE, into),
    }
    done = {step: steps[step]() for step in order[:2]}
    if "connect" in done:
        done.pop("connect").wait()
        assert {"CONNECTED", FLAGS_OF[kind], "SEND"} <= sender.flags(out)
        assert {"CONNECTED", FLAGS_OF[kind], "RECEIVE"} <= receiver.flags(into)
        assert sender.attribute(into, "type") == TYPES[kind]
        assert [sender.attribute(end, "get_count") for end in (out, into)] == [1, 1]
    for request in done.values():
        assert (request.test(), request.result(4)) == ((False, 0), 0)
    done[order[2]] = steps[order[2]]()
    if "connect" in done:
        done.pop("connect").wait()
    send, receive = (done[step].opened() for step in (SEND, RECEIVE))
    assert "OPEN" in sender.flags(out) & receiver.flags(into)
    return Channel(kind, sender, receiver, out, into, send, receive)


def closed_from(first, ends):
    """Close a channel, by the end that is named before the other one."""
    sides = {
        SEND: (ends.sender, ends.out, ends.send),
        RECEIVE: (ends.receiver, ends.into, ends.receive),
    }
    node, endpoint, handle = sides.pop(first)
    waits = node.close(ends.kind, first, handle)
    assert waits.test() == (False, 0)
    assert "CLOSE_PENDING" in node.flags(endpoint)
    ((last, (node, _, handle)),) = sides.items()
    node.close(ends.kind, last, handle).wait()
    waits.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_connecting_and_opening_have_no_order(nodes, kind):
    """MC-CHAN-2, MC-CHAN-8, MC-CHAN-10, MC-CHAN-15, MC-PKTCONN-1, MC-PKTCONN-8, MC-PKTROPEN-1,
    MC-PKTROPEN-2, MC-PKTROPEN-3, MC-PKTSOPEN-1, MC-PKTRCLOSE-1, MC-PKTRCLOSE-3, MC-PKTSCLOSE-1,
    MC-SCLCONN-1, MC-SCLROPEN-1, MC-SCLSOPEN-1, MC-SCLRCLOSE-1, MC-SCLSCLOSE-1, MC-ATTR-5: whoever
    connects, neither end is open before all three were done, nor closed before both were."""
    sender, receiver, third = (nodes.on(host) for host in range(3))
    out, into = sender.endpoint(), receiver.endpoint()
    orders = itertools.permutations(("connect", SEND, RECEIVE))
    for order, by in zip(orders, itertools.cycle((sender, receiver, third))):
        ends = opened_in(order, kind, by, (sender, out), (receiver, into))
        carries(ends)
        closed_from(SEND if order[0] == "connect" else RECEIVE, ends)
        assert [sender.attribute(end, "type") for end in (out, into)] == [MESSAGE] * 2
        assert [sender.attribute(end, "get_count") for end in (out, into)] == [0, 0]
        assert not {"CONNECTED", "OPEN"} & (sender.flags(out) | receiver.flags(into))


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_is_not_connected(pair, kind):
    """MC-CHAN-4, MC-CHAN-6, MC-CHAN-7, MC-CHAN-9, MC-MSG-7, MC-EPDEL-3, MC-EPATTRSET-2,
    MC-EPATTRSET-3, MC-PKTCONN-3, MC-PKTCONN-5, MC-PKTCONN-7, MC-SCLCONN-1, MC-MSGRECV-5: endpoints that are
    connected, or differ; a connected one stays as it is."""
    one, other = pair
    out, into = one.endpoint(), other.endpoint()
    with fails("ENDP_INVALID"):
        one.connect(kind, out, out)
    for name, value in (("max_payload_size", 64), ("num_priorities", 4), ("priority", 1)):
        unlike = other.endpoint(**{name: value})
        for ends in ((out, unlike), (unlike, out)):
            with stopped(other):
                request = one.connect(kind, *ends)
            assert request.status == "PENDING"
            with fails("ATTR_INCOMPATIBLE"):
                request.wait()
    (other_kind,) = set(KINDS) - {kind}
    declared = other.endpoint(type=TYPES[other_kind])
    with fails("ATTR_INCOMPATIBLE"):
        one.connect(kind, out, declared).wait()
    one.connect(kind, out, into).wait()
    for node, ends in ((one, (out, other.endpoint())), (other, (one.endpoint(), into))):
        with fails("CHAN_CONNECTED"):
            node.connect(kind, *ends).wait()
    for node, end in ((one, out), (other, into)):
        with fails("CHAN_CONNECTED"):
            node.set_attribute(end, "timeout", 1)
        assert node.attribute(end, "timeout") == SOON
        with fails("CHAN_CONNECTED"):
            node.delete(end)
        with fails("GENERAL"):
            node.receive(end)
        with fails("GENERAL"):
            node.send(node.endpoint(), end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_strict_node_connects_nothing_that_was_got(nodes, kind):
    """MC-PKTCONN-4: an endpoint for messages that a node of another host has got; other nodes do, and
    it does connect what nobody has got. Whichever of the two is asked first."""
    first, strict, last = nodes.on(1), nodes.on(0, strict=True), nodes.on(2)
    for port, other in enumerate((first, last), 1):
        own, there = strict.endpoint(port), other.endpoint(port)
        assert other.get(strict.number, port) == own
        for ends in ((own, there), (there, own)):
            with fails("ENDP_GET_LIMIT"):
                other.connect(kind, *ends).wait()
        assert "CONNECTED" not in strict.flags(own) | other.flags(there)
        # Nobody has got the next one.
        strict.delete(own)
        assert strict.endpoint(port) == own
        assert strict.get(other.number, port) == there
        other.connect(kind, own, there).wait()
        assert "CONNECTED" in strict.flags(own) & other.flags(there)


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_is_opened_as_what_it_is(pair, kind):
    """MC-CHAN-5, MC-CHAN-11, MC-PKTROPEN-4, MC-PKTROPEN-6, MC-PKTSOPEN-1, MC-SCLROPEN-1,
    MC-SCLSOPEN-1, MC-PKTCONN-5, MC-CHAN-9, MC-EPDEL-3, MC-EPDEL-5: by the right one of four
    functions, and once; one that waits ends when something else is connected."""
    one, other = pair
    ways = list(itertools.product(KINDS, (SEND, RECEIVE)))
    out, into = one.endpoint(), other.endpoint()
    one.connect(kind, out, into).wait()
    for way in set(ways) - {(kind, SEND)}:
        with fails("CHAN_DIRECTION" if way[0] == kind else "CHAN_TYPE"):
            one.open(*way, out)
    opens = one.open(kind, SEND, out)
    with fails("CHAN_OPENPENDING"):
        one.open(kind, SEND, out)
    opens.cancel()
    receives = other.open(kind, RECEIVE, into)
    # Each has been told what the other one has done.
    for node in pair:
        node.until_asleep()
    assert receives.test() == (False, 0)
    send = one.open(kind, SEND, out).opened()
    receive = receives.opened()
    for node, direction, end in ((one, SEND, out), (other, RECEIVE, into)):
        with fails("CHAN_OPEN"):
            node.open(kind, direction, end)
        with fails("CHAN_CONNECTED"):
            node.delete(end)
    first = one.close(kind, SEND, send)
    with fails("CHAN_CLOSEPENDING"):
        one.open(kind, SEND, out)
    with fails("CHAN_CLOSEPENDING", "CHAN_CONNECTED"):
        one.connect(kind, out, other.endpoint()).wait()
    with fails("CHAN_CONNECTED"):
        one.delete(out)
    other.close(kind, RECEIVE, receive).wait()
    first.wait()
    # The one that connects is right, and the one that opens is not.
    (other_kind,) = set(KINDS) - {kind}
    wrong = ((other_kind, SEND, "CHAN_TYPE"), (kind, RECEIVE, "CHAN_DIRECTION"))
    for opened, direction, error in wrong:
        own, there = one.endpoint(), other.endpoint()
        waits = one.open(opened, direction, own)
        other.connect(kind, own, there).wait()
        with fails(error):
            waits.wait()
    own = one.endpoint()
    waits = one.open(kind, SEND, own)
    one.delete(own)
    with fails("ENDP_DELETED"):
        waits.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_of_those_who_connect_one_succeeds(nodes, kind):
    """MC-PKTCONN-6, MC-SCLCONN-1, MC-CHAN-4: of two nodes that connect an endpoint to another one each, at the same
    time, again and again; the other endpoint is left as it was."""
    one, other, third = (nodes.on(host) for host in range(3))
    for _ in range(5):
        into = third.endpoint()
        outs = [node.endpoint() for node in (one, other)]

        # Who is late may be told so at once.
        def connects(node, out):
            return status_of(lambda: node.connect(kind, out, into).wait())

        with ThreadPoolExecutor() as both:
            statuses = list(both.map(connects, (one, other), outs))
        assert sorted(statuses) == ["CHAN_CONNECTED", "SUCCESS"]
        loser = statuses.index("CHAN_CONNECTED")
        (one, other)[loser].delete(outs[loser])


def test_messages_are_gone_when_an_endpoint_is_connected(pair):
    """MC-CHAN-7, MC-CHAN-19, MC-MSG-7: those that are there, and those that still come; afterwards it is one for
    messages again."""
    one, other = pair
    out, into = one.endpoint(), other.endpoint()
    own = one.endpoint()
    one.send(own, into, b"queued")
    until_available(other, into, 1)
    one.connect(SCALARS, out, into).wait()
    one.send(own, into, b"in between")
    opens = one.open(SCALARS, SEND, out), other.open(SCALARS, RECEIVE, into)
    send, receive = (request.opened() for request in opens)
    last = other.close(SCALARS, RECEIVE, receive)
    one.close(SCALARS, SEND, send).wait()
    last.wait()
    one.send(own, into, b"afterwards")
    assert other.receive(into) == b"afterwards"
    other.set_attribute(into, "timeout", 5)


# --- channels: data


@pytest.mark.parametrize("seconds", (6, pytest.param(90, marks=pytest.mark.long)))
def test_idle_channels_stay_open(nodes, seconds):
    """MC-CHAN-17: while nothing goes through them for long, and other nodes and channels of their hosts
    come, talk and go."""
    one, other, third = (nodes.on(host) for host in (0, 1, 2))
    idle = [channel(kind, one, other) for kind in KINDS]
    own, there = one.endpoint(), third.endpoint()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        sent = one.later.put("messages", own, there, 1, 0, 200, 3000)
        assert third.take("messages", there, 0, 200, 3000) == Moved(200, 0, "SUCCESS")
        assert sent.result() == Moved(200, 0, "SUCCESS")
        for kind in KINDS:
            for sender in (one, other):
                ends = channel(kind, sender, third)
                carries(ends)
                ends.close()
        passer = nodes.on(2)
        carries(channel(PACKETS, passer, one, max_payload_size=64))
        passer.end()
        one.until_asleep()
        other.until_asleep()
        time.sleep(1)
    for ends in idle:
        assert "OPEN" in one.flags(ends.out) & other.flags(ends.into)
        assert other.waiting(ends.kind, ends.receive) == 0
        carries(ends)
        ends.close()


def test_waiting_packets_of_the_higher_priority_go_first(pair):
    """MC-CHAN-22: of two channels with packets that wait, and room for all of them, the one of the higher
    priority gets the link, whichever began to wait first; the priority is that of when the ends were
    connected."""
    one, other = pair
    size = 16384
    for order in ((7, 0), (0, 7)):
        ends = {
            priority: channel(PACKETS, one, other, priority=priority, max_payload_size=size)
            for priority in order
        }
        waiting = {}
        for priority, channel_of in ends.items():
            with fails("CHAN_CONNECTED"):
                one.set_attribute(channel_of.out, "priority", 3)
            for node, end in ((one, channel_of.out), (other, channel_of.into)):
                assert node.attribute(end, "priority") == priority
            sent = [one.send_any_packet_i(channel_of.send, size) for _ in range(2 * SLOTS)]
            assert [request.status for request in sent] == ["SUCCESS"] * SLOTS + ["PENDING"] * SLOTS
            waiting[priority] = sent
            until_waiting(other, PACKETS, channel_of.receive, SLOTS)
        with stopped(one):
            for channel_of in ends.values():
                for _ in range(SLOTS):
                    other.release(other.receive_packet(channel_of.receive))
            looks = other.later.overtaken(ends[7].receive, ends[0].receive)
        assert looks.result() == Moved(SLOTS, 0, "SUCCESS")
        for request in waiting[0] + waiting[7]:
            assert request.wait() == size


def test_a_packet_that_was_sent_is_in_the_receivers_memory(pair):
    """MC-PKTSENDI-1, MC-PKTSENDI-2, MC-PKTRELTEST-1, MC-PKTRELTEST-2, MC-BUF-5: when a send is complete,
    whether at once or later, the memory is the sender's to use again, and the packet arrives though its
    sender is killed. That of a send that is pending is not."""
    one, other = pair
    ends = channel(PACKETS, one, other, max_payload_size=64)
    at = one.room(64)
    free = lambda: one.call("pktchan_release_test", at)
    sent = []
    for n in range(SLOTS + 3):
        if n > SLOTS:
            at = one.room(64)
        one.write(at, bytes([n] * 64))
        done = one.call("pktchan_send_i", ends.send, at, 64, "cell=0")
        assert done.status == ("SUCCESS" if n < SLOTS else "PENDING")
        assert (free().status, free().value & 0xFF) == (done.status, int(n < SLOTS))
        sent.append((done.cells[0], at))
    until_waiting(other, PACKETS, ends.receive, SLOTS)
    for n in range(3):
        assert other.take_packet(ends.receive) == bytes([n] * 64)
    for request, at in sent:
        assert one.call("wait", f"cell={request}", "cell=0", SOON).cells[1] == 64
        assert free().value & 0xFF == 1
        one.write(at, bytes([0xEE] * 64))
    one.end()
    for n in range(3, SLOTS + 3):
        assert other.take_packet(ends.receive) == bytes([n] * 64)
    with fails("TRANSMISSION"):
        other.receive_packet(ends.receive)


def test_packets_of_any_size_arrive_whole(pair):
    """MC-PKTSEND-2, MC-PKTRECV-3, MC-GEN-11, MC-BUF-2, MC-BUF-6, MC-PKTREL-3,
    MC-PKTREL-2: where they have arrived they can be read and written until they are released, once.
    """
    one, other = pair
    ends = channel(PACKETS, one, other)
    at = one.room(LARGEST)
    for size in SIZES:
        one.fill(at, size, size)
        one.call("pktchan_send", ends.send, at, size)
        packet = other.receive_packet(ends.receive)
        assert packet.address and packet.length == size
        assert other.check(packet.address, size, size) == INTACT
        other.fill(packet.address, size, size + 1)
        assert other.check(packet.address, size, size + 1) == INTACT
        if size > 1:
            with fails("BUF_INVALID"):
                other.call("pktchan_release", packet.address + 1)
        with fails("BUF_INVALID"):
            one.call("pktchan_release", packet.address)
        other.release(packet)
        for address in (packet.address, 0):
            with fails("BUF_INVALID"):
                other.call("pktchan_release", address)
    one.call("pktchan_send", ends.send, 0, 0)
    assert other.take_packet(ends.receive) == b""
    for function in ("pktchan_send", "pktchan_send_i"):
        with fails("PKT_SIZE"):
            last = ("cell=0",) if function.endswith("_i") else ()
            one.call(function, ends.send, at, LARGEST + 1, *last)
    ends.close()


def test_slots_are_given_back_in_any_order(pair):
    """MC-BUF-1, MC-BUF-4, MC-PKTREL-1, MC-PKTREL-4, MC-PKTREL-5, MC-PKTRECV-2, MC-PKTRECV-4,
    MC-PKTSEND-3, MC-PKTSENDI-2, MC-CHAN-20, MC-CHAN-21, MC-TMO-1, MC-PKTAVAIL-1: a
    sender waits while the receiver has them all, and each one that comes back has room for one more
    packet; no other one changes meanwhile."""
    one, other = pair
    ends = channel(PACKETS, one, other, max_payload_size=64, timeout=50)
    with fails("PKT_SIZE"):
        one.send_packet(ends.send, bytes(65))
    for n in range(SLOTS):
        one.send_packet(ends.send, bytes([n] * 64))
    with fails("TIMEOUT"):
        one.send_packet(ends.send, b"never")
    until_waiting(other, PACKETS, ends.receive, SLOTS)
    held = [other.receive_packet(ends.receive) for _ in range(SLOTS)]
    assert other.waiting(PACKETS, ends.receive) == 0
    with fails("TIMEOUT"):
        other.receive_packet(ends.receive)
    with fails("TIMEOUT"):
        one.send_packet(ends.send, b"never")
    # The oldest one is kept to the end.
    order = random.Random(2).sample(range(1, SLOTS), SLOTS - 1)
    for n in order:
        waits = one.send_packet_i(ends.send, bytes([100 + n]))
        assert waits.status == "PENDING"
        other.release(held[n])
        assert waits.wait() == 1
        assert other.take_packet(ends.receive) == bytes([100 + n])
        # Its slot is free again: it is filled, so that there is none.
        one.send_packet(ends.send, bytes([200]))
        held[n] = other.receive_packet(ends.receive)
        assert other.same(*held[0], 0) == INTACT
    for n in range(1, SLOTS):
        assert other.same(*held[n], 200) == INTACT
    ends.close()
    assert other.same(*held[0], 0) == INTACT
    for packet in held:
        other.release(packet)


def test_packets_wait_in_the_order_of_the_calls(pair):
    """MC-CHAN-20, MC-PKTSEND-1: of calls that wait and of those that do not, by turns, while there is no
    slot."""
    one, other = pair
    ends = channel(PACKETS, one, other, max_payload_size=64)
    for _ in range(SLOTS):
        one.send_packet(ends.send, b"full")
    waiting, blocked = [], []
    for n in range(0, 6, 2):
        request = one.send_packet_i(ends.send, bytes([n]))
        assert request.status == "PENDING"
        waiting.append(request)
        at, size = one.passed(bytes([n + 1]))
        blocked.append(one.later.call("pktchan_send", ends.send, at, size))
        one.until_asleep()
    taken = [other.take_packet(ends.receive) for _ in range(SLOTS + 6)]
    assert taken == [b"full"] * SLOTS + [bytes([n]) for n in range(6)]
    assert [request.wait() for request in waiting] == [1] * 3
    for call in blocked:
        call.result()


def test_receives_of_packets_wait_in_their_order(pair):
    """MC-PKTRECVI-1, MC-PKTRECVI-3, MC-REQ-7, MC-REQ-12, MC-CANCEL-4: one that is withdrawn takes
    nothing, and one that was complete has its packet."""
    one, other = pair
    ends = channel(PACKETS, one, other)
    posted = [other.receive_packet_i(ends.receive) for _ in range(5)]
    posted.pop(2).cancel()
    for n in range(4):
        assert one.send_packet_i(ends.send, bytes([n] * (n + 1))).wait() == n + 1
    for n, request in enumerate(posted):
        assert request.wait() == n + 1
        assert other.read(request.result(), n + 1) == bytes([n] * (n + 1))
        other.call("pktchan_release", request.result())
    last = other.receive_packet_i(ends.receive)
    one.send_packet(ends.send, b"mine")
    until(lambda: last.test()[0])
    last.cancel()
    assert other.read(last.result(), 4) == b"mine"
    other.call("pktchan_release", last.result())
    one.send_packet(ends.send, b"next")
    assert other.take_packet(ends.receive) == b"next"


def test_scalars_keep_width_value_and_order(pair):
    """MC-SCLSEND-2, MC-SCLRECV-1, MC-SCLRECV-2, MC-SCLRECV-3, MC-SCLAVAIL-1, MC-GEN-12: of all
    widths, in one channel; one that is asked for by another width stays."""
    one, other = pair
    ends = channel(SCALARS, one, other)
    widths = (8, 16, 32, 64)
    values = [
        (value % (1 << bits), bits)
        for bits in widths
        for value in (0, -1, 1 << (bits - 1), 0x0123_4567_89AB_CDEF)
    ]
    random.Random(3).shuffle(values)
    for value, bits in values:
        one.send_scalar(ends.send, value, bits)
    until_waiting(other, SCALARS, ends.receive, len(values))
    for n, (value, bits) in enumerate(values):
        assert other.waiting(SCALARS, ends.receive) == len(values) - n
        for other_bits in set(widths) - {bits}:
            with fails("GENERAL"):
                other.receive_scalar(ends.receive, other_bits)
        assert other.receive_scalar(ends.receive, bits) == value
    waits = other.later.call("sclchan_recv_uint8", ends.receive)
    other.until_asleep()
    one.send_scalar(ends.send, 200, 8)
    assert waits.result().value & 0xFF == 200


def test_a_full_scalar_channel_makes_its_sender_wait(pair):
    """MC-SCLSEND-1, MC-SCLSEND-4, MC-SCLRECV-4, MC-TMO-3, MC-TMO-4, MC-CHAN-21: as long as it likes;
    what was not sent does not come."""
    one, other = pair
    ends = channel(SCALARS, one, other, timeout=50)
    with fails("TIMEOUT"):
        other.receive_scalar(ends.receive, 32)
    assert other.seconds >= 0.05
    sent = one.put("scalars", ends.send, 0, 100_000)
    assert sent.status == "TIMEOUT" and sent.done > 100
    assert other.take("scalars", ends.receive, 0, sent.done) == Moved(sent.done, 0, "SUCCESS")
    with fails("TIMEOUT"):
        other.receive_scalar(ends.receive)
    patient = channel(SCALARS, one, other)
    waits = one.later.put("scalars", patient.send, 0, 3000)
    one.until_asleep()
    assert other.take("scalars", patient.receive, 0, 3000) == Moved(3000, 0, "SUCCESS")
    assert waits.result() == Moved(3000, 0, "SUCCESS")


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_buffer_has_the_latest_value(pair, kind):
    """MC-STATE-1, MC-CHAN-6: a sender never waits, though nobody receives and the receiver stands still;
    then there is the value that was sent last, as often as anybody asks. A receiver that waits for the
    first value is woken; what was sent ahead of a close is received."""
    one, other = pair
    state = {"buffer_type": 1, "max_payload_size": 4096}
    failed = one.connect(kind, one.endpoint(max_payload_size=4096), other.endpoint(**state))
    with fails("ATTR_INCOMPATIBLE"):
        failed.wait()
    ends = channel(kind, one, other, **state)

    def send(number):
        if kind == SCALARS:
            return one.send_scalar(ends.send, number)
        return one.send_packet(ends.send, struct.pack("<Q", number) * 300)

    def receive():
        if kind == SCALARS:
            return other.receive_scalar(ends.receive)
        words = struct.unpack("<300Q", other.take_packet(ends.receive))
        assert len(set(words)) == 1
        return words[0]

    first = ("sclchan_recv_uint64",) if kind == SCALARS else ("pktchan_recv", "cell=0", "cell=0")
    waits = other.later.call(first[0], ends.receive, *first[1:])
    other.until_asleep()
    send(1)
    got = waits.result()
    if kind == PACKETS:
        other.call("pktchan_release", got.cells[0])
    assert (receive(), other.waiting(kind, ends.receive)) == (1, 0)
    at, size = one.passed(struct.pack("<Q", 2) * 300)
    again = ("pktchan_send", ends.send, at, size)
    if kind == SCALARS:
        again = ("sclchan_send_uint64", ends.send, 2)
    with stopped(other):
        assert one.repeat(1000, *again) == Moved(1000, 0, "SUCCESS")
        send(3)
    until(lambda: receive() == 3)
    assert [receive() for _ in range(20)] == [3] * 20
    send(4)
    until_waiting(other, kind, ends.receive, 1)
    closed = one.close(kind, SEND, ends.send)
    until(lambda: "CLOSE_PENDING" in one.flags(ends.out))
    assert receive() == 4
    until(lambda: status_of(receive) == "CHAN_INVALID")
    other.close(kind, RECEIVE, ends.receive).wait()
    closed.wait()


@pytest.mark.parametrize(
    "kind, count",
    (
        ("packets", 3000),
        ("scalars", 20_000),
        pytest.param("packets", 1_000_000, marks=pytest.mark.long),
        pytest.param("scalars", 1_000_000, marks=pytest.mark.long),
    ),
)
def test_nothing_is_lost_while_one_side_stands_still(pair, kind, count):
    """MC-CHAN-3, MC-PKTSEND-1, MC-PKTRECV-1, MC-SCLSEND-1: each of them does for a while, and sleeps."""
    one, other = pair
    ends = channel({"packets": PACKETS, "scalars": SCALARS}[kind], one, other)
    size = (100,) if kind == "packets" else ()
    sends = one.later.put(kind, ends.send, 5, count, *size)
    takes = other.later.take(kind, ends.receive, 5, count, *size)
    for node in (one, other) * 2:
        with stopped(node):
            time.sleep(0.05)
    assert sends.result(300) == Moved(count, 0, "SUCCESS")
    assert takes.result(300) == Moved(count, 0, "SUCCESS")
    for node in pair:
        node.until_asleep()
    assert one.put(kind, ends.send, 9, 1, *size).done == 1
    assert other.take(kind, ends.receive, 9, 1, *size) == Moved(1, 0, "SUCCESS")


def test_a_sender_that_closes_loses_nothing(pair):
    """MC-CHAN-12, MC-CHAN-13, MC-CHAN-14, MC-PKTSCLOSE-2, MC-PKTSCLOSE-3, MC-SCLSCLOSE-1, MC-PKTRCLOSE-4,
    MC-PKTRCLOSE-6, MC-CHAN-18: also what had to wait for room; then there is no more."""
    one, other = pair
    ends = channel(PACKETS, one, other, max_payload_size=64)
    sends = [one.send_packet_i(ends.send, bytes([n])) for n in range(SLOTS + 4)]
    closed = one.close(PACKETS, SEND, ends.send)
    with fails("CHAN_INVALID"):
        one.send_packet(ends.send)
    with fails("CHAN_NOTOPEN"):
        one.close(PACKETS, SEND, ends.send)
    with fails("TIMEOUT"):
        closed.wait(20)
    # That nobody wants to know takes nothing back.
    closed.cancel()
    for n in range(SLOTS + 4):
        assert other.take_packet(ends.receive) == bytes([n])
    assert [request.wait() for request in sends] == [1] * len(sends)
    for receive in (other.receive_packet, other.receive_packet_i):
        with fails("CHAN_INVALID"):
            receive(ends.receive)
    other.close(PACKETS, RECEIVE, ends.receive).wait()
    with fails("CHAN_INVALID"):
        other.close(PACKETS, RECEIVE, ends.receive)
    scalars = channel(SCALARS, one, other)
    for n in range(3):
        one.send_scalar(scalars.send, n)
    closed = one.close(SCALARS, SEND, scalars.send)
    assert [other.receive_scalar(scalars.receive) for _ in range(3)] == [0, 1, 2]
    with fails("CHAN_INVALID"):
        other.receive_scalar(scalars.receive)
    other.close(SCALARS, RECEIVE, scalars.receive).wait()
    closed.wait()
    # Both are what they were, and can be connected the other way round.
    other.connect(PACKETS, ends.into, ends.out).wait()


def opened_again(ends):
    """A channel between the same endpoints."""
    kind, sender, receiver, out, into, *_ = ends
    sender.connect(kind, out, into).wait()
    opens = sender.open(kind, SEND, out), receiver.open(kind, RECEIVE, into)
    return Channel(kind, sender, receiver, out, into, *(request.opened() for request in opens))


def test_a_receiver_that_closes_ends_what_waits(pair):
    """MC-CHAN-12, MC-CHAN-14, MC-CHAN-18, MC-PKTRCLOSE-2, MC-SCLRCLOSE-1, MC-SCLSEND-3: at both ends; what has
    arrived is gone, also from the next channel of the same endpoints."""
    one, other = pair
    ends = channel(PACKETS, one, other, max_payload_size=64)
    waits = other.later.call("pktchan_recv", ends.receive, "cell=0", "cell=0")
    other.until_asleep()
    closed = other.close(PACKETS, RECEIVE, ends.receive)
    with fails("CHAN_INVALID"):
        waits.result()
    with fails("CHAN_INVALID"):
        other.receive_packet(ends.receive)
    at, size = one.passed(b"late")
    assert one.repeat(100_000, "pktchan_send", ends.send, at, size).status == "CHAN_INVALID"
    one.close(PACKETS, SEND, ends.send).wait()
    closed.wait()
    ends = channel(PACKETS, one, other, max_payload_size=64)
    sends = [one.send_packet_i(ends.send, bytes([n])) for n in range(SLOTS + 1)]
    blocked = one.later.call("pktchan_send", ends.send, at, size)
    one.until_asleep()
    until_waiting(other, PACKETS, ends.receive, SLOTS)
    closed = other.close(PACKETS, RECEIVE, ends.receive)
    with fails("CHAN_INVALID"):
        blocked.result()
    with fails("CHAN_INVALID"):
        sends[-1].wait()
    with fails("CHAN_INVALID"):
        other.receive_packet(ends.receive)
    one.close(PACKETS, SEND, ends.send).wait()
    closed.wait()
    again = opened_again(ends)
    assert other.waiting(PACKETS, again.receive) == 0
    one.send_packet(again.send, b"first")
    assert other.take_packet(again.receive) == b"first"
    scalars = channel(SCALARS, one, other)
    for n in range(3):
        one.send_scalar(scalars.send, n)
    until_waiting(other, SCALARS, scalars.receive, 3)
    closed = other.close(SCALARS, RECEIVE, scalars.receive)
    with fails("CHAN_INVALID"):
        other.receive_scalar(scalars.receive)
    sent = one.repeat(100_000, "sclchan_send_uint64", scalars.send, 1)
    assert sent.status == "CHAN_INVALID"
    one.close(SCALARS, SEND, scalars.send).wait()
    closed.wait()
    again = opened_again(scalars)
    assert other.waiting(SCALARS, again.receive) == 0
    one.send_scalar(again.send, 9)
    assert other.receive_scalar(again.receive) == 9


@pytest.mark.parametrize("kind", KINDS)
def test_handles_do_what_they_are_for(pair, kind):
    """MC-CHAN-1, MC-SCLSEND-3, MC-PKTAVAIL-1: data goes one way, and of one kind; also afterwards."""
    one, other = pair
    ends = channel(kind, one, other)
    for node, handle, direction in ((one, ends.send, SEND), (other, ends.receive, RECEIVE), (one, 0, "")):
        uses = {
            (PACKETS, SEND): lambda n=node, h=handle: n.send_packet(h, b"no"),
            (PACKETS, RECEIVE): lambda n=node, h=handle: n.waiting(PACKETS, h),
            (SCALARS, SEND): lambda n=node, h=handle: n.send_scalar(h, 1),
            (SCALARS, RECEIVE): lambda n=node, h=handle: n.waiting(SCALARS, h),
        }
        uses.pop((kind, direction), None)
        assert {status_of(use) for use in uses.values()} == {"CHAN_INVALID"}
    carries(ends)
