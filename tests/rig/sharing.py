# SPDX-License-Identifier: GPL-2.0
"""Processes in guests that offer objects to others, and use them, driven by tests.

Each is `tests/programs/share_shell.c`. The structures and numbers of calls are those of
`uapi/linux/mp_fabric.h`, which is read for them; an error is an `OSError`.
"""

import itertools
import json
import os
import re
import struct
import time
from types import SimpleNamespace

from ntbrig import CommandFailed, GuestGone, RigError
from ntbrig.settings import CHECKOUT, PATIENCE, programs32_dir, programs_dir

HEADER = CHECKOUT / "uapi/linux/mp_fabric.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
FOREVER = (1 << 64) - 1
PAST = 0

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
        known[name] = ("=" + "".join(kinds), [name for _, name, _ in fields])
    return known


MP = SimpleNamespace(**_numbers())
STRUCTURES = _structures()


class Call:
    """A command that the program runs, or has run."""

    def __init__(self, process, tag, decode):
        self._process, self._decode = process, decode
        self._start = f'{{"tag": {tag}, '

    def _answer(self):
        output = self._process.output
        start = output.find(self._start)
        end = output.find("\n", start)
        return json.loads(output[start:end]) if 0 <= start < end else None

    def returned(self):
        return self._answer() is not None

    def result(self, timeout=30.0):
        self._process.wait_for_output(self._start, timeout)
        while not (answer := self._answer()):
            time.sleep(0.001)
        if answer.get("errno", 0):
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return self._decode(answer)


def _bytes(answer):
    return bytes.fromhex(answer["bytes"])


class Process:
    """A process in a guest, with one context; that of another user, with a group of the same
    number, if there is one."""

    def __init__(self, guest, user=None, how=(), bits=64):
        """`how` is a command that starts the program."""
        self.guest = guest
        self._tags = itertools.count(1)
        program = (programs_dir() if bits == 64 else programs32_dir()) / "share_shell"
        if not program.exists():
            raise RigError(f"{program} is missing: run `make programs`")
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        command = [*how, program] if user is None else [*become, program]
        self._process = guest.spawn(command, stdin=True)
        self.buffer = self._run(lambda answer: answer["address"], "buffer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if not self._process.ended():
                self._process.kill()
            self._process.wait(20)
        except (GuestGone, CommandFailed):
            pass  # with its host

    def kill(self):
        self._process.kill()
        self._process.wait(20)

    def _send(self, how, decode, *words):
        tag = next(self._tags)
        line = " ".join(str(word) for word in (tag, how, *words) if word != "")
        self._process.write((line + "\n").encode())
        return Call(self._process, tag, decode)

    def _run(self, decode, *words):
        return self._send("", decode, *words).result()

    # --- calls

    def _structure(self, kind, fields):
        form, names = STRUCTURES[kind]
        fields = {"size": struct.calcsize(form), **fields}
        values = [fields.get(name, b"" if name == "name" else 0) for name in names]
        decode = lambda answer: SimpleNamespace(
            **dict(zip(names, struct.unpack(form, _bytes(answer))))
        )
        return struct.pack(form, *values).hex(), decode

    def call(self, name, kind, **fields):
        data, decode = self._structure(kind, fields)
        return self._run(decode, "ioctl", getattr(MP, "IOC_" + name), data)

    def later(self, name, kind, **fields):
        """As `call`, in a thread."""
        data, decode = self._structure(kind, fields)
        return self._send("&", decode, "ioctl", getattr(MP, "IOC_" + name), data)

    def repeat(self, count, name, kind, **fields):
        """The same call many times; how many have succeeded."""
        data, _ = self._structure(kind, fields)
        number = getattr(MP, "IOC_" + name)
        return self._done("repeat", count, number, data)

    def repeat_later(self, count, name, kind, **fields):
        """As `repeat`, in a thread."""
        data, _ = self._structure(kind, fields)
        number = getattr(MP, "IOC_" + name)
        return self._send("&", lambda answer: answer["done"], "repeat", count, number, data)

    def guess(self, first, count, step, name, kind, **fields):
        """Calls with so many handles; how many are there."""
        data, _ = self._structure(kind, fields)
        words = ("guess", first, count, step, getattr(MP, "IOC_" + name), data)
        return self._done(*words)

    def elsewhere(self, how, name, kind, **fields):
        """The errno of a call of this context that a child makes, `how`: `child`, `pass`."""
        data, _ = self._structure(kind, fields)
        return self._done(how, getattr(MP, "IOC_" + name), data)

    def _done(self, *words):
        return self._run(lambda answer: answer["done"], *words)

    def open(self, count):
        """Opens so many contexts more; how many there are."""
        return self._done("open", count)

    # --- memory

    def guess_pages(self, first, count):
        """How many pages of the device can be mapped."""
        return self._done("guessmap", first, count)

    def scan(self, address, length):
        """How many words are not zero."""
        return self._done("scan", address, length)

    def map(self, offset, length, *access):
        return self._run(lambda answer: answer["address"], "map", offset, length, *access)

    def memory(self, length):
        return self._run(lambda answer: answer["address"], "memory", length)

    def unmap(self, address, length):
        self._run(lambda _: None, "unmap", address, length)

    def write(self, address, data):
        self._run(lambda _: None, "write", address, data.hex())

    def read(self, address, length):
        return self._run(_bytes, "read", address, length)

    # --- what tests need often

    def interface(self, loopback=False):
        """The interface to the other host, or to this one."""
        found = self.call("INTERFACES", "mp_interfaces", capacity=16, ids=self.buffer)
        ids = struct.unpack(f"={found.count}I", self.read(self.buffer, 4 * found.count))
        for number in ids:
            flags = self.call("INTERFACE", "mp_interface", id=number).flags
            if bool(flags & MP.INTERFACE_LOOPBACK) == loopback:
                return number
        raise AssertionError("there is no such interface")

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

    def at(self, what, handle, interface, flags=0):
        fields = {"handle": handle, "interface": interface, "flags": flags}
        self.call("SEGMENT_" + what, "mp_segment_interface", **fields)

    def map_segment(self, handle):
        info = self.call("SEGMENT", "mp_segment", handle=handle)
        return self.map(info.offset, info.length)

    def offer(self, interface, kind, number, flags=0):
        fields = {"interface": interface, "object": kind, "number": number, "flags": flags}
        return self.call("OFFER", "mp_offer", **fields).handle

    def connect(self, interface, kind, number, flags=0):
        fields = {"interface": interface, "object": kind, "number": number, "flags": flags}
        return self.call("CONNECT", "mp_connect", deadline=FOREVER, **fields).handle

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


def copy_list(process, *copies):
    """Writes a list of copies to the process; its fields in a call."""
    data = b"".join(struct.pack("=QQQ", *copy) for copy in copies)
    process.write(process.buffer, data)
    return {"copies": process.buffer, "count": len(copies)}
