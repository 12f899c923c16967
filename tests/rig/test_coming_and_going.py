# SPDX-License-Identifier: GPL-2.0-only
"""Hosts and modules that come and go at any time, under full traffic.

Whatever one host does, the other two go on, and it is a peer again within two
seconds of its return. The long suite does everything on every host, twenty times.
"""

import itertools
import os
import random
import re

import pytest
from ntbrig import stack
from ntbrig.settings import PATIENCE, host_names

from frames import peer_id, wait_for_everyone

pytestmark = pytest.mark.alone

ROUNDS = 20 if os.environ.get("LONG") == "1" else 1
BACK = 2.0
HOSTS = host_names(3)

TRANSPORT, ETHER = "pximc_ntb", "mp_func_ether"


def cases(**hosts):
    """Each way to go with each host; all but the named host only in the long suite."""
    for way, name in itertools.product(hosts, HOSTS):
        marks = () if name == hosts[way] else pytest.mark.long
        yield pytest.param(way, name, marks=marks)


def possible_orders():
    """All orders in which a host's modules can be loaded."""
    for order in itertools.permutations(stack.MODULES[1:]):
        place = order.index
        if place("mp_transport") < min(place(TRANSPORT), place(ETHER)):
            yield (stack.MODULES[0], *order)


ORDERS = tuple(possible_orders())


class Traffic:
    """TCP streams between all hosts, in both directions, again and again.

    They fill the processors that are left. Clients and servers give each other up
    after a silence: the other one may have been killed.
    """

    def __init__(self, hosts):
        self.hosts = hosts
        self.running = {}

    def start(self, guest):
        """Start what runs in one guest."""
        others = [other for other in self.hosts if other is not guest]
        loops = [f"iperf3 -s -1 --rcv-timeout 1000 -p {5200 + other.port}" for other in others] + [
            "iperf3 --connect-timeout 1000 --snd-timeout 1000 -t 1000"
            f" -c {stack.address(other)} -p {5200 + guest.port}"
            for other in others
        ]
        script = "".join(f"(while :; do {loop}; sleep 0.05; done) &\n" for loop in loops)
        # What the tests do goes first: they would take most of their time waiting.
        command = f"exec >/dev/null 2>&1\nrenice -n 15 -p $$\n{script}wait"
        self.running[guest.name] = guest.spawn(command, timeout=3600)

    def stop(self, guest):
        self.running.pop(guest.name).kill()

    def __enter__(self):
        for guest in self.hosts:
            self.start(guest)
        self.wait_until_all_flow()
        return self

    def __exit__(self, *_):
        for guest in self.hosts:
            if guest.is_running():
                self.stop(guest)

    def wait_until_all_flow(self):
        assert_flows(*itertools.permutations(self.hosts, 2))


def assert_flows(*pairs, timeout=20):
    """Wait until a megabyte more has come to each first one of a pair from the second."""
    started = []
    for one, other in pairs:
        path = f"/sys/kernel/mp/peers/{peer_id(other):08x}/rx_bytes"
        script = f"read start < {path}; now=$start; until [ $((now - start)) -ge {1 << 20} ];"
        script += f" do sleep 0.05; read now < {path}; done"
        started.append(one.spawn(script, timeout))
    for (one, other), process in zip(pairs, started):
        assert process.wait().rc == 0, f"nothing comes from {other.name} to {one.name}"


def wait_until_complete(fabric):
    wait_for_everyone(*fabric.hosts, timeout=30)


def load_and_return(fabric, guest, modules):
    """Load modules, the links with them; both peers must be there soon.

    By the guest's own clock and log: under traffic, a program that looks takes
    much longer than what it looks for.
    """
    guest.run("dmesg -C; echo loading > /dev/kmsg")
    stack.load(guest, modules=modules)
    wait_until_complete(fabric)
    log = guest.run("dmesg").out
    start = float(re.search(r"^\[ *([\d.]+)\] loading$", log, re.MULTILINE)[1])
    arrivals = re.findall(r"^\[ *([\d.]+)\] .*peer \w+ has arrived$", log, re.MULTILINE)
    assert len(arrivals) >= 2, log
    assert float(arrivals[-1]) - start < BACK * PATIENCE, log


def others_of(fabric, guest):
    return [other for other in fabric.hosts if other is not guest]


def host(fabric, name):
    return next(guest for guest in fabric.hosts if guest.name == name)


@pytest.fixture(scope="module")
def fabric(boot):
    """Three hosts whose interfaces have carrier."""
    fabric = boot(hosts=3)
    stack.bring_up(*fabric.hosts)
    wait_until_complete(fabric)
    return fabric


@pytest.fixture(scope="module")
def traffic(fabric):
    with Traffic(fabric.hosts) as traffic:
        yield traffic


def test_modules_are_loaded_in_any_order_on_any_host(boot):
    fabric = boot(hosts=3)
    rng = random.Random(1)
    turns = [rng.choice(ORDERS) for _ in range(max(ROUNDS, 3))]
    for first in turns:
        orders = [first, rng.choice(ORDERS), rng.choice(ORDERS)]
        # One module here, one there.
        steps = [guest for guest in fabric.hosts for _ in stack.MODULES]
        rng.shuffle(steps)
        left = {guest.name: list(order) for guest, order in zip(fabric.hosts, orders)}
        for guest in steps:
            stack.load(guest, modules=(left[guest.name].pop(0),))
        wait_until_complete(fabric)
        stack.configure(*fabric.hosts)
        for one, other in itertools.permutations(fabric.hosts, 2):
            one.run(f"ping -q -c 1 -w 5 {stack.address(other)}")
        for guest, order in zip(fabric.hosts, orders):
            stack.unload(guest, modules=order)


@pytest.mark.parametrize(
    "module, name", cases(mp_func_ether="rp", pximc_ntb="ep1", ntb_hw_ivshmem="ep2")
)
def test_a_module_is_unloaded_under_traffic(fabric, traffic, module, name):
    guest = host(fabric, name)
    one, other = others_of(fabric, guest)
    for _ in range(ROUNDS):
        stack.unload(guest, modules=(module,))
        assert_flows((one, other), (other, one))
        if module == ETHER:
            stack.load(guest, modules=(module,))
            stack.configure(guest)
        else:
            load_and_return(fabric, guest, (module,))
        assert_flows((one, guest), (guest, one))


@pytest.mark.parametrize("way, name", cases(unload="ep1"))
def test_all_modules_are_unloaded_under_traffic(fabric, traffic, way, name):
    guest = host(fabric, name)
    one, other = others_of(fabric, guest)
    for _ in range(ROUNDS):
        stack.unload(guest)
        assert_flows((one, other))
        load_and_return(fabric, guest, stack.MODULES)
        stack.configure(guest)
        assert_flows((one, guest), (guest, one))


@pytest.mark.parametrize("way, name", cases(kill="rp", reboot="ep2"))
def test_a_host_is_lost_under_traffic_and_comes_back(fabric, traffic, way, name):
    guest = host(fabric, name)
    one, other = others_of(fabric, guest)
    for _ in range(ROUNDS):
        if way == "kill":
            guest.kill()
            wait_for_everyone(one, other, timeout=5)
            assert_flows((one, other), (other, one))
            guest.boot()
        else:
            guest.reboot()
        assert_flows((one, other))
        load_and_return(fabric, guest, stack.MODULES)
        stack.configure(guest)
        traffic.start(guest)
        assert_flows((one, guest), (guest, one))
