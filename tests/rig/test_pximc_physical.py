# SPDX-License-Identifier: GPL-2.0-only
"""Windows to physical addresses: memory that the kernel leaves alone, and that a
program on its host looks at by /dev/mem. Over a bridge that the server's host leads there,
and over one that the client's host does."""

import pytest
from ntbrig import stack
from ntbrig.settings import MIB

import pximc
from pximc import OK, Status
from pximc_sessions import PAGE, PROMPT, PROTOCOL, opened

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


def server(system, address=ADDRESS, size=PAGE):
    return system.request_window_physical_as_server(system.interface, PROTOCOL, size, 0, address)


def client(system, most=SIZE, least=1):
    return system.request_window_physical_as_client(system.interface, PROTOCOL, most, least)


def take(system, address, length):
    """What stands in a host's memory; nothing does afterwards."""
    command = ["python3", "-c", _PEEK, str(address), str(length)]
    return bytes.fromhex(system.guest.run(command).out)


@pytest.mark.parametrize("size", [PAGE, 3 * PAGE, SIZE])
@pytest.mark.parametrize("there", [0, 1])
def test_a_physical_window_leads_to_the_servers_addresses(systems, there, size):
    """PXI-REQPS-10, PXI-REQPS-11, PXI-REQPS-13, PXI-REQPC-9, PXI-REQPC-10, PXI-CW-2: first
    and last byte are where the server says; the server has no windows itself."""
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
