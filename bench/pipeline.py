"""Pipelines on a cluster in a box whose hosts hold a part of the model each: the plan against even stages."""

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo import cluster
from demo.cluster import Cluster, Host

from bench.harness import Figure, Report, table
from bench.predictions import TEXT, Model, export

MEBIBYTES = 680
HOSTS = (
    Host("A", 100, 0, 1000, MEBIBYTES),
    Host("B", 50, 1, 1000, MEBIBYTES),
    Host("C", 25, 1, 200, MEBIBYTES),
)
HEADROOM = "40MiB"  # for the agent, which a host's memory holds as well
DEEP = ["--layers", "24", "--hidden", "192", "--heads", "4", *TEXT]
MODELS = {
    "gpt2": Model("gpt2", DEEP, 24),
    "llama": Model("llama", [*DEEP, "--key-value-heads", "2", "--intermediate", "576"], 24),
    "bert": Model("bert", [*DEEP, "--intermediate", "768"], 24),
}
EVEN = ("pp:gpipe", "pp:1f1b")


@dataclass(frozen=True)
class Run:
    model: str
    strategy: str
    predicted: float  # seconds per iteration
    measured: float
    fullest: float  # percent of its host's memory

    @property
    def error(self) -> float:
        return 100 * (self.predicted / self.measured - 1)


def train(name: str, where: Cluster, folder: Path, strategies: tuple[str, ...], quick: bool) -> list[Run]:
    batch = MODELS[name].batch // 2 if quick else MODELS[name].batch
    arguments: list[str | Path] = ["run", folder / "model.pt2", "--batch", str(batch)]
    arguments += ["--data", folder / "data", "--optimizer", "adamw", "--learning-rate", "0.001", "--json"]
    arguments += ["--iterations", "4" if quick else "8", "--budget", "3" if quick else "10", "--headroom", HEADROOM]
    for strategy in strategies:
        arguments += ["--strategy", strategy]
    result = []
    for run in json.loads(where.motley(*arguments)):
        found: dict[str, Any] = run
        fullest = 100 * max(found["measured_peak_memory_bytes"].values()) / (MEBIBYTES << 20)
        result.append(Run(name, found["strategy"], found["predicted_seconds"], found["measured_seconds"], fullest))
        print(f"   {name}, {result[-1].strategy}: {result[-1].error:+.1f} %", file=sys.stderr, flush=True)
    return result


def speed_up(found: list[Run], name: str) -> float:
    """Of the search's plan over the faster of the even pipelines."""
    measured = {run.strategy: run.measured for run in found if run.model == name}
    return min(time for strategy, time in measured.items() if strategy in EVEN) / measured["search"]


def run(quick: bool) -> Report:
    reason = cluster.box_works()
    if reason is not None:
        raise SystemExit(f"the pipeline benchmark needs a cluster in a box: {reason}")
    models = list(MODELS)[:1] if quick else list(MODELS)
    found: list[Run] = []
    for name in models:
        with tempfile.TemporaryDirectory(prefix="motley-bench.") as parent:
            folder = Path(parent)
            export(MODELS[name], folder)
            with cluster.in_box(folder / "profiles.sqlite", HOSTS) as where:
                found += train(name, where, folder, (EVEN[-1], "search") if quick else (*EVEN, "search"), quick)
    rows = [
        [r.model, r.strategy, f"{r.predicted:.3f} s", f"{r.measured:.3f} s", f"{r.error:+.1f} %", f"{r.fullest:.0f} %"]
        for r in found
    ]
    text = (
        f"Hosts of 1 : 0.5 : 0.25 of {100 * cluster.FULL_SPEED:.0f} % of a core with {MEBIBYTES} MiB of memory each "
        "(enforced), the last one behind 200 Mbit/s, the others behind 1 Gbit/s. No host holds a model alone.\n\n"
        + table(["model", "strategy", "predicted", "measured", "error", "fullest worker, of its host"], rows)
    )
    return Report(
        "Pipelines",
        text,
        [
            Figure("pipeline-speed-up", min(speed_up(found, name) for name in models), "ratio", ">= 1.5"),
            Figure("pipeline-error", statistics.mean(abs(r.error) for r in found), "percent", "<= 6"),
        ],
    )
