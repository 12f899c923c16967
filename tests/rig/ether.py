# SPDX-License-Identifier: GPL-2.0
"""What a guest's interface says of itself."""

import json


def link(guest, interface="ntb0"):
    return json.loads(guest.run(f"ip -j -d -s link show {interface}").out)[0]


def traffic(guest, interface="ntb0"):
    return link(guest, interface)["stats64"]


def lost(guest):
    """Packets that an interface has dropped or found wrong."""
    counters = traffic(guest)
    return {
        (way, what): counters[way][what]
        for way in ("rx", "tx")
        for what in ("errors", "dropped")
        if counters[way][what]
    }
