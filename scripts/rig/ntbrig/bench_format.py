# SPDX-License-Identifier: GPL-2.0-only
"""How a benchmark's figures are written."""

import math


def number(value):
    """A figure with three digits that mean something."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(digits, 0), 4)}f}"


def ratio(value):
    """A ratio, with two decimals unless it is large."""
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
