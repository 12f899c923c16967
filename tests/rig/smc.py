# SPDX-License-Identifier: GPL-2.0-only
"""SMC sockets in guests, and what their kernels say of them."""

import json
import re
from pathlib import Path

from ether import python
from ntbrig import stack
from ntbrig.settings import programs_dir
from ntbrig.smc import COUNTERS, ntbctl, preloaded, wait_for_partners
from ntbrig.smc import MODULES as DIBS

# What sets the identity that both hosts have to have in common, at boot.
UNIT = Path(__file__).parents[2] / "scripts/system/pximc-smc.service"
EID = "MPFAB"

# Modes that the kernel says a socket has.
TCP, SMC_D = 1, 2
# Why it has fallen back to TCP (net/smc/smc_clc.h): the partner has declined; no buffer.
DECLINED, NO_BUFFER = 0x05000000, 0x01010000
# How a socket may end whose partner is lost; no error is an orderly end.
LOST = {"ECONNRESET", "ECONNABORTED", "EPIPE", "ENOTCONN", "end"}

_NETLINK = """
import socket, struct

REQUEST, ACK, DUMP = 1, 4, 0x300


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3fff, data[4:length]
        data = data[(length + 3) & ~3:]


def ask(protocol, kind, flags, body):
    "The bodies of all answers; fails if the last one is an error."
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as nl:
        nl.settimeout(20)
        nl.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answers = []
        while True:
            data = nl.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                body, data = data[16:length], data[(length + 3) & ~3:]
                if kind in (2, 3):
                    error = struct.unpack_from("=i", body)[0]
                    if error:
                        raise OSError(-error, "netlink")
                    return answers
                answers.append(body)
            if not flags & (ACK | DUMP):
                return answers


def generic(command, flags, body=b""):
    family = struct.pack("=BBH", 3, 1, 0) + attribute(2, b"SMC_GEN_NETLINK\\0")
    number = dict(attributes(ask(16, 16, REQUEST, family)[0][4:]))[1]
    header = struct.pack("=BBH", command, 1, 0)
    return ask(16, struct.unpack("=H", number)[0], flags, header + body)


def connections():
    "What the kernel says of each, with the buffers that it uses."
    request = struct.pack("=BBBB", 43, 0, 0, 8) + bytes(48)
    return [answer for answer in ask(4, 20, REQUEST | DUMP, request) if answer[1] == 1]


def modes():
    return [connection[2] for connection in connections()]


def reasons():
    "How many connections have which mode, and why."
    counts = {{}}
    for connection in connections():
        fallback = dict(attributes(connection[64:])).get(5, bytes(8))
        what = f"{{connection[2]}} {{struct.unpack_from('=I', fallback)[0]:#x}}"
        counts[what] = counts.get(what, 0) + 1
    return counts


def token(connection):
    "That of the buffer of its partner."
    ports = struct.pack("!HH", connection.getsockname()[1], connection.getpeername()[1])
    told = next(told for told in connections() if told[4:8] == ports)
    return struct.unpack_from("=Q", dict(attributes(told[64:]))[4], 32)[0]


def smc_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 256)


def accepted(address):
    listener = smc_socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 5006))
    listener.listen(1)
    print("ready", flush=True)
    return listener.accept()[0]


def connected(address):
    connection = smc_socket()
    connection.connect((address, 5006))
    return connection
"""

_DUMP = (
    _NETLINK
    + """
import os
os.setgid(65534)
os.setuid(65534)
devices = generic(5, REQUEST | DUMP)
device = dict(attributes(dict(attributes(devices[0][4:]))[5]))
print(len(devices), *(struct.unpack("=H", device[kind])[0] for kind in {kinds}))
"""
)

# All that any user may ask for: of the system, link groups, devices, statistics, identities, connections.
_DUMP_ALL = (
    _NETLINK
    + """
import os
os.setgid(65534)
os.setuid(65534)
answers = connections()
assert len(answers) == {count}
for command in range(1, 10):
    try:
        answers += generic(command, REQUEST | DUMP)
    except OSError as error:
        print(command, error)
said = b"".join(answer + bytes(-len(answer) % 4) for answer in answers)
words = [struct.unpack_from("=Q", said, at)[0] for at in range(0, len(said) - 7, 4)]
print(len(answers), [hex(word) for word in words if 0xffff800000000000 <= word < 0xffffffffffffffff])
"""
)

_TALK = (
    _NETLINK
    + """
import hashlib, json, os, threading


def talk(connection, size):
    "Send random bytes and receive as many at the same time."
    connection.settimeout(60)
    sent, received = hashlib.sha256(), hashlib.sha256()

    def send():
        left = size
        while left:
            block = os.urandom(min(left, 50000))
            connection.sendall(block)
            sent.update(block)
            left -= len(block)

    sender = threading.Thread(target=send)
    sender.start()
    left = size
    while left:
        block = connection.recv(min(left, 100000))
        if not block:
            raise EOFError(f"{{left}} bytes are missing")
        received.update(block)
        left -= len(block)
    sender.join()
    result = dict(sent=sent.hexdigest(), received=received.hexdigest(), modes=modes())
    # Neither is closed before both have looked.
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    connection.close()
    print(json.dumps(result), flush=True)
"""
)

_SERVER = _TALK + "talk(accepted({address!r}), {size})\n"
_CLIENT = _TALK + "talk(connected({address!r}), {size})\n"

# The client ends when there is such a file.
_ENOUGH = "/tmp/smc-enough"

_ECHOING_SERVER = (
    _NETLINK
    + """
connection = accepted({address!r})
connection.settimeout(60)
while block := connection.recv(1 << 16):
    connection.sendall(block)
"""
)

_ASKING_CLIENT = (
    _NETLINK
    + f"""
import json, os, time
connection = connected({{address!r}})
connection.settimeout(60)
while not os.path.exists({_ENOUGH!r}):
    block, got = os.urandom(5000), b""
    connection.sendall(block)
    while len(got) < len(block):
        more = connection.recv(1 << 16)
        assert more, "it has ended"
        got += more
    assert got == block
    print("round", flush=True)
    time.sleep(0.02)
print(json.dumps(modes()), flush=True)
"""
)

_HOLD = (
    _NETLINK
    + """
import errno


def hold(connection):
    "Until it ends; says by which error, or how many bytes have come. A timeout is a failure."
    connection.settimeout(60)
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    print("token", token(connection), "told", flush=True)
    try:
        print("end", len(connection.recv(1)), flush=True)
    except TimeoutError:
        raise
    except OSError as error:
        print("end", errno.errorcode[error.errno], flush=True)


"""
)

_STREAMS = (
    _NETLINK
    + """
import errno, json, threading

# All that is sent is one pattern again and again; its length divides no size of anything else.
PATTERN = bytes(range(251))
BLOCK = PATTERN * 200
running, told = threading.Semaphore(0), []


def note(act):
    "How that ends, if not by what should not be."
    try:
        told.append(act() or "end")
    except OSError as error:
        told.append(errno.errorcode.get(error.errno, str(error)))


def send(connection):
    while True:
        connection.sendall(BLOCK)


def receive(connection):
    at = 0
    while data := connection.recv(100000):
        expected = (PATTERN * (len(data) // 251 + 2))[at % 251:][:len(data)]
        if data != expected:
            return f"wrong data behind {{at}}"
        at += len(data)
        if at - len(data) < 100000 <= at:
            running.release()


def streams(connections):
    "Until all have ended, which is told."
    threads = [
        threading.Thread(target=note, args=(lambda act=act, each=each: act(each),))
        for each in connections
        for act in (send, receive)
    ]
    for thread in threads:
        thread.start()
    for _ in connections:
        running.acquire()
    print("running", *modes(), flush=True)
    for thread in threads:
        thread.join()
    print(json.dumps(told), flush=True)


def all_accepted(address, count, port):
    listener = smc_socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(count)
    print("ready", flush=True)
    return [listener.accept()[0] for _ in range(count)]


def all_connected(address, count, port):
    sockets = [smc_socket() for _ in range(count)]
    for each in sockets:
        each.connect((address, port))
    return sockets


"""
)

_STREAMING_SERVER = _STREAMS + "streams(all_accepted({address!r}, {count}, {port}))\n"
_STREAMING_CLIENT = _STREAMS + "streams(all_connected({address!r}, {count}, {port}))\n"

# Sends what it gets back, on all connections at once, and tells how many have which mode and why.
_CROWD = (
    _STREAMS
    + """
import selectors, sys


def echo(connections):
    selector = selectors.DefaultSelector()
    for each in connections:
        selector.register(each, selectors.EVENT_READ)
    left = len(connections)
    while left:
        for key, _ in selector.select(60) or [(None, None)]:
            data = key.fileobj.recv(4096)
            if data:
                key.fileobj.sendall(data)
            else:
                selector.unregister(key.fileobj)
                left -= 1
    print("end", flush=True)


def use(connections, rounds):
    for number in range(rounds):
        blocks = [bytes([n, number]) * 1500 for n in range(len(connections))]
        for each, block in zip(connections, blocks):
            each.sendall(block)
        for each, block in zip(connections, blocks):
            got = b""
            while len(got) < len(block):
                data = each.recv(len(block) - len(got))
                assert data, "an end"
                got += data
            assert got == block, "wrong data"
    print("counts", json.dumps(reasons()), flush=True)
    sys.stdin.readline()
    for each in connections:
        each.close()


def timed(connections):
    for each in connections:
        each.settimeout(60)
    return connections


"""
)

_CROWDED_SERVER = _CROWD + "echo(timed(all_accepted({address!r}, {count}, 5008)))\n"
_CROWDED_CLIENT = _CROWD + "use(timed(all_connected({address!r}, {count}, 5008)), {rounds})\n"

# Does nothing that could tell it of an end, until it is told to.
_ASLEEP = (
    _NETLINK
    + """
import errno, sys


def asleep(connection):
    connection.settimeout(60)
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    print("asleep", *modes(), flush=True)
    sys.stdin.readline()
    try:
        connection.sendall(b"y")
        print(*(("still", True) if connection.recv(1) else ("end", "end")), flush=True)
    except OSError as error:
        print("end", errno.errorcode[error.errno], flush=True)


"""
)

_SLEEPING_SERVER = _ASLEEP + "asleep(accepted({address!r}))\n"
_SLEEPING_CLIENT = _ASLEEP + "asleep(connected({address!r}))\n"

_SPLICING_SERVER = (
    _NETLINK
    + """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
connection = accepted({address!r})
connection.settimeout(60)
want = bytes(range(251)) * 200
# All of it is there.
while len(connection.recv(len(want), socket.MSG_PEEK)) < len(want):
    time.sleep(0.01)
reading, writing = os.pipe()
other = os.pipe()
moved = os.splice(connection.fileno(), writing, len(want))
# A second pipe gets no part of a page that is lent to the first one.
print("spliced", moved, *modes(), libc.tee(reading, other[1], moved, 0), flush=True)
for order in sys.stdin:
    if order == "close\\n":
        connection.close()
    else:
        data = b""
        while len(data) < moved:
            data += os.read(reading, moved - len(data))
        print("right" if data == want[:moved] else f"wrong {{data[:40]}}", flush=True)
        break
    print("closed", flush=True)
"""
)

# By sendfile.
_SPLICING_CLIENT = (
    _NETLINK
    + """
import os, sys, tempfile
connection = connected({address!r})
with tempfile.TemporaryFile() as file:
    file.write(bytes(range(251)) * 200)
    file.flush()
    left, at = 251 * 200, 0
    while left:
        sent = os.sendfile(connection.fileno(), file.fileno(), at, left)
        at, left = at + sent, left - sent
print("sent", flush=True)
sys.stdin.readline()
"""
)

# Reads until an end; the other side never stops to send, and is killed.
_KILLED_SERVER = (
    _NETLINK
    + """
connection = accepted({address!r})
connection.settimeout(60)
total = 0
try:
    while data := connection.recv(100000):
        total += len(data)
        if total - len(data) < 1 << 20 <= total:
            print("much", flush=True)
except OSError:
    pass
connection.close()
print("end", flush=True)
"""
)
_KILLED_CLIENT = (
    _NETLINK
    + """
connection = connected({address!r})
while True:
    connection.sendall(bytes(1 << 20))
"""
)

_HOLDING_SERVER = _HOLD + "hold(accepted({address!r}))\n"
_HOLDING_CLIENT = _HOLD + "hold(connected({address!r}))\n"


def counters(guest):
    lines = guest.run(f"grep . {COUNTERS}/*").out.split()
    pairs = (line.rsplit("/", 1)[1].split(":") for line in lines)
    return {name: int(value) for name, value in pairs}


def bring_up(*guests, parameters=None, partners=1):
    """Load the modules and let each host have so many partners."""
    stack.bring_up(*guests, parameters=parameters)
    stack.load(*guests, modules=DIBS)
    for guest in guests:
        run_unit(guest)
    wait_for_partners(*guests, count=partners)


def shown(guest, words):
    """What ntbctl tells programs."""
    return json.loads(ntbctl(guest, f"--json {words}").out)


def run_unit(guest):
    """As systemd does, where there is one."""
    unit = UNIT.read_text()
    environment = re.search(r"^Environment=(.+)$", unit, re.MULTILINE)[1]
    words = re.search(r"^ExecStart=ntbctl (.+)$", unit, re.MULTILINE)[1]
    guest.run(f"{environment}; {programs_dir()}/ntbctl {words}")


def wait_for_no_buffers(guest):
    for name in ("buffers", "slots"):
        stack.wait_until(stack.holds(f"{COUNTERS}/{name}", "= 0"), guest)


def device_as_nobody(guest):
    """How many devices an unprivileged user is told of, and vendor and device of the first."""
    kinds = (5, 6)
    return python(guest, _DUMP.format(kinds=kinds)).wait().check().out.split()


def all_as_nobody(guest, count):
    """How many answers an unprivileged user has of a kernel with so many connections, and what in them
    looks like an address of the kernel."""
    program = python(guest, _DUMP_ALL.format(count=count))
    answers, addresses = program.wait().check().out.splitlines()[-1].split(" ", 1)
    return int(answers), addresses


def talk(server, client, size):
    """Send and receive so many bytes over one connection; what both hosts have seen."""
    address = stack.address(server)
    listening = python(server, _SERVER.format(address=address, size=size), 120)
    listening.wait_for_output("ready")
    calling = python(client, _CLIENT.format(address=address, size=size), 120)
    return [json.loads(process.wait().check().out.splitlines()[-1]) for process in (calling, listening)]


class Rounds:
    """A connection over which blocks go there and back, until it is to end."""

    def __init__(self, server, client):
        address = stack.address(server)
        self._client = client
        client.run(f"rm -f {_ENOUGH}")
        self._listening = python(server, _ECHOING_SERVER.format(address=address), 120)
        self._listening.wait_for_output("ready")
        self._calling = python(client, _ASKING_CLIENT.format(address=address), 120)
        self.go_on()

    def go_on(self):
        """See some more of them."""
        start = len(self._calling.output)
        for _ in range(3):
            self._calling.wait_for_output("round", start=start)
            start = len(self._calling.output)

    def end(self):
        """The modes of the client's connections at the end."""
        self._client.run(f"touch {_ENOUGH}")
        self._listening.wait().check()
        return json.loads(self._calling.wait().check().out.splitlines()[-1])


def hold(server, client):
    """A connection on which nothing happens: the two programs, and the token by which the client
    names the server's buffer."""
    address = stack.address(server)
    listening = python(server, _HOLDING_SERVER.format(address=address), 120)
    listening.wait_for_output("ready")
    calling = python(client, _HOLDING_CLIENT.format(address=address), 120)
    calling.wait_for_output("told")
    return (calling, listening), int(calling.output.split()[1])


def _pair(server, client, programs, ready, timeout=120, **values):
    """Start two programs, the second one when the first one listens; wait for a word of both."""
    address = stack.address(server)
    server_program, client_program = (text.format(address=address, **values) for text in programs)
    listening = python(server, server_program, timeout, stdin=True)
    listening.wait_for_output("ready")
    calling = python(client, client_program, timeout, stdin=True)
    for process, word in zip((calling, listening), ready, strict=True):
        process.wait_for_output(word, timeout)
    return calling, listening


def streams(server, client, count, port=5007):
    """Start streams in both directions of so many connections, none of which ends for itself."""
    programs = _STREAMING_SERVER, _STREAMING_CLIENT
    return _pair(server, client, programs, ("running", "running"), count=count, port=port)


def ends_of_streams(process):
    """How each half of each stream has ended."""
    return json.loads(process.wait().check().out.splitlines()[-1])


def modes_of(process, word):
    """The modes that a program has told behind a word."""
    line = next(line for line in process.output.splitlines() if line.startswith(word))
    return [int(mode) for mode in line.split()[1:]]


def crowd(server, client, count, rounds=3):
    """Use so many connections at once: two programs, and how many have which mode and why at the client,
    which keeps them until it is sent a line."""
    programs = _CROWDED_SERVER, _CROWDED_CLIENT
    ready = ("counts", "")
    calling, listening = _pair(server, client, programs, ready, 240, count=count, rounds=rounds)
    line = next(line for line in calling.output.splitlines() if line.startswith("counts"))
    counts = json.loads(line.removeprefix("counts "))
    modes = {tuple(int(word, 0) for word in what.split()): n for what, n in counts.items()}
    return (calling, listening), modes


def disperse(programs):
    """Let a crowd end, of whose connections none was lost."""
    programs[0].write(b"\n")
    for program in programs:
        program.wait().check()


def asleep(server, client):
    """Two programs that do not look at their connection until they are sent a line."""
    return _pair(server, client, (_SLEEPING_SERVER, _SLEEPING_CLIENT), ("asleep", "asleep"))


def how_many_go_on(programs):
    """How many of those that slept find their connection as it was."""
    for program in programs:
        program.write(b"\n")
    ends = [program.wait().check().out.split()[-2:] for program in programs]
    return ends.count(["still", "True"])


def spliced(server, client):
    """A program that keeps in a pipe what it was sent by sendfile; and the sender."""
    calling, listening = _pair(server, client, (_SPLICING_SERVER, _SPLICING_CLIENT), ("sent", "spliced"))
    return listening, calling


def kill_a_sender(server, client):
    """In the middle of what it sends; the receiver reads all that comes, and closes."""
    listening = python(server, _KILLED_SERVER.format(address=stack.address(server)), 120)
    listening.wait_for_output("ready")
    calling = python(client, _KILLED_CLIENT.format(address=stack.address(server)), 120)
    listening.wait_for_output("much")
    calling.kill()
    calling.wait()
    listening.wait().check()


def how_it_ended(process):
    """An error's name, or how many bytes were received at last."""
    return process.wait().check().out.splitlines()[-1].removeprefix("end ")
