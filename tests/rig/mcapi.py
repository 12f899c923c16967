# SPDX-License-Identifier: GPL-2.0-only
"""Nodes of MCAPI in guests, driven by tests.

    def test_something(nodes):
        one, other = nodes.on(0), nodes.on(1)
        to = other.endpoint()
        one.send(one.endpoint(), to, b"hello")
        assert other.receive(to) == b"hello"

Each is `tests/programs/mcapi_shell.c`, linked to libmcapi. `call` calls any function; the methods
above it make what functions need in the program's memory. A function whose status is neither
SUCCESS nor PENDING is a `McapiError`, whose name is that of the status without `MCAPI_` and `ERR_`.
"""

import functools
import itertools
import re
import struct
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import shell
from ntbrig import CommandFailed, GuestGone
from ntbrig.mcapi import ENV, configure
from ntbrig.settings import CHECKOUT

HEADER = (CHECKOUT / "userlib/include/mcapi.h").read_text()
EXTENSIONS = (CHECKOUT / "userlib/include/mcapi_abb.h").read_text()
DOMAIN = 0
PORT_ANY = FOREVER = 0xFFFF_FFFF
# How long the other side may take, in milliseconds.
SOON = 20_000
LARGEST = 65536
# Buffers that an endpoint has for each node and priority, and slots of a packet channel.
BUFFERS, SLOTS = 32, 16
# Bytes of the memory that a program has for calls, which is used again and again.
ARENA = 4 << 20
# Bytes that a program shows or takes at once.
SHOWN = 4096

PACKETS, SCALARS = "pktchan", "sclchan"
KINDS = (PACKETS, SCALARS)
SEND, RECEIVE = "send", "recv"

_CODES = re.search(r"enum mcapi_status_codes \{(.*?)\}", HEADER, re.S)[1]
STATUSES = [None] + [
    name.removeprefix("MCAPI_").removeprefix("ERR_")
    for name in re.findall(r"\bMCAPI_\w+", _CODES)
]
_ATTRIBUTES = re.search(r"enum mcapi_endp_attribute_numbers \{(.*?)\}", HEADER, re.S)[1]
ATTRIBUTES = re.findall(r"\bMCAPI_ENDP_ATTR_(\w+)", _ATTRIBUTES)
FLAGS = {
    name: int(value, 16)
    for name, value in re.findall(r"#define MCAPI_ENDP_ATTR_STATUS_(\w+) (0x[0-9A-F]{4})", HEADER)
}
NODE_STATE = int(re.search(r"#define MCAPI_NODE_ATTR_STATE (\d+)", EXTENSIONS)[1])
NODE_STATES = re.findall(r"#define MCAPI_NODE_ATTR_STATE_(\w+) \d", EXTENSIONS)
MESSAGE, PACKET, SCALAR = 1, 2, 4
# What functions return that have not succeeded: of those that return anything else than 0.
NOTHING = {"domain_id_get": FOREVER, "node_id_get": FOREVER, "wait_any": FOREVER}
# Parameters of a node that connects no endpoint for messages that a node has got.
STRICT = struct.pack("<5I44x", 0x4D43_5031, 64, 0, 0, 1)


# Bits of what functions return, by the type that the header says.
_BITS = {"void": 0, "mcapi_boolean_t": 8, "mcapi_endpoint_t": 64}
_BITS |= {f"mcapi_uint{bits}_t": bits for bits in (8, 16, 32, 64)}
FUNCTIONS = {
    name: _BITS.get(kind, 32)
    for kind, name in re.findall(r"^extern (\w+) mcapi_(\w+)\(", HEADER + EXTENSIONS, re.M)
}


class McapiError(Exception):
    """The status of a function that has not done what it should, and what it has returned."""

    def __init__(self, name, value=None):
        super().__init__(name)
        self.name, self.value = name, value


@contextmanager
def fails(*names):
    """Inside, a function has this status, or one of these."""
    with pytest.raises(McapiError) as raised:
        yield raised
    assert raised.value.name in names


def status_of(use):
    """The status that something ends with."""
    try:
        use()
    except McapiError as error:
        return error.name
    return "SUCCESS"


class Done(NamedTuple):
    """What a function has returned."""

    value: int
    status: str
    cells: list


class Moved(NamedTuple):
    """How many items were moved, how many of them were wrong, and the status of the last call."""

    done: int
    wrong: int
    status: str


def _done(answer):
    status = STATUSES[answer["status"]]
    if status not in ("SUCCESS", "PENDING"):
        raise McapiError(status, answer["value"])
    return Done(answer["value"], status, answer["cells"])


def _silent(answer):
    # There was no place for it.
    assert answer["status"] == 0
    return Done(answer["value"], None, answer["cells"])


def _stormed(answer):
    return _done(answer), answer["alarms"]


def _moved(answer):
    return Moved(answer["done"], answer.get("wrong", 0), STATUSES[answer["status"]])


class Functions(shell.Caller):
    """What the program can do, run in one of its ways."""

    def call(self, name, *arguments):
        """Call a function, by its name without `mcapi_`, and without the status."""
        return self._order(_done, "call", f"mcapi_{name}", *arguments)

    def silent(self, name, *arguments):
        """Call a function with NULL for its status."""
        return self._order(_silent, "call", "silent", f"mcapi_{name}", *arguments)

    def storm(self, microseconds, name, *arguments):
        """Call a function in a thread that a signal interrupts so often; what it has returned, and how
        many signals there were."""
        words = ("alarms", microseconds, f"mcapi_{name}")
        return self._order(_stormed, "call", *words, *arguments)

    def repeat(self, count, name, *arguments):
        """Call a function so often, or until it does not succeed."""
        return self._order(_moved, "call", "repeat", count, f"mcapi_{name}", *arguments)

    def put(self, kind, *words):
        """Send many items; see `mcapi_shell.c`."""
        return self._order(_moved, "put", kind, *words)

    def take(self, kind, *words):
        """Receive many items, and compare them."""
        return self._order(_moved, "take", kind, *words)

    def visit(self, number, to):
        """Be another node, and send its number to an endpoint; how many it has got back."""
        return self._order(_moved, "visit", DOMAIN, number, to)

    def overtaken(self, handle, other):
        """Look until there is a packet of a channel; how many there are of another one then."""
        return self._order(_moved, "overtaken", handle, other)


class Request:
    """An operation that has begun."""

    def __init__(self, node, handle, status, out):
        self.node, self.handle, self.status = node, handle, status
        # Where its result is.
        self._out = out

    @property
    def cell(self):
        return f"cell={self.handle}"

    @property
    def place(self):
        """Where its data are, or its result goes."""
        return self._out

    def test(self):
        """Whether it is complete, and how many bytes it has moved."""
        done = self.node.call("test", self.cell, "cell=0")
        assert (done.status == "SUCCESS") == (done.value & 0xFF == 1)
        return done.status == "SUCCESS", done.cells[1]

    def wait(self, timeout=SOON):
        """Wait until it is complete; how many bytes it has moved."""
        return self.node.call("wait", self.cell, "cell=0", timeout).cells[1]

    def waits(self, timeout=FOREVER):
        """Begin to wait in a thread."""
        return self.node.later.call("wait", self.cell, "cell=0", timeout)

    def cancel(self):
        self.node.call("cancel", self.cell)

    def result(self, size=8):
        """The handle or the address that it has written."""
        return int.from_bytes(self.node.read(self._out, size), "little")

    def bytes(self, length):
        """The data of a message."""
        return self.node.bytes(self._out, length)

    def opened(self):
        """The handle of a channel's end, once it is open."""
        self.wait()
        return self.result(4)


class Packet(NamedTuple):
    """A packet that a program has."""

    address: int
    length: int


class Node(Functions, shell.Program):
    """A program in a guest, and the node that it is. Its methods wait for the answer;
    `later.call` runs in a thread and returns a `Call`, and `begun.call` in the main thread."""

    def __init__(self, guest, how=()):
        super().__init__(guest, "mcapi_shell", how=how, env=ENV)
        self.later = Functions(functools.partial(self.command, "&"))
        # A forked child does one thing, and ends.
        self.child = Functions(lambda *order: self.command("fork", *order).result())
        self.later_child = Functions(functools.partial(self.command, "& fork"))
        self._arena = self.allocate(ARENA)
        self._next = 0
        self.number = None
        self.begun = Functions(functools.partial(self.command, ""))

    def until_asleep(self):
        """Wait until all that it was told has begun, and none of its threads has anything to do."""
        self.call("node_id_get")
        super().until_asleep()

    # --- memory

    def room(self, length):
        """Memory, until four megabytes of it were used."""
        length = -(-length // 64) * 64
        if self._next + length > ARENA:
            self._next = 0
        at = self._arena + self._next
        self._next += length
        return at

    def blank(self, length=8):
        """The same, all zero."""
        at = self.room(length)
        self.write_ahead(at, bytes(length))
        return at

    def bytes(self, at, length):
        pieces = ((n, min(SHOWN, length - n)) for n in range(0, length, SHOWN))
        return b"".join(self.read(at + n, size) for n, size in pieces)

    def passed(self, data):
        """Bytes in memory: their address and length, as functions want them."""
        at = self.room(len(data) + 1)
        for n in range(0, len(data), SHOWN):
            self.write_ahead(at + n, data[n : n + SHOWN])
        return at, len(data)

    # --- nodes and endpoints

    def initialize(self, number, domain=DOMAIN, strict=False, start=None):
        """`start` says whether the node is running at once: an extension."""
        info, parameters = self.room(64), 0
        if strict:
            parameters, _ = self.passed(STRICT)
        name, more = ("initialize", ()) if start is None else ("initialize2", (int(start),))
        self.call(name, domain, number, 0, parameters, info, *more)
        self.number = number

    def finalize(self):
        self.call("finalize")
        self.number = None

    def endpoint(self, port=PORT_ANY, **attributes):
        """Make an endpoint; its blocking calls do not wait for ever."""
        endpoint = self.call("endpoint_create", port).value
        for name, value in {"timeout": SOON, **attributes}.items():
            self.set_attribute(endpoint, name, value)
        return endpoint

    def get(self, node, port, timeout=SOON):
        return self.call("endpoint_get", DOMAIN, node, port, timeout).value

    def get_i(self, node, port):
        return self._begin("endpoint_get_i", DOMAIN, node, port, self.blank(), out=-1)

    def delete(self, endpoint):
        self.call("endpoint_delete", endpoint)

    def attribute(self, endpoint, name):
        cell = self.call("endpoint_get_attribute", endpoint, _number(name), "cell=0", 4).cells[0]
        return cell & 0xFFFF_FFFF

    def source(self, endpoint):
        """The domain and the node that have got an endpoint last."""
        number = _number("get_source")
        cell = self.call("endpoint_get_attribute", endpoint, number, "cell=0", 8).cells[0]
        return cell & 0xFFFF_FFFF, cell >> 32

    def state(self, number):
        """How far a node is."""
        words = (DOMAIN, number, NODE_STATE, "cell=0", 4)
        return NODE_STATES[self.call("node_get_attribute", *words).cells[0] & 0xFFFF_FFFF]

    def set_attribute(self, endpoint, name, value):
        self.call("endpoint_set_attribute", endpoint, _number(name), f"cell={value}", 4)

    def flags(self, endpoint):
        """The names of what its status says."""
        status = self.attribute(endpoint, "status")
        return {name for name, bit in FLAGS.items() if status & bit}

    def _begin(self, function, *arguments, out=None):
        """Begin an operation; `out` is which of its arguments says where its result goes."""
        done = self.call(function, *arguments, "cell=0")
        where = arguments[out] if out is not None else None
        return Request(self, done.cells[-1], done.status, where)

    # --- messages

    def send(self, sender, receiver, data=b"", priority=1):
        self.call("msg_send", sender, receiver, *self.passed(data), priority)

    def send_i(self, sender, receiver, data=b"", priority=1):
        return self._begin("msg_send_i", sender, receiver, *self.passed(data), priority, out=2)

    def receive(self, endpoint, room=64):
        """The bytes of a message."""
        at = self.room(room)
        return self.bytes(at, self.call("msg_recv", endpoint, at, room, "cell=0").cells[0])

    def receive_i(self, endpoint, room=64):
        return self._begin("msg_recv_i", endpoint, self.room(room), room, out=1)

    def available(self, endpoint):
        return self.call("msg_available", endpoint).value & 0xFFFF_FFFF

    # --- channels

    def connect(self, kind, sender, receiver):
        return self._begin(f"{kind}_connect_i", sender, receiver)

    def open(self, kind, direction, endpoint):
        return self._begin(f"{kind}_{direction}_open_i", self.blank(), endpoint, out=0)

    def close(self, kind, direction, handle):
        return self._begin(f"{kind}_{direction}_close_i", handle)

    def waiting(self, kind, handle):
        """How many packets or scalars can be received at once."""
        return self.call(f"{kind}_available", handle).value & 0xFFFF_FFFF

    def send_packet(self, handle, data=b""):
        self.call("pktchan_send", handle, *self.passed(data))

    def send_packet_i(self, handle, data=b""):
        return self._begin("pktchan_send_i", handle, *self.passed(data), out=1)

    def send_any_packet_i(self, handle, length):
        """As `send_packet_i`, of so many bytes, whatever they are."""
        return self._begin("pktchan_send_i", handle, self.room(length), length, out=1)

    def receive_packet(self, handle):
        return Packet(*self.call("pktchan_recv", handle, "cell=0", "cell=0").cells)

    def receive_packet_i(self, handle):
        return self._begin("pktchan_recv_i", handle, self.blank(), out=1)

    def release(self, packet):
        self.call("pktchan_release", packet.address)

    def take_packet(self, handle):
        """The bytes of a packet, which is released."""
        packet = self.receive_packet(handle)
        data = self.bytes(*packet)
        self.release(packet)
        return data

    def send_scalar(self, handle, value, bits=64):
        self.call(f"sclchan_send_uint{bits}", handle, value)

    def receive_scalar(self, handle, bits=64):
        return self.call(f"sclchan_recv_uint{bits}", handle).value & ((1 << bits) - 1)

    # --- requests

    def wait_any(self, *requests, timeout=SOON):
        """Wait for one of several requests; which one it was, and the bytes that it has moved."""
        handles = ",".join(str(request.handle) for request in requests)
        words = (len(requests), f"requests={handles}", "cell=0", timeout)
        done = self.call("wait_any", *words)
        return done.value & 0xFFFF_FFFF, done.cells[0]


def _number(attribute):
    return ATTRIBUTES.index(attribute.upper())


class Nodes:
    """Nodes for tests, each in a program of its own, which is used again. What a test has made is
    finalized after it; programs that it has ended, or that do not answer, are not used again."""

    def __init__(self, guests):
        self.guests = guests
        configure(guests)
        # Those of each guest that are no nodes.
        self._idle = {guest: [] for guest in guests}
        self._busy = []
        # A number is not used again, so that nothing of one test is met by another.
        self._numbers = itertools.count(100)

    def program(self, index=0):
        """A program that is no node yet."""
        idle = self._idle[self.guests[index]]
        while idle:
            node = idle.pop()
            if not node.process.ended():
                break
        else:
            node = Node(self.guests[index])
        self._busy.append(node)
        return node

    def on(self, index, number=None, strict=False):
        """A new node on a guest."""
        node = self.program(index)
        node.initialize(number or next(self._numbers), strict=strict)
        return node

    def number(self):
        """A number that no node has had."""
        return next(self._numbers)

    def clear(self):
        for node in self._busy:
            try:
                if not node.process.ended():
                    node.finalize()
            except McapiError:
                pass  # the test has finalized it
            except (CommandFailed, GuestGone, TimeoutError, AssertionError):
                node.end()
                continue
            self._idle[node.guest].append(node)
        self._busy = []

    def end(self):
        self.clear()
        shell.end(*(node for idle in self._idle.values() for node in idle))


@pytest.fixture(scope="module")
def all_nodes(fabric):
    """All programs of a module's tests."""
    nodes = Nodes(fabric.hosts)
    yield nodes
    nodes.end()


@pytest.fixture
def nodes(all_nodes):
    """The same, for one test."""
    yield all_nodes
    all_nodes.clear()


@pytest.fixture(params=("hosts", "own"))
def pair(request, nodes):
    """Two nodes, on two hosts or on one."""
    return nodes.on(0), nodes.on(1 if request.param == "hosts" else 0)


class Channel(NamedTuple):
    """A channel that is open, and its ends."""

    kind: str
    sender: Node
    receiver: Node
    out: int
    into: int
    send: int
    receive: int

    def close(self):
        """Close both ends."""
        first = self.sender.close(self.kind, SEND, self.send)
        last = self.receiver.close(self.kind, RECEIVE, self.receive)
        first.wait()
        last.wait()


def channel(kind, sender, receiver, by=None, **attributes):
    """An open channel between two nodes, connected by one of them or by a third one."""
    out, into = sender.endpoint(**attributes), receiver.endpoint(**attributes)
    (by or sender).connect(kind, out, into).wait()
    opens = sender.open(kind, SEND, out), receiver.open(kind, RECEIVE, into)
    send, receive = (request.opened() for request in opens)
    return Channel(kind, sender, receiver, out, into, send, receive)


@contextmanager
def stopped(node):
    """Inside, no thread of a process runs."""
    node.guest.run(f"kill -STOP {node.pid}")
    try:
        yield
    finally:
        node.guest.run(f"kill -CONT {node.pid}")
