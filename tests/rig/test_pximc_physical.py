# SPDX-License-Identifier: GPL-2.0-only
"""Windows to physical addresses: memory that the kernel leaves alone, and that a
program on its host looks at by /dev/mem. Over a bridge that the server's host leads there,
and over one that the client's host does."""

import pytest
from ntbrig import stack
from ntbrig.settings import MIB

import pximc
from pximc import OK, PXIMC, Status
from pximc_sessions import PAGE, PROMPT, PROTOCOL, opened
from pximc_sessions import client as logical_client
from pximc_sessions import server as logical_server

# Aligned as the emulated bridge's windows want it, and as large as one.
ADDRESS, SIZE = 384 * MIB, 4 * MIB
# Windows that can be led to addresses.
FREE = 2
# Bridges, and where a window of theirs can begin.
BRIDGES = {"generic": SIZE, "idt": 4}

_PEEK = """
import mmap, os, sys
address, length = int(sys.argv[1]), int(sys.argv[2])
memory = mmap.mmap(os.open("/dev/mem", os.O_RDWR), 4096, offset=address & -4096)
at = address & 4095
print(memory[at : at + length].hex())
memory[at : at + length] = bytes(length)
"""


@pytest.fixture(scope="module", params=BRIDGES)
def bridge(request):
    return request.param


@pytest.fixture(scope="module")
def fabric(boot, bridge):
    fabric = boot(hosts=2, kernel_options=f"memmap={SIZE // MIB}M${ADDRESS // MIB}M")
    windows = {"ntb_hw_ivshmem": f"personality={bridge} mw_count={2 + FREE}"}
    stack.load(*fabric.hosts, modules=pximc.MODULES, parameters=windows)
    pximc.wait_until_up(*fabric.hosts)
    return fabric


@pytest.fixture
def systems(fabric):
    with pximc.Process(fabric.rp) as s0, pximc.Process(fabric.eps[0]) as s1:
        s0.wait_for_windows()
        s1.wait_for_windows()
        yield s0, s1


def server(system, address=ADDRESS, size=PAGE, uid=0, data=b""):
    return system.request_window_physical_as_server(
        system.interface, PROTOCOL, size, uid, address, data
    )


def client(system, most=SIZE, least=1, uid=0):
    return system.request_window_physical_as_client(system.interface, PROTOCOL, most, least, uid)


def take(system, address, length):
    """What stands in a host's memory; nothing does afterwards."""
    command = ["python3", "-c", _PEEK, str(address), str(length)]
    return bytes.fromhex(system.guest.run(command).out)


@pytest.mark.parametrize("size", [PAGE, 3 * PAGE, SIZE])
@pytest.mark.parametrize("there", [0, 1])
def test_a_physical_window_leads_to_the_servers_addresses(systems, there, size):
    """PXI-REQPS-10, PXI-REQPS-11, PXI-REQPS-13, PXI-REQPC-9, PXI-REQPC-10: first and last
    byte are where the server says; the server has no windows itself."""
    far, near = systems[there], systems[1 - there]
    posted = opened(server(far, size=size))
    session = opened(client(near))
    assert far.wait_for_connection(posted, 5000) == (OK, 0, 0, 0, size)
    remote, local = near.connect(session)
    assert (remote.size, local.address, local.size) == (size, 0, 0)
    take(far, ADDRESS, 8)
    take(far, ADDRESS + size - 8, 8)
    remote.write(0, b"firstone")
    remote.write(size - 8, b"last one")
    assert take(far, ADDRESS, 8) == b"firstone"
    assert take(far, ADDRESS + size - 8, 8) == b"last one"
    assert remote.read(0, 8) == bytes(8)
    assert near.close_window(session) == OK
    assert far.close_window(posted) == OK


def test_a_physical_server_is_listed_as_it_was_asked_for(systems):
    """PXI-REQPS-6, PXI-REQPS-7, PXI-REQPS-8, PXI-REQPS-9, PXI-QW-1, PXI-FW-3: by an identifier
    of its own, if none is named, which no other window has; with its size, and without a
    remote one."""
    s0, s1 = systems
    numbers = [opened(server(s1, uid=30, data=b"instrument")), opened(logical_server(s1))]
    for uid in (30, *s0.windows()):
        assert server(s1, uid=uid) == (Status.UID_CONFLICT, None)
    before = set(s0.windows())
    numbers.append(opened(server(s1, size=SIZE)))
    assert len(set(numbers)) == 3
    (assigned,) = set(s0.windows()) - before
    assert assigned not in (0, 30)
    for window, size, data in ((30, PAGE, b"instrument"), (assigned, SIZE, b"")):
        ask = lambda name, room=8: s0.query_window_information(
            s0.interface, window, getattr(PXIMC, name), room
        )
        assert ask("U32_WINDOW_LOCATION_TYPE").u32 == PXIMC.LOCATION_PHYSICAL
        assert ask("U32_WINDOW_CONNECTION_TYPE").u32 == PXIMC.CONNECTION_SERVER
        assert ask("U32_WINDOW_PROTOCOL_NUMBER").u32 == PROTOCOL
        assert ask("U32_WINDOW_PAIRING_STATE").u32 == PXIMC.WINDOW_UNPAIRED
        assert ask("U8_WINDOW_DATA", 64) == (OK, len(data), data)
        for name, expected in (("LOCAL", size), ("REMOTE", 0)):
            for end in ("MIN", "MAX"):
                assert ask(f"U64_WINDOW_{end}_{name}_SIZE").u64 == expected


def test_a_physical_client_meets_the_server_that_it_names(systems):
    """PXI-REQPC-5, PXI-REQPC-6, PXI-REQPC-7, PXI-REQPC-8, PXI-REQPC-10, PXI-REQPC-11,
    PXI-PAIR-2: one of the size that it takes, which nobody else has, and a physical one; it
    has a session number of its own then, and none before."""
    s0, s1 = systems
    nobody = (Status.NO_PAIRING, None)
    assert client(s0) == nobody
    logical = opened(logical_server(s1, uid=31))
    assert client(s0) == client(s0, uid=31) == nobody
    assert s1.wait_for_connection(logical, 0).status == Status.TIMEOUT
    posted = {uid: opened(server(s1, size=size, uid=uid)) for uid, size in ((32, PAGE), (33, SIZE))}
    assert logical_client(s0, uid=32) == nobody
    assert client(s0, most=PAGE, uid=33) == client(s0, least=PAGE + 1, uid=32) == nobody
    assert client(s0, uid=34) == nobody
    waiting = s1.later.wait_for_connection(posted[33])
    sessions = [opened(client(s0, uid=33))]
    assert waiting.result() == (OK, 0, 0, 0, SIZE)
    assert s0.connect(sessions[0])[0].size == SIZE
    assert s1.wait_for_connection(posted[32], 0).status == Status.TIMEOUT
    assert client(s0, uid=33) == nobody
    sessions += [opened(client(s0, most=PAGE, least=PAGE)), opened(logical_client(s0))]
    assert s1.wait_for_connection(posted[32], 5000).status == OK
    assert len(set(sessions)) == 3 and 0 not in sessions


def test_the_partner_reaches_the_addresses_until_it_closes(systems):
    """PXI-CW-12, PXI-CW-4, PXI-CW-8, PXI-CW-11: the server's close does not stop the
    partner, nor does its death; only the partner's own close frees the window."""
    s0, s1 = systems
    other = pximc.Process(s1.guest)
    posted = [opened(server(system)) for system in (s1, other)]
    sessions = [opened(client(s0)) for _ in range(FREE)]
    remotes = [s0.connect(session)[0] for session in sessions]
    assert s1.close_window(posted[0]) == OK and s1.seconds < PROMPT
    other.die()
    take(s1, ADDRESS, 8)
    for number, remote in enumerate(remotes):
        remote.write(0, b"still %d!" % number)
        assert take(s1, ADDRESS, 8) == b"still %d!" % number
    again = opened(server(s1))
    assert client(s0) == (Status.NO_PAIRING, None)
    assert s0.close_window(sessions[0]) == OK
    last = opened(client(s0))
    s0.connect(last)
    for system, session in ((s0, last), (s0, sessions[1]), (s1, again)):
        assert system.close_window(session) == OK


def test_addresses_that_no_window_can_lead_to(systems, bridge):
    """PXI-REQPS-5, PXI-REQPS-11, PXI-REQPS-12: what begins between the places where a
    window can begin, what is larger than one, and memory of the kernel's."""
    s0, s1 = systems
    unusable = (Status.PHY_RESOURCE_NOT_AVAILABLE, None)
    if BRIDGES[bridge] > PAGE:
        assert server(s1, ADDRESS + PAGE) == unusable
    assert server(s1, ADDRESS + 8) == unusable
    assert server(s1, 128 * MIB) == unusable
    assert server(s1, size=SIZE + 1) == (Status.SPACE_NOT_AVAILABLE, None)
    assert s0.windows() == []


def test_a_link_that_comes_again_has_all_windows(fabric, systems):
    """PXI-CW-8: what was led to addresses in an earlier life of the link is free again."""
    s0, s1 = systems
    for _ in range(FREE):
        opened(server(s1))
        s0.connect(opened(client(s0)))
    fabric.unplug(s1.guest)
    s0.wait_for_state(pximc.DOWN)
    s1.wait_for_state(pximc.DOWN)
    fabric.plug(s1.guest)
    with pximc.Process(fabric.rp) as near, pximc.Process(fabric.eps[0]) as far:
        for system in (s0, s1, near, far):
            system.wait_for_state(pximc.UP)
        s1.cleanup()
        s0.cleanup()
        for _ in range(FREE):
            opened(server(far))
            near.connect(opened(client(near)))
