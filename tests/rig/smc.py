# SPDX-License-Identifier: GPL-2.0-only
"""SMC sockets in guests, and what their kernels say of them."""

import json

from ether import python
from ntbrig import stack

DIBS = ("mp_dibs",)
COUNTERS = "/sys/kernel/mp_dibs"
# Both hosts have to have one in common.
EID = "MPFAB"

# Modes that the kernel says a socket has.
SMC_D = 2

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


def token():
    "That of the buffer of the partner of the only connection."
    buffers = dict(attributes(connections()[0][64:]))[4]
    return struct.unpack_from("=Q", buffers, 32)[0]


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

_SET_EID = (
    _NETLINK
    + """
generic(10, REQUEST | ACK, attribute(1, {eid!r}.ljust(32).encode() + b"\\0"))
"""
)

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
    print("token", token(), "told", flush=True)
    try:
        print("end", len(connection.recv(1)), flush=True)
    except TimeoutError:
        raise
    except OSError as error:
        print("end", errno.errorcode[error.errno], flush=True)


"""
)

_HOLDING_SERVER = _HOLD + "hold(accepted({address!r}))\n"
_HOLDING_CLIENT = _HOLD + "hold(connected({address!r}))\n"


def counters(guest):
    lines = guest.run(f"grep . {COUNTERS}/*").out.split()
    pairs = (line.rsplit("/", 1)[1].split(":") for line in lines)
    return {name: int(value) for name, value in pairs}


def bring_up(*guests, parameters=None):
    """Load the modules and let the hosts become partners."""
    stack.bring_up(*guests, parameters=parameters)
    stack.load(*guests, modules=DIBS)
    for guest in guests:
        python(guest, _SET_EID.format(eid=EID)).wait().check()
    wait_for_partners(*guests)


def wait_for_partners(*guests, count=1):
    stack.wait_until(stack.holds(f"{COUNTERS}/partners", f"= {count}"), *guests)


def wait_for_no_buffers(guest):
    for name in ("buffers", "slots"):
        stack.wait_until(stack.holds(f"{COUNTERS}/{name}", "= 0"), guest)


def device_as_nobody(guest):
    """How many devices an unprivileged user is told of, and vendor and device of the first."""
    kinds = (5, 6)
    return python(guest, _DUMP.format(kinds=kinds)).wait().check().out.split()


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


def how_it_ended(process):
    """An error's name, or how many bytes were received at last."""
    return process.wait().check().out.splitlines()[-1].removeprefix("end ")
