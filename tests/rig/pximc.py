# SPDX-License-Identifier: GPL-2.0
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
import itertools
import json
import re
import struct
import time
from types import SimpleNamespace
from typing import NamedTuple

from ntbrig import CommandFailed, GuestGone, RigError, stack
from ntbrig.settings import CHECKOUT, PATIENCE, programs32_dir, programs_dir

from frames import TRANSPORT

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


class Wrong(NamedTuple):
    """How many bytes are not as expected, and where the first is."""

    wrong: int
    first: int


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


def _fault(answer):
    return answer["fault"]


def _no_fault(answer):
    assert answer["fault"] == 0, "the memory is not there"
    return answer


def _no_failure(answer):
    assert answer["failed"] == 0


def _wrong(answer):
    _no_fault(answer)
    return Wrong(answer["wrong"], answer["first"])


def _bytes(answer):
    return bytes.fromhex(_no_fault(answer)["bytes"])


def _word(answer):
    return _no_fault(answer)["word"]


def _rounds(answer):
    assert "failed" not in answer, answer
    return Rounds(answer["rounds"], answer.get("wrong", 0))


def _pid(answer):
    return answer["pid"]


# --- what processes can do


def _hex(data):
    """Window data as the program takes it; None is NULL."""
    return NULL if data is None else data.hex() or "-"


class Caller:
    """What the program can do, run in one of its ways."""

    def __init__(self, order):
        self._order = order

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
        """Gives the thread that runs this a table of descriptors of its own."""
        return self._order(_no_failure, "part")

    # Memory, by its address in the process.

    def fill(self, address, length, seed):
        """Writes a pattern. The signal that has ended it, or 0."""
        return self._order(_fault, "fill", address, length, seed)

    def check(self, address, length, seed):
        """Compares with a pattern."""
        return self._order(_wrong, "check", address, length, seed)

    def same(self, address, length, byte):
        """Compares all bytes with one."""
        return self._order(_wrong, "same", address, length, byte)

    def touch(self, address, length):
        """Reads. The signal that has ended it, or 0."""
        return self._order(_fault, "same", address, length, 0)

    def write(self, address, data):
        return self._order(_no_fault, "write", address, data.hex())

    def read(self, address, length):
        return self._order(_bytes, "read", address, length)

    def poll(self, address, word, timeout):
        """Waits until a word of eight bytes is another one, and returns that."""
        return self._order(_word, "poll", address, word, timeout)

    # Many rounds of filling a window, an event, a check, and an event back.

    def produce(self, session, address, length, rounds):
        return self._order(_rounds, "produce", session, address, length, rounds)

    def consume(self, session, address, length, rounds):
        return self._order(_rounds, "consume", session, address, length, rounds)


class Call:
    """A command that the program runs, or has run."""

    def __init__(self, process, tag, decode):
        self._process = process
        self._start = f'{{"tag": {tag}, '
        self._decode = decode
        self.seconds = None

    def _answer(self):
        """The answer, once all of it is there."""
        output = self._process.output
        start = output.find(self._start)
        end = output.find("\n", start)
        return json.loads(output[start:end]) if 0 <= start < end else None

    def returned(self):
        return self._answer() is not None

    def result(self, timeout=20.0):
        self._process.wait_for_output(self._start, timeout)
        while not (answer := self._answer()):
            time.sleep(0.001)
        if "error" in answer:
            raise CommandFailed(f"the program does not understand: {answer['error']}")
        self.seconds = answer["us"] / 1e6
        return self._decode(answer)


def programs(bits=64):
    """Where the program and the libraries are, for processes of so many bits."""
    directory = programs_dir() if bits == 64 else programs32_dir()
    for name in ("pximc_shell", "libpximc64.so", "libpximc_ntb.so"):
        if not (directory / name).exists():
            raise RigError(f"{directory}/{name} is missing: run `make programs`")
    return directory


class Process(Caller):
    """A process in a guest. Its methods wait for the answer.

    Those of `later` run in threads and return a `Call`; those of `child` run in a child,
    which is forked for the call.
    """

    def __init__(self, guest, interface=None, bits=64):
        super().__init__(self._run)
        self.guest = guest
        self._tags = itertools.count(1)
        directory = programs(bits)
        self._process = guest.spawn(
            [directory / "pximc_shell"], env={"PXIMC_LIBRARY_PATH": str(directory)}, stdin=True
        )
        self.later = Caller(lambda *command: self._send("&", *command))
        self.child = Caller(lambda *command: self._send("fork", *command).result())
        self.seconds = None
        self._identity = self._send("", _pid, "identify")
        # The one that tests use that do not name another.
        self._interface = interface

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.reap()

    def begin(self):
        """Makes the first call, and does not wait for its answer."""
        self._send("", _ids, "findInterfaces", 8, OWN, OWN)

    @functools.cached_property
    def pid(self):
        return self._identity.result()

    def kill(self):
        try:
            if not self._process.ended():
                self._process.kill()
        except (GuestGone, CommandFailed):
            pass  # with its host

    def reap(self):
        try:
            self._process.wait(20)
        except (GuestGone, CommandFailed):
            pass  # with its host

    def _send(self, how, decode, name, *arguments):
        tag = next(self._tags)
        words = [str(word) for word in (tag, how, name, *arguments) if word != ""]
        self._process.write((" ".join(words) + "\n").encode())
        return Call(self._process, tag, decode)

    def _run(self, decode, name, *arguments):
        call = self._send("", decode, name, *arguments)
        result = call.result()
        # How long the function took, by the guest's own clock.
        self.seconds = call.seconds
        return result

    # --- its end

    def linger(self, shared=False):
        """Leaves a child that has inherited everything, or shares it. Its id."""
        return self._run(_pid, "linger", int(shared))

    def die(self):
        """Is killed, without its children."""
        self._send("", _status, "die")
        assert self._process.wait(20).rc == -9

    def leave(self):
        """Returns from its main function without having closed anything."""
        self._process.write(b"")
        assert self._process.wait(20).rc == 0

    def exit(self, status=0):
        """Ends without even what is done at exits."""
        self._send("", _status, "exit", status)
        assert self._process.wait(20).rc == status

    def interrupt(self):
        """Sends a signal that is handled to the thread that waits."""
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
        """Waits as programs do: for events, and looks after each."""
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
        """Waits until these are the windows of the other system."""
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
        end(*self._ready.values())


def end(*processes):
    """Kills processes, all at the same time."""
    for process in processes:
        process.kill()
    for process in processes:
        process.reap()


class Window:
    """Memory that is mapped in a process."""

    def __init__(self, process, address, size):
        self.process = process
        self.address = address
        self.size = size

    def fill(self, seed):
        assert self.process.fill(self.address, self.size, seed) == 0

    def check(self, seed):
        return self.process.check(self.address, self.size, seed)

    def same(self, byte):
        return self.process.same(self.address, self.size, byte)

    def write(self, offset, data):
        self.process.write(self.address + offset, data)

    def read(self, offset, length):
        return self.process.read(self.address + offset, length)

    def poll(self, offset, word, timeout=10000):
        return self.process.poll(self.address + offset, word, timeout)


# All bytes are as expected.
INTACT = Wrong(0, 0)


def load(*guests):
    """Loads all modules; waits until each host reaches all others."""
    stack.load(*guests, modules=MODULES)
    wait_until_up(*guests)


def wait_until_up(*guests):
    for guest in guests:
        with Process(guest) as process:
            for interface in process.find_interfaces().ids:
                process.wait_for_state(UP, interface)
