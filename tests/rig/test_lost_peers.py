# SPDX-License-Identifier: GPL-2.0-only
"""Memory of a session whose peer is lost: as long as that one may store there it is nobody's, who
ever has ended what it was for.

Each bridge has one window, so segments of the host are cut of the same memory as the session's.
"""

import errno
import struct
import time
from contextlib import contextmanager

import pytest
import sharing
from liar import CLOSE, FUNC, PAIRED, UNPOSTED, Liar
from ntbrig import stack
from ntbrig.settings import PATIENCE
from pximc import MODULES
from sharing import MP
from shell import INTACT
from test_acceptance import Party
from test_short_peers import THEIRS, UID, posted, reserved

pytestmark = pytest.mark.alone

PAGE, LENGTH, PIECE = 0x1000, 0x8000, 0x4000
TIMEOUT_MS = int(5_000 * PATIENCE)
BRIDGE = {"ntb_hw_ivshmem": "mw_count=1", "pximc_ntb": f"timeout_ms={TIMEOUT_MS}"}
LIMITS = {"mp_func_user": "user_memory=100"}
ITS_SERVICE = {"mp_frame_test": f"func={FUNC}"}
NUMBER = 900
STORED = 0xA5
# A process stores for longer than its host stands still.
STORM_MS = int(120_000 * PATIENCE)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters=BRIDGE | LIMITS)
    return fabric


def session(process, interface, role, **fields):
    fields |= {"role": role, "location": MP.LOCATION_LOGICAL, "protocol": 9}
    return process.call("SESSION_OPEN", "mp_session_open", interface=interface, **fields).handle


def windows(process, handle):
    return process.call("SESSION", "mp_session", handle=handle)


@contextmanager
def storing(owner, back, user, there):
    """Inside, a host stands still whose process stores into a window of a session, which is told."""
    near = session(owner, back, MP.ROLE_SERVER, local_min=LENGTH, local_max=LENGTH)
    far = session(user, there, MP.ROLE_CLIENT, remote_min=LENGTH, remote_max=LENGTH)
    owner.wait(near, MP.EVENT_PAIRED)
    user.wait(far, MP.EVENT_PAIRED)
    local, remote = windows(owner, near), windows(user, far)
    memory = owner.map(local.local_offset, LENGTH)
    at = user.map(remote.remote_offset, LENGTH)
    user.command("&", lambda _: None, "storm", at, LENGTH, STORED, STORM_MS)
    end = time.monotonic() + 20 * PATIENCE
    while owner.same(memory, LENGTH, STORED) != INTACT:
        assert time.monotonic() < end, "nobody stores"
    user.guest.freeze()
    try:
        yield near
    finally:
        user.guest.thaw()


def segments_of(process, length):
    """Segments of so many bytes, until no memory has room for another one."""
    fields = {"id": NUMBER, "id_more": 10_000, "length": length}
    made = []
    while True:
        try:
            made.append(process.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            return made


def all_that_is_free(process):
    """Segments of as much memory as there is: where they are mapped, and how long they are."""
    made = [(handle, length) for length in (PIECE, PAGE) for handle in segments_of(process, length)]
    return [(process.map_segment(handle), length) for handle, length in made]


def free_bytes(process):
    return sum(length for _, length in all_that_is_free(process))


@pytest.mark.parametrize("ends", ["its process has ended", "it was closed before the link has ended"])
def test_nobody_is_given_what_a_lost_peer_may_store_into(fabric, ends):
    """The link has ended here, then the process; the peer's goes on where it was."""
    user_host, host = fabric.hosts
    with sharing.Process(host) as process:
        process.wait_until_up(process.interface())
        whole = free_bytes(process)
    with sharing.Process(user_host) as user, sharing.Process(host) as owner:
        there, back = user.interface(), owner.interface()
        user.wait_until_up(there)
        owner.wait_until_up(back)
        with sharing.Process(host) as other:
            with storing(owner, back, user, there) as session:
                if ends.startswith("it was closed"):
                    owner.close(session)
                owner.wait_until_up(back, up=False, timeout=60)
                owner.exit()
                segments = all_that_is_free(other)
                assert sum(length for _, length in segments) == whole - LENGTH
            other.wait_until_up(other.interface(), timeout=60)
            for memory, length in segments:
                assert other.scan(memory, length) == 0


def paired(process, peer):
    """The liar has a page of a session's that it may store to."""
    party = Party(process, process.interface())
    handle, number = posted(party, peer)
    words = struct.pack("<2I4Q", THEIRS, UID, 0, 0, reserved(peer, number), PAGE)
    peer.say_of(number, PAIRED | UNPOSTED, words)
    party.wait(handle, MP.EVENT_PAIRED)


def loaded(guest):
    """The modules that are loaded, the first one first."""
    names = guest.run("cut -d ' ' -f 1 /proc/modules").out.split()
    return [name for name in MODULES if name in names]


def free_on(host):
    with sharing.Process(host) as process:
        return free_bytes(process)


@contextmanager
def anew(fabric):
    """Inside, a host's service was loaded anew that has granted a page before, which the liar has not
    let go of; and how much was free before that."""
    liar, host = fabric.hosts
    stack.unload(liar, modules=loaded(liar))
    with Liar(liar, host, parameters=BRIDGE) as peer:
        peer.greet()
        whole = free_on(host)
        with sharing.Process(host) as process:
            paired(process, peer)
        peer.hear_of_session(CLOSE)
        stack.unload(host, modules=("mp_func_user",))
        stack.load(host, modules=("mp_func_user",), parameters=LIMITS)
        assert free_on(host) == whole - PAGE
        yield peer, whole


def test_a_service_that_is_loaded_anew_gives_nobody_what_the_peer_has_not_let_go_of(fabric):
    """The session's process has ended, of which the peer has not said anything. It has let go when it
    begins another epoch."""
    with anew(fabric) as (peer, whole):
        liar, host = fabric.hosts
        stack.unload(liar, modules=("mp_frame_test", "pximc_ntb"))
        below = BRIDGE | ITS_SERVICE
        stack.load(liar, modules=("pximc_ntb", "mp_frame_test"), parameters=below)
        peer.greet()
        assert free_on(host) == whole


def test_what_a_service_has_granted_is_free_when_the_peers_has_begun_anew(fabric):
    """In the same epoch: the peer's service has heard of this one, and answers."""
    with anew(fabric) as (peer, whole):
        peer.greet()
        assert free_on(fabric.hosts[1]) == whole
