# SPDX-License-Identifier: GPL-2.0-only
"""What works between hosts while everything goes wrong, and tells what was wrong with it.

Each kind of work runs for ever, for a pair of hosts or in each host, and starts over when
anything fails: processes are killed, hosts are gone, links are down. Failing is no
mistake. What counts is that nothing wrong is ever delivered (`Work.wrong`), and that the
work gets on again (`Work.done`).
"""

import contextlib
import json
import random
import threading
import time

from ntbrig import stack
from ntbrig.settings import PATIENCE

import pximc
import sharing
from ether import python
from pximc_sessions import pair
from sharing import FOREVER, MP

PAGE = 0x1000
# A process is used for so many rounds: what it has answered is kept.
ROUNDS = 60

# Blocks of data with their checksums, from each host to each other one.
NODE = """
    import hashlib, itertools, json, os, random, socket, struct, threading, time
    own, hosts = {own}, {hosts}
    head = struct.Struct("<IIQ32s")
    good, wrong = dict.fromkeys((h for h in hosts if h != own), 0), []

    def take(connection, count):
        data = bytearray()
        while len(data) < count:
            more = connection.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)

    def check(connection):
        with connection:
            for number in itertools.count():
                sender, length, is_number, digest = head.unpack(take(connection, head.size))
                data = take(connection, length)
                if is_number != number or hashlib.sha256(data).digest() != digest:
                    wrong.append((sender, number, is_number, length))
                    return
                good[sender] += 1

    def receive(connection):
        connection.settimeout(6)
        try:
            check(connection)
        except (OSError, EOFError):
            pass
        except (struct.error, KeyError, MemoryError) as error:
            wrong.append(repr(error))

    def send(to, address):
        block = os.urandom(1 << 17)
        while True:
            try:
                with socket.create_connection((address, 5006), 2) as connection:
                    connection.settimeout(4)
                    connection.setsockopt(socket.IPPROTO_TCP, 18, 3000)
                    for number in itertools.count():
                        start = random.randrange(1 << 16)
                        data = block[start : start + random.randrange(1, 1 << 16)]
                        digest = hashlib.sha256(data).digest()
                        connection.sendall(head.pack(own, len(data), number, digest) + data)
                        time.sleep(0.004)
            except OSError:
                time.sleep(0.05)

    def serve():
        server = socket.create_server(("::", 5006), family=socket.AF_INET6,
                                      dualstack_ipv6=True, reuse_port=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=receive, args=(connection,), daemon=True).start()

    os.nice(10)
    threading.Thread(target=serve, daemon=True).start()
    for to, address in hosts.items():
        if to != own:
            threading.Thread(target=send, args=(to, address), daemon=True).start()
    while True:
        print(json.dumps([list(good.values()), wrong]), flush=True)
        time.sleep(0.3)
"""


class Work(threading.Thread):
    """Something that is done again and again; `once` does it until it fails."""

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.done = 0
        self.starts = 0
        self.wrong = []
        self.last = None
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            self.starts += 1
            try:
                self.once()
            except Exception as error:
                # Kept for who wonders why it does not get on.
                self.last = error
                self.stopped.wait(0.2)

    def __repr__(self):
        return f"{self.name}: {self.done} done, {self.starts} starts, last {self.last!r}"


class Node(Work):
    """Blocks over TCP from one host to all others, and from them."""

    def __init__(self, guest, guests):
        super().__init__(f"streams of {guest.name}")
        self.guest = guest
        hosts = {other.port: stack.address(other) for other in guests}
        self.program = NODE.format(own=guest.port, hosts=hosts)

    def once(self):
        process = python(self.guest, self.program, timeout=3600)
        before = self.done
        try:
            while not self.stopped.is_set() and not process.ended():
                time.sleep(0.2)
                lines = process.output.rsplit("\n", 2)
                if len(lines) < 2:
                    continue
                good, wrong = json.loads(lines[-2])
                self.wrong += wrong
                # The slowest way counts.
                self.done = before + min(good)
                if wrong:
                    return
            assert self.stopped.is_set(), process.output[-300:]
        finally:
            with contextlib.suppress(Exception):
                process.kill()


def is_gone(seen, expected):
    """Whether memory has become a scrap page meanwhile: from some byte on all ones."""
    same = next((n for n, (a, b) in enumerate(zip(seen, expected)) if a != b), len(seen))
    return all(byte == 0xFF for byte in seen[same:])


class Sessions(Work):
    """A session of PXImc between two hosts: windows filled, an event, a check, and back."""

    def __init__(self, one, other, interfaces):
        super().__init__(f"session {one.name} to {other.name}")
        self.hosts = one, other
        self.interfaces = interfaces

    def once(self):
        (one, other), (to, back) = self.hosts, self.interfaces
        with pximc.Process(one, to) as s0, pximc.Process(other, back) as s1:
            for system in (s0, s1):
                system.wait_for_state(pximc.UP)
                system.wait_for_windows()
            sessions = pair(s0, s1)
            (there, _), (_, here) = (
                system.connect(session) for system, session in zip((s0, s1), sessions)
            )
            size = min(there.size, here.size)
            for _ in range(ROUNDS):
                words = [(sessions[0], there.address), (sessions[1], here.address)]
                calls = [
                    system.command("&", lambda answer: answer, name, *first, size, 10)
                    for system, name, first in zip((s1, s0), ("consume", "produce"), words[::-1])
                ]
                consumed, produced = (call.result(60 * PATIENCE) for call in calls)
                if consumed["wrong"]:
                    self.judge(here, consumed)
                self.done += consumed["rounds"]
                assert produced["rounds"] == consumed["rounds"] == 10, (produced, consumed)
                if self.stopped.is_set():
                    return

    def judge(self, window, consumed):
        """Whether what was wrong is what a window becomes when its memory goes."""
        seen = window.read(consumed["first"], min(64, window.size - consumed["first"]))
        if seen.strip(b"\xff"):
            self.wrong.append((self.name, consumed))


class Segments(Work):
    """Stores into a segment of another host, and copies by a queue, in turn."""

    def __init__(self, user, owner, interfaces, seed):
        super().__init__(f"segment of {owner.name} for {user.name}")
        self.hosts = user, owner
        self.interfaces = interfaces
        self.dice = random.Random(seed)
        self.number = 1000 + 10 * user.port + owner.port

    def once(self):
        (user_host, owner_host), (to, back) = self.hosts, self.interfaces
        with sharing.Process(owner_host) as owner, sharing.Process(user_host) as user:
            owner.wait_until_up(back)
            user.wait_until_up(to)
            local = owner.map_segment(owner.segment(self.number, 4 * PAGE, back))
            connection = user.connect(to, MP.OBJECT_SEGMENT, self.number)
            remote = user.map_connection(connection)
            source = user.segment(self.number + 100, 4 * PAGE, to)
            near = user.map_segment(source)
            queue = user.call("QUEUE_CREATE", "mp_queue_create", interface=to, entries=1).handle
            for turn in range(ROUNDS):
                data = self.dice.randbytes(self.dice.randrange(8, 2048))
                at = self.dice.randrange(0, 4 * PAGE - len(data)) & ~7
                if turn % 2:
                    user.write(remote + at, data)
                    fields = {"target": connection, "deadline": FOREVER}
                    user.call("BARRIER", "mp_barrier", **fields)
                else:
                    data += bytes(-len(data) % 8)
                    user.write(near + at, data)
                    self.copy(user, queue, source, connection, at, len(data))
                seen = owner.read(local + at, len(data))
                if not is_gone(seen, data):
                    self.wrong.append((self.name, turn, at, seen, data))
                self.done += 1
                if self.stopped.is_set():
                    return

    def copy(self, user, queue, source, connection, at, length):
        """Let the queue copy, and wait until it has."""
        user.write(user.buffer, b"".join(n.to_bytes(8, "little") for n in (at, at, length)))
        fields = {"handle": queue, "segment": source, "connection": connection}
        user.call("QUEUE_START", "mp_queue_start", **fields, count=1, copies=user.buffer)
        user.wait(queue, MP.EVENT_DONE)
        state = user.call("QUEUE", "mp_queue", handle=queue).state
        assert state == MP.QUEUE_DONE, state
