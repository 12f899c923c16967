# SPDX-License-Identifier: GPL-2.0-only
"""What SMC sockets meet when a host, a link, a module, a process or a window comes to its end."""

import struct
import time
from contextlib import contextmanager

import pytest
import smc
from ntbrig import stack
from test_smc import DIBS_ID, LIAR, check_connection, moved, record, wait_for_counter

from frames import peer_id

MIB = 1 << 20
# Seconds in which all programs know of a loss; one second is the worst for a link, and guests are slow.
BOUND = 20


@pytest.fixture
def two(boot):
    fabric = boot(hosts=2)
    smc.bring_up(*fabric.hosts)
    yield fabric
    boot.end(fabric)


@pytest.fixture(scope="module")
def pair(boot):
    fabric = boot(hosts=2)
    smc.bring_up(*fabric.hosts)
    yield fabric
    boot.end(fabric)


@pytest.fixture(scope="module")
def three(boot):
    fabric = boot(hosts=3)
    smc.bring_up(*fabric.hosts, partners=2)
    yield fabric
    boot.end(fabric)


def check_ends(process, count):
    """All halves of all connections have ended, by what a loss may give, with no wrong byte before."""
    ends = smc.ends_of_streams(process)
    assert len(ends) == 2 * count
    assert set(ends) <= smc.LOST, ends


def take_cable(fabric, guest):
    fabric.unplug(guest)


def unload_dibs(fabric, guest):
    stack.unload(guest, modules=smc.DIBS)


def unload_links(fabric, guest):
    stack.unload(guest, modules=("pximc_ntb",))


LOSSES = {"cable": take_cable, "mp_dibs": unload_dibs, "pximc_ntb": unload_links}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_ends_all_transfers(two, loss):
    """In the middle of them, on both hosts, and what they had is given back."""
    staying, going = two.hosts
    count = 4
    programs = smc.streams(staying, going, count)
    for program in programs:
        assert smc.modes_of(program, "running") == [smc.SMC_D] * count
    begin = time.monotonic()
    LOSSES[loss](two, going)
    for program in programs:
        check_ends(program, count)
    assert time.monotonic() - begin < BOUND
    smc.wait_for_partners(staying, count=0)
    smc.wait_for_no_buffers(staying)
    if loss == "cable":
        smc.wait_for_no_buffers(going)
        two.plug(going)
    else:
        if loss == "pximc_ntb":
            smc.wait_for_no_buffers(going)
        stack.load(going, modules=(loss,))
    smc.wait_for_partners(*two.hosts)
    if loss == "pximc_ntb":
        stack.configure(going)
    stack.wait_for_carrier(*two.hosts)
    check_connection(staying, going)


def test_a_host_that_dies_ends_its_own_connections(boot):
    """Those of the other two go on."""
    fabric = boot(hosts=3)
    smc.bring_up(*fabric.hosts, partners=2)
    first, second, dying = fabric.hosts
    going_on = smc.streams(first, second, 2)
    ending = [smc.streams(first, dying, 2, port=5009)[1], smc.streams(dying, second, 2, port=5009)[0]]
    before = smc.counters(first)
    dying.kill()
    for program in ending:
        check_ends(program, 2)
    smc.wait_for_partners(first, second)
    now = smc.counters(first)
    # Bytes go on to be moved.
    for name in ("sent_bytes", "received_bytes"):
        stack.wait_until(stack.holds(f"{smc.COUNTERS}/{name}", f"-gt {now[name] + MIB}"), first)
        assert now[name] >= before[name]
    assert not any(program.ended() for program in going_on)
    for program in going_on:
        program.kill()
        program.wait()
    boot.end(fabric)


def test_who_does_not_notice_a_loss_costs_nobody_anything(pair):
    """SMC may have buffers for a partner as long as one program does not look at its socket: later
    connections do not end by it."""
    first, second = pair.hosts
    sleepers = [smc.asleep(first, second) for _ in range(3)]
    for _ in range(2):
        pair.unplug(second)
        smc.wait_for_partners(first, second, count=0)
        pair.plug(second)
        smc.wait_for_partners(first, second)
        stack.wait_for_carrier(first, second)
    later = smc.asleep(first, second)
    time.sleep(4)
    assert smc.how_many_go_on(later) == 2
    for program in (program for both in sleepers for program in both):
        program.write(b"\n")
        assert smc.how_it_ended(program) in smc.LOST


def test_a_killed_sender_costs_its_own_connection(pair):
    """What it has sent may arrive when SMC has set the buffer to zero, for the next connection."""
    first, second = pair.hosts
    bystanders = smc.asleep(first, second)
    before = smc.counters(first)
    for _ in range(8):
        smc.kill_a_sender(first, second)
    after = smc.counters(first)
    assert after["refused_frames"] == before["refused_frames"]
    assert smc.how_many_go_on(bystanders) == 2


def test_what_arrives_late_is_dropped(two):
    """What belongs to the connection before, when the client has set the buffer to zero for the next."""
    honest, liar = two.hosts
    processes, token = smc.hold(honest, liar)
    for process in processes:
        process.kill()
        process.wait()
    # SMC keeps the buffer, of zeros, for the next connection.
    before = smc.counters(honest)
    aborted = 1 << 5
    with lying(liar):
        tell(honest, liar, moved(token, record(wraps=2, count=7)))
        tell(honest, liar, moved(token, record(count=1, state=aborted)))
        wait_for_counter(honest, "late_frames", before["late_frames"] + 2)
    assert smc.counters(honest)["refused_frames"] == before["refused_frames"]
    check_connection(honest, liar)


@contextmanager
def lying(guest):
    """A host that says what it likes in the device's frames."""
    stack.load(guest, modules=LIAR, parameters={"mp_frame_test": f"func=2 to={DIBS_ID}"})
    try:
        yield
    finally:
        stack.unload(guest, modules=LIAR)


def tell(honest, liar, *messages):
    """Send messages in the liar's name."""
    peer = peer_id(honest)
    for message in messages:
        line = f"{peer:#x} 1 {len(message)} - {message.hex()}"
        liar.run(f"echo '{line}' > /sys/kernel/mp_frame_test/send")


def hello(name, answer=False):
    """A message as in rust/proto/dibs/message.rs, with a table at the start of the arena."""
    return struct.pack("<BBBBHHQ", 2, 1, answer, 1, 1, 0, 0) + name


def event(code):
    return struct.pack("<BBBBIQ", 2, 5, 0, 0, code, 0)


def test_nobody_takes_the_name_of_another_host(three):
    """Names are no secret: each host tells its own to all."""
    honest, third, liar = three.hosts
    programs = smc.asleep(honest, third)
    name = bytes.fromhex(third.read("/sys/class/dibs/mp/gid").strip().replace("-", ""))
    # Without a name of its own.
    stack.unload(liar, modules=smc.DIBS)
    smc.wait_for_partners(honest, third)
    with lying(liar):
        # SMC ends all connections to a device that says so.
        tell(honest, liar, hello(name), event(0x80))
        time.sleep(2)
    assert smc.counters(honest)["partners"] == 1
    assert smc.how_many_go_on(programs) == 2
    stack.load(liar, modules=smc.DIBS)
    smc.wait_for_partners(*three.hosts, count=2)
    check_connection(honest, liar)


def test_a_partner_has_so_many_events_in_a_second(pair):
    """SMC takes memory for each."""
    honest, liar = pair.hosts
    message = event(0x81)
    line = f"{peer_id(honest):#x} 1 {len(message)} - {message.hex()}"
    before = smc.counters(honest)["refused_events"]
    with lying(liar):
        liar.run(f"for n in {{1..600}}; do echo '{line}' > /sys/kernel/mp_frame_test/send; done")
    assert smc.counters(honest)["refused_events"] > before
    check_connection(honest, liar)


@pytest.fixture(scope="module")
def small(boot):
    """A window of 1 MiB."""
    fabric = boot(hosts=2)
    smc.bring_up(*fabric.hosts, parameters={"ntb_hw_ivshmem": f"mw_size={MIB}"})
    yield fabric
    boot.end(fabric)


def test_what_finds_no_room_in_the_window_goes_by_tcp(small):
    """A hundred connections at once, all of which carry what they should."""
    server, client = small.hosts
    programs, counts = smc.crowd(server, client, 100)
    smc.disperse(programs)
    assert sum(counts.values()) == 100
    # Without a reason.
    assert counts.pop((smc.SMC_D, 0)) >= 4
    assert {mode for mode, _ in counts} == {smc.TCP}
    assert {reason for _, reason in counts} <= {smc.DECLINED, smc.NO_BUFFER}, counts
    for guest in small.hosts:
        assert smc.counters(guest)["refused_moves"] == 0
    check_connection(server, client)


def test_connections_of_an_ended_link_keep_nothing_of_the_window(small):
    """Nor does the next link lack it, while their program does not notice."""
    server, client = small.hosts
    programs, counts = smc.crowd(server, client, 30)
    had = counts[(smc.SMC_D, 0)]
    small.unplug(client)
    smc.wait_for_partners(server, client, count=0)
    small.plug(client)
    smc.wait_for_partners(server, client)
    stack.wait_for_carrier(server, client)
    more, counts = smc.crowd(server, client, 30)
    assert counts[(smc.SMC_D, 0)] >= had
    smc.disperse(more)
    for program in programs:
        program.kill()
        program.wait()


def test_a_host_talks_to_itself_and_to_others_at_once(pair):
    """By the kernel's own device, and by the fabric's."""
    first, second = pair.hosts
    within = smc.streams(first, first, 2, port=5009)
    across = smc.streams(first, second, 2)
    assert set(smc.modes_of(across[1], "running")) == {smc.SMC_D}
    before = smc.counters(first)["received_bytes"]
    stack.wait_until(stack.holds(f"{smc.COUNTERS}/received_bytes", f"-gt {before + MIB}"), first)
    assert not any(program.ended() for program in (*within, *across))
    for program in (*within, *across):
        program.kill()
        program.wait()


def end_before_reading(program):
    """The kernel wipes the buffer of a socket that is closed, also while a pipe has it."""
    program.write(b"close\n")
    program.wait_for_output("closed")


@pytest.mark.parametrize("first", ("loss", "close"))
def test_what_a_pipe_has_outlives_all_of_it(two, first):
    """Pages of a buffer, beyond the link, the connection, the device and the module."""
    server, client = two.hosts
    keeper, sender = smc.spliced(server, client)
    words = keeper.output.split()
    assert int(words[words.index("spliced") + 1]) > 4096
    assert words[-2:] == [str(smc.SMC_D), "-1"]
    if first == "close":
        end_before_reading(keeper)
    two.unplug(client)
    smc.wait_for_partners(server, count=0)
    if first == "loss":
        end_before_reading(keeper)
    sender.write(b"\n")
    sender.wait()
    stack.unload(server, client, modules=smc.DIBS)
    stack.unload(server, modules=("pximc_ntb",))
    # Memory that is free is used by others.
    server.run("head -c 200M /dev/zero | tail -c 1 > /dev/null; sync")
    keeper.write(b"read\n")
    assert keeper.wait().check().out.splitlines()[-1] == "right"
