# SPDX-License-Identifier: GPL-2.0-only
"""The scenarios of PXImc as programs that users see: in C, with the Dispatcher that is
installed in build/stage, and in Rust."""

import pytest
from ntbrig.settings import programs_dir, stage_dir

LANGUAGES = pytest.mark.parametrize("language", ["c", "rust"])

_SECONDS = 120
# What the scenarios are called as programs in C, where the program in Rust has a
# subcommand.
PROGRAMS = {
    "s1": "s1_connect",
    "s1b": "s1b_peers",
    "s2": "s2_events",
    "s3": "s3_close",
    "s4": "s4_process_to_device",
    "s5": "s5_device_to_process",
    "s6": "s6_device_to_device",
}


def _command(language, scenario):
    if language == "c":
        return [stage_dir() / "bin" / PROGRAMS[scenario]]
    return [programs_dir() / "examples/pxi_scenario", scenario]


def start(guest, language, scenario, role, *options):
    """Start one side of a scenario, and return it."""
    env = {"PXIMC_LIBRARY_PATH": str(stage_dir() / "opt/pximc/lib64")}
    command = [*_command(language, scenario), role, *options]
    return guest.spawn(command, _SECONDS, env=env)


def finish(*sides, died=()):
    """Wait until all sides have come to a good end."""
    for side in sides:
        result = side.wait()
        assert result.rc == 0, result
        assert side in died or result.out.endswith("done\n"), result


def play(language, scenario, s0, s1, options0=(), options1=(), s0_dies=False):
    """Play a scenario between two hosts, whose sides have these options."""
    there = start(s1, language, scenario, "s1", *options1)
    here = start(s0, language, scenario, "s0", *options0)
    finish(here, there, died=(here,) if s0_dies else ())
