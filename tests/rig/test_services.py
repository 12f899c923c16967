# SPDX-License-Identifier: GPL-2.0-only
"""Two services of a host share memory with the same peer. When one of them ends there or begins anew, what
it was granted is free at once; what the other one has is as it was.

The bridge has one window, so all memory is cut from the same arena. The liar is at the root processor,
where pairs are decided on.
"""

import struct

import pytest
import smc
from frames import peer_id
from liar import CLOSE, Liar
from ntbrig import stack
from pximc import MODULES
from sharing import Process
from shell import until
from test_lost_peers import BRIDGE, PAGE, free_on, paired

DIBS_ID = 0x44494253
LIAR = ("mp_frame_test",)
USER = ("mp_func_user",)


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters=BRIDGE)
    return fabric


def reload(guest, modules):
    stack.unload(guest, modules=modules)
    stack.load(guest, modules=modules)


def free(host):
    """What is free of a host whose user service has found the other one."""
    with Process(host) as process:
        process.wait_until_up(process.interface())
    return free_on(host)


def hello(device, host):
    """What a device with that name says of itself, as in rust/proto/dibs/message.rs."""
    name = bytes([device] * 14) + struct.pack("<H", peer_id(host))
    return struct.pack("<BBBBHHQ16s", 2, 1, 0, 1, 128, 0, 0, name)


@pytest.fixture
def device(fabric):
    """Say that the liar's host has the device with that name."""
    liar, host = fabric.hosts
    stack.load(liar, modules=LIAR, parameters={"mp_frame_test": f"func={DIBS_ID}"})

    def say(device):
        message = hello(device, liar)
        line = f"{peer_id(host):#x} 1 {len(message)} - {message.hex()}"
        liar.run(f"echo '{line}' > /sys/kernel/mp_frame_test/send")

    yield say
    stack.unload(liar, modules=LIAR)


def test_what_direct_buffers_have_granted_waits_for_their_own_peer(fabric, device):
    """Not for the user service's, which ends at one host and at the other. It is free when the peer's
    device is another one, also what was granted before the module was loaded anew."""
    liar, host = fabric.hosts
    whole = free(host)
    reload_of = lambda: (stack.load(host, modules=smc.DIBS), stack.unload(host, modules=smc.DIBS))
    reload_of()
    table = whole - free(host)
    assert table > 0
    for guest in (liar, host):
        reload(guest, USER)
        assert free(host) == whole - table
    stack.load(host, modules=smc.DIBS)
    assert free(host) == whole - 2 * table
    device(1)
    smc.wait_for_partners(host)
    device(2)
    smc.wait_for_partners(host, count=0)
    # That of the device's link is one.
    until(lambda: free(host) == whole - table)
    stack.unload(host, modules=smc.DIBS)


def test_what_the_user_service_has_granted_waits_for_its_own_peer(fabric):
    """Not for direct buffers, which end at the peer and come back."""
    liar, host = fabric.hosts
    stack.unload(liar, modules=MODULES)
    with Liar(liar, host, parameters=BRIDGE) as peer:
        stack.load(host, liar, modules=smc.DIBS)
        smc.wait_for_partners(host, liar)
        peer.greet()
        whole = free_on(host)
        with Process(host) as process:
            paired(process, peer)
        peer.hear_of_session(CLOSE)
        assert free_on(host) == whole - PAGE
        stack.unload(liar, modules=smc.DIBS)
        smc.wait_for_partners(host, count=0)
        stack.load(liar, modules=smc.DIBS)
        smc.wait_for_partners(host, liar)
        until(lambda: free_on(host) >= whole - PAGE)
        assert free_on(host) == whole - PAGE
        # It says that it has begun anew.
        peer.greet()
        assert free_on(host) == whole
        stack.unload(host, liar, modules=smc.DIBS)
