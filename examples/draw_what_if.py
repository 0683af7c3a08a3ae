"""Draws what `motley what-if --json` printed: throughput, where the time goes, and throughput against price.

motley what-if MODEL ... --json > sweep.json
.venv/bin/python examples/draw_what_if.py sweep.json -o sweep.svg        (or .png)
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed
from matplotlib import pyplot
from matplotlib.axes import Axes

Outcome = dict[str, Any]
SHOWN = 24  # combinations of whose time a bar is drawn


def lines_of(sweep: dict[str, Any]) -> dict[str, list[Outcome]]:
    """The last axis runs along x; a line for each combination of the others."""
    lines: dict[str, list[Outcome]] = {}
    for outcome in sweep["outcomes"]:
        lines.setdefault(", ".join(outcome["values"][:-1]), []).append(outcome)
    return lines


def draw_throughput(axes: Axes, sweep: dict[str, Any]) -> None:
    for name, outcomes in lines_of(sweep).items():
        x = [outcome["values"][-1] if outcome["values"] else "" for outcome in outcomes]
        y = [outcome["samples_per_second"] if outcome["feasible"] else float("nan") for outcome in outcomes]
        line = axes.plot(x, y, marker="o", label=name or None)[0]
        for at, outcome in zip(x, outcomes, strict=True):
            if not outcome["feasible"]:
                axes.plot([at], [0], marker="x", color=line.get_color())
            elif "noise" in outcome:
                slow, usual = (outcome["batch"] / outcome["noise"][f"{k}_seconds"] for k in ("p95", "median"))
                axes.plot([at, at], [slow, usual], color=line.get_color(), linewidth=4, alpha=0.4)
    axes.set_ylim(0, 1.1 * max(outcome["samples_per_second"] for outcome in sweep["outcomes"]) or 1)
    axes.set_ylabel("samples per second")
    axes.set_xlabel(sweep["axes"][-1] if sweep["axes"] else "")
    if len(lines_of(sweep)) > 1:
        axes.legend(title=", ".join(sweep["axes"][:-1]), fontsize="small")


def draw_time(axes: Axes, outcomes: list[Outcome]) -> None:
    """A bar per combination: the critical path by resource."""
    names = [", ".join(outcome["values"]) or outcome["strategy"] for outcome in outcomes]
    resources = list(dict.fromkeys(part["resource"] for outcome in outcomes for part in outcome["bottlenecks"]))
    left = [0.0] * len(outcomes)
    for resource in resources:
        width = []
        for outcome in outcomes:
            share = sum(part["share"] for part in outcome["bottlenecks"] if part["resource"] == resource)
            width.append(share * outcome["iteration_seconds"])
        axes.barh(names, width, left=left, label=resource)
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.set_xlim(0, 1.02 * max(left))
    axes.invert_yaxis()
    axes.set_xlabel("seconds of the iteration's critical path")
    axes.legend(fontsize="small")


def draw_prices(axes: Axes, sweep: dict[str, Any], outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        axes.plot(outcome["price_per_hour"], outcome["samples_per_second"], "o", color="tab:blue")
        label = ", ".join(outcome["values"])
        axes.annotate(label, (outcome["price_per_hour"], outcome["samples_per_second"]), fontsize="x-small")
    if sweep.get("cheapest") is not None:
        best = sweep["outcomes"][sweep["cheapest"]]
        axes.plot(best["price_per_hour"], best["samples_per_second"], "o", markersize=14, fillstyle="none", color="red")
    axes.set_xlabel("price per hour")
    axes.set_ylabel("samples per second")
    axes.set_xlim(0, 1.2 * max(outcome["price_per_hour"] for outcome in outcomes))
    axes.set_ylim(0, 1.1 * max(outcome["samples_per_second"] for outcome in outcomes))


def draw(sweep: dict[str, Any], path: Path) -> None:
    fitting = [outcome for outcome in sweep["outcomes"] if outcome["feasible"]]
    timed = [outcome for outcome in fitting if outcome["bottlenecks"]][:SHOWN]
    priced = [outcome for outcome in fitting if "price_per_hour" in outcome]
    panels = 1 + bool(timed) + bool(priced)
    heights = [4.0] + [1 + 0.35 * len(timed)] * bool(timed) + [4.0] * bool(priced)
    figure, grid = pyplot.subplots(
        panels, 1, figsize=(8, sum(heights)), squeeze=False, layout="constrained", height_ratios=heights
    )
    remaining = list(grid[:, 0])
    draw_throughput(remaining.pop(0), sweep)
    if timed:
        draw_time(remaining.pop(0), timed)
    if priced:
        draw_prices(remaining.pop(0), sweep, priced)
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", help="what `motley what-if --json` printed; - is standard input")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the picture, .svg or .png")
    arguments = parser.parse_args()
    text = sys.stdin.read() if arguments.sweep == "-" else Path(arguments.sweep).read_text()
    draw(json.loads(text), arguments.output)


if __name__ == "__main__":
    main()
