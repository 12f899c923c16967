# SPDX-License-Identifier: GPL-2.0-only
"""As many virtual interfaces as a NIC tells, between hosts with windows of 1 MiB."""

import pytest
from ntbrig import stack
from ntbrig import vipl as programs
from ntbrig.settings import MIB
from pximc import MODULES

SECONDS = 400
# VIs that a NIC tells.
MOST = 960


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES, parameters={"ntb_hw_ivshmem": f"mw_size={MIB}"})
    programs.configure(fabric.hosts)
    return fabric


def test_all_virtual_interfaces_are_connected_at_once(fabric):
    """VI-LIM-6: each has a message both ways after the last one was connected."""
    client, server = fabric.hosts
    program = programs.tool("vipl_many")
    serving = server.spawn([program, "serve"], env=programs.ENV, timeout=SECONDS)
    try:
        serving.wait_for_output("ready")
        command = [program, "ask", server.name]
        asked = client.run(command, SECONDS, env=programs.ENV)
        served = serving.wait(60).check()
        # As many as both NICs have told.
        assert asked.out == f"{MOST} virtual interfaces\n"
        assert served.out.endswith(asked.out)
    finally:
        serving.kill()
