# SPDX-License-Identifier: GPL-2.0-only
"""Peers that lie: garbage in the memory that a peer can write, and a peer that
speaks another version of the protocol. It costs them their link, nobody else.
"""

import contextlib
import mmap
import os
import random
import struct
import subprocess
import threading
import time

import pytest
from ntbrig import RigError, qemu, stack
from ntbrig.settings import PATIENCE, programs_dir

from ether import stream
from frames import (
    TRANSPORT,
    Receivers,
    counters,
    peer_counter,
    peer_id,
    resets,
    send,
    wait_for_everyone,
    wait_for_peers,
    wait_until_received,
)

SLOT = 4 << 20
WINDOWS_PER_PEER = 2
STATUS_PAGE = 4096
# A Hello: its words, that with the feature bits, and that the writer obeys another root processor.
HELLO_WORDS = 16
FEATURES, OTHER_ROOT = 5, 1
RING_WORDS = range(0x200, 0x200 + 9 * 128, 8)
# What the peer has published in the control ring and in the first data ring. What it has given
# back is looked at only by a sender without room.
PUBLISHED = (0x200, 0x280)
RINGS = range(STATUS_PAGE, 2 << 20)
# A peer repeats its indices with every heartbeat, so half of the lies are gone before a host looks.
STORES = 20
# The peer that lies in all ways: for how long, and what its lies follow from.
LONG = os.environ.get("LONG") == "1"
LIES_SECONDS = float(os.environ.get("LIES_SECONDS") or (7200 if LONG else 20))
# How often it lies for so long, until streams of others have come to an end meanwhile.
LIES_RUNS = 4
LIES_SEED = int(os.environ.get("LIES_SEED") or (time.time_ns() if LONG else 1))


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    stack.load(*fabric.hosts, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    return fabric


@contextlib.contextmanager
def peers_memory(fabric, owner, sender):
    """What `sender` can write in `owner`'s RAM, as functions that store and load bytes."""
    index = sender.port - (sender.port > owner.port)
    base = fabric.settings.area_base + index * WINDOWS_PER_PEER * SLOT
    with open(qemu.ram_file(fabric.directory, owner.port), "r+b") as file:
        with mmap.mmap(file.fileno(), fabric.settings.ram) as ram:

            def store(offset, data):
                ram[base + offset : base + offset + len(data)] = data

            def load(offset, length):
                return ram[base + offset : base + offset + length]

            yield store, load


@contextlib.contextmanager
def inbound_memory(fabric, owner, sender):
    """The first of these."""
    with peers_memory(fabric, owner, sender) as (store, _):
        yield store


def mixed(word):
    """`mix` of the wire format."""
    word ^= word >> 32
    word = word * 0xD6E8_FEB8_6659_FD93 % 2**64
    word ^= word >> 29
    word = word * 0xA076_1D64_78BD_642F % 2**64
    return word ^ word >> 32


def sealed(words):
    """A Hello with the seal behind its words."""
    seal = 1
    for word in words:
        seal = (mixed(seal ^ word) + seal) % 2**64
    return struct.pack(f"<{HELLO_WORDS}Q", *words, seal)


def expect_traffic(sender, receiver, count=100):
    with Receivers(receiver):
        sent = send(sender, peer_id(receiver), count, 2000)
        seen = wait_until_received(receiver, count)
    assert (sent["sent_failed"], seen["received"], seen["corrupt"]) == (0, count, 0)


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(word, marks=[] if word == PUBLISHED[0] else pytest.mark.long)
        for word in PUBLISHED
    ],
)
def test_an_impossible_index_costs_the_link_its_epoch_and_no_more(fabric, word):
    rp, ep1, ep2 = fabric.hosts
    before = resets(rp, ep1)
    with Receivers(rp, ep2), inbound_memory(fabric, rp, ep1) as store:
        for _ in range(STORES):
            store(word, random.Random(word).randbytes(8))
            time.sleep(0.2)
            if resets(rp, ep1) != before:
                break
        assert counters(ep2)["peers_removed"] == 0
    wait_for_everyone(*fabric.hosts, timeout=5)
    assert resets(rp, ep1) == before + 1
    expect_traffic(ep1, rp)
    expect_traffic(rp, ep1)


def test_a_peer_that_changes_sides_and_comes_back_is_entered_in_a_new_epoch(fabric):
    """It says that it obeys another root processor until its next own Hello: nothing of what it
    sends to the one is delivered by the other, and it is entered again."""
    rp, ep1, _ = fabric.hosts
    before = resets(rp, ep1)
    with peers_memory(fabric, rp, ep1) as (store, load):
        *words, seal = struct.unpack(f"<{HELLO_WORDS}Q", load(0, 8 * HELLO_WORDS))
        assert sealed(words) == struct.pack(f"<{HELLO_WORDS}Q", *words, seal)
        words[FEATURES] |= OTHER_ROOT
        for _ in range(STORES):
            for _ in range(50):
                store(0, sealed(words))
                time.sleep(0.002)
            if resets(rp, ep1) != before:
                break
    wait_for_everyone(*fabric.hosts, timeout=5)
    assert resets(rp, ep1) == before + 1
    assert rp.run("dmesg | grep 'cannot be entered'", check=False).out == ""
    expect_traffic(ep1, rp)
    expect_traffic(rp, ep1)


def test_garbage_in_rings_and_control_words_under_traffic_is_survived(fabric):
    """IDT-EP-4, SI-NTB-3: the lengths of records as well as the indices of rings."""
    rp, ep1, ep2 = fabric.hosts
    earlier = resets(rp, ep1)
    order = f"dst={peer_id(rp)} count=100000000 size=3000"
    rng = random.Random(1)
    stack.load(ep1, ep2, modules=("mp_func_test",), parameters={"mp_func_test": order})
    try:
        with Receivers(rp), inbound_memory(fabric, rp, ep1) as store:
            wait_until_received(rp, 100)
            end = time.monotonic() + 2
            while time.monotonic() < end:
                store(rng.choice(RING_WORDS), rng.randbytes(8))
                store(rng.choice(RINGS) & ~63, rng.randbytes(64))
                store(rng.randrange(0, 128) & ~7, rng.randbytes(8))
                time.sleep(0.002)
            before = counters(rp)["received"]
            assert wait_until_received(rp, before + 1000)["received"] >= before + 1000
    finally:
        stack.unload(ep1, ep2, modules=("mp_func_test",))
    wait_for_everyone(*fabric.hosts, timeout=10)
    assert resets(rp, ep1) > earlier
    expect_traffic(ep1, rp)
    expect_traffic(ep2, rp)
    expect_traffic(rp, ep1)


class Streams:
    """Verified streams between two hosts, both ways, again and again."""

    def __init__(self, *guests):
        self.pairs = [guests, guests[::-1]]
        self.rounds = [0, 0]
        self.errors = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,), daemon=True) for n in (0, 1)]

    def run(self, number):
        source, sink = self.pairs[number]
        try:
            while not self.stopped.is_set():
                stream(source, sink, mib=4)
                self.rounds[number] += 1
        except BaseException as error:
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(120 * PATIENCE)


def hostile_peer(fabric, victim, liar, seed, seconds):
    """The command that lies to one host in the name of another one."""
    program = programs_dir() / "hostile-peer"
    if not program.exists():
        raise RigError(f"{program} is missing: run `make rig`")
    index = liar.port - (liar.port > victim.port)
    place = fabric.settings.area_base + index * WINDOWS_PER_PEER * SLOT
    queues = peer_counter(victim, peer_id(liar), "queues")
    (board,) = fabric.settings.boards
    server = qemu.board_directory(fabric.directory, board) / "control.sock"
    return [
        program, "--ram", qemu.ram_file(fabric.directory, victim.port), "--at", place,
        "--len", SLOT, "--server", server, "--victim", victim.port, "--liar", liar.port,
        "--queues", queues, "--vectors", fabric.settings.vectors,
        "--seed", seed, "--seconds", seconds,
    ]  # fmt: skip


def lie(command, streams):
    """Run it for as long as the streams go on; return what it has told."""
    start = time.monotonic()
    with subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as liar:  # fmt: skip
        try:
            while liar.poll() is None:
                after = time.monotonic() - start
                assert not streams.errors, f"after {after:.0f} s: {streams.errors}"
                assert after < 60 + 2 * LIES_SECONDS
                time.sleep(0.5)
        finally:
            liar.kill()
        told = liar.stdout.read()
    assert liar.returncode == 0, told
    return told


@pytest.mark.timeout(900 + 2 * LIES_SECONDS)
def test_a_peer_that_lies_costs_its_own_link_and_no_other(fabric):
    """Whatever it writes at whatever time, the victim goes on, says why it has reset the link,
    and traffic with the other host never stops."""
    rp, ep1, ep2 = fabric.hosts
    print(f"LIES_SEED={LIES_SEED} LIES_SECONDS={LIES_SECONDS:.0f}")
    stack.load(*fabric.hosts, modules=("mp_func_user", "mp_func_ether"))
    stack.configure(*fabric.hosts)
    stack.wait_for_carrier(*fabric.hosts)
    before = resets(rp, ep1)
    rp.run("dmesg -C")
    with Streams(rp, ep2) as streams:
        while min(streams.rounds) == 0 and not streams.errors:
            time.sleep(0.05)
        start = list(streams.rounds)
        told, seconds = "", 0
        for seed in range(LIES_SEED, LIES_SEED + LIES_RUNS):
            told += lie(hostile_peer(fabric, rp, ep1, seed, LIES_SECONDS), streams)
            seconds += LIES_SECONDS
            during = [end - begin for begin, end in zip(start, streams.rounds)]
            if min(during) > 0:
                break
    assert not streams.errors, streams.errors
    assert min(during) > 0, during
    log = rp.run("dmesg").out
    wait_for_everyone(*fabric.hosts, timeout=20)
    count = resets(rp, ep1) - before
    said = log.count("impossible value")
    lines = len(log.splitlines())
    print(f"{told}{count} resets, {said} said so in {lines} lines, streams: {during}")
    assert count > 0 and said > 0, log
    # No liar fills the log: each reset takes a few lines, and pauses between them grow to a second.
    assert count <= 2 + 2 * seconds, log
    assert lines <= 100 + 6 * count, log
    # The other host has not noticed anything, and the liar's host gets on again.
    assert resets(rp, ep2) == 0
    stack.unload(*fabric.hosts, modules=("mp_func_user", "mp_func_ether"))
    expect_traffic(ep1, rp)
    expect_traffic(rp, ep1)
    expect_traffic(ep2, rp)


def test_a_hung_peer_is_noticed_and_returns_in_a_new_epoch(fabric):
    rp, ep1, ep2 = fabric.hosts
    ep2.freeze()
    try:
        wait_for_everyone(rp, ep1, timeout=5)
        expect_traffic(rp, ep1)
    finally:
        ep2.thaw()
    wait_for_everyone(*fabric.hosts, timeout=5)
    expect_traffic(ep2, rp)


def test_a_peer_of_another_version_is_named_once(fabric):
    """SI-NTB-1"""
    rp, _, ep2 = fabric.hosts
    stack.unload(ep2, modules=("pximc_ntb",))
    wait_for_peers(rp, 1)
    # The liar of an earlier test may have said the same.
    told = "dmesg | grep -c 'has bootstrap version 2'"
    earlier = int(rp.run(told, check=False).out)
    kernel = fabric.settings.kernel_dir
    ep2.run(f"insmod {kernel}/drivers/ntb/test/ntb_tool.ko")
    tool = "/sys/kernel/debug/ntb_tool/*"
    # The mailbox of port 2 in the RP's scratchpads, with version 2 in its first word.
    for pad, word in ((9, 0x400), (10, 0), (11, 0), (8, 0xB7201234)):
        ep2.run(f"for f in {tool}/peer0/spad{pad}; do echo {word:#x} > $f; done")
    ep2.run(f"for f in {tool}/link; do echo Y > $f; done")
    stack.wait_until(f"[ $({told}) -gt {earlier} ]", rp, timeout=10)
    time.sleep(0.5)
    assert int(rp.run(told).out) == earlier + 1
    expect_traffic(rp, fabric.hosts[1])
    ep2.run("rmmod ntb_tool")
    stack.load(ep2, modules=("pximc_ntb",))
    wait_for_everyone(*fabric.hosts)
