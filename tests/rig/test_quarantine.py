# SPDX-License-Identifier: GPL-2.0-only
"""Memory that a peer may still reach is nobody's, and counts for the user who has had it."""

import errno
from contextlib import contextmanager

import pytest
import sharing
from ntbrig import stack
from pximc import MODULES
from sharing import MP, fails
from shell import until

PAGE = 0x1000
NUMBER = 61
USER_MEMORY = 50


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    limits = {"mp_func_user": f"user_memory={USER_MEMORY}"}
    stack.load(*fabric.hosts, modules=MODULES, parameters=limits)
    return fabric


@contextmanager
def unreachable(guest, owner, interface):
    """Inside, the peer stands still, and its link has ended."""
    guest.freeze()
    try:
        owner.wait_until_up(interface, up=False)
        yield
    finally:
        guest.thaw()


def succeeds(call):
    """Whether there is room for it."""
    try:
        call()
    except OSError as error:
        assert error.errno == errno.EDQUOT
        return False
    return True


def test_a_segment_in_quarantine_counts_for_its_user(fabric):
    """Until the peer lets go of it: with its next epoch."""
    with sharing.pair(fabric) as (owner, back, user, there):
        total = owner.call("INTERFACE", "mp_interface", id=back).local_total
        more = {"length": total // 32, "id": NUMBER + 1, "id_more": 1000}
        make = lambda: owner.call("SEGMENT_CREATE", "mp_segment_create", **more)
        segment = owner.segment(NUMBER, total // 32, back)
        user.map_connection(user.connect(there, MP.OBJECT_SEGMENT, NUMBER))
        while succeeds(make):
            pass
        with unreachable(fabric.rp, owner, back):
            owner.remove(segment, MP.REMOVE_FORCE)
            with fails(errno.EDQUOT):
                make()
        owner.wait_until_up(back)
        until(lambda: succeeds(make))
        with fails(errno.EDQUOT):
            make()
