# SPDX-License-Identifier: GPL-2.0-only
"""Copies by queues, into and out of segments that no window has to lead to."""

import time

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import MIB, PATIENCE
from pximc import MODULES
from sharing import MP

NUMBER = 61


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


@pytest.fixture
def far(fabric):
    with sharing.pair(fabric) as both:
        yield both


@pytest.fixture(params=("another host", "the same host"))
def ends(request, fabric):
    with sharing.pair(fabric, request.param == "the same host") as both:
        yield both


def offered(owner, interface, length=MIB, number=NUMBER):
    """A segment over scattered pages of its process, and where these are."""
    return owner.segment_of_own_memory(number, length, interface, MP.PUBLISH_PLACED)


def placed(user, interface, number=NUMBER):
    return user.connect(interface, MP.OBJECT_SEGMENT, number, MP.CONNECT_PLACED)


def queue_of(user, interface):
    fields = {"interface": interface, "entries": MP.QUEUE_ENTRIES_MAX}
    return user.call("QUEUE_CREATE", "mp_queue_create", **fields).handle


def start(user, queue, segment, connection, *copies, flags=0):
    fields = {"handle": queue, "segment": segment, "connection": connection, "flags": flags}
    user.call("QUEUE_START", "mp_queue_start", **fields, **sharing.copy_list(user, *copies))


def ended(user, queue):
    """The state in which a queue ends."""
    deadline = time.monotonic_ns()
    assert user.wait(queue, MP.EVENT_DONE) == MP.EVENT_DONE
    assert time.monotonic_ns() - deadline < 30e9 * PATIENCE
    return user.call("QUEUE", "mp_queue", handle=queue).state


def copied(user, *how, **more):
    start(user, *how, **more)
    assert ended(user, how[0]) == MP.QUEUE_DONE


def prepared(user, interface, length, number):
    """A segment for copies, and where it is mapped."""
    fields = {"id": number, "length": length}
    segment = user.call("SEGMENT_CREATE", "mp_segment_create", **fields).handle
    user.at("PREPARE", segment, interface, MP.PUBLISH_PLACED)
    return segment, user.map_segment(segment)
