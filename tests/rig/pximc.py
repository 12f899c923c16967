# SPDX-License-Identifier: GPL-2.0-only
"""Processes in guests that use PXImc, driven by tests.

    with Process(fabric.rp) as system:
        opened = system.request_as_server(system.interface, ...)
        waiting = system.later.wait_for_connection(opened.session)
        ...
        assert waiting.result().status == OK

Each is `tests/programs/pximc_shell.c`, linked to the Dispatcher, which finds the
vendor library where it has been built. Functions have their names, in the style of
this language, and their arguments; pointers are `OWN`, `NULL` or `off_by(n)`. What a
function has not written is None in its answer; that it writes nowhere else is
checked at every call.
"""

import enum
import functools
import re
import struct
import time
from types import SimpleNamespace
from typing import NamedTuple

import shell
from frames import TRANSPORT
from ntbrig import RigError, stack
from ntbrig.settings import CHECKOUT, PATIENCE

USER = "mp_func_user"
MODULES = (*TRANSPORT, USER)
HEADER = CHECKOUT / "userlib/include/pximc.h"

# Pointers.
OWN, NULL = "-", "null"


def off_by(count):
    """A pointer that is aligned to `count` bytes at best."""
    return f"+{count}"


# --- numbers of the header


def _evaluate(text, known):
    """A constant expression of C."""
    return eval(re.sub(r"(?<=[0-9A-Fa-f])U\b", "", text), {}, known)


def _constants(text):
    """All enumerators and macros that are numbers, without their prefix."""
    known = {"UINT64_MAX": (1 << 64) - 1}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name, value in re.findall(r"^\s*(?:#define )?(_?PXIMC_\w+)(?: =)? ([^\n,]+)", text, re.M):
        known[name] = _evaluate(value, known)
    return {name.removeprefix("PXIMC_"): value for name, value in known.items()}


def _statuses(text, constants):
    (body,) = re.findall(r"enum ePXIMC_Status \{(.*?)\};", text, re.DOTALL)
    names = re.findall(r"^\s*PXIMC_(\w+) =", body, re.M)
    return {name: constants[name] for name in names}


_TEXT = HEADER.read_text()
PXIMC = SimpleNamespace(**_constants(_TEXT))
Status = enum.IntEnum("Status", _statuses(_TEXT, vars(PXIMC)))
OK = Status.SUCCESS
FOREVER = PXIMC.TIMEOUT_INFINITE
MAX = PXIMC.MAXIMUM_WINDOW_SIZE
UP, DOWN = PXIMC.STATE_UP, PXIMC.STATE_DOWN
STATE_CHANGE, WINDOW_CHANGE = (
    PXIMC.EVENT_INTERFACE_STATE_CHANGE,
    PXIMC.EVENT_WINDOW_STATE_CHANGE,
)
ASSERTED, CLOSED, LOST = (
    PXIMC.EVENT_ASSERTED,
    PXIMC.EVENT_CONNECTION_CLOSED,
    PXIMC.EVENT_INTERFACE_DOWN,
)

# --- what functions answer


class Ids(NamedTuple):
    """A list, up to where it has been written."""

    status: Status
    actual: int
    ids: list


class Attribute(NamedTuple):
    """A value's bytes, up to where they have been written."""

    status: Status
    actual: int
    value: bytes

    @property
    def u32(self):
        assert (self.status, self.actual) == (OK, 4)
        return struct.unpack("=I", self.value)[0]

    @property
    def u64(self):
        assert (self.status, self.actual) == (OK, 8)
        return struct.unpack("=Q", self.value)[0]


class Reason(NamedTuple):
    status: Status
    reason: int


class Opened(NamedTuple):
    status: Status
    session: int


class Connection(NamedTuple):
    status: Status
    remote: int
    remote_size: int
    local: int
    local_size: int


class Address(NamedTuple):
    status: Status
    address: int


class Rounds(NamedTuple):
    """How many rounds were completed; the bytes that were wrong in them."""

    rounds: int
    wrong: int


UNTOUCHED = 0xEE
_UNTOUCHED_WORDS = {n: int.from_bytes(bytes([UNTOUCHED]) * n, "little") for n in (4, 8)}
# Windows are mapped somewhere, and sizes are 64 bits wide.
_SIZES = {"remote": 8, "remote_size": 8, "local": 8, "local_size": 8, "address": 8}


def _written(answer, name):
    value = answer[name]
    return None if value == _UNTOUCHED_WORDS[_SIZES.get(name, 4)] else value


def _buffer(answer):
    assert not answer["spoilt"], "a function has written beyond its buffer"
    return bytes.fromhex(answer["buffer"])


def _status(answer):
    return Status(answer["status"])


def _ids(answer):
    words = (word for (word,) in struct.iter_unpack("=I", _buffer(answer)))
    ids = [word for word in words if word != _UNTOUCHED_WORDS[4]]
    return Ids(_status(answer), _written(answer, "actual"), ids)


def _attribute(answer):
    value = _buffer(answer).rstrip(bytes([UNTOUCHED]))
    return Attribute(_status(answer), _written(answer, "actual"), value)


def _reason(answer):
    return Reason(_status(answer), _written(answer, "reason"))


def _opened(answer):
    return Opened(_status(answer), _written(answer, "session"))


def _connection(answer):
    fields = (_written(answer, name) for name in Connection._fields[1:])
    return Connection(_status(answer), *fields)


def _address(answer):
    return Address(_status(answer), _written(answer, "address"))


def _rounds(answer):
    assert "failed" not in answer, answer
    return Rounds(answer["rounds"], answer.get("wrong", 0))


# --- what processes can do


def _hex(data):
    """Window data as the program takes it; None is NULL."""
    return NULL if data is None else shell.word_of(data)


class Functions(shell.Caller):
    """What the program can do, run in one of its ways."""

    def find_interfaces(self, capacity=8, ids=OWN, actual=OWN):
        return self._order(_ids, "findInterfaces", capacity, ids, actual)

    def query_interface_information(self, interface, attribute, size=4, value=OWN, actual=OWN):
        name = "queryInterfaceInformation"
        return self._order(_attribute, name, interface, attribute, size, value, actual)

    def wait_for_interface_event(self, interface, timeout=FOREVER, reason=OWN):
        return self._order(_reason, "waitForInterfaceEvent", interface, timeout, reason)

    def find_windows(self, interface, capacity=64, ids=OWN, actual=OWN):
        return self._order(_ids, "findWindows", interface, capacity, ids, actual)

    def query_window_information(
        self, interface, window, attribute, size=8, value=OWN, actual=OWN
    ):
        name = "queryWindowInformation"
        return self._order(_attribute, name, interface, window, attribute, size, value, actual)

    def request_window_logical_as_server(
        self, interface, protocol, max_local, min_local, max_remote, min_remote, uid=0,
        data=b"", size=None, session=OWN,
    ):  # fmt: skip
        sizes = max_local, min_local, max_remote, min_remote
        length = len(data or b"") if size is None else size
        name = "requestWindowLogicalAsServer"
        return self._order(
            _opened, name, interface, protocol, *sizes, uid, _hex(data), length, session
        )

    def request_window_logical_as_client(
        self, interface, protocol, max_local, min_local, max_remote, min_remote, uid=0,
        session=OWN,
    ):  # fmt: skip
        sizes = max_local, min_local, max_remote, min_remote
        name = "requestWindowLogicalAsClient"
        return self._order(_opened, name, interface, protocol, *sizes, uid, session)

    def request_window_logical_as_peer(
        self, interface, protocol, max_local, min_local, max_remote, min_remote, uid=0,
        data=b"", size=None, session=OWN,
    ):  # fmt: skip
        sizes = max_local, min_local, max_remote, min_remote
        length = len(data or b"") if size is None else size
        name = "requestWindowLogicalAsPeer"
        return self._order(
            _opened, name, interface, protocol, *sizes, uid, _hex(data), length, session
        )

    def request_window_physical_as_server(
        self, interface, protocol, local, uid, address, data=b"", size=None, session=OWN
    ):
        length = len(data or b"") if size is None else size
        name = "requestWindowPhysicalAsServer"
        return self._order(
            _opened, name, interface, protocol, local, uid, address, _hex(data), length, session
        )

    def request_window_physical_as_client(
        self, interface, protocol, max_remote, min_remote, uid=0, session=OWN
    ):
        name = "requestWindowPhysicalAsClient"
        return self._order(
            _opened, name, interface, protocol, max_remote, min_remote, uid, session
        )

    def wait_for_connection(self, session, timeout=FOREVER, pointers=(OWN, OWN, OWN, OWN)):
        """`pointers` are those for the remote address and size, and for the local ones."""
        return self._order(_connection, "waitForConnection", session, timeout, *pointers)

    def get_physical_address(self, session, address=OWN):
        return self._order(_address, "getPhysicalAddress", session, address)

    def enable_device_access(self, session, mode, bus=0, device=0, function=0):
        return self._order(_status, "enableDeviceAccess", session, mode, bus, device, function)

    def assert_event(self, session):
        return self._order(_status, "assertEvent", session)

    def wait_for_session_event(self, session, timeout=FOREVER, reason=OWN):
        return self._order(_reason, "waitForSessionEvent", session, timeout, reason)

    def close_window(self, session):
        return self._order(_status, "closeWindow", session)

    def cleanup(self):
        return self._order(_status, "cleanup")

    def part(self):
        """Give the thread that runs this a table of descriptors of its own."""
        return self._order(shell.no_failure, "part")

    # Many rounds of filling a window, an event, a check, and an event back.

    def produce(self, session, address, length, rounds):
        return self._order(_rounds, "produce", session, address, length, rounds)

    def consume(self, session, address, length, rounds):
        return self._order(_rounds, "consume", session, address, length, rounds)


def programs(guest, bits=64):
    """Where a guest's program and libraries are, for processes of so many bits."""
    where = shell.directory(guest, bits)
    for name in (f"libpximc{bits}.so", "libpximc_ntb.so"):
        if not (where / name).exists():
            raise RigError(f"{where}/{name} is missing: run `make programs`")
    return where


class Process(Functions, shell.Program):
    """A process in a guest. Its methods wait for the answer.

    Those of `later` run in threads and return a `Call`; those of `child` run in a child,
    which is forked for the call.
    """

    def __init__(self, guest, interface=None, bits=64):
        env = {"PXIMC_LIBRARY_PATH": str(programs(guest, bits))}
        super().__init__(guest, "pximc_shell", bits, env=env)
        self.later = Functions(functools.partial(self.command, "&"))
        self.child = Functions(lambda *words: self.command("fork", *words).result())
        # The one that tests use that do not name another.
        self._interface = interface

    def begin(self):
        """Make the first call, and do not wait for its answer."""
        self.command("", _ids, "findInterfaces", 8, OWN, OWN)

    # --- its end

    def linger(self, shared=False):
        """Leave a child that has inherited everything, or shares it. Its id."""
        return self._run(shell.pid_of, "linger", int(shared))

    def die(self):
        """Is killed, without its children."""
        self.command("", _status, "die")
        assert self.process.wait(20).rc == -9

    def leave(self):
        """Return from its main function without having closed anything."""
        self.process.write(b"")
        assert self.process.wait(20).rc == 0

    def interrupt(self):
        """Send a signal that is handled to the thread that waits."""
        self.guest.run(f"kill -USR1 {self.pid}")

    # --- what tests need often

    @property
    def interface(self):
        """The interface that was given, or the only one."""
        if self._interface is None:
            found = self.find_interfaces()
            assert (found.status, found.actual) == (OK, 1)
            self._interface = found.ids[0]
        return self._interface

    def state(self, interface=None):
        attribute = PXIMC.U32_INTERFACE_STATE
        return self.query_interface_information(interface or self.interface, attribute).u32

    def wait_for_state(self, state, interface=None, timeout=20.0):
        """Wait as programs do: for events, and look after each."""
        interface = interface or self.interface
        deadline = time.monotonic() + timeout * PATIENCE
        while self.state(interface) != state:
            assert time.monotonic() < deadline, f"{self.guest}: the interface is not {state}"
            self.wait_for_interface_event(interface, 100)

    def windows(self, interface=None):
        found = self.find_windows(interface or self.interface)
        assert (found.status, found.actual) == (OK, len(found.ids))
        return found.ids

    def wait_for_windows(self, *ids, interface=None, timeout=20.0):
        """Wait until these are the windows of the other system."""
        interface = interface or self.interface
        deadline = time.monotonic() + timeout * PATIENCE
        while sorted(seen := self.windows(interface)) != sorted(ids):
            assert time.monotonic() < deadline, f"{self.guest} sees {seen}"
            self.wait_for_interface_event(interface, 100)

    def connect(self, session):
        """The windows of a session that is paired, remote and local."""
        connection = self.wait_for_connection(session, 5000)
        assert connection.status == OK
        return self.windows_of(connection)

    def windows_of(self, connection):
        return (
            Window(self, connection.remote, connection.remote_size),
            Window(self, connection.local, connection.local_size),
        )


class Spares:
    """Processes that have been started for later: what a test takes is there already,
    with its libraries loaded and the device open."""

    def __init__(self, *guests):
        self._ready = {}
        for guest in guests:
            self._prepare(guest)

    def _prepare(self, guest):
        process = self._ready[guest] = Process(guest)
        process.begin()

    def take(self, guest):
        process = self._ready[guest]
        self._prepare(guest)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shell.end(*self._ready.values())


class Window:
    """Memory that is mapped in a process."""

    def __init__(self, process, address, size):
        self.process = process
        self.address = address
        self.size = size

    def fill(self, seed):
        self.process.fill(self.address, self.size, seed)

    def check(self, seed):
        return self.process.check(self.address, self.size, seed)

    def same(self, byte):
        return self.process.same(self.address, self.size, byte)

    def write(self, offset, data):
        self.process.write(self.address + offset, data)

    def read(self, offset, length):
        return self.process.read(self.address + offset, length)

def load(*guests):
    """Load all modules; wait until each host reaches all others."""
    stack.load(*guests, modules=MODULES)
    wait_until_up(*guests)


def wait_until_up(*guests):
    for guest in guests:
        with Process(guest) as process:
            for interface in process.find_interfaces().ids:
                process.wait_for_state(UP, interface)
