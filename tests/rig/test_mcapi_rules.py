# SPDX-License-Identifier: GPL-2.0-only
"""What MCAPI's rules say of nodes on different hosts, and of those on one: by the library's C ABI.
What becomes of nodes when others go away is in `test_mcapi_failures.py`."""

import itertools
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcapi import (
    ATTRIBUTES, BUFFERS, DOMAIN, FOREVER, KINDS, LARGEST, MESSAGE, PACKET, PACKETS, RECEIVE, SCALAR,
    SCALARS, SEND, SLOTS, SOON, Channel, Moved, all_nodes, channel, fails, nodes, status_of, stopped,
)  # fmt: skip
from outages import fabric
from shell import INTACT, until

SIZES = (0, 1, 63, 64, 65, 4095, 4096, 4097, LARGEST)
TYPES = {PACKETS: PACKET, SCALARS: SCALAR}
FLAGS_OF = {PACKETS: "PKTCHAN", SCALARS: "SCLCHAN"}


@pytest.fixture(params=("hosts", "own"))
def pair(request, nodes):
    """Two nodes, on two hosts or on one."""
    return nodes.on(0), nodes.on(1 if request.param == "hosts" else 0)


def until_available(node, endpoint, count):
    until(lambda: node.available(endpoint) >= count)


def until_waiting(node, kind, handle, count):
    until(lambda: node.waiting(kind, handle) >= count)


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
    with fails("MSG_TRUNCATED"):
        other.wait_any(*posted)
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
    for request, call in zip(posted, (waits, waits_any)):
        request.cancel()
        with fails("REQUEST_CANCELLED"):
            call.result()
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
            with fails("ATTR_INCOMPATIBLE"):
                one.connect(kind, *ends).wait()
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


def test_of_those_who_connect_one_succeeds(nodes):
    """MC-PKTCONN-6, MC-CHAN-4: of two nodes that connect an endpoint to another one each, at the same
    time, again and again; the other endpoint is left as it was."""
    one, other, third = (nodes.on(host) for host in range(3))
    for _ in range(5):
        into = third.endpoint()
        outs = [node.endpoint() for node in (one, other)]

        # Who is late may be told so at once.
        def connects(node, out):
            return status_of(lambda: node.connect(PACKETS, out, into).wait())

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


@pytest.mark.parametrize(
    "kind, count",
    (
        ("packets", 3000),
        ("scalars", 20_000),
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
    """MC-CHAN-12, MC-CHAN-13, MC-CHAN-14, MC-PKTSCLOSE-2, MC-PKTSCLOSE-3, MC-PKTRCLOSE-4,
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


def test_a_receiver_that_closes_ends_what_waits(pair):
    """MC-CHAN-12, MC-CHAN-14, MC-CHAN-18, MC-PKTRCLOSE-2, MC-SCLSEND-3: at both ends; what has
    arrived is gone."""
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
    closed = other.close(PACKETS, RECEIVE, ends.receive)
    with fails("CHAN_INVALID"):
        blocked.result()
    with fails("CHAN_INVALID"):
        sends[-1].wait()
    one.close(PACKETS, SEND, ends.send).wait()
    closed.wait()
    scalars = channel(SCALARS, one, other)
    other.close(SCALARS, RECEIVE, scalars.receive)
    sent = one.repeat(100_000, "sclchan_send_uint64", scalars.send, 1)
    assert sent.status == "CHAN_INVALID"


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
