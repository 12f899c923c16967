# SPDX-License-Identifier: GPL-2.0-only
"""Results as a table, a JSON file and a plot."""

import json
import statistics

from . import bench_plot
from .bench_format import number, ratio


# Further numbers of a sample: name, what the table says, unit.
_NOTES = (
    ("loss", "lost", " %"),
    ("worst", "at the worst offset", ""),
    ("doorbell", "half a round trip of doorbells", " us"),
    ("context_switch", "a context switch", " us"),
)


def _median(values):
    return statistics.median(values) if values else None


def _median_note(samples, name):
    return _median([s.notes[name] for s in samples if s and name in s.notes])


def result(name, metric, ours, theirs, baseline_name, target):
    """One comparison; lists of samples, by round. The ratio is ours to theirs,
    whichever is better; it is the median of the rounds' ratios."""
    pairs = [(o.value, t.value) for o, t in zip(ours, theirs) if o and t and t.value]
    ratios = [o / t for o, t in pairs]
    found = {
        "name": name,
        "unit": metric.unit,
        "ours": _median([s.value for s in ours if s]),
        "baseline": _median([s.value for s in theirs if s]),
        "baseline_name": baseline_name,
        "ratio": _median(ratios),
        "ratio_range": [min(ratios), max(ratios)] if ratios else None,
        "rounds": len(ratios),
        "better": metric.better,
    }
    for note, _, _ in _NOTES:
        if (value := _median_note(ours, note)) is not None:
            found[note] = value
        if (value := _median_note(theirs, note)) is not None:
            found[f"baseline_{note}"] = value
    if target is not None:
        found["target"] = target
        found["met"] = _is_met(found, metric, target)
    return found


def _is_met(found, metric, target):
    reached = found["ratio"]
    if reached is None:
        return False
    if metric.most_lost is not None and found.get("loss", 0.0) > metric.most_lost:
        return False
    return reached >= target if metric.better == "higher" else reached <= target


def write(results, directory):
    """Write `bench.json` and `bench.svg`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (directory / "bench.svg").write_text(bench_plot.draw(results))


def _goal(found):
    if "target" not in found:
        return ""
    sign = ">=" if found["better"] == "higher" else "<="
    verdict = "met" if found["met"] else "MISSED"
    return f"{sign} {found['target']:.2f} {verdict}"


def table(results, seconds):
    """Print all results."""
    print(
        f"\n{'result':38} {'unit':7}{'ours':>9}{'baseline':>10}{'ratio':>8}  {'all rounds':14}target"
    )
    for found in results:
        span = found["ratio_range"]
        span = f"{ratio(span[0])} - {ratio(span[1])}" if span else ""
        print(
            f"{found['name']:38} {found['unit']:7}{number(found['ours']):>9}"
            f"{number(found['baseline']):>10}{ratio(found['ratio']):>8}  {span:14}{_goal(found)}"
        )
        notes = [
            f"{side} {words} {number(found[key])}{unit}"
            for note, words, unit in _NOTES
            for side, key in (("ours", note), ("baseline", f"baseline_{note}"))
            if found.get(key)
        ]
        if notes:
            print(f"{'':38} {'; '.join(notes)}")
    met = sum(found.get("met", False) for found in results)
    print(f"\n{met} of {sum('target' in f for f in results)} targets met, in {seconds:.0f} s")
