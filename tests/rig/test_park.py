# SPDX-License-Identifier: GPL-2.0-only
"""MP_IOC_PARK: a process sleeps until its partner on the other host has stored something. No
wake-up is lost although stores take their time on the bridge, and a sleeper uses no processor
time."""

import errno
import json
import time

import pytest
import sharing
from ntbrig import stack
from ntbrig.settings import PATIENCE, programs_dir
from pximc import MODULES
from sharing import FOREVER, MP, PAST, fails
from tracing import usage

pytestmark = pytest.mark.alone

NAME = "parked"
# Words of the kernel take so long to the other host, as on a bridge.
POSTED_US = 100
ROUNDS = 3000
WINDOW = 8192
WORD, ARM = 256, 512


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(
        *fabric.hosts, modules=MODULES, parameters={"mp_kernel": f"posted_us={POSTED_US}"}
    )
    return fabric


def program(*words):
    return [programs_dir() / "examples" / NAME, *words]


def play(fabric, *words):
    """What both sides tell of a game: the server's and the client's."""
    rp, ep = fabric.hosts
    server = ep.spawn(program("server"), timeout=120 * PATIENCE)
    client = rp.run(program("client", ROUNDS, *words), timeout=120 * PATIENCE)
    return json.loads(server.wait().check().out), json.loads(client.out)


def test_no_wake_up_is_lost_on_a_bridge_that_takes_its_time(fabric):
    told = play(fabric)
    print(told)
    for side in told:
        assert side["rounds"] == ROUNDS
        # It has slept in a good part of the rounds: there was something to lose.
        assert side["parked"] > ROUNDS / 10


def test_without_the_answer_of_the_other_host_wake_ups_get_lost(fabric):
    """What the test above would find."""
    _, client = play(fabric, 0, "blind")
    print(client)
    assert client["lost"] == 1


def test_sleepers_use_no_processor_time(fabric):
    """After 10 ms without a message, for a second."""
    rp, ep = fabric.hosts
    server = ep.spawn(program("server"), timeout=120 * PATIENCE)
    client = rp.spawn(program("client", 100, int(10 * PATIENCE)), timeout=120 * PATIENCE)
    client.wait_for_output('"parked"', timeout=60 * PATIENCE)
    sides = ((ep, server.pid), (rp, client.pid))
    rp.run("sleep 0.01")
    before = [usage(*side) for side in sides]
    rp.run("sleep 1")
    assert [usage(*side) for side in sides] == before
    assert not server.ended()
    assert not client.ended()
    client.wait().check()
    server.wait().check()


def test_a_queue_pair_without_messages_uses_no_processor_time(fabric):
    """Its partner is stopped, and sends nothing."""
    rp, ep = fabric.hosts
    both = ["--sleep", "--patience", int(60 * PATIENCE)]
    pingpong = programs_dir() / "examples" / "qp_pingpong"
    server = ep.spawn([pingpong, "server", *both], timeout=120 * PATIENCE)
    # More rounds than fit into the time that it is given.
    options = ["--messages", 100, "--rounds", 200_000_000]
    client = rp.spawn([pingpong, "client", *both, *options], timeout=120 * PATIENCE)
    try:
        stopped_partner(rp, client, ep, server)
    finally:
        client.kill()
        server.kill()
        client.wait()
        server.wait()


def stopped_partner(rp, client, ep, server):
    """A server is at rest once its client is stopped."""
    while not client.pid or not server.pid:
        assert not client.ended(), client.wait()
    # Until they are at it.
    rp.run(f"sleep {2 * PATIENCE}")
    assert not client.ended(), client.wait()
    moving = usage(ep, server.pid)
    rp.run("sleep 0.2")
    assert usage(ep, server.pid) != moving
    rp.run(f"kill -STOP {client.pid}")
    # What it has sent is received, and answered, and then looked for for a while.
    rp.run(f"sleep {PATIENCE}")
    before = usage(ep, server.pid)
    rp.run("sleep 1")
    assert usage(ep, server.pid) == before


# --- what a call tells


@pytest.fixture(params=("other host", "own host"))
def paired(request, fabric):
    """Two processes with a session; each with its handle and its windows' addresses."""
    same = request.param == "own host"
    with sharing.pair(fabric, same=same) as (owner, back, user, there):
        fields = {"location": 1, "protocol": 0xF1110007, "local_max": WINDOW, "remote_max": WINDOW}
        for process, at, role in ((owner, back, 1), (user, there, 2)):
            opened = process.call("SESSION_OPEN", "mp_session_open", role=role, interface=at, **fields)
            process.session = opened.handle
        for process in (owner, user):
            process.wait(process.session, MP.EVENT_PAIRED)
            told = process.call("SESSION", "mp_session", handle=process.session)
            process.near = process.map(told.local_offset, WINDOW)
            process.far = process.map(told.remote_offset, WINDOW)
        yield owner, user


def word(value):
    return value.to_bytes(8, "little")


def entry(process, **fields):
    data, _ = process._structure(
        "mp_park_entry", {"handle": process.session, "word": WORD, "arm": ARM, **fields}
    )
    # It has no size of its own.
    return bytes.fromhex(data)


def fields_of(process, *entries, flags=0, deadline=FOREVER):
    process.write(process.buffer, b"".join(entries))
    return {
        "entries": process.buffer,
        "count": len(entries),
        "flags": flags,
        "deadline": deadline,
    }


def park(process, *entries, **how):
    told = process.call("PARK", "mp_park", **fields_of(process, *entries, **how))
    return told.index, told.events


def armed(process):
    return int.from_bytes(process.read(process.near + ARM, 8), "little")


def wait_until_armed(process, value=5):
    end = time.monotonic() + 20 * PATIENCE
    while armed(process) != value:
        assert time.monotonic() < end, "nobody has armed the word"


def test_a_sleeper_wakes_by_a_signal_and_takes_it(paired):
    owner, user = paired
    fields = fields_of(user, entry(user, arm_value=5))
    call = user.later("PARK", "mp_park", **fields)
    wait_until_armed(owner)
    owner.signal(owner.session)
    told = call.result()
    assert (told.index, told.events) == (0, MP.EVENT_SIGNAL)
    assert user.call("SESSION", "mp_session", handle=user.session).events == MP.EVENT_PAIRED


def test_what_has_changed_before_is_told_at_once_and_nothing_is_armed(paired):
    owner, user = paired
    owner.write(owner.far + WORD, word(9))
    assert park(user, entry(user, arm_value=5)) == (0, MP.PARK_CHANGED)
    assert armed(owner) == 0
    late = entry(user, value=9, arm_value=5)
    with fails(errno.ETIMEDOUT):
        park(user, late, deadline=PAST)
    other = entry(user, word=WORD + 8, value=1, arm_value=6)
    assert park(user, late, other) == (1, MP.PARK_CHANGED)


def test_a_call_that_only_arms_returns_when_the_partner_can_see_it(paired):
    owner, user = paired
    told = park(user, entry(user, arm_value=5), flags=MP.PARK_ARMED)
    assert told == (MP.PARK_NONE, 0)
    assert armed(owner) == 5
    owner.signal(owner.session)
    assert user.wait(user.session, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def test_a_change_without_a_signal_is_noticed_late(paired):
    owner, user = paired
    call = user.later("PARK", "mp_park", **fields_of(user, entry(user, arm_value=5)))
    wait_until_armed(owner)
    # The answer is there by then as well.
    user.guest.run("sleep 0.1")
    owner.write(owner.far + WORD, word(9))
    told = call.result()
    assert (told.index, told.events) == (0, MP.PARK_CHANGED | MP.PARK_LATE)


def wake_up(sleeper, partner, how):
    """How long it takes until a sleeper has returned; nothing if it had before."""
    call = sleeper.later("PARK", "mp_park", **fields_of(sleeper, entry(sleeper, arm_value=5)))
    wait_until_armed(partner)
    began = how(call)
    call.result()
    took = time.monotonic() - began if began else None
    partner.write(partner.near + ARM, word(0))
    partner.write(partner.far + WORD, word(0))
    return took


def wake_ups(count, *how):
    for _ in range(10 * count):
        took = wake_up(*how)
        if took is not None:
            yield took
            count -= 1
        if not count:
            return
    raise AssertionError("too slow to tell")


def test_a_change_that_was_taken_back_does_not_count(paired):
    """Two looks in a row have to find the word changed: 50 ms more than a signal takes."""
    owner, user = paired
    store = lambda value: owner.write(owner.far + WORD, word(value))

    def by_signal(_):
        began = time.monotonic()
        owner.signal(owner.session)
        return began

    def late(call):
        store(9)
        # One look finds that, or two.
        time.sleep(0.055)
        store(0)
        time.sleep(0.1)
        if call.returned():
            return None
        began = time.monotonic()
        store(9)
        return began

    signals = list(wake_ups(8, user, owner, by_signal))
    looks = list(wake_ups(8, user, owner, late))
    print(signals, looks)
    assert min(looks) - min(signals) > 0.04


def test_a_signal_that_cannot_be_told_stays(paired):
    """The call has nowhere to put what it has found, and its entries have been overwritten."""
    owner, user = paired
    page = user.memory(0x1000)
    data, _ = user._structure("mp_park", fields_of(user, entry(user, arm_value=5)))
    user.write(page, bytes.fromhex(data))
    call = user.later_at("PARK", page)
    wait_until_armed(owner)
    user.unmap(page, 0x1000)
    user.write(user.buffer, entry(user, handle=0))
    owner.signal(owner.session)
    with fails(errno.EFAULT):
        call.result()
    assert user.wait(user.session, MP.EVENT_SIGNAL) == MP.EVENT_SIGNAL


def test_the_end_of_the_partner_is_told_now_and_later(paired):
    owner, user = paired
    call = user.later("PARK", "mp_park", **fields_of(user, entry(user, arm_value=5)))
    wait_until_armed(owner)
    owner.close(owner.session)
    told = call.result()
    assert (told.index, told.events) == (0, MP.EVENT_CLOSED)
    assert park(user, entry(user)) == (0, MP.EVENT_CLOSED)


def test_a_session_that_is_closed_ends_the_call(paired):
    owner, user = paired
    call = user.later("PARK", "mp_park", **fields_of(user, entry(user, arm_value=5)))
    wait_until_armed(owner)
    user.close(user.session)
    with fails(errno.ENOENT):
        call.result()


def test_words_are_checked_before_anything_is_armed(paired):
    owner, user = paired
    good = entry(user, arm_value=5)
    for bad, error in (
        ({"word": WORD + 4}, errno.EINVAL),
        ({"arm": ARM + 1}, errno.EINVAL),
        ({"word": WINDOW}, errno.ERANGE),
        ({"word": (1 << 64) - 8}, errno.ERANGE),
        ({"arm": WINDOW}, errno.ERANGE),
        ({"reserved": 1}, errno.EINVAL),
        ({"handle": 0}, errno.ENOENT),
    ):
        with fails(error):
            park(user, good, entry(user, arm_value=5, **bad))
    with fails(errno.EINVAL):
        park(user)
    with fails(errno.EINVAL):
        user.call("PARK", "mp_park", **{**fields_of(user, good), "count": 1025})
    with fails(errno.EINVAL):
        park(user, good, flags=2)
    with fails(errno.EFAULT):
        user.call("PARK", "mp_park", entries=8, count=1)
    assert armed(owner) == 0


def test_a_session_without_a_partner_is_refused(paired):
    _, user = paired
    fields = {"location": 1, "protocol": 0xF1110008, "local_max": WINDOW, "role": 1}
    at = user.call("SESSION", "mp_session", handle=user.session).interface
    posted = user.call("SESSION_OPEN", "mp_session_open", interface=at, **fields)
    with fails(errno.ENOTCONN):
        park(user, entry(user, handle=posted.handle))


def test_a_sleeper_can_be_killed(paired):
    owner, user = paired
    user.later("PARK", "mp_park", **fields_of(user, entry(user, arm_value=5)))
    wait_until_armed(owner)
    user.kill()
    assert owner.wait(owner.session, MP.EVENT_CLOSED) == MP.EVENT_CLOSED
