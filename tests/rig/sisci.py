# SPDX-License-Identifier: GPL-2.0-only
"""Programs in guests that use SISCI, driven by tests.

    with Program(host) as program:
        sd = program.SCIOpen(0)
        segment = program.SCICreateSegment(sd, 7, 4096, None, 0)

Each is `tests/programs/sisci_shell.c`, linked to libsisci. Functions have the names and
arguments of `sisci_api.h`, which is read for them, without the pointers for what they
return: that is returned here. A callback is a `Callback` or None, and stands for its
argument as well. An error is a `SisciError`.
"""

import functools
import itertools
import json
import re
import struct
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import shell
from frames import peer_id, wait_for_everyone
from ntbrig import stack
from ntbrig.settings import CHECKOUT
from pximc import MODULES
from shell import until

INCLUDE = CHECKOUT / "userlib/include"
CONFIG = "/run/sisci.conf"
# Node ids of the hosts, in their order.
NODES = (4, 8, 12)
PAGE = 0x1000
FOREVER = 0xFFFFFFFF
ONES = 0xFF
# Room for what a query answers.
SLOT = 64

_POINTERS = {"sci_error_t": 4, "unsigned int": 4, "dis_adapter_type_t": 4, "size_t": 8}


def _text(name):
    return re.sub(r"/\*.*?\*/", "", (INCLUDE / name).read_text(), flags=re.DOTALL)


def _numbers(text):
    pattern = r"^\s*(?:#define )?(SCI_\w+|DIS_\w+)(?: =)?\s+(0x[0-9A-Fa-f]+|\d+)U?,?\s*$"
    found = re.findall(pattern, text, re.M)
    return {name.removeprefix("SCI_"): int(value, 0) for name, value in found}


SCI = SimpleNamespace(**_numbers(_text("sisci_types.h")))
# By number; some have two names.
_ERRORS = {}
for _name, _value in _numbers(_text("sisci_error.h")).items():
    if _name.startswith("ERR_"):
        _ERRORS.setdefault(_value, _name.removeprefix("ERR_"))
REASONS = {
    value: name.removeprefix("CB_") for name, value in vars(SCI).items() if name.startswith("CB_")
}
DMA = {
    value: name.removeprefix("DMAQUEUE_")
    for name, value in vars(SCI).items()
    if name.startswith("DMAQUEUE_")
}
SEQUENCE = {
    value: name.removeprefix("SEQ_")
    for name, value in vars(SCI).items()
    if name.startswith("SEQ_")
}


def error_name(number):
    return _ERRORS.get(number, hex(number))


def error_number(name):
    return next(number for number, known in _ERRORS.items() if known == name)


class SisciError(Exception):
    """What a function has said, beside what it returned."""

    def __init__(self, name, errno, value, outs):
        super().__init__(name)
        self.name, self.errno, self.value, self.outs = name, errno, value, outs


@contextmanager
def fails(name):
    """Inside, a function says this error."""
    with pytest.raises(SisciError) as raised:
        yield raised
    assert raised.value.name == name


class _Function:
    """What the header says of a function."""

    def __init__(self, result, name, arguments):
        self.name = name
        self.result = result.strip()
        # How many bytes of what it returns are meant.
        self.wide = any(kind in result for kind in ("*", "size_t", "long", "ioaddr"))
        self.arguments = []
        for argument in arguments.split(","):
            if argument.strip() == "void":
                continue
            kind, star, name = re.match(r"\s*(.*?)\s*(\*?)(\w+)\s*$", argument, re.DOTALL).groups()
            self.arguments.append((" ".join(kind.split()), bool(star), name))

    def returned(self, value):
        return value if self.wide else value & 0xFFFFFFFF


_API = "".join(_text("sisci_api.h").split("SISCI_API_EXPORT ")[1:])
FUNCTIONS = {
    name: _Function(result, name, arguments)
    for result, name, arguments in re.findall(r"([\w\s]+[\s*])(SCI\w+)\(([^)]*)\);", _API)
}


class Callback:
    """A callback of a program, which tells of each time that it runs."""

    _cookies = itertools.count(1)

    def __init__(self, cancel=False):
        self.cookie = next(self._cookies) | (1 << 32 if cancel else 0)
        self._process = None

    def of(self, process):
        """Be the callback of a program; it has told of no run yet."""
        if process is not self._process:
            self._process, self._begin = process, process.written()

    def calls(self):
        """What it was called with, so far; numbers, and a message if there is one."""
        start = f'{{"callback": {self.cookie}, '
        whole = self._process.said(self._begin).split("\n")[:-1]
        answers = (json.loads(line) for line in whole if line.startswith(start))
        return [(*a["values"], *([bytes.fromhex(a["data"])] if a["data"] else [])) for a in answers]

    def reasons(self):
        """Of the callback of a segment: why it was called."""
        return [REASONS[call[0]] for call in self.calls()]

    def wait(self, count, timeout=20.0):
        """Wait until it was called so often; what it was called with."""
        until(lambda: len(self.calls()) >= count, timeout)
        return self.calls()


def _fields(answer):
    return SimpleNamespace(**answer)


class Functions(shell.Caller):
    """What the program can do, run in one of its ways."""

    def __getattr__(self, name):
        if name not in FUNCTIONS:
            raise AttributeError(name)
        return lambda *arguments, **given: self._call("call", FUNCTIONS[name], arguments, given)

    def repeat(self, count, name, *arguments):
        """The same call many times, until it fails: how often, and the error."""
        done = self._call(f"repeat {count}", FUNCTIONS[name], arguments, {})
        return done

    def _call(self, how, function, arguments, given):
        words, outs, arguments = [function.name], [], list(arguments)
        callback = None
        for kind, star, name in function.arguments:
            if kind.startswith("sci_cb_"):
                callback = arguments.pop(0)
                words.append("0" if callback is None else f"cb={_KINDS[kind]}")
                if callback is not None:
                    callback.of(self.process)
            elif name == "callbackArg":
                words.append("0" if callback is None else str(callback.cookie))
            elif star and (kind in _POINTERS or kind.startswith("sci_") and kind.endswith("_t")):
                size = _POINTERS.get(kind, 8)
                start = given.pop(name, None)
                outs.append((name, size))
                words.append("out" if start is None else "out=" + start.to_bytes(size, "little").hex())
            else:
                words.append(str(arguments.pop(0)))
        assert not arguments and not given, f"too much for {function.name}"
        return self._order(lambda answer: _returned(function, outs, answer), how, *words)

    # --- loops

    def cycle(self, sd, node, number, count):
        return self._order(_fields, "cycle", sd, node, number, count)

    def drain(self, segment, count):
        return self._order(_fields, "drain", segment, count)

    def announce(self, sequence, data, flag, count, enough, barrier=False):
        """Announce so many numbers, and more until the word at `enough` is not zero."""
        return self._order(_fields, "announce", sequence, data, flag, int(barrier), count, enough)

    def observe(self, data, flag, count, changes, milliseconds=20000):
        """Look until so many numbers are announced, and so many changes of them were seen."""
        return self._order(_fields, "observe", data, flag, count, changes, milliseconds)

    def transfer(self, sequence, address, length, rounds, outages, milliseconds=20000):
        words = (sequence, address, length, rounds, outages, milliseconds)
        return self._order(_fields, "transfer", *words)

    def churn(self, queue, segment, remote, length):
        """Keep a queue busy until a transfer fails: how many have not, and the error."""
        return self._order(_fields, "churn", queue, segment, remote, length)

    def post(self, remote, local, data, rounds):
        return self._order(_fields, "post", remote, local, data, rounds)

    def collect(self, local, remote, data, rounds):
        return self._order(_fields, "collect", local, remote, data, rounds)


_KINDS = {
    "sci_cb_local_segment_t": "local",
    "sci_cb_remote_segment_t": "remote",
    "sci_cb_dma_t": "dma",
    "sci_cb_interrupt_t": "interrupt",
    "sci_cb_data_interrupt_t": "data",
}


def _returned(function, outs, answer):
    if "out" not in answer:
        return SimpleNamespace(done=answer["done"], error=error_name(answer["error"]))
    values = {
        name: int.from_bytes(bytes.fromhex(slot)[:size], "little")
        for (name, size), slot in zip(outs, answer["out"])
    }
    value = function.returned(answer["value"])
    error = values.pop("error", 0)
    if error:
        raise SisciError(error_name(error), answer["errno"], value, SimpleNamespace(**values))
    if function.result == "void":
        return next(iter(values.values())) if len(values) == 1 else SimpleNamespace(**values)
    return SimpleNamespace(value=value, **values) if values else value


class Program(Functions, shell.Program):
    """A program in a guest, which has initialized the library and opened a virtual device.

    Its methods wait for the answer. Those of `later` run in threads and return a `Call`.
    """

    def __init__(self, guest, adapter=0, how=()):
        """`how` is a command that starts the program."""
        super().__init__(guest, "sisci_shell", how=how, env={"SISCI_CONF": CONFIG})
        self.adapter = adapter
        self.later = Functions(functools.partial(self.command, "&"))
        self.later.process = self.process
        self.SCIInitialize(0)
        self.sd = self.SCIOpen(0)

    def interrupt(self, milliseconds):
        """Send a signal that is handled to a thread that waits, a little later."""
        self._order(lambda _: None, "interrupt", milliseconds)

    # --- what tests need often

    def segment(self, number, size=PAGE, callback=None):
        """A segment that is available."""
        flags = SCI.FLAG_USE_CALLBACK if callback else 0
        segment = self.SCICreateSegment(self.sd, number, size, callback, flags)
        self.SCIPrepareSegment(segment, self.adapter, 0)
        self.SCISetSegmentAvailable(segment, self.adapter, 0)
        return segment

    def connect(self, node, number, callback=None, timeout=FOREVER):
        flags = SCI.FLAG_USE_CALLBACK if callback else 0
        return self.SCIConnectSegment(
            self.sd, node, number, self.adapter, callback, timeout, flags
        )

    def map_local(self, segment, size=PAGE, offset=0):
        """A map and its address."""
        mapped = self.SCIMapLocalSegment(segment, offset, size, 0, 0)
        return mapped.map, mapped.value

    def map_remote(self, segment, size=PAGE, offset=0, flags=0):
        mapped = self.SCIMapRemoteSegment(segment, offset, size, 0, flags)
        return mapped.map, mapped.value

    def sequence(self, mapped):
        return self.SCICreateMapSequence(mapped, 0)

    def start(self, sequence):
        return SEQUENCE[self.SCIStartSequence(sequence, 0)]

    def look(self, sequence, flags=0):
        """What a check says."""
        return SEQUENCE[self.SCICheckSequence(sequence, flags)]

    def local_event(self, segment, timeout=10000):
        """Reason, node, adapter."""
        event = self.SCIWaitForLocalSegmentEvent(segment, timeout, 0)
        return REASONS[event.value], event.sourcenodeId, event.localAdapterNo

    def remote_event(self, segment, timeout=10000):
        """Reason and status."""
        event = self.SCIWaitForRemoteSegmentEvent(segment, timeout, 0)
        return REASONS[event.value], error_name(event.status)

    def interrupt_of(self, number, flags=0, callback=None):
        """An interrupt of a number."""
        flags |= SCI.FLAG_FIXED_INTNO | (SCI.FLAG_USE_CALLBACK if callback else 0)
        made = self.SCICreateInterrupt(self.sd, self.adapter, callback, flags, interruptNo=number)
        return made.interrupt

    def data_interrupt_of(self, number, flags=0, callback=None):
        flags |= SCI.FLAG_FIXED_INTNO | (SCI.FLAG_USE_CALLBACK if callback else 0)
        made = self.SCICreateDataInterrupt(
            self.sd, self.adapter, callback, flags, interruptNo=number
        )
        return made.interrupt

    def connect_interrupt(self, node, number, flags=0):
        return self.SCIConnectInterrupt(self.sd, node, self.adapter, number, FOREVER, flags)

    def connect_data_interrupt(self, node, number, flags=0):
        return self.SCIConnectDataInterrupt(self.sd, node, self.adapter, number, FOREVER, flags)

    def send(self, remote, data):
        """Send a message."""
        if not hasattr(self, "_buffer"):
            self._buffer = self.allocate(2 * PAGE)
        self.write(self._buffer, data)
        self.SCITriggerDataInterrupt(remote, self._buffer, len(data), 0)

    def receive(self, interrupt, timeout=10000, room=4096):
        """Take a message."""
        if not hasattr(self, "_room"):
            self._room = self.allocate(2 * PAGE)
        length = self.SCIWaitForDataInterrupt(interrupt, self._room, timeout, 0, length=room)
        return self.read(self._room, length)

    def queue(self, entries=256):
        return self.SCICreateDMAQueue(self.sd, self.adapter, entries, 0)

    def dma_state(self, queue):
        return DMA[self.SCIDMAQueueState(queue)]

    def about(self, command, handle, subcommand):
        """What a query tells of an object: a number."""
        structure = struct.pack("<QI4xQ", handle, subcommand, 9)
        memory = self.allocate(len(structure))
        self.write(memory, structure)
        self.SCIQuery(command, memory, 0)
        return struct.unpack("<QI4xQ", self.read(memory, len(structure)))[2]

    def about_adapter(self, subcommand, port=0):
        memory = self.allocate(2 * SLOT)
        self.write(memory, struct.pack("<3I4xQ", self.adapter, port, subcommand, memory + SLOT))
        self.SCIQuery(SCI.Q_ADAPTER, memory, 0)
        return struct.unpack("<I", self.read(memory + SLOT, 4))[0]

    def reaches(self, node):
        """Whether a node answers."""
        try:
            return self.SCIProbeNode(self.sd, self.adapter, node, 0) == 1
        except SisciError:
            return False


def configure(*guests, extra=()):
    """Tell hosts of each other's node ids."""
    lines = [
        f"node {node} peer {peer_id(guest)} name {guest.name}"
        for node, guest in zip(NODES, guests)
    ]
    for guest in guests:
        words = " ".join(f"'{line}'" for line in (*lines, *extra))
        guest.run(f"printf '%s\\n' {words} > {CONFIG}")


def load(*guests, modules=MODULES, parameters=None):
    """Load all modules, or what is left of them; each host reaches all others."""
    stack.load(*guests, modules=modules, parameters=parameters)
    wait_for_everyone(*guests)
    configure(*guests)


def wait_until_reached(program, *nodes):
    for node in nodes:
        until(lambda: program.reaches(node))


@contextmanager
def pair(fabric, same=False):
    """An exporter, an importer, and the node of the first."""
    here = 0 if same else 1
    with Program(fabric.hosts[here]) as owner, Program(fabric.hosts[0]) as user:
        wait_until_reached(user, NODES[here])
        wait_until_reached(owner, NODES[0])
        yield owner, user, NODES[here]
