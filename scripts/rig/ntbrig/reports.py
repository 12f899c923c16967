# SPDX-License-Identifier: GPL-2.0-only
"""Finds what a kernel complains about on its console.

Not kmemleak's word that it suspects something: a single scan may be wrong. What
has been lost is asked for by `Guest.leaks`.
"""

import re

_COMPLAINTS = re.compile(
    r"""
      \bWARNING:\ | \bBUG:\ | \bkernel\ BUG\ at\b | \bOops\b | \bKernel\ panic\b
    | \bgeneral\ protection\ fault\b | \bunable\ to\ handle\b | \bstack\ segment\b
    | \bKASAN\b | \bKCSAN\b | \bUBSAN\b | \bODEBUG:
    | \bINFO:\ (?:possible|suspicious|inconsistent|trying\ to\ register)
    | \bpossible\ (?:circular|recursive)\ locking | \binconsistent\ lock\ state
    | \bsuspicious\ RCU\ usage | \bsleeping\ function\ called
    | \bINFO:\ task\ .*\ blocked\ for | \bsoft\ lockup\b | \bhard\ LOCKUP\b
    | \bdetected\ stalls?\b | \bself-detected\ stall\b | \bworkqueue\ lockup\b
    | \brefcount_t:\ | \blist_(?:add|del)\ corruption\b | \bDMA-API:\ .*(?:error|warn|device\ driver)
    | \bpanicked\ at\b | \bNETDEV\ WATCHDOG\b | \bunregister_netdevice:\ waiting\b
    """,
    re.VERBOSE,
)

# Races of the kernel with itself, whatever modules do. The idle task asks whether its own
# processor's tick has come, while that comes.
_KNOWN = re.compile(r"KCSAN: data-race in tick_nohz_handler / tick_nohz_idle_got_tick$")


def find(console):
    """The lines of a console's text in which the kernel reports a mistake."""
    lines = (line.strip() for line in console.splitlines())
    return [line for line in lines if _COMPLAINTS.search(line) and not _KNOWN.search(line)]
