# SPDX-License-Identifier: GPL-2.0-only
"""What calls leave alone: buffers that are the program's again, other nodes when a call has failed, and
everything when a program has no place for a status. Between nodes of two hosts, and of one."""

import random
import struct

import pytest
from mcapi import (
    ATTRIBUTES, BUFFERS, DOMAIN, FUNCTIONS, NOTHING, PACKETS, RECEIVE, SCALARS, SEND, SLOTS, SOON,
    all_nodes, channel, fails, nodes, pair,
)  # fmt: skip
from outages import fabric
from shell import until

POISON = b"\xee" * 64
# Of packet channels whose sender asks what the receiver has released.
SHARED = {"memory_type": 1, "max_payload_size": 64}
# A node with so few requests.
REQUESTS = 8
FEW = struct.pack("<5I44x", 0x4D43_5031, 64, 0, REQUESTS, 0)
# Functions that are not called here: they make a node, for which a process has no second one, or tell by
# what they return alone.
ELSEWHERE = {"initialize", "initialize2", "node_init_attributes", "node_set_attribute"}


def test_a_buffer_is_the_programs_when_its_operation_is_complete(pair):
    """MC-GEN-7: of messages and packets that are sent, and of messages that are received: what is
    written there afterwards is not sent, and not overwritten."""
    one, other = pair
    own, there = one.endpoint(), other.endpoint()
    ends = channel(PACKETS, one, other)
    for begin, take in (
        (lambda data: one.send_i(own, there, data), lambda: other.receive(there)),
        (lambda data: one.send_packet_i(ends.send, data), lambda: other.take_packet(ends.receive)),
    ):
        for n in range(2 * BUFFERS):
            data = bytes([n] * 64)
            request = begin(data)
            request.wait()
            assert one.read(request.place, 64) == data
            one.write(request.place, POISON)
            assert take() == data
    posted = other.receive_i(there)
    one.send(own, there, b"first")
    posted.wait()
    assert posted.bytes(5) == b"first"
    other.write(posted.place, POISON)
    one.send(own, there, b"second")
    assert other.receive(there) == b"second"
    assert posted.bytes(64) == POISON


def test_a_buffer_is_the_programs_when_its_operation_was_cancelled(pair):
    """MC-CANCEL-1, MC-GEN-7: a send that waits is not sent, with what was there or is there by now; a
    receive writes nothing."""
    one, other = pair
    own, there = one.endpoint(timeout=100), other.endpoint()
    at, size = one.passed(b"first")
    assert one.attribute(there, "num_recv_buffers") == BUFFERS
    assert one.repeat(1000, "msg_send", own, there, at, size, 1).done == BUFFERS
    request = one.send_i(own, there, b"cancelled")
    request.cancel()
    one.write(request.place, POISON)
    assert [other.receive(there) for _ in range(BUFFERS)] == [b"first"] * BUFFERS
    posted = other.receive_i(there)
    posted.cancel()
    other.write(posted.place, POISON)
    one.send(own, there, b"next")
    assert other.receive(there) == b"next"
    assert posted.bytes(64) == POISON


def test_what_there_is_no_request_for_is_not_begun(nodes, pair):
    """MC-REQ-10: the other node gets nothing of it, and no endpoint is connected."""
    _, other = pair
    one, number = nodes.program(0), nodes.number()
    parameters, _ = one.passed(FEW)
    one.call("initialize", DOMAIN, number, 0, parameters, one.room(64))
    own, there = one.endpoint(), other.endpoint()
    out, into = one.endpoint(), other.endpoint()
    ends = channel(PACKETS, one, other)
    posted = [one.receive_i(own) for _ in range(REQUESTS)]
    for begin in (
        lambda: one.send_i(own, there, b"never"),
        lambda: one.send_packet_i(ends.send, b"never"),
        lambda: one.connect(SCALARS, out, into),
        lambda: one.open(SCALARS, SEND, out),
        lambda: one.close(PACKETS, SEND, ends.send),
        lambda: one.receive_i(own),
    ):
        with fails("REQUEST_LIMIT"):
            begin()
    one.send(own, there, b"message")
    one.send_packet(ends.send, b"packet")
    assert (other.receive(there), other.take_packet(ends.receive)) == (b"message", b"packet")
    assert (other.available(there), other.waiting(PACKETS, ends.receive)) == (0, 0)
    assert "CONNECTED" not in other.flags(into)
    for request in posted:
        request.cancel()
    one.connect(SCALARS, out, into).wait()


def test_a_packet_that_there_is_no_memory_for_is_not_sent(pair):
    """MC-PKTSENDI-3"""
    one, other = pair
    ends = channel(PACKETS, one, other, num_send_buffers=3, max_payload_size=64)
    for n in range(SLOTS):
        one.send_packet(ends.send, bytes([n]))
    waiting = [one.send_packet_i(ends.send, bytes([SLOTS + n])) for n in range(3)]
    with fails("MEM_LIMIT"):
        one.send_packet_i(ends.send, b"never")
    came = [other.take_packet(ends.receive) for _ in range(SLOTS + 3)]
    assert came == [bytes([n]) for n in range(SLOTS + 3)]
    for request in waiting:
        request.wait()
    one.send_packet(ends.send, b"last")
    assert other.take_packet(ends.receive) == b"last"


class Silent:
    """Calls functions without a place for the status, as they would succeed with one."""

    def __init__(self):
        self.noted = set()

    def __call__(self, node, name, *arguments):
        done = node.silent(name, *arguments)
        bits = FUNCTIONS[name]
        nothing = NOTHING.get(name, 0) & ((1 << bits) - 1)
        assert done.value & ((1 << bits) - 1) == nothing, name
        given = [int(word[5:]) for word in map(str, arguments) if word.startswith("cell=")]
        assert done.cells == given, name
        self.noted.add(name)

    def at_endpoints(self, one, other, own, there):
        timeout, at = ATTRIBUTES.index("TIMEOUT"), one.blank(64)
        for name in ("domain_id_get", "node_id_get", "node_rundown", "node_start", "finalize"):
            self(one, name)
        self(one, "node_get_attribute", DOMAIN, other.number, 0, at, 4)
        self(one, "endpoint_create", 9)
        self(one, "endpoint_delete", own)
        self(one, "endpoint_get", DOMAIN, one.number, 5, SOON)
        self(one, "endpoint_get_i", DOMAIN, one.number, 5, at, "cell=7")
        self(one, "endpoint_get_attribute", own, timeout, "cell=7", 4)
        self(one, "endpoint_set_attribute", own, timeout, "cell=7", 4)
        self(one, "msg_send", own, there, at, 3, 1)
        self(one, "msg_send_i", own, there, at, 3, 1, "cell=7")
        self(one, "msg_available", own)
        self(one, "msg_recv", own, at, 64, "cell=7")
        self(one, "msg_recv_i", own, at, 64, "cell=7")
        assert one.read(at, 64) == bytes(64)

    def of_a_request(self, node, request):
        handles = f"requests={request.handle}"
        for name in ("test", "wait", "cancel"):
            more = () if name == "cancel" else ("cell=7",)
            more += (SOON,) if name == "wait" else ()
            # A handle that a call has released would be changed.
            place, _ = node.passed(struct.pack("<I", request.handle))
            self(node, name, place, *more)
            assert node.read(place, 4) == struct.pack("<I", request.handle)
        self(node, "wait_any", 1, handles, "cell=7", SOON)

    def at_a_channel(self, kind, one, other, ends, packet):
        at = one.blank(64)
        out, into = one.endpoint(), other.endpoint()
        self(one, f"{kind}_connect_i", out, into, "cell=7")
        for node, direction, end in ((one, SEND, out), (other, RECEIVE, into)):
            place = node.blank()
            self(node, f"{kind}_{direction}_open_i", place, end, "cell=7")
            assert node.read(place, 8) == bytes(8)
        if kind == PACKETS:
            self(one, "pktchan_send", ends.send, at, 3)
            self(one, "pktchan_send_i", ends.send, at, 3, "cell=7")
            place = other.blank()
            self(other, "pktchan_recv", ends.receive, place, "cell=7")
            self(other, "pktchan_recv_i", ends.receive, place, "cell=7")
            self(other, "pktchan_release_test", packet.address)
            self(other, "pktchan_release", packet.address)
            assert other.read(place, 8) == bytes(8)
        else:
            for bits in (8, 16, 32, 64):
                self(one, f"sclchan_send_uint{bits}", ends.send, 1)
                self(other, f"sclchan_recv_uint{bits}", ends.receive)
        self(other, f"{kind}_available", ends.receive)
        self(one, f"{kind}_send_close_i", ends.send, "cell=7")
        self(other, f"{kind}_recv_close_i", ends.receive, "cell=7")
        for node, end in ((one, out), (other, into)):
            assert not node.flags(end)


def test_without_a_place_for_the_status_nothing_is_done(pair):
    """MC-GEN-2: by each function that would succeed: it returns what it returns without success, writes
    nothing, and the other node gets nothing."""
    one, other = pair
    silent = Silent()
    own, there = one.endpoint(5), other.endpoint()
    other.send(there, own, b"waits")
    until(lambda: one.available(own) == 1)
    silent.at_endpoints(one, other, own, there)
    assert one.endpoint(9) and one.attribute(own, "timeout") == SOON
    assert one.receive(own) == b"waits"
    done = other.receive_i(there)
    one.send(own, there, b"sent")
    one.send(own, there, b"next")
    until(lambda: other.available(there) == 1)
    silent.of_a_request(other, done)
    assert (done.wait(), done.bytes(4), other.receive(there)) == (4, b"sent", b"next")
    assert other.available(there) == 0
    for kind in (PACKETS, SCALARS):
        ends = channel(kind, one, other)
        packet = None
        if kind == PACKETS:
            one.send_packet(ends.send, b"held")
            packet = other.receive_packet(ends.receive)
            one.send_packet(ends.send, b"waits")
        else:
            one.send_scalar(ends.send, 5)
        until(lambda: other.waiting(kind, ends.receive) == 1)
        silent.at_a_channel(kind, one, other, ends, packet)
        if kind == PACKETS:
            assert other.bytes(*packet) == b"held"
            other.release(packet)
            assert other.take_packet(ends.receive) == b"waits"
        else:
            assert other.receive_scalar(ends.receive) == 5
        assert other.waiting(kind, ends.receive) == 0
        ends.close()
    assert silent.noted == FUNCTIONS.keys() - ELSEWHERE - {"display_status"}


# --- packets of shared memory


class Lender:
    """The sender of a packet channel of shared memory, and what the receiver has."""

    def __init__(self, one, other):
        self.one, self.other = one, other
        self.ends = channel(PACKETS, one, other, **SHARED)
        self.held = {}

    def send(self, number):
        """Send a packet from a place of its own; the place."""
        at, size = self.one.passed(bytes([number] * 64))
        self.one.call("pktchan_send", self.ends.send, at, size)
        return at

    def take(self, at, number):
        """Receive what was sent from a place."""
        packet = self.other.receive_packet(self.ends.receive)
        assert self.other.read(packet.address, 64) == bytes([number] * 64)
        self.held[at] = packet

    def release(self, at):
        self.other.release(self.held.pop(at))

    def is_free(self, at):
        """What the sender is told of a place."""
        told = self.one.call("pktchan_release_test", at)
        is_free = bool(told.value & 0xFF)
        assert told.status == ("SUCCESS" if is_free else "PENDING")
        return is_free

    def close(self):
        self.ends.close()


def test_a_sender_is_told_what_the_receiver_has_released(pair):
    """MC-PKTRELTEST-1, MC-BUF-5, MC-PKTREL-1: of endpoints of shared memory, a packet's memory is free when
    the receiver has released it, and not when it was sent, received, or others were released; in any order,
    as often as the slots go round."""
    lender = Lender(*pair)
    order = random.Random(5)
    for _ in range(3):
        places = [lender.send(number) for number in range(SLOTS)]
        assert not any(lender.is_free(at) for at in places)
        for number, at in enumerate(places):
            lender.take(at, number)
        assert not any(lender.is_free(at) for at in places)
        left = set(places)
        for at in order.sample(places, SLOTS):
            lender.release(at)
            left.remove(at)
            until(lambda at=at: lender.is_free(at))
            assert {at for at in places if not lender.is_free(at)} == left


@pytest.mark.parametrize("how", ("released", "finalized", "killed"))
@pytest.mark.parametrize("is_closed", (False, True))
def test_what_a_receiver_has_is_free_when_it_goes(pair, how, is_closed):
    """MC-PKTRELTEST-1, MC-PKTREL-4: also when both ends were closed; what was not received then is free."""
    one, other = pair
    lender = Lender(one, other)
    kept, left = lender.send(1), lender.send(2)
    lender.take(kept, 1)
    if is_closed:
        lender.close()
        until(lambda: lender.is_free(left))
    assert not lender.is_free(kept)
    match how:
        case "released":
            lender.release(kept)
        case "finalized":
            other.finalize()
        case "killed":
            other.end()
    until(lambda: lender.is_free(kept))
    assert lender.is_free(left) == (is_closed or how != "released")


def test_only_endpoints_of_one_memory_type_are_connected(pair):
    """MC-CHAN-6, MC-EPATTRSET-2: shared or local memory, whichever end has which."""
    one, other = pair
    for ends in (
        (one.endpoint(**SHARED), other.endpoint(max_payload_size=64)),
        (one.endpoint(max_payload_size=64), other.endpoint(**SHARED)),
    ):
        with fails("ATTR_INCOMPATIBLE"):
            one.connect(PACKETS, *ends).wait()
    for value in (2, 0x1_0000, 0x1_0001):
        with fails("ATTR_NOTSUPPORTED"):
            one.endpoint(memory_type=value)
    assert one.attribute(one.endpoint(**SHARED), "memory_type") == 1
