# SPDX-License-Identifier: GPL-2.0-only
"""Programs in guests that use virtual interfaces, driven by tests.

    with Program(host) as program:
        nic = program.open_nic()
        vi = program.vi(nic)

Each is `tests/programs/vipl_shell.c`, linked to libvipl. `call` calls any function; the methods
above it make the structures of `vipl.h` in the program's memory. A function that does not succeed
is a `ViplError`, whose name is that of the value without `VIP_`.
"""

import copy
import functools
import itertools
import json
import re
import struct
from collections import defaultdict
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import sharing
import shell
from ntbrig import CommandFailed, GuestGone, stack
from ntbrig.settings import CHECKOUT
from ntbrig.vipl import ENV, configure
from sharing import MP
from shell import until

HEADER = (CHECKOUT / "userlib/include/vipl.h").read_text()
PAGE = 0x1000
# That a program has at a time for what functions write later.
PAGES = 256
FOREVER = (1 << 64) - 1
# How long the other side may take, in milliseconds.
SOON = 20_000
UD, RD, RR = 1, 2, 4
LEVELS = (UD, RD, RR)
# Bytes that a program shows or takes at once.
SHOWN = 4096
# Bytes of an address with the longest discriminator.
ADDRESS = 4 + 4 + 16

SEND, RECV = 0, 1


def _enum(first):
    """The names of an enumeration of the header, in the order of their values."""
    body = next(body for body in re.findall(r"enum[^{]*\{(.*?)\}", HEADER, re.S) if first in body)
    return [name.removeprefix("VIP_") for name in re.findall(r"\bVIP_\w+", body)]


FUNCTIONS = re.findall(r"^VIP_RETURN (Vip\w+)\(", HEADER, re.M)
RETURNS = _enum("VIP_SUCCESS")
ERRORS = [name.removeprefix("ERROR_") for name in _enum("VIP_ERROR_POST_DESC")]
STATES = [name.removeprefix("STATE_") for name in _enum("VIP_STATE_IDLE")]
RESOURCES = [name.removeprefix("RESOURCE_") for name in _enum("VIP_RESOURCE_NIC")]
_STATUS = {
    name: int(value, 16)
    for name, value in re.findall(r"#define VIP_STATUS_(\w+) (0x[0-9A-F]{8})", HEADER)
}
STATUS = SimpleNamespace(**_STATUS)
# Bits of errors, by their names.
_BITS = {n.removesuffix("_ERROR"): v for n, v in _STATUS.items() if n.endswith("_ERROR")}


class ViplError(Exception):
    """What a function returned instead of success."""

    def __init__(self, name):
        super().__init__(name)
        self.name = name


@contextmanager
def fails(name):
    """Inside, a function returns this."""
    with pytest.raises(ViplError) as raised:
        yield raised
    assert raised.value.name == name


class ViAttributes(NamedTuple):
    """Attributes of a VI."""

    level: int = RD
    size: int = 1 << 16
    qos: int = 0
    ptag: int = 0
    write: int = 0
    read: int = 0


_VI = "<H6xQQQii"
_MEM = "<Qii"


class Info(NamedTuple):
    """What VipQueryVi tells."""

    state: str
    attributes: ViAttributes
    send_empty: bool
    recv_empty: bool


class Segment(NamedTuple):
    """A piece of memory."""

    address: int
    handle: int
    length: int


class Done(NamedTuple):
    """A descriptor that has come back."""

    descriptor: int
    status: int
    length: int
    immediate: int

    @property
    def errors(self):
        return {name for name, bit in _BITS.items() if self.status & bit}

    @property
    def operation(self):
        return self.status & STATUS.OP_MASK

    def may_be(self, level):
        """Whether each bit may appear at a level (VI-STS-9)."""
        receive = self.operation in (STATUS.OP_RECEIVE, STATUS.OP_REMOTE_RDMA_WRITE)
        read = self.operation == STATUS.OP_RDMA_READ
        never = set()
        if not receive and level != RR and not (read and level == RD):
            never |= {"TRANSPORT"}
        if receive or level == UD or (level == RD and not read):
            never |= {"RDMA_PROT"}
        if receive or read or level != RR:
            never |= {"REMOTE_DESC"}
        return not self.errors & never


class Handler:
    """A handler of a program, which tells of each time that it runs."""

    _contexts = itertools.count(0x1000_0000_0001)

    def __init__(self, process, kind):
        self.context = next(self._contexts)
        self.kind = kind
        self._process = process
        self._begin = process.written()

    def told(self):
        """All runs so far, as they were printed."""
        start = f'{{"handler": {self.context}, '
        whole = self._process.said(self._begin).split("\n")[:-1]
        return [json.loads(line) for line in whole if line.startswith(start)]

    def calls(self):
        """What it was called with, so far."""
        return [each["values"] for each in self.told()]

    def wait(self, count, timeout=20.0):
        """Wait until it was called so often; what it was called with."""
        until(lambda: len(self.calls()) >= count, timeout)
        return self.calls()

    def errors(self):
        """Of a handler of errors: what each was."""
        return [ERRORS[call[6]] for call in self.calls()]


class Functions(shell.Caller):
    """What the program can do, run in one of its ways."""

    def call(self, name, *arguments):
        """Call a function; numbers, addresses and texts."""
        return self._order(_succeeded(name), "call", name, *arguments)

    def cancel(self, milliseconds, name, *arguments):
        """Call a function in a thread that is cancelled after so long; whether that has ended it."""
        return self._order(lambda answer: answer["cancelled"], "cancel", milliseconds, name, *arguments)

    def cancelled(self, name, *arguments):
        """Call a function in a thread that was cancelled before; it has to return."""
        return self._order(_returned_all_the_same(name), "cancel", 0, name, *arguments)

    def interrupted(self, microseconds, name, *arguments):
        """Call a function in a thread that a signal interrupts so often: how many signals there were."""
        return self._order(_interrupted(name), "alarms", microseconds, name, *arguments)

    def poll(self, vi, queue, milliseconds=SOON):
        """Look at a queue until a descriptor is complete: the value, and where it is."""
        return self._order(_polled, "poll", vi, queue, milliseconds)

    def post_many(self, vi, queue, descriptors, handle, count):
        """Post so many descriptors without data, which are 64 bytes apart."""
        name = "VipPostRecv" if queue else "VipPostSend"
        return self._order(_succeeded(name), "many", vi, queue, descriptors, handle, count)

    def watch(self, descriptor, stride, data, length, count):
        """Look at descriptors of receives until they are done: whether that was too late, and how
        much was not there then."""
        return self._order(_watched, "watch", descriptor, stride, data, length, count)

    def post_copies(self, vi, queue, model, stride, length, handle, count):
        """Post so many copies of a descriptor, with pieces that lie so many bytes further on each;
        its number is its immediate data."""
        name = "VipPostRecv" if queue else "VipPostSend"
        words = (vi, queue, model, stride, length, handle, count)
        return self._order(_succeeded(name), "copies", *words)

    def collect(self, vi, queue, count):
        """Wait for so many descriptors: how many came, and how many of them had an error."""
        return self._order(_collected, "collect", vi, queue, count)

    def take_entries(self, cq, descriptor, stride, data, length, count):
        """Take entries with their descriptors, one behind the other: as `watch`."""
        return self._order(_watched, "entries", cq, descriptor, stride, data, length, count)

    def count_entries(self, cq):
        """Take what a completion queue has: how many entries that were."""
        return self._order(lambda answer: answer["entries"], "drain_cq", cq)

    def write_and_look(self, vi, descriptor, handle, word, pid, count):
        """Write a word into the memory of a process of the same host, and look there as soon as it
        is complete: how often it has succeeded, and how often the word was not there."""
        return self._order(_looked, "look", vi, descriptor, handle, word, pid, count)

    def map_path(self, path, offset, length):
        """Map a part of what the process has open of a path; the library does not know of it."""
        return self._order(shell.address, "map", path, offset, length)

    def close_path(self, path):
        """Close what the process has open of a path: how many descriptors that were."""
        return self._order(lambda answer: answer["closed"], "close", path)

    def count(self, vi, queue):
        """Take what a queue gives: how many were flushed, and how many were not."""
        return self._order(_counted, "drain", vi, queue)


# What each function has returned to programs so far.
RETURNED = defaultdict(set)


def _returned(answer):
    """The name of a value, of which there are no others (VI-GEN-1)."""
    assert 0 <= answer["value"] < len(RETURNS), answer
    return RETURNS[answer["value"]]


def _succeeded(function):
    def decode(answer):
        name = _returned(answer)
        RETURNED[function].add(name)
        if name != "SUCCESS":
            raise ViplError(name)

    return decode


def _returned_all_the_same(function):
    succeeded = _succeeded(function)

    def decode(answer):
        assert not answer["cancelled"], function
        succeeded(answer)

    return decode


def _interrupted(function):
    succeeded = _succeeded(function)

    def decode(answer):
        succeeded(answer)
        return answer["alarms"]

    return decode


def _counted(answer):
    return answer["flushed"], answer["others"]


def _watched(answer):
    return answer["late"], answer["wrong"]


def _collected(answer):
    return answer["taken"], answer["errors"]


def _looked(answer):
    return answer["done"], answer["late"]


def _polled(answer):
    return _returned(answer), answer["descriptor"]


class Program(Functions, shell.Program):
    """A program in a guest. Its methods wait for the answer; `later.call` runs in a thread and
    returns a `Call`. What functions write is read from the program's memory."""

    def __init__(self, guest, how=()):
        super().__init__(guest, "vipl_shell", how=how, env=ENV)
        self.later = Functions(functools.partial(self.command, "&"))
        self.begun = Functions(functools.partial(self.command, ""))
        # Memory that nobody registers, for structures that are passed.
        self._scratch = self.allocate(PAGE)
        self._next = 0
        self._pages = []

    def handler(self, kind):
        return Handler(self.process, kind)

    def room(self, length):
        """Memory for a structure, until the next few."""
        length = -(-length // 64) * 64
        if self._next + length > PAGE:
            self._next = 0
        at = self._scratch + self._next
        self._next += length
        return at

    def page(self):
        """Memory that is used for nothing else, all zero."""
        if not self._pages:
            at = self.allocate(PAGES * PAGE)
            self._pages = [at + n * PAGE for n in range(PAGES)]
        return self._pages.pop()

    def passed(self, data):
        """A structure in memory."""
        at = self.room(len(data))
        self.write_ahead(at, data)
        return at

    def made(self, name, *arguments, size=8):
        """Call a function that writes a value behind all arguments; the value."""
        at = self.passed(bytes(size))
        made = self.begun.call(name, *arguments, at)
        return int.from_bytes(self.written_by(made, at, size), "little")

    def in_windows(self, data):
        """Where bytes are in a window between two processes, and how many follow them there."""
        place = self.found_in_windows(data)
        assert place, "they are in none"
        return place

    def found_in_windows(self, data):
        """The same; None if they are in none."""
        maps = self.guest.read(f"/proc/{self.pid}/maps")
        for begin, end in re.findall(r"^(\w+)-(\w+) rw-s .*/dev/mp_fabric", maps, re.M):
            at = self.find(int(begin, 16), int(end, 16) - int(begin, 16), data)
            if at:
                return at, int(end, 16) - at
        return None

    # --- the interface

    def open_nic(self, name="VINIC"):
        return self.made("VipOpenNic", f"text={name}")

    def nic_attributes(self, nic):
        at = self.passed(bytes(200))
        self.call("VipQueryNic", nic, at)
        data = self.read(at, 200)
        numbers = struct.unpack_from("<QQHxxxxxxQiHxxQQQQQQQQQQQHH", data, 64)
        names = (
            "hardware provider address_len address thread_safe discriminator register_bytes "
            "regions block_bytes vi descriptors segments cq cq_entries transfer mtu ptags "
            "levels reads"
        ).split()
        told = SimpleNamespace(**dict(zip(names, numbers)))
        told.name = data[:64].split(b"\0")[0].decode()
        told.host = self.read(told.address, told.address_len)
        return told

    def neighbours(self, nic, hops=1, room=4):
        """The numbers of the hosts that are so many links away at most."""
        places = [self.address(bytes(4)) for _ in range(room)]
        pointers = self.passed(struct.pack(f"<{room}Q", *places))
        listed = self.passed(struct.pack("<QQQ", hops, pointers, room))
        self.call("VipQuerySystemManagementInfo", nic, 1, listed)
        (count,) = struct.unpack("<Q", self.read(listed + 16, 8))
        return {int.from_bytes(self.read(place + 4, 4), "big") for place in places[:count]}

    def address(self, host, discriminator=b""):
        """An address in memory: of a host by its number or bytes."""
        if isinstance(host, int):
            host = host.to_bytes(4, "big")
        data = struct.pack("<HH", len(host), len(discriminator)) + host + discriminator
        return self.passed(data.ljust(ADDRESS, b"\xee"))

    def ptag(self, nic):
        return self.made("VipCreatePtag", nic)

    def close_nic(self, nic):
        self.call("VipCloseNic", nic)

    # --- memory

    def register(self, nic, address, length, ptag, write=0, read=0):
        attributes = self.passed(struct.pack(_MEM, ptag, write, read))
        return self.made("VipRegisterMem", nic, address, length, attributes, size=4)

    def deregister(self, nic, address, handle):
        self.call("VipDeregisterMem", nic, address, handle)

    def set_memory(self, nic, address, handle, ptag, write=0, read=0):
        attributes = self.passed(struct.pack(_MEM, ptag, write, read))
        self.call("VipSetMemAttributes", nic, address, handle, attributes)

    # --- VIs

    def create_vi(self, nic, attributes, send_cq=0, recv_cq=0):
        at = self.passed(struct.pack(_VI, *attributes))
        return self.made("VipCreateVi", nic, at, send_cq, recv_cq)

    def set_vi(self, vi, attributes):
        self.call("VipSetViAttributes", vi, self.passed(struct.pack(_VI, *attributes)))

    def destroy_vi(self, vi):
        self.call("VipDestroyVi", vi)

    def query(self, vi):
        at = self.passed(bytes(64))
        query = self.begun.call("VipQueryVi", vi, at, at + 8, at + 48, at + 52)
        data = self.written_by(query, at, 56)
        (state,) = struct.unpack_from("<I", data)
        send, recv = struct.unpack_from("<ii", data, 48)
        return Info(STATES[state], ViAttributes(*struct.unpack_from(_VI, data, 8)), send == 1, recv == 1)

    def state(self, vi):
        return self.query(vi).state

    # --- connections

    def wait_client(self, nic, host, discriminator, timeout=SOON):
        """Begin to wait for a client in a thread; `Server.result()` is the client."""
        return Server(self, nic, host, discriminator, timeout)

    def accept(self, conn, vi):
        self.call("VipConnectAccept", conn, vi)

    def request(self, vi, local, remote, timeout=SOON):
        """Connect to a server; addresses are pairs of a host and a discriminator. The other VI's
        attributes."""
        return self.request_later(vi, local, remote, timeout).result()

    def request_later(self, vi, local, remote, timeout=SOON):
        return Request(self, vi, local, remote, timeout)

    def reject(self, conn):
        self.call("VipConnectReject", conn)

    def peer_request(self, vi, local, remote, timeout=SOON):
        """Ask for a peer; addresses as of `request`."""
        self.call("VipConnectPeerRequest", vi, self.address(*local), self.address(*remote), timeout)

    def peer_done(self, vi):
        """What the peer's VI has, if there is one by now."""
        return self._peer("VipConnectPeerDone", vi)

    def peer_wait(self, vi):
        """The same as soon as the request has come to an end."""
        return self._peer("VipConnectPeerWait", vi)

    def _peer(self, name, vi):
        at = self.passed(b"\xee" * struct.calcsize(_VI))
        self.call(name, vi, at)
        return ViAttributes(*struct.unpack(_VI, self.read(at, struct.calcsize(_VI))))

    def disconnect(self, vi):
        self.call("VipDisconnect", vi)

    # --- queues

    def post(self, vi, queue, descriptor, handle):
        self.call("VipPostRecv" if queue else "VipPostSend", vi, descriptor, handle)

    def wait(self, vi, queue, timeout=SOON):
        """Wait for a descriptor, whatever has become of it."""
        at = self.passed(b"\xee" * 8)
        return self._taken(at, "VipRecvWait" if queue else "VipSendWait", vi, timeout, at)

    def done(self, vi, queue):
        """The same without waiting."""
        at = self.passed(b"\xee" * 8)
        return self._taken(at, "VipRecvDone" if queue else "VipSendDone", vi, at)

    def _taken(self, at, *words):
        """The descriptor that a function writes a pointer to; None for NULL."""
        call = self.begun.call(*words)
        where = self.command("", shell.bytes_of, "read", at, 8)
        try:
            self.finish(call)
        except ViplError as error:
            if error.name != "DESCRIPTOR_ERROR":
                raise
        return self._completion_at(where.result())

    def done_at(self, at):
        """The descriptor that a pointer in memory leads to; None for NULL."""
        return self._completion_at(self.read(at, 8))

    def _completion_at(self, pointer):
        where = int.from_bytes(pointer, "little")
        return self.completion(where) if where else None

    def completion(self, descriptor):
        _, immediate, length, status = struct.unpack("<IIII", self.read(descriptor + 16, 16))
        # VI-DESC-15, of each descriptor of each test.
        assert status & STATUS.RESERVED == 0, hex(status)
        return Done(descriptor, status, length, immediate)

    def drain(self, vi, queue):
        """All descriptors of a queue."""
        out = []
        while done := self.done(vi, queue):
            out.append(done)
        return out

    def cq(self, nic, entries=64):
        return self.made("VipCreateCQ", nic, entries)

    def cq_entry(self, cq, timeout=SOON):
        """Wait for an entry: VI and queue."""
        at = self.passed(bytes(16))
        taken = self.begun.call("VipCQWait", cq, timeout, at, at + 8)
        return struct.unpack("<Qi", self.written_by(taken, at, 12))

    def cq_done(self, cq):
        """The same without waiting."""
        at = self.passed(bytes(16))
        taken = self.begun.call("VipCQDone", cq, at, at + 8)
        return struct.unpack("<Qi", self.written_by(taken, at, 12))

    def notify(self, name, handle, handler):
        """Have a handler called."""
        self.call(name, handle, handler.context, f"handler={handler.kind}")


def calls(program, nic, side):
    """Each function that takes a handle, by the kind of the first one: name, and what follows."""
    at = program.allocate(PAGE)
    there = at + 2048
    program.write(there, (4).to_bytes(2, "little") + bytes(22))
    place = (side.base, side.memory)
    descriptor = (side.slot(), side.memory)
    return {
        "nic": [
            ("CreateVi", at, 0, 0, at),
            ("ConnectWait", there, 0, there, at, at),
            ("QueryNic", at),
            ("RegisterMem", side.base, PAGE, at, at),
            ("DeregisterMem", *place),
            ("QueryMem", *place, at),
            ("SetMemAttributes", *place, at),
            ("CreatePtag", at),
            ("DestroyPtag", side.ptag),
            ("CreateCQ", 4, at),
            ("ErrorCallback", 1, "handler=error"),
            ("NSInit", 0),
            ("NSGetHostByName", "text=a", there, 0),
            ("NSGetHostByAddr", there, at, at),
            ("NSShutdown",),
            ("QuerySystemManagementInfo", 1, at),
            ("CloseNic",),
        ],
        "vi": [
            ("QueryVi", at, at + 8, at + 48, at + 52),
            ("SetViAttributes", at),
            ("ConnectRequest", there, there, 100, at),
            ("ConnectPeerRequest", there, there, 100),
            ("ConnectPeerDone", at),
            ("ConnectPeerWait", at),
            ("PostSend", *descriptor),
            ("PostRecv", *descriptor),
            ("SendDone", at),
            ("RecvDone", at),
            ("SendWait", 0, at),
            ("RecvWait", 0, at),
            ("SendNotify", 1, "handler=queue"),
            ("RecvNotify", 1, "handler=queue"),
            ("Disconnect",),
            ("DestroyVi",),
        ],
        "cq": [
            ("CQDone", at, at),
            ("CQWait", 0, at, at),
            ("CQNotify", 1, "handler=cq"),
            ("ResizeCQ", 4),
            ("DestroyCQ",),
        ],
        "conn": [("ConnectAccept", side.vi), ("ConnectReject",)],
    }


class Server:
    """A thread of a program that waits for a client."""

    def __init__(self, program, nic, host, discriminator, timeout):
        self._program = program
        local = program.address(host, discriminator)
        # Not in memory that is used again.
        self._out = program.page()
        arguments = (nic, local, timeout, self._out, self._out + 64, self._out + 128)
        self.call = program.later.call("VipConnectWait", *arguments)

    def result(self):
        """The client: its handle, attributes, host and discriminator."""
        self.call.result()
        data = self._program.read(self._out, 136)
        host, discriminator = struct.unpack_from("<HH", data)
        return SimpleNamespace(
            conn=struct.unpack_from("<Q", data, 128)[0],
            attributes=ViAttributes(*struct.unpack_from(_VI, data, 64)),
            host=data[4 : 4 + host],
            discriminator=data[4 + host : 4 + host + discriminator],
        )


class Request:
    """A thread of a program that asks a server."""

    def __init__(self, program, vi, local, remote, timeout):
        self._program = program
        self._out = program.page()
        arguments = (vi, program.address(*local), program.address(*remote), timeout, self._out)
        self.call = program.later.call("VipConnectRequest", *arguments)

    def result(self):
        self.call.result()
        size = struct.calcsize(_VI)
        return ViAttributes(*struct.unpack(_VI, self._program.read(self._out, size)))


def descriptor(segments, control=0, immediate=0, length=None, remote=None, count=None):
    """The bytes of a descriptor."""
    body = b"".join(struct.pack("<QII", *segment) for segment in segments)
    if remote:
        body = struct.pack("<QII", remote.address, remote.handle, 0) + body
    total = sum(segment.length for segment in segments) if length is None else length
    number = len(body) // 16 if count is None else count
    # What was there before the post is of no meaning.
    head = struct.pack("<QIHHIIII", 0xDEAD, 7, number, control, 0, immediate, total, 0xFFFFFFFF)
    return head + body


class Side:
    """A program with an interface, a VI, and a piece of memory that is registered: descriptors in
    its first pages, data behind them. What goes wrong is told to `errors`."""

    def __init__(self, program, host, level=RD, size=1 << 16, pages=40, enables=(1, 1), **cqs):
        self.program, self.host = program, host
        self.nic = program.open_nic()
        self.ptag = program.ptag(self.nic)
        reads = enables[1] if level != UD else 0
        self.attributes = ViAttributes(level, size, 0, self.ptag, enables[0], reads)
        self.cqs = {name: program.cq(self.nic, entries) for name, entries in cqs.items()}
        self.vi = program.create_vi(self.nic, self.attributes, **self.cqs)
        self.base = program.allocate(pages * PAGE)
        self.memory = program.register(self.nic, self.base, pages * PAGE, self.ptag, *enables)
        self.data = self.base + 8 * PAGE
        self.errors = program.handler("error")
        program.notify("VipErrorCallback", self.nic, self.errors)
        self._posted = itertools.count()

    def another(self, **attributes):
        """A side with another VI of the same interface and memory."""
        other = copy.copy(self)
        other.attributes = self.attributes._replace(**attributes)
        other.vi = self.program.create_vi(self.nic, other.attributes, **self.cqs)
        return other

    def slot(self):
        """Where a descriptor of up to 256 bytes may be; 128 are in use at most."""
        return self.base + next(self._posted) % 128 * 256

    def post(self, queue, segments=(), at=None, handle=None, **fields):
        """Post a descriptor; where it is."""
        at = at or self.slot()
        segments = [Segment(*segment) for segment in segments]
        self.program.write_ahead(at, descriptor(segments, **fields))
        self.program.post(self.vi, queue, at, self.memory if handle is None else handle)
        return at

    def receive(self, offset=0, length=64):
        """Post a receive into a piece of the data."""
        return self.post(RECV, [self.part(offset, length)])

    def send(self, data=b"", offset=0x10000, **fields):
        """Post a send of bytes, which are put into the data."""
        if data:
            self.program.write_ahead(self.data + offset, data)
        return self.post(SEND, [self.part(offset, len(data))] if data else [], **fields)

    def part(self, offset, length):
        """A piece of the data."""
        return Segment(self.data + offset, self.memory, length)

    def bytes(self, offset, length):
        pieces = ((at, min(SHOWN, length - at)) for at in range(0, length, SHOWN))
        return b"".join(self.program.read(self.data + offset + at, size) for at, size in pieces)

    def put(self, offset, data):
        for at in range(0, len(data), SHOWN):
            self.program.write(self.data + offset + at, data[at : at + SHOWN])

    def checked(self, done):
        assert done is None or done.may_be(self.attributes.level), hex(done.status)
        return done

    def wait(self, queue, timeout=SOON):
        return self.checked(self.program.wait(self.vi, queue, timeout))

    def done(self, queue):
        return self.checked(self.program.done(self.vi, queue))

    def waits(self, queue):
        """Begin to wait for a descriptor in a thread; `Waiting.result()` is the descriptor."""
        return Waiting(self, queue)

    def drain(self, queue):
        return [self.checked(done) for done in self.program.drain(self.vi, queue)]

    def disconnect(self):
        self.program.disconnect(self.vi)

    def state(self):
        return self.program.state(self.vi)

    def until_state(self, state):
        until(lambda: self.state() == state)

    def reports(self):
        """What was told of the VI so far."""
        return [call for call in self.errors.calls() if call[1] == self.vi]

    def told(self, count):
        """The errors of the VI, once so many were told."""
        until(lambda: len(self.reports()) >= count)
        return [ERRORS[call[6]] for call in self.reports()]

    def end_connection(self):
        """Bring the VI to Idle and empty its queues."""
        self.disconnect()
        return self.drain(SEND), self.drain(RECV)


class Waiting:
    """A thread of a program that waits for a descriptor."""

    def __init__(self, side, queue):
        self._program = side.program
        self._out = side.program.page()
        name = "VipRecvWait" if queue else "VipSendWait"
        self.call = side.program.later.call(name, side.vi, FOREVER, self._out)

    def result(self):
        """The descriptor, and what the call has returned."""
        returned = "SUCCESS"
        try:
            self.call.result()
        except ViplError as error:
            returned = error.name
        return self._program.done_at(self._out), returned


class Ends:
    """A program on each of some hosts, in which tests make sides. What a test has made is closed
    after it; programs that it has ended, or that do not answer, are started again."""

    def __init__(self, guests, numbers):
        self.guests, self.numbers = guests, numbers
        self._programs = [None] * len(guests)
        self._nics = []

    def on_one_host(self):
        """As many programs, all on the first host."""
        count = len(self.guests)
        return Ends(self.guests[:1] * count, self.numbers[:1] * count)

    @property
    def need_no_link(self):
        return len(set(self.numbers)) == 1

    def start(self):
        for index, program in enumerate(self._programs):
            if not program or program.process.ended():
                self._programs[index] = Program(self.guests[index])

    def program(self, index):
        return self._programs[index]

    def side(self, index, level=RD, **options):
        side = Side(self._programs[index], self.numbers[index], level, **options)
        self._nics.append((side.program, side.nic))
        return side

    def pair(self, level=RD, server=None, client=None, **options):
        """A server's side on the second host and a client's on the first one."""
        there = self.side(1, level, **{**options, **(server or {})})
        return there, self.side(0, level, **{**options, **(client or {})})

    def connected(self, level=RD, **options):
        both = self.pair(level, **options)
        connect(*both)
        return both

    def clear(self):
        """Close what a test has made."""
        for program, nic in self._nics:
            try:
                program.close_nic(nic)
            except ViplError:
                pass  # the test has closed it
            except (CommandFailed, GuestGone):
                program.end()
        self._nics = []

    def end(self):
        shell.end(*(program for program in self._programs if program))


@pytest.fixture(scope="module")
def all_ends(fabric):
    """A program on each host, for all tests of a module."""
    ends = Ends(fabric.hosts, configure(fabric.hosts))
    yield ends
    ends.end()


@pytest.fixture
def ends(request, all_ends):
    """The same, for one test."""
    marker = request.node.get_closest_marker("two_hosts")
    if marker and all_ends.need_no_link:
        pytest.skip(f"needs two hosts: {marker.kwargs['why']}")
    all_ends.start()
    yield all_ends
    all_ends.clear()


def says(sender, receiver, data):
    """A message arrives."""
    at = receiver.receive()
    sender.send(data)
    assert sender.wait(SEND).errors == set()
    got = receiver.wait(RECV)
    assert (got.descriptor, got.errors, receiver.bytes(0, len(data))) == (at, set(), data)


@contextmanager
def stopped(program):
    """Inside, no thread of a process runs."""
    program.guest.run(f"kill -STOP {program.pid}")
    try:
        yield
    finally:
        program.guest.run(f"kill -CONT {program.pid}")


@contextmanager
def memory_left(short, other, length):
    """Inside, so many bytes for windows are free at a host beside another one: a session of others
    has the rest, which has none of the other host's."""
    with sharing.Process(short) as owner, sharing.Process(other) as partner:
        both = stack.numbers([short, other])
        here, there = (_to(process, n) for process, n in ((owner, both[1]), (partner, both[0])))
        size = here.local_free - length
        sides = ((owner, here, "SERVER", "local"), (partner, there, "CLIENT", "remote"))
        for process, interface, role, side in sides:
            fields = {
                "interface": interface.id,
                "role": getattr(MP, "ROLE_" + role),
                "location": MP.LOCATION_LOGICAL,
                "protocol": 0x5445_5354,
                side + "_min": size,
                side + "_max": size,
            }
            process.call("SESSION_OPEN", "mp_session_open", **fields)
        assert _to(owner, both[1]).local_free == length
        yield


def _to(process, peer):
    """The interface that leads to a host."""
    interfaces = process.interfaces()
    told = [process.call("INTERFACE", "mp_interface", id=number) for number in interfaces]
    (found,) = [one for one in told if one.peer == peer]
    return found


def meet(waiting, client, remote, local=b"client", timeout=SOON):
    """Ask a server that waits, or is about to, at a host and a discriminator: the client as the
    server has found it, and the request, which is not answered yet."""
    while True:
        asking = client.program.request_later(client.vi, (client.host, local), remote, timeout)
        until(lambda: waiting.call.returned() or asking.call.returned())
        if waiting.call.returned():
            return waiting.result(), asking
        with fails("NO_MATCH"):
            asking.result()


def ask(server, client, discriminator=b"test", **options):
    """Let a client ask a server: as `meet`."""
    waiting = server.program.wait_client(server.nic, server.host, discriminator)
    return meet(waiting, client, (server.host, discriminator), **options)


def connect(server, client, discriminator=b"test"):
    """Connect two sides."""
    found, asking = ask(server, client, discriminator)
    server.program.accept(found.conn, server.vi)
    return found, asking.result()
