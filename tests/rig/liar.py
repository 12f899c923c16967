# SPDX-License-Identifier: GPL-2.0-only
"""A host whose user service is a test: it says whatever the test likes in frames of its own.

`tests/modules/mp_frame_test.c` is in the place of the service; `rust/proto/fabric.rs`,
`rust/proto/sharing/message.rs` and `rust/proto/pairing/message.rs` have the frames.
"""

import struct
import time

from ntbrig import stack
from ntbrig.settings import PATIENCE

from frames import TRANSPORT, peer_id

FUNC = 0x55534552
DIRECTORY = "/sys/kernel/mp_frame_test"
SUPPORT = 0x00270202
LIFE = 0x0BAD0BAD
HELLO, PAIRING, SHARING, PUT, FETCHED, STORES, EXCHANGE = 1, 3, 5, 8, 9, 10, 11
# Of the sharing engine.
CONNECT, CONNECTED, GONE, REFUSED, ENDED, ANSWER, ASK = 1, 6, 5, 7, 9, 11, 10
RESUME, RESUMED, PLACED, FETCH = 2, 3, 13, 14
SEGMENT, UNWINDOWED = 1 << 8, 1 << 17
# Of the pairing engine.
POST, POSTED, RESERVE, RESERVED, PAIRED, CLOSE, CLOSED = 1, 2, 4, 5, 6, 9, 10
UNPOSTED = 1 << 24
PIECE = 1 << 14
# The id of no segment.
NOTHING = 0x7FFF_FFFF
# Seconds between a Hello and the next one.
HELLO_EVERY = 0.2


class Liar:
    """The service of a host, as long as it is a context; it speaks with one other host."""

    def __init__(self, guest, victim, support=SUPPORT, parameters=None):
        """`parameters` are those of the modules below the service."""
        self.guest, self.victim, self.support = guest, victim, support
        self._parameters = parameters
        self.life = None
        # What is to be sent, and what has arrived: a command in a guest takes long.
        self._orders, self._arrived = [], []

    def __enter__(self):
        stack.load(self.guest, modules=TRANSPORT, parameters=self._parameters)
        self._peer = f"{peer_id(self.victim):#x}"
        parameters = {"mp_frame_test": f"func={FUNC}"}
        stack.load(self.guest, modules=("mp_frame_test",), parameters=parameters)
        there = f"/sys/kernel/mp/peers/{peer_id(self.victim):08x}"
        stack.wait_until(f"[ -d {there} ]", self.guest)
        return self

    def __exit__(self, *_):
        stack.unload(self.guest, modules=(*TRANSPORT, "mp_frame_test"))

    # --- frames

    def send(self, header, data=b"", priority=False, length=None):
        """A frame, whose data goes on with zeros; it leaves with the next `flush`."""
        words = [self._peer, int(priority), len(data) if length is None else length]
        words += [struct.pack(f"<{len(header)}I", *header).hex(), data.hex() or "-"]
        self._orders.append(f"echo '{' '.join(map(str, words))}' > {DIRECTORY}/send")

    def again(self, times):
        """Send what is to be sent, each frame so many times."""
        orders, self._orders = self._orders, []
        for order in orders:
            self.guest.run(f"for n in $(seq {times}); do {order}; done", timeout=120 * PATIENCE)

    def flush(self):
        """Send what is to be sent, and take what has arrived."""
        take = f'while l=$(cat {DIRECTORY}/received) && [ "$l" ]; do echo "$l"; done'
        orders, self._orders = self._orders, []
        lines = self.guest.run("; ".join([*orders, take, "true"])).out.splitlines()
        for header, data in map(str.split, lines):
            header = struct.unpack_from("<4I", bytes.fromhex(header))
            self._arrived.append((header, bytes.fromhex(data.strip("-"))))

    def receive(self, timeout=10):
        """The header of the next frame, and the first bytes of its data."""
        end = time.monotonic() + timeout * PATIENCE
        while self._orders or not self._arrived:
            self.flush()
            assert self._arrived or time.monotonic() < end, "nothing has arrived"
        return self._arrived.pop(0)

    def kinds(self):
        """The kinds of frames that have arrived and were not taken."""
        return [header[0] for header, _ in self._arrived]

    # --- what services tell each other

    def greet(self):
        """Meet the other service, as soon as it is there."""
        # What it said in an earlier conversation is no answer.
        self.flush()
        self._arrived.clear()
        self.life = self.hello_until(self._life_of_who_has_heard)
        self.hello(self.life)
        self.flush()

    def _life_of_who_has_heard(self):
        """The life of the other service, if it has answered."""
        while self._arrived:
            header, _ = self._arrived.pop(0)
            if header[:2] == (HELLO, LIFE):
                return header[2]
        return None

    def hello_until(self, heard, timeout=10):
        """Say Hello until `heard` tells something, which is returned: a host drops what arrives
        before its service knows of the peer."""
        end = time.monotonic() + timeout * PATIENCE
        while True:
            self.hello()
            self.flush()
            if answer := heard():
                return answer
            assert time.monotonic() < end, "nobody has heard a Hello"
            time.sleep(HELLO_EVERY)

    def hello(self, seen=0):
        self.send((HELLO, seen, LIFE, 2), struct.pack("<I", self.support), priority=True)

    def say(self, kind, connection, *words):
        """A message of the sharing engine, with the words behind its number."""
        message = struct.pack("<2I", kind, connection) + b"".join(words)
        header = (SHARING, self.life, 0, 0)
        self.send(header, message.ljust(32, b"\0"), priority=True)

    def hear(self, *kinds, timeout=10):
        """The next message of one of these kinds, as its kind, number and the rest; questions are
        answered meanwhile."""
        while True:
            header, data = self.receive(timeout)
            if header[0] != SHARING:
                continue
            kind, number = struct.unpack_from("<2I", data)
            if kind & 0xFF == ASK:
                self.say(ANSWER, number)
            if kind & 0xFF in kinds:
                return kind, number, data[8:]

    def say_of(self, session, kind, *words):
        """A message of the pairing engine, with the words behind the session's number."""
        message = struct.pack("<2I", kind, session) + b"".join(words)
        self.send((PAIRING, self.life, 0, 0), message.ljust(64, b"\0"), priority=True)
        self.flush()

    def hear_of_session(self, kind, timeout=10):
        """The session of the next message of that kind, and the rest."""
        while True:
            header, data = self.receive(timeout)
            if header[0] == PAIRING:
                found, session = struct.unpack_from("<2I", data)
                if found & 0xFF == kind:
                    return session, data[8:]

    def connect(self, number, segment):
        """Connect to a segment by placed transfers; its length."""
        self.say(CONNECT | SEGMENT | UNWINDOWED, number, struct.pack("<I", segment))
        _, _, rest = self.hear(CONNECTED)
        return struct.unpack_from("<Q", rest, 16)[0]

    def connect_to_nothing(self, number):
        """Ask for a segment that there is not, and hear so."""
        self.say(CONNECT | SEGMENT | UNWINDOWED, number, struct.pack("<I", NOTHING))
        self.hear(REFUSED)

    def accept(self, length):
        """Give the next process that connects a segment of so many bytes, none of an event; its
        connection."""
        _, number, _ = self.hear(CONNECT)
        self.say(CONNECTED, number, struct.pack("<IIQQ", 0, 1, 0, length))
        self.flush()
        return number

    def put(self, number, at, data, **how):
        """A piece that a connection writes."""
        life = how.pop("life", self.life)
        self.send((PUT, life, number, 0), struct.pack("<Q", at) + data, **how)

    def exchange(self, number, at, expected, desired, **how):
        """A word of a connection's segment, what it is compared with, and what it is to become."""
        life = how.pop("life", self.life)
        words = struct.pack("<3Q", at, expected, desired)
        self.send((EXCHANGE, life, number, 0), words, **how)

    def exchanges(self, number):
        """As `totals`, with the exchanges that have found another value, and that were not made."""
        _, of, rest = self.hear(PLACED)
        assert of == number
        return struct.unpack_from("<4I", rest)

    def fetch(self, number, piece, length, at):
        """Ask for a piece of a connection's segment."""
        self.say(FETCH, number, struct.pack("<2IQ", piece, length, at))

    def fetched(self, number, piece, data, **how):
        """What a connection of the other host has asked for."""
        self.send((FETCHED, self.life, number, piece), data, **how)

    def totals(self, number):
        """What the other host has told last of the pieces of a connection: all, and failed."""
        _, of, rest = self.hear(PLACED)
        assert of == number
        return struct.unpack_from("<2I", rest)

    def next_fetched(self, number, timeout=10):
        """The number of the next piece that was asked for, and its first bytes."""
        while True:
            header, data = self.receive(timeout)
            if header[0] == FETCHED and header[2] == number:
                return header[3], data


class DistantLiar(Liar):
    """The service of a host that another one forwards for: all that it sends takes one lane, and is
    numbered."""

    number = 0

    def send(self, header, data=b"", priority=False, length=None):
        super().send((*header, self.number), data, False, length)
        self.number += 1

    def store(self, *records):
        """Store at places of the arena: offset, bytes, and how many bytes the head says."""
        data = b""
        for at, stored, said in records:
            data += struct.pack("<QII", at, said, 0) + stored
            data += bytes(-len(data) % 8)
        self.send((STORES, self.life, 0, 0), data)
