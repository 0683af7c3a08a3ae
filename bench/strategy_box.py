"""Plans for real: on clusters in a box (bench/box), what a search chose against every fixed strategy, all measured."""

import functools
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from demo import cluster
from demo.cluster import HOSTS, Host

from bench.harness import Figure, Parts, Report, table
from bench.predictions import TEXT, Model, export

# A host for each server of HeteroG's testbed, with speeds and ports in the proportion of its GPUs and links.
TESTBED = (Host("A", 60, 0, 400), Host("B", 40, 1, 200), Host("C", 40, 1, 200), Host("D", 30, 0, 200))
SLOW_LINK = (Host("A", 100, 0, 50), Host("B", 50, 1, 50))
SIZE = ["--layers", "2", "--hidden", "128", "--heads", "4", "--intermediate", "512", *TEXT]
IMAGE = ["--image-size", "32", "--classes", "10"]


@dataclass(frozen=True)
class Case:
    model: Model
    hosts: tuple[Host, ...]
    where: str


CASES = {
    "VGG-19": Case(
        Model("vgg19", [*IMAGE, "--width", "0.25", "--hidden", "256", "--dropout", "0"], 48),
        SLOW_LINK,
        "1 : 0.5, 50 Mbit/s",
    ),
    "NASNet-A": Case(
        Model(
            "nasnet", ["--image-size", "48", "--classes", "10", "--width", "16", "--stem", "8", "--repeats", "1"], 42
        ),
        HOSTS,
        "1 : 0.5 : 0.25, one slow link",
    ),
    "Transformer": Case(Model("transformer", SIZE, 84), HOSTS, "1 : 0.5 : 0.25, one slow link"),
    "XLNet": Case(Model("xlnet", [*SIZE, "--classes", "10"], 68), TESTBED, "HeteroG's testbed"),
    "mixture of experts": Case(
        Model("moe", [*SIZE, "--key-value-heads", "2", "--experts", "4"], 68), TESTBED, "HeteroG's testbed"
    ),
}
FIXED = ("ev-ps", "ev-ar", "cp-ps", "cp-ar", "mp:A/0", "mp-blocks")  # A is the fastest device


@dataclass(frozen=True)
class Time:
    """Seconds per iteration."""

    predicted: float
    measured: float


def measure(name: str, strategies: tuple[str, ...]) -> dict[str, list[float]]:
    """Per strategy the fields of a Time. All run in turn, each from the same start."""
    case = CASES[name]
    arguments = ["--batch", str(case.model.batch), "--optimizer", "adamw", "--learning-rate", "0.001"]
    arguments += ["--iterations", "10", "--budget", "6", "--json"]
    for strategy in strategies:
        arguments += ["--strategy", strategy]
    with tempfile.TemporaryDirectory(prefix="motley-bench.") as parent:
        folder = Path(parent)
        model = export(case.model, folder)
        with cluster.in_box(folder / "profiles.sqlite", case.hosts) as where:
            runs = json.loads(where.motley("run", model, "--data", folder / "data", *arguments))
    times = {
        strategy: [run["predicted_seconds"], run["measured_seconds"]]
        for strategy, run in zip(strategies, runs, strict=True)
    }
    print(f"   {name}: {times}", file=sys.stderr, flush=True)
    return times


INTRODUCTION = f"""\
Small models, trained on hosts in a box (namespaces and cgroups); 1 is {100 * cluster.FULL_SPEED:.0f} % of a core. All
strategies run in turn; measured is the median iteration, the first two left out."""


def run(quick: bool, parts: Parts | None = None) -> Report:
    reason = cluster.box_works()
    if reason is not None:
        raise SystemExit(f"measuring strategies needs a cluster in a box: {reason}")
    parts = parts or Parts()
    fixed = ("ev-ar", "cp-ar") if quick else FIXED
    rows, ratios = [], []
    for name in list(CASES)[:1] if quick else CASES:
        measured = parts.of(name, functools.partial(measure, name, (*fixed, "search")))
        times = {strategy: Time(*fields) for strategy, fields in measured.items()}
        plan = times["search"].measured
        ratios.append(min(times[strategy].measured for strategy in fixed) / plan)
        rows += [
            [
                name,
                CASES[name].where,
                strategy,
                f"{time.predicted:.3f} s",
                f"{time.measured:.3f} s",
                f"{plan / time.measured:.2f}",
            ]
            for strategy, time in times.items()
        ]
    text = (
        f"{INTRODUCTION}\n\n"
        + table(["model", "hosts", "strategy", "predicted", "measured", "speed"], rows)
        + "\n\n`speed`: iterations per second, over those of what the search chose."
    )
    return Report("Strategies, measured", text, [Figure("plan-vs-fastest-fixed-min", min(ratios), "ratio", ">= 0.97")])
