"""Three unequal devices: every strategy, predicted against measured."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from demo import cluster, demo

from bench.harness import Figure, Report, table

# In the quick run: what is compared with, and the plan.
QUICK = ("ev-ar", "cp-ar", "search")


def measure(job: demo.Job, strategies: tuple[str, ...], rounds: int) -> tuple[str, list[list[dict[str, Any]]]]:
    """How the cluster was made, and per round all strategies in turn. Each round profiles anew: the machine's speed
    drifts, and a prediction is as old as its profile."""
    reason = cluster.box_works()
    found = []
    for i in range(rounds):
        profiles = job.out / f"profiles-{i}.sqlite"
        if reason is None:
            with cluster.in_box(profiles) as where:
                found.append(demo.motley_run(job, where, strategies, job.iterations))
        else:
            found.append(demo.motley_run(job, cluster.emulated(profiles), strategies, job.iterations))
    made = "hosts in a box (namespaces and cgroups)" if reason is None else f"emulated devices ({reason})"
    return made, found


def figures(rounds: list[list[dict[str, Any]]]) -> tuple[list[list[str]], list[Figure]]:
    names = [run["strategy"] for run in rounds[0]]
    measured = {name: statistics.median(r[i]["measured_seconds"] for r in rounds) for i, name in enumerate(names)}
    predicted = {name: statistics.median(r[i]["predicted_seconds"] for r in rounds) for i, name in enumerate(names)}
    errors = {name: 100 * (predicted[name] / measured[name] - 1) for name in names}
    chosen = names[-1]
    best = min(measured[name] for name in names[:-1])
    rows = [
        [
            name,
            f"{predicted[name]:.3f} s",
            f"{measured[name]:.3f} s",
            f"{errors[name]:+.1f} %",
            f"{measured['ev-ar'] / measured[name]:.2f}",
        ]
        for name in names
    ]
    return rows, [
        Figure("plan-vs-ev-ar", measured["ev-ar"] / measured[chosen], "ratio", ">= 2.0"),
        Figure("plan-vs-best-baseline", best / measured[chosen], "ratio", ">= 0.97"),
        Figure("time-error-mean", statistics.mean(abs(error) for error in errors.values()), "percent", "<= 10"),
    ]


def run(quick: bool) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        job = (
            demo.Job(Path(folder), iterations=5, search_seconds=4, profile_seconds=11)
            if quick
            else demo.Job(Path(folder), iterations=10, search_seconds=15)
        )
        demo.prepare(job)
        made, rounds = measure(job, QUICK if quick else demo.STRATEGIES, 1 if quick else 2)
    rows, found = figures(rounds)
    text = (
        f"GPT-2 of 2 layers of 128, {demo.SEQUENCE} bytes of text, batch {demo.BATCH}, AdamW, on three {made} "
        "of speed 1 : 0.5 : 0.25 (0.8, 0.4, 0.2 of a core) with links of 1, 1 and 0.2 Gbit/s. Per round, all "
        f"strategies run in turn; medians of {len(rounds)} round(s). Measured: the median iteration, the first two "
        "left out.\n\n" + table(["strategy", "predicted", "measured", "error", "speed-up over ev-ar"], rows)
    )
    return Report("Three unequal devices", text, found)
