# SPDX-License-Identifier: GPL-2.0-only
"""A peer whose user service is another one: what lies in the frames of placed transfers stores and
reads nothing that it was not granted, and whoever waits for it is told so; what speaks other
versions stays apart. A third host does not notice.
"""

import struct
import time

import pytest
import sharing
from copies import NUMBER, copied, ended, offered, placed, prepared, queue_of, start
from frames import TRANSPORT, peer_id, resets, wait_for_everyone
from liar import (
    CONNECT,
    ENDED,
    EXCHANGE,
    FETCH,
    GONE,
    HELLO,
    LIFE,
    PIECE,
    PLACED,
    SEGMENT,
    SHARING,
    Liar,
)
from memory import grown, lasting
from ntbrig import stack
from ntbrig.settings import PATIENCE
from sharing import MP
from shell import INTACT

PAGE, KIB = 0x1000, 1 << 10
# Of a connection of the liar.
MINE = 0x1234
LENGTH = 3 * PAGE
QUIET = 99
# How often a service says the same, and fewer bytes than room for an answer takes.
GREETINGS, BYTES_EACH = 5_000, 64


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=3)
    victim, liar, honest = fabric.hosts
    stack.load(victim, liar, honest, modules=TRANSPORT)
    wait_for_everyone(*fabric.hosts)
    stack.load(victim, honest, modules=("mp_func_user",))
    stack.unload(liar, modules=TRANSPORT)
    return fabric


def interface_to(process, guest):
    """The interface to a host; none if there is no service that it speaks with."""
    wanted = peer_id(guest)
    for interface in process.interfaces():
        if process.call("INTERFACE", "mp_interface", id=interface).peer == wanted:
            return interface
    return None


def towards(process, guest):
    """The interface to a host, when it is up."""
    interface = interface_to(process, guest)
    assert interface is not None, f"no interface leads to {guest}"
    process.wait_until_up(interface)
    return interface


@pytest.fixture
def scene(fabric):
    """A process of the victim, its interface to the liar, and the liar."""
    victim, liar, _ = fabric.hosts
    with Liar(liar, victim) as peer:
        peer.greet()
        with sharing.Process(victim) as process:
            yield process, towards(process, liar), peer


@pytest.fixture(autouse=True)
def others(fabric):
    """The third host copies as before, and its link is what it was."""
    victim, _, honest = fabric.hosts
    before = resets(victim, honest)
    yield
    with sharing.Process(victim) as owner, sharing.Process(honest) as user:
        there, back = towards(user, victim), towards(owner, honest)
        _, memory = offered(owner, back, LENGTH)
        own, local = prepared(user, there, LENGTH, 62)
        user.fill(local, LENGTH, 3)
        connection = placed(user, there)
        copied(user, queue_of(user, there), own, connection, (0, 0, LENGTH))
        assert owner.check(memory, LENGTH, 3) == INTACT
    assert resets(victim, honest) == before


class Early(Liar):
    """Its first Hello meets no service; that comes behind it."""

    is_met = False

    def hello(self, seen=0):
        super().hello(seen)
        if not self.is_met:
            self.flush()
            stack.load(self.victim, modules=("mp_func_user",))
            self.is_met = True


def test_a_service_that_comes_later_is_met(fabric):
    victim, liar, _ = fabric.hosts
    with Early(liar, victim) as peer:
        stack.unload(victim, modules=("mp_func_user",))
        peer.greet()
        peer.connect_to_nothing(MINE)


@pytest.mark.parametrize(("version", "old"), ((1, "the peer"), (3, "this host")))
def test_a_service_of_other_versions_is_named_once_and_stays_apart(fabric, version, old):
    """It is told which host needs a newer release. Its link and its frames are as before."""
    victim, liar, _ = fabric.hosts
    told = (
        f"dmesg | grep -c 'mp_func_user speaks versions {version} to {version}, this host.s 2 to 2:"
        f" load a newer release on {old}'; true"
    )
    with Liar(liar, victim, support=version << 8 | version) as peer:
        peer.hello_until(lambda: int(victim.run(told).out))
        while peer.receive()[0][0] != HELLO:
            pass
        # What it says is not heard, whether it claims to know the other service or not.
        peer.life = LIFE
        for seen in (0, LIFE):
            peer.hello(seen)
            peer.say(CONNECT | SEGMENT, MINE, struct.pack("<I", NUMBER))
        peer.flush()
        with sharing.Process(victim) as process:
            assert interface_to(process, liar) is None
        peer.flush()
        assert SHARING not in peer.kinds()
        assert int(victim.run(told).out) == 1


def test_a_service_that_greets_for_ever_takes_no_memory(fabric, scene):
    """What it says is known: there is no answer, and no room is kept for one."""
    victim, _, _ = fabric.hosts
    _, _, peer = scene
    peer.hello(peer.life)
    peer.again(GREETINGS // 10)
    before = lasting(victim)
    peer.hello(peer.life)
    peer.again(GREETINGS)
    # It has heard all of them.
    peer.connect_to_nothing(MINE)
    assert grown(victim, before)["SUnreclaim"] < GREETINGS * BYTES_EACH


def in_the_middle(process, interface, flags=0):
    """A segment over a part of memory that is not all of it, and where all of it is."""
    memory = process.memory(3 * LENGTH)
    process.fill(memory, 3 * LENGTH, QUIET)
    fields = {"id": NUMBER, "length": LENGTH, "flags": MP.SEGMENT_EMPTY}
    segment = process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    fields = {"handle": segment, "address": memory + LENGTH, "length": LENGTH, "flags": flags}
    process.call("SEGMENT_REGISTER", "mp_segment_register", **fields)
    for what in ("PREPARE", "PUBLISH"):
        process.at(what, segment, interface, MP.PUBLISH_PLACED)
    return segment, memory


def assert_untouched(process, memory):
    assert process.check(memory, 3 * LENGTH, QUIET) == INTACT


def test_what_is_written_elsewhere_is_not_stored(scene):
    process, interface, peer = scene
    _, memory = in_the_middle(process, interface)
    assert peer.connect(MINE, NUMBER) == LENGTH
    whole = (1 << 64) - 1
    lies = [(LENGTH - 2, b"over"), (LENGTH, b"behind"), (whole - 3, b"turns around"), (whole, b"")]
    for at, data in lies:
        peer.put(MINE, at, data)
    # Too short to say where.
    peer.send((8, peer.life, MINE, 0), b"short")
    # Of connections that are none, and of another life.
    peer.put(MINE + 1, 0, b"stranger")
    peer.put(MINE, 0, b"another life", life=peer.life ^ 1)
    # More than the segment has.
    peer.put(MINE, 0, b"", length=LENGTH + 9)
    seen = (0, 0)
    while seen[0] < len(lies) + 2:
        seen = peer.totals(MINE)
    assert seen == (len(lies) + 2, len(lies) + 2)
    assert_untouched(process, memory)
    # What it may, it may as before.
    peer.put(MINE, LENGTH - 4, b"last")
    assert peer.totals(MINE) == (len(lies) + 3, len(lies) + 2)
    assert process.read(memory + 2 * LENGTH - 4, 4) == b"last"


def test_what_is_only_read_is_not_written(scene):
    process, interface, peer = scene
    _, memory = in_the_middle(process, interface, MP.REGISTER_READ_ONLY)
    peer.connect(MINE, NUMBER)
    peer.put(MINE, 0, b"a gift")
    assert peer.totals(MINE) == (1, 1)
    assert_untouched(process, memory)
    peer.fetch(MINE, 0, 8, 0)
    assert peer.next_fetched(MINE) == (0, process.read(memory + LENGTH, 8))


def test_words_that_are_not_granted_are_not_exchanged(scene):
    process, interface, peer = scene
    _, memory = in_the_middle(process, interface)
    peer.connect(MINE, NUMBER)
    held = struct.unpack("=Q", process.read(memory + LENGTH, 8))[0]
    whole = (1 << 64) - 1
    lies = (LENGTH - 4, LENGTH, whole - 7, whole, 4, 1)
    for at in lies:
        peer.exchange(MINE, at, held, 0)
    # Less and more than an exchange.
    for length in (8, 16, 23, 25, 1000):
        peer.send((EXCHANGE, peer.life, MINE, 0), struct.pack("<3Q", 0, held, 0)[:length], length=length)
    # Of connections that are none, and of another life.
    peer.exchange(MINE + 1, 0, held, 0)
    peer.exchange(MINE, 0, held, 0, life=peer.life ^ 1)
    count = len(lies) + 5
    seen = (0,)
    while seen[0] < count:
        seen = peer.exchanges(MINE)
    assert seen == (count, 0, 0, count)
    # Another value is one that it does not have.
    peer.exchange(MINE, 0, held ^ 1, 0)
    assert peer.exchanges(MINE) == (count + 1, 0, 1, count)
    assert_untouched(process, memory)
    peer.exchange(MINE, 0, held, 7)
    assert peer.exchanges(MINE) == (count + 2, 0, 1, count)
    assert process.read(memory + LENGTH, 8) == struct.pack("=Q", 7)


def test_a_word_that_is_only_read_is_not_exchanged(scene):
    process, interface, peer = scene
    _, memory = in_the_middle(process, interface, MP.REGISTER_READ_ONLY)
    peer.connect(MINE, NUMBER)
    held = struct.unpack("=Q", process.read(memory + LENGTH, 8))[0]
    # Nor is it told whether it was right.
    for expected in (held, held ^ 1):
        peer.exchange(MINE, 0, expected, 0)
    seen = (0,)
    while seen[0] < 2:
        seen = peer.exchanges(MINE)
    assert seen == (2, 0, 0, 2)
    assert_untouched(process, memory)


def test_a_word_that_nobody_has_exchanged_is_told_by_nobody(scene):
    """What a service tells of exchanges that are not under way changes nothing."""
    process, interface, peer = scene
    *_, connection, _ = reading(process, interface, peer)
    for told in ((1, 0, 1, 0), (1, 0, 0, 1), (0, 0, 1, 0)):
        peer.say(PLACED, connection, struct.pack("<4I", *told))
    peer.flush()
    fields = {"connection": connection, "deadline": sharing.FOREVER}
    asked = process.later("EXCHANGE", "mp_exchange", expected=1, desired=2, **fields)
    while peer.receive()[0][0] != EXCHANGE:
        pass
    # Two of one, and none of it.
    for told in ((1, 0, 1, 1), (1, 0, 2, 0), (1, 1, 1, 0), (2, 0, 0, 0)):
        peer.say(PLACED, connection, struct.pack("<4I", *told))
    peer.say(PLACED, connection, struct.pack("<4I", 1, 0, 1, 0))
    peer.flush()
    assert asked.result().exchanged == 0


def test_what_is_asked_for_beyond_measure_is_not_sent(scene):
    process, interface, peer = scene
    _, memory = in_the_middle(process, interface)
    peer.connect(MINE, NUMBER)
    # Nothing, and more than a piece, are no requests at all.
    for length in (0, PIECE + 1, (1 << 32) - 1):
        peer.fetch(MINE, 77, length, 0)
    peer.fetch(MINE + 1, 78, 8, 0)
    for piece, at in enumerate((LENGTH - 4, LENGTH, (1 << 64) - 4)):
        peer.fetch(MINE, piece, 8, at)
        assert peer.next_fetched(MINE) == (piece, b"")
    # As often as it likes: what there is no room for is dropped.
    for piece in range(100, 140):
        peer.fetch(MINE, piece, 8, 0)
    answered = []
    while not answered or answered[-1] != 200:
        # There is room again after each answer.
        peer.fetch(MINE, 200, 8, LENGTH - 8)
        piece, data = peer.next_fetched(MINE)
        assert data == process.read(memory + LENGTH, 8) or piece == 200
        answered.append(piece)
    assert answered == sorted(set(answered))


def test_nothing_is_stored_or_sent_after_a_revocation(scene):
    process, interface, peer = scene
    segment, memory = in_the_middle(process, interface)
    peer.connect(MINE, NUMBER)
    peer.put(MINE, 0, process.read(memory + LENGTH, 8))
    assert peer.totals(MINE) == (1, 0)
    fields = {"handle": segment, "interface": interface, "flags": MP.WITHDRAW_FORCE}
    withdrawn = process.later("SEGMENT_WITHDRAW", "mp_segment_interface", **fields)
    peer.hear(ENDED)
    # It has not let go, and says so only in the end.
    for _ in range(3):
        peer.put(MINE, 0, b"afterwards")
        peer.fetch(MINE, 0, 8, 0)
    peer.say(GONE, MINE)
    peer.flush()
    withdrawn.result()
    peer.put(MINE, 0, b"afterwards")
    peer.fetch(MINE, 0, 8, 0)
    with pytest.raises(AssertionError, match="nothing has arrived"):
        peer.next_fetched(MINE, timeout=1)
    assert_untouched(process, memory)


def reading(process, interface, peer, length=8 * KIB):
    """A copy out of a segment that the liar has, with where it goes."""
    target = process.call("SEGMENT_CREATE", "mp_segment_create", id=62, length=length).handle
    process.at("PREPARE", target, interface, MP.PUBLISH_PLACED)
    local = process.map_segment(target)
    process.fill(local, length, QUIET)
    fields = {"interface": interface, "object": MP.OBJECT_SEGMENT, "number": NUMBER}
    fields |= {"flags": MP.CONNECT_PLACED, "deadline": sharing.FOREVER}
    connecting = process.later("CONNECT", "mp_connect", **fields)
    number = peer.accept(1 << 20)
    connection = connecting.result().handle
    assert number == connection
    queue = queue_of(process, interface)
    return target, local, connection, queue


def test_what_was_not_asked_for_is_not_stored(scene):
    process, interface, peer = scene
    length = 8 * KIB
    target, local, connection, queue = reading(process, interface, peer)
    half = length // 2
    peer.fetched(connection, 0, b"nobody asks")
    peer.flush()
    start(process, queue, target, connection, (0, 0, half), flags=MP.QUEUE_READ)
    _, _, rest = peer.hear(FETCH)
    piece, wanted, at = struct.unpack_from("<2IQ", rest)
    assert (wanted, at) == (half, 0)
    peer.fetched(connection, piece + 1, b"another piece")
    peer.fetched(connection + 1, piece, b"another connection")
    peer.say(PLACED, connection, struct.pack("<2I", 1000, 0))
    peer.flush()
    assert process.check(local, length, QUIET) == INTACT
    # More than was asked for.
    peer.fetched(connection, piece, b"x" * 100, length=length)
    peer.flush()
    assert ended(process, queue) == MP.QUEUE_ERROR
    assert process.check(local, length, QUIET) == INTACT
    # It may answer properly then.
    start(process, queue, target, connection, (0, 0, 5), flags=MP.QUEUE_READ)
    _, _, rest = peer.hear(FETCH)
    peer.fetched(connection, struct.unpack_from("<I", rest)[0], b"truth")
    peer.flush()
    assert ended(process, queue) == MP.QUEUE_DONE
    assert process.read(local, 5) == b"truth"


@pytest.mark.parametrize("flags", [0, MP.QUEUE_READ], ids=["writes", "reads"])
def test_a_host_that_deals_with_nothing_loses_its_link(fabric, scene, flags):
    """What is under way ends with it, and later copies have all the room there is."""
    process, interface, peer = scene
    victim, liar, _ = fabric.hosts
    before = resets(victim, liar)
    target, local, connection, queue = reading(process, interface, peer)
    start(process, queue, target, connection, *[(0, 0, 8 * KIB)] * 20, flags=flags)
    assert ended(process, queue) == MP.QUEUE_ERROR
    assert process.notice(connection) == MP.NOTICE_DOWN
    # The interface says whose it is once it is up again.
    end = time.monotonic() + 10 * PATIENCE
    while resets(victim, liar) <= before:
        assert time.monotonic() < end, "the link was not reset"
        time.sleep(0.1)
    assert process.check(local, 8 * KIB, QUIET) == INTACT
