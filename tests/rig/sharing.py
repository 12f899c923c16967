# SPDX-License-Identifier: GPL-2.0-only
"""Processes in guests that offer objects to others, and use them, driven by tests.

Each is `tests/programs/share_shell.c`. The structures and numbers of calls are those of
`uapi/linux/mp_fabric.h`, which is read for them; an error is an `OSError`.
"""

import os
import re
import struct
import time
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import shell
from ntbrig import stack
from ntbrig.settings import CHECKOUT, PATIENCE
from pximc import MODULES

HEADER = CHECKOUT / "uapi/linux/mp_fabric.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
FOREVER = (1 << 64) - 1
PAST = 0
# Messages of a connection that its port has not taken.
EACH = 64
# Calls that a process is sent ahead; all of them fit into a pipe.
AHEAD = 32

_TYPES = {"__u8": "B", "__u16": "H", "__u32": "I", "__s32": "i", "__aligned_u64": "Q"}


def _numbers():
    known = {}
    pattern = r"(?:#define\s+|^\s*)(MP_\w+)(?:\s*=|\s)\s*(?:_IO\(\w+, )?(0x[0-9a-fA-F]+|\d+)"
    for name, value in re.findall(pattern, TEXT, re.M):
        known[name.removeprefix("MP_")] = int(value, 0)
    magic = known["IOC_MAGIC"] << 8
    for name in known:
        if name.startswith("IOC_") and name != "IOC_MAGIC":
            known[name] |= magic
    return known


def _structures():
    known = {}
    for name, body in re.findall(r"struct (mp_\w+) \{(.*?)\};", TEXT, re.DOTALL):
        fields = re.findall(r"(__\w+|char) (\w+)(?:\[(\d+)\])?;", body)
        kinds = [f"{n}s" if kind == "char" else _TYPES[kind] for kind, _, n in fields]
        none = [b"" if kind.endswith("s") else 0 for kind in kinds]
        names = [name for _, name, _ in fields]
        known[name] = ("=" + "".join(kinds), dict(zip(names, none)))
    return known


MP = SimpleNamespace(**_numbers())
STRUCTURES = _structures()


def calls():
    """All calls, each with its structure."""
    return re.findall(r"MP_IOC_(\w+) = _IO\(.*?/\* struct (mp_\w+) \*/", HEADER.read_text())


def _bytes(answer):
    return bytes.fromhex(answer["bytes"])


def _accepted(answer):
    if answer.get("errno", 0):
        raise OSError(answer["errno"], os.strerror(answer["errno"]))
    return answer


class Process(shell.Program):
    """A process in a guest, with one context; that of another user, with a group of the same
    number, if there is one."""

    def __init__(self, guest, user=None, how=(), bits=64):
        """`how` is a command that starts the program."""
        if user is not None:
            how = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        super().__init__(guest, "share_shell", bits, how)
        self.buffer = self._run(lambda answer: answer["address"], "buffer")

    def command(self, how, decode, *words):
        return super().command(how, lambda answer: decode(_accepted(answer)), *words)

    # --- calls

    def _structure(self, kind, fields):
        form, none = STRUCTURES[kind]
        # What is an element of an array has no size of its own.
        size = {"size": struct.calcsize(form)} if "size" in none else {}
        values = {**none, **size, **fields}
        decode = lambda answer: SimpleNamespace(
            **dict(zip(none, struct.unpack(form, _bytes(answer))))
        )
        return struct.pack(form, *values.values()).hex(), decode

    def begin(self, name, kind, /, **fields):
        """As `call`, whose answer is not waited for: it is made when those before have ended."""
        data, decode = self._structure(kind, fields)
        return self.command("", decode, "ioctl", getattr(MP, "IOC_" + name), data)

    def call(self, name, kind, /, **fields):
        return self.finish(self.begin(name, kind, **fields))

    def each(self, name, kind, /, fields):
        """As `call`, once with each of these fields, in order. The next ones are sent before an
        answer is there."""
        begun, done = deque(), []
        for some in fields:
            begun.append(self.begin(name, kind, **some))
            if len(begun) == AHEAD:
                done.append(begun.popleft().result())
        return done + [call.result() for call in begun]

    def later(self, name, kind, /, **fields):
        """As `call`, in a thread."""
        data, decode = self._structure(kind, fields)
        return self.command("&", decode, "ioctl", getattr(MP, "IOC_" + name), data)

    def later_at(self, name, address):
        """As `later`, with the structure where it is in the process."""
        return self.command("&", lambda _: None, "at", getattr(MP, "IOC_" + name), address)

    def repeat(self, count, name, kind, /, **fields):
        """The same call many times; how many have succeeded."""
        data, _ = self._structure(kind, fields)
        number = getattr(MP, "IOC_" + name)
        return self._done("repeat", count, number, data)

    def repeat_later(self, count, name, kind, /, **fields):
        """As `repeat`, in a thread."""
        data, _ = self._structure(kind, fields)
        number = getattr(MP, "IOC_" + name)
        return self.command("&", lambda answer: answer["done"], "repeat", count, number, data)

    def guess(self, first, count, step, name, kind, /, **fields):
        """Call with so many handles; how many are there."""
        data, _ = self._structure(kind, fields)
        words = ("guess", first, count, step, getattr(MP, "IOC_" + name), data)
        return self._done(*words)

    def elsewhere(self, how, name, kind, **fields):
        """The errno of a call of this context that a child makes, `how`: `child`, `pass`."""
        data, _ = self._structure(kind, fields)
        return self._done(how, getattr(MP, "IOC_" + name), data)

    def polled(self, events):
        """Which of these events `poll()` tells the process."""
        return self._done("poll", events)

    def polled_by_child(self):
        """What `poll()` tells a child that has inherited the file."""
        return self._done("childpoll")

    def _done(self, *words):
        return self._run(lambda answer: answer["done"], *words)

    def open(self, count):
        """Open so many contexts more; how many there are."""
        return self._done("open", count)

    # --- descriptors

    def crowd(self, count, places):
        """Threads that have tables of descriptors of their own; how many there are."""
        return self._done("crowd", count, places)

    def copies(self, count, path):
        """Duplicate a descriptor of a file and close that, so many times, in a thread with a table
        of its own. The microseconds for it."""
        answer = self.command("&", lambda answer: answer, "copies", count, path).result()
        assert answer["done"] == count
        return answer["spent"]

    def move(self):
        """Duplicate the descriptor of the file, and close the one before."""
        self._run(lambda _: None, "move")

    def leave(self):
        """Close the last descriptor of the file that this process has."""
        self._run(lambda _: None, "leave")

    def linger(self):
        """The id of a child that has inherited all descriptors, and stays."""
        return self._done("linger")

    # --- memory

    def guess_pages(self, first, count):
        """How many pages of the device can be mapped."""
        return self._done("guessmap", first, count)

    def read_events(self, length):
        """Begin to read records of events, with room for so many bytes; how many there are."""
        return self.command("&", lambda answer: answer["done"], "records", self.buffer, length)

    def scan(self, address, length):
        """How many words are not zero."""
        return self._done("scan", address, length)

    def map(self, offset, length, *access):
        return self._run(lambda answer: answer["address"], "map", offset, length, *access)

    def memory(self, length):
        return self._run(lambda answer: answer["address"], "memory", length)

    def program(self, length):
        """So much of the program's file, mapped to be read."""
        return self._run(lambda answer: answer["address"], "program", length)

    def execute(self, address, length):
        """Ask for memory that is executed, and not written."""
        self._run(lambda _: None, "execute", address, length)

    def unmap(self, address, length):
        self._run(lambda _: None, "unmap", address, length)

    # --- what tests need often

    def interfaces(self, loopback=False):
        """The interfaces to other hosts, or that to this one."""
        found = self.call("INTERFACES", "mp_interfaces", capacity=16, ids=self.buffer)
        ids = struct.unpack(f"={found.count}I", self.read(self.buffer, 4 * found.count))
        flags = lambda number: self.call("INTERFACE", "mp_interface", id=number).flags
        return [n for n in ids if bool(flags(n) & MP.INTERFACE_LOOPBACK) == loopback]

    def interface(self, loopback=False):
        """The first of them."""
        return self.interfaces(loopback)[0]

    def wait_until_up(self, interface, up=True, timeout=20.0):
        end = time.monotonic() + timeout * PATIENCE
        while self.call("INTERFACE", "mp_interface", id=interface).flags & 1 != up:
            assert time.monotonic() < end, f"{self.guest}: the interface is not as wanted"
            time.sleep(0.05)

    def segment(self, number, length, *interfaces):
        """A segment that is published there. Its handle."""
        made = self.call("SEGMENT_CREATE", "mp_segment_create", id=number, length=length)
        for interface in interfaces:
            for what in ("PREPARE", "PUBLISH"):
                self.at(what, made.handle, interface)
        return made.handle

    def segment_of_own_memory(self, number, length, interface, how=0):
        """A segment over memory of the process, which is published there. Its handle, and where the
        memory is."""
        memory = self.memory(length)
        fields = {"id": number, "length": length, "flags": MP.SEGMENT_EMPTY}
        segment = self.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
        fields = {"handle": segment, "address": memory, "length": length}
        self.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
        for what in ("PREPARE", "PUBLISH"):
            self.at(what, segment, interface, how)
        return segment, memory

    def at(self, what, handle, interface, flags=0):
        fields = {"handle": handle, "interface": interface, "flags": flags}
        self.call("SEGMENT_" + what, "mp_segment_interface", **fields)

    def map_segment(self, handle):
        info = self.call("SEGMENT", "mp_segment", handle=handle)
        return self.map(info.offset, info.length)

    def offer(self, interface, kind, number, flags=0):
        fields = {"interface": interface, "object": kind, "number": number, "flags": flags}
        return self.call("OFFER", "mp_offer", **fields).handle

    def connect(self, interface, kind, number, flags=0, name=b""):
        fields = {"interface": interface, "object": kind, "number": number, "flags": flags}
        fields |= self.named(name) | {"deadline": FOREVER}
        return self.call("CONNECT", "mp_connect", **fields).handle

    def named(self, name):
        """The fields of a name, for the next call."""
        if name:
            self.write(self.buffer, name)
        return {"name": self.buffer, "name_size": len(name)}

    def state(self, connection):
        return self.call("CONNECTION", "mp_connection", handle=connection).state

    def map_connection(self, handle):
        info = self.call("CONNECTION", "mp_connection", handle=handle)
        return self.map(info.offset, info.length)

    def notice(self, handle, deadline=FOREVER):
        return self.call("NOTICE", "mp_notice", handle=handle, deadline=deadline).notice

    def wait(self, handle, mask, deadline=FOREVER):
        fields = {"target": handle, "mask": mask, "deadline": deadline}
        return self.call("WAIT", "mp_wait", **fields).events

    def signal(self, handle):
        self.call("SIGNAL", "mp_handle", handle=handle)

    def close(self, handle):
        self.call("CLOSE", "mp_handle", handle=handle)

    def remove(self, handle, flags=0):
        self.call("REMOVE", "mp_remove", handle=handle, flags=flags)

    def send(self, connection, data, deadline=FOREVER):
        self.write(self.buffer, data)
        fields = {"handle": connection, "data": self.buffer, "length": len(data)}
        self.call("SEND", "mp_message", deadline=deadline, **fields)

    def receive(self, port, room=4096, deadline=FOREVER):
        fields = {"handle": port, "data": self.buffer, "length": room}
        message = self.call("RECEIVE", "mp_message", deadline=deadline, **fields)
        return self.read(self.buffer, message.length)


def patient(boot):
    """Boot two hosts that wait a minute for each other, as one may stand still."""
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"pximc_ntb": "timeout_ms=60000"})
    # Their own clocks show how long they have stood still.
    for guest in fabric.hosts:
        guest.run("sysctl -e -w kernel.watchdog=0")
    return fabric


@contextmanager
def pair(fabric, same=False):
    """A process that offers, one that uses, and the interfaces between them."""
    here = fabric.rp if same else fabric.hosts[1]
    with Process(here) as owner, Process(fabric.rp) as user:
        there, back = user.interface(loopback=same), owner.interface(loopback=same)
        user.wait_until_up(there)
        owner.wait_until_up(back)
        yield owner, back, user, there


def fill(user, connection):
    """Send as many messages as a connection takes."""
    fields = {"handle": connection, "data": user.buffer, "length": 256, "deadline": PAST}
    sent = 0
    while sent < EACH:
        # The link may have too much to do just now.
        done = user.repeat(EACH - sent, "SEND", "mp_message", **fields)
        assert done or user.state(connection) == MP.CONNECTION_OPERATIONAL
        sent += done


@contextmanager
def fails(number):
    """Inside, a call fails with this errno."""
    with pytest.raises(OSError) as raised:
        yield
    assert raised.value.errno == number


def copy_list(process, *copies):
    """Write a list of copies to the process; its fields in a call."""
    data = b"".join(struct.pack("=QQQ", *copy) for copy in copies)
    process.write(process.buffer, data)
    return {"copies": process.buffer, "count": len(copies)}


def pinned(guest):
    """Pages that are pinned now."""
    # Each processor keeps some of the counts to itself until then.
    lines = guest.run("echo 1 > /proc/sys/vm/stat_refresh; cat /proc/vmstat").out.splitlines()
    numbers = dict(line.split() for line in lines)
    return int(numbers["nr_foll_pin_acquired"]) - int(numbers["nr_foll_pin_released"])


def wait_until_unpinned(guest, before):
    end = time.monotonic() + 15 * PATIENCE
    while pinned(guest) != before:
        assert time.monotonic() < end, f"{guest}: pages stay pinned"
        time.sleep(0.1)
