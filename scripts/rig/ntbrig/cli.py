# SPDX-License-Identifier: GPL-2.0-only
"""The command `rig`."""

import argparse
import contextlib
import signal
import sys

from . import bench, share, stack, terminal
from .agent import CommandFailed, GuestGone
from .demo import Demo
from .fabric import Fabric
from .settings import CHECKOUT, RigError

_LOGS = CHECKOUT / "build/logs"


def _parser():
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("demo", help="boot hosts and show them talking")
    add.add_argument("--hosts", type=int, default=3)
    add = commands.add_parser("bench", help="measure the fabric against mainline's NTB clients")
    add.add_argument("--rounds", type=int, help="default 5")
    add.add_argument("--seconds", type=int, help="for one sample, default 3")
    add.add_argument("--quick", action="store_true", help="one round of short samples")
    add.add_argument("--only", help=f"some of {', '.join(bench.PARTS)}, with commas between")
    add.add_argument("--explore", metavar="SETTINGS", action="append", help=argparse.SUPPRESS)
    for name, text in (
        ("shell", "a terminal in a host of the running set, or of a new one"),
        ("up", "boot a set and keep it until Ctrl-C"),
    ):
        add = commands.add_parser(name, help=text)
        add.add_argument("--hosts", type=int, default=3)
        add.add_argument("--bare", action="store_true", help="do not load the modules")
        if name == "shell":
            add.add_argument("host", nargs="?", help="rp, ep1, ...; without it a menu")
    add = commands.add_parser("run", help="run one command in a host of the running set")
    add.add_argument("host")
    add.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _bench(options):
    rounds = options.rounds if options.rounds is not None else 1 if options.quick else 5
    seconds = options.seconds if options.seconds is not None else 1 if options.quick else 3
    if options.explore:
        done = bench.explore(seconds, options.explore)
    else:
        only = options.only.split(",") if options.only else bench.PARTS
        done = bench.run(rounds, seconds, only)
    return 0 if done else 1


@contextlib.contextmanager
def _shared_set(options):
    """Boot a set that others can attach to."""
    print(f"booting {options.hosts} hosts ...", flush=True)
    with Fabric(hosts=options.hosts, logs=_LOGS / "shell", live=True) as fabric:
        if not options.bare:
            stack.bring_up(*fabric.hosts)
        shared = share.Share(fabric)
        try:
            names = ", ".join(guest.name for guest in fabric.hosts)
            print(f"{names} are up; consoles in {_LOGS / 'shell'}", flush=True)
            yield shared
        finally:
            shared.close()


def _demo(options):
    return 0 if Demo(options.hosts, _LOGS / "demo").run() else 1


def _visit(path, host):
    if host:
        return terminal.open_shell(path, host)
    terminal.menu(path)
    return 0


def _shell(options):
    if path := share.find():
        return _visit(path, options.host)
    with _shared_set(options) as shared:
        status = _visit(shared.path, options.host)
        if shared.terminals:
            print("other terminals are open; the set ends with the last, or with Ctrl-C")
            shared.wait_until_unused()
        return status


def _up(options):
    with _shared_set(options):
        print("`make shell` opens terminals; Ctrl-C ends the set", flush=True)
        signal.pause()


def _run(options):
    path = share.find()
    if path is None:
        raise RigError("no set of hosts is running: start one by `rig up` or `make shell`")
    return terminal.open_shell(path, options.host, options.argv or None)


def _end_on_signal(number, _frame):
    # Leaves by the same way as Ctrl-C, so that everything is cleaned up.
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    """Run the command line; return the exit status."""
    signal.signal(signal.SIGTERM, _end_on_signal)
    signal.signal(signal.SIGHUP, _end_on_signal)
    options = _parser().parse_args()
    actions = {"demo": _demo, "bench": _bench, "shell": _shell, "up": _up, "run": _run}
    action = actions[options.command]
    try:
        return action(options)
    except (RigError, CommandFailed, GuestGone) as error:
        print(f"rig: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rig: interrupted, all hosts have ended", file=sys.stderr)
        return 130
