# SPDX-License-Identifier: GPL-2.0-only
"""The plot of a benchmark: how many times better than each baseline.

One row for each metric, one panel for each size of windows, one for what the
small windows cost us, and one for processes that share memory. The axis is
logarithmic; right is always better.
"""

import math
from xml.sax.saxutils import escape

from .bench_format import number, ratio

_WIDTH = 1060
_LEFT, _RIGHT = 210, 690
_ROW = 30
_HEAD = 74
_PANEL_HEAD = 46
_FOOT = 66
_COLUMNS = (("ours", 770), ("baseline", 860), ("unit", 872), ("ratio", 1030))

_STYLE = """
text { font: 13px "DejaVu Sans", Verdana, sans-serif; fill: #222 }
.title { font-size: 19px; font-weight: bold }
.panel { font-size: 14px; font-weight: bold }
.small { font-size: 11px; fill: #666 }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #e3e3e3 } .one { stroke: #888; stroke-width: 1.5 }
.row { fill: #f6f7f9 }
.tuned { fill: #1f5fa8 } .span { stroke: #1f5fa8; stroke-width: 3; stroke-opacity: 0.35 }
.default { fill: white; stroke: #8a8f98; stroke-width: 2 }
.met { fill: #2b8a3e } .missed { fill: #c92a2a }
"""

_PANELS = (
    ("windows of 4 MiB", "tuned", "default", ""),
    ("windows of 1 MiB", "tuned", "default", "_win1m"),
    ("ntb0 with windows of 1 MiB against ntb0 with windows of 4 MiB", "own", None, "_win1m"),
)

# What processes use, by what its metrics begin with.
_LIBRARIES = {
    "ports_": "ports",
    "pximc_": "PXImc",
    "sisci_": "SISCI",
    "vi_": "VI",
    "mcapi_": "MCAPI",
}


def _better(found, value):
    """How many times better a ratio is."""
    if found["better"] != "lower":
        return value
    return 1 / value if value else math.inf


class _Axis:
    """A logarithmic axis over whole powers of two."""

    def __init__(self, values):
        logs = [math.log2(value) for value in values if value > 0] or [0.0]
        self.low = min(-1, math.floor(min(logs) - 0.1))
        self.high = max(1, math.ceil(max(logs) + 0.1))

    def x(self, value):
        part = (math.log2(value) - self.low) / (self.high - self.low)
        return _LEFT + min(max(part, 0.0), 1.0) * (_RIGHT - _LEFT)

    def ticks(self):
        step = 1 + (self.high - self.low) // 12
        first = -(-self.low // step) * step
        return [2.0**power for power in range(first, self.high + 1, step)]


class _Drawing:
    """Collects elements."""

    def __init__(self):
        self.parts = []

    def text(self, x, y, words, kind=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
        )

    def dot(self, x, y, radius, kind):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}"/>')

    def box(self, x, y, width, height, kind):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" class="{kind}"/>'
        )

    def goal(self, x, y, kind):
        """A pointer to a target."""
        self.parts.append(f'<path d="M{x:.1f} {y - 4:.1f} l-5 -9 h10 z" class="{kind}"/>')


def _tick_label(value):
    return f"{value:g}×" if value >= 1 else f"1/{1 / value:g}×"


def _grid(drawing, axis, top, bottom):
    for value in axis.ticks():
        x = axis.x(value)
        drawing.line(x, top, x, bottom, "one" if value == 1 else "grid")
        drawing.text(x, bottom + 15, _tick_label(value), "small middle")


def _row(drawing, axis, y, label, main, other):
    drawing.text(_LEFT - 14, y + 5, label, "end")
    if other and other["ratio"]:
        drawing.dot(axis.x(_better(other, other["ratio"])), y, 5, "default")
    if main["ratio"]:
        low, high = (axis.x(_better(main, end)) for end in main["ratio_range"])
        drawing.line(low, y, high, y, "span")
        drawing.dot(axis.x(_better(main, main["ratio"])), y, 5.5, "tuned")
    verdict = ""
    if "target" in main:
        verdict = "met" if main["met"] else "missed"
        drawing.goal(axis.x(_better(main, main["target"])), y - 1, verdict)
    cells = (number(main["ours"]), number(main["baseline"]), main["unit"], ratio(main["ratio"]))
    for (name, x), words in zip(_COLUMNS, cells):
        kind = {"unit": "", "ratio": f"end {verdict}"}.get(name, "end")
        drawing.text(x, y + 5, words, kind)


def _panel(drawing, axis, top, title, rows):
    drawing.text(20, top + 20, title, "panel")
    for name, x in _COLUMNS:
        if name != "unit":
            drawing.text(x, top + 20, name, "small end")
    first = top + _PANEL_HEAD - 12
    for index in range(0, len(rows), 2):
        drawing.box(12, first + index * _ROW, _WIDTH - 24, _ROW, "row")
    _grid(drawing, axis, first, first + len(rows) * _ROW)
    for index, (label, main, other) in enumerate(rows):
        _row(drawing, axis, first + (index + 0.5) * _ROW, label, main, other)
    return first + len(rows) * _ROW + 30


def _legend(drawing, y):
    x = _LEFT
    drawing.dot(x, y - 4, 5.5, "tuned")
    drawing.text(x + 12, y, "mainline at its best settings (bar: all rounds)", "small")
    drawing.dot(x + 300, y - 4, 5, "default")
    drawing.text(x + 312, y, "mainline by default", "small")
    drawing.goal(x + 450, y + 2, "met")
    drawing.goal(x + 464, y + 2, "missed")
    drawing.text(x + 478, y, "target, met or missed", "small")


def _rows(by_name, kind, other, suffix):
    rows = []
    for name, found in by_name.items():
        metric, _, rest = name.partition("_vs_")
        if rest == f"{kind}{suffix}":
            rows.append((metric, found, by_name.get(f"{metric}_vs_{other}{suffix}")))
    return rows


def _rows_of_processes(by_name, prefix):
    """What is compared with something else than mainline's own such figure."""
    rows = []
    for name, found in by_name.items():
        metric, _, rest = name.removeprefix(prefix).partition("_vs_")
        if name.startswith(prefix) and rest not in ("tuned", "default"):
            rows.append((f"{metric} vs {rest}".replace("_", " "), found, None))
    return rows


def draw(results):
    """The SVG file's content."""
    by_name = {found["name"]: found for found in results}
    values = [_better(f, f["ratio"]) for f in results if f["ratio"]]
    values += [_better(f, f["target"]) for f in results if "target" in f]
    axis = _Axis(values)
    drawing = _Drawing()
    drawing.text(20, 32, "ntb0 and mainline over the same emulated NTB", "title")
    words = "How many times better than the baseline: medians of the rounds; right is better"
    drawing.text(20, 54, words, "small")
    y = _HEAD
    for title, kind, other, suffix in _PANELS:
        if rows := _rows(by_name, kind, other, suffix):
            y = _panel(drawing, axis, y, title, rows)
    for prefix, library in _LIBRARIES.items():
        if rows := _rows_of_processes(by_name, prefix):
            title = f"processes by {library} against what stands behind vs"
            y = _panel(drawing, axis, y, title, rows)
    _legend(drawing, y + 18)
    height = y + _FOOT - 26
    body = "\n".join(drawing.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}">\n<style>{_STYLE}</style>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )
