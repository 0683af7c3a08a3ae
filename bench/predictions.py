"""Predicted against measured: real jobs on a cluster in a box (bench/box), models x clusters x strategies."""

import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
from demo import cluster
from demo.cluster import HOSTS, Cluster, Host

from bench.harness import BIN, ROOT, Figure, Parts, Report, table

TEXT = ["--sequence", "64", "--vocabulary", "256", "--dropout", "0"]
SAMPLES = 512


@dataclass(frozen=True)
class Model:
    script: str
    options: list[str]
    batch: int


MODELS = {
    "gpt2": Model("gpt2", ["--layers", "2", "--hidden", "128", "--heads", "4", *TEXT], 84),
    "bert": Model("bert", ["--layers", "2", "--hidden", "128", "--heads", "4", "--intermediate", "512", *TEXT], 84),
    "llama": Model(
        "llama",
        ["--layers", "3", "--hidden", "128", "--heads", "4", "--key-value-heads", "2"]
        + ["--intermediate", "256", *TEXT],
        84,
    ),
    "resnet50": Model("resnet50", ["--image-size", "32", "--classes", "10", "--layers", "1", "1", "1", "1"], 28),
    "vgg19": Model(
        "vgg19",
        ["--image-size", "32", "--classes", "10", "--width", "0.25", "--hidden", "256"] + ["--dropout", "0"],
        42,
    ),
    "mobilenet": Model(
        "mobilenet_v2", ["--image-size", "48", "--classes", "10", "--width", "0.5", "--dropout", "0"], 28
    ),
}
CLUSTERS = {
    "1 : 0.5 : 0.25, one slow link": HOSTS,
    "1 : 0.5, 50 Mbit/s": (Host("A", 100, 0, 50), Host("B", 50, 1, 50)),
    "four hosts, 1 : 1 : 0.4 : 0.4, unequal links": (
        Host("A", 60, 0, 500), Host("B", 60, 1, 500), Host("C", 24, 0, 100), Host("D", 24, 1, 200),
    ),
}  # fmt: skip
STRATEGIES = ("ev-ps", "ev-ar", "cp-ps", "cp-ar", "mp:A/0", "mp:B/0", "mp-blocks", "search")
ORDER_MATTERS = 1.05  # strategies that differ by less are not told apart


@dataclass(frozen=True)
class Run:
    """One strategy of one model on one cluster."""

    model: str
    cluster: str
    strategy: str
    predicted: float  # seconds per iteration
    measured: float
    memory: list[tuple[int, int]]  # per device, predicted and measured peak bytes
    accuracy: dict[str, Any]  # where the time's error comes from, as docs/json.md says

    @property
    def time_error(self) -> float:
        return 100 * (self.predicted / self.measured - 1)

    @property
    def memory_errors(self) -> list[float]:
        return [100 * (predicted / measured - 1) for predicted, measured in self.memory]


def export(model: Model, folder: Path) -> Path:
    """The model with weights, and random data for it."""
    file = folder / "model.pt2"
    command = [sys.executable, str(ROOT / "examples" / f"{model.script}.py"), *model.options, "-o", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    inspect = subprocess.run([BIN / "motley", "inspect", file, "--json"], check=True, capture_output=True)
    data = folder / "data"
    data.mkdir()
    random = numpy.random.default_rng(1)
    for tensor in json.loads(inspect.stdout)["inputs"]:
        shape = (SAMPLES, *map(int, tensor["shape"][1:]))
        floats = tensor["dtype"].startswith("f")
        array = random.normal(size=shape).astype("float32") if floats else random.integers(0, 10, shape)
        numpy.save(data / f"{tensor['name']}.npy", array)
    return file


def runs(name: str, shape: str, where: Cluster, folder: Path, strategies: tuple[str, ...], quick: bool) -> list[Run]:
    """All strategies in turn, each from the same start; what is predicted rests on what was profiled just before."""
    arguments: list[str | Path] = ["run", folder / "model.pt2", "--batch", str(MODELS[name].batch)]
    arguments += ["--data", folder / "data", "--optimizer", "adamw", "--learning-rate", "0.001"]
    arguments += ["--iterations", "6" if quick else "10", "--budget", "3" if quick else "6", "--json"]
    for strategy in strategies:
        arguments += ["--strategy", strategy]
    result = []
    for strategy, run in zip(strategies, json.loads(where.motley(*arguments)), strict=True):
        found: dict[str, Any] = run
        predicted, measured = found["predicted_peak_memory_bytes"], found["measured_peak_memory_bytes"]
        memory = [(predicted[device], measured[device]) for device in measured]
        times = found["predicted_seconds"], found["measured_seconds"]
        result.append(Run(name, shape, strategy, *times, memory, found["accuracy"]))
        print(f"   {name}, {shape}, {strategy}: {result[-1].time_error:+.1f} %", file=sys.stderr, flush=True)
    return result


def ordered(found: list[Run]) -> tuple[int, int]:
    """Of pairs of strategies for one model on one cluster that were measured apart: rightly ordered ones, all."""
    right = pairs = 0
    for a, b in itertools.combinations(found, 2):
        if (a.model, a.cluster) != (b.model, b.cluster):
            continue
        slow, fast = (a, b) if a.measured > b.measured else (b, a)
        if slow.measured < ORDER_MATTERS * fast.measured:
            continue
        pairs += 1
        right += slow.predicted > fast.predicted
    return right, pairs


def figures(found: list[Run]) -> list[Figure]:
    times = [abs(run.time_error) for run in found]
    memory = [error for run in found for error in run.memory_errors]
    right, pairs = ordered(found)
    return [
        Figure("time-error-mean", statistics.mean(times), "percent", "<= 5"),
        Figure("time-error-max", max(times), "percent", "<= 12"),
        Figure("order-right", 100 * right / max(pairs, 1), "percent", ">= 95"),
        Figure("memory-error-mean", statistics.mean(map(abs, memory)), "percent", "<= 5"),
        Figure("memory-under-max", max(0.0, -min(memory)), "percent", "<= 2"),
    ]


def by_kind(found: list[Run]) -> list[list[str]]:
    """Per kind of instruction: how far its prediction is off, and what that does to an iteration (docs/accuracy.md)."""
    entries: dict[str, list[tuple[float, dict[str, Any]]]] = {}  # with the whole iteration's time
    for run in found:
        for entry in [*run.accuracy["kinds"], {"kind": "elsewhere", **run.accuracy["elsewhere"]}]:
            entries.setdefault(entry["kind"], []).append((run.accuracy["measured_seconds"], entry))
    result = []
    for kind, of_kind in entries.items():
        shares = [100 * entry["measured_seconds"] / whole for whole, entry in of_kind]
        errors = [100 * (entry["predicted_seconds"] - entry["measured_seconds"]) / whole for whole, entry in of_kind]
        everywhere = [entry["everywhere"] for _, entry in of_kind if "everywhere" in entry]
        predicted, measured = (sum(time[of] for time in everywhere) for of in ("predicted_seconds", "measured_seconds"))
        result.append(
            [
                kind,
                f"{len(of_kind)}",
                f"{statistics.mean(shares):.1f} %",
                f"{statistics.mean(errors):+.1f} %",
                f"{statistics.mean(map(abs, errors)):.1f} %",
                f"{100 * (predicted / measured - 1):+.1f} %" if measured > 0 else "-",
            ]
        )
    return result


def rows(found: list[Run]) -> list[list[str]]:
    return [
        [
            run.model,
            run.cluster,
            run.strategy,
            f"{run.predicted:.3f} s",
            f"{run.measured:.3f} s",
            f"{run.time_error:+.1f} %",
            " ".join(f"{error:+.1f}" for error in run.memory_errors) + " %",
        ]
        for run in found
    ]


def measure(name: str, shape: str, strategies: tuple[str, ...], quick: bool) -> list[dict[str, Any]]:
    """All strategies for one model on one cluster, as fields of a Run."""
    with tempfile.TemporaryDirectory(prefix="motley-bench.") as parent:
        folder = Path(parent)
        export(MODELS[name], folder)
        profiles = folder / "profiles.sqlite"
        if os.environ.get("BOX_EMULATE") is None and cluster.box_works() is None:
            with cluster.in_box(profiles, CLUSTERS[shape]) as where:
                found = runs(name, shape, where, folder, strategies, quick)
        else:
            where = cluster.emulated(profiles, CLUSTERS[shape])
            found = runs(name, shape, where, folder, strategies, quick)
    return [asdict(run) for run in found]


def run(quick: bool, parts: Parts | None = None) -> Report:
    models = ["gpt2"] if quick else list(MODELS)
    shapes = list(CLUSTERS)[:1] if quick else list(CLUSTERS)
    strategies = ("ev-ar", "cp-ps", "mp:A/0") if quick else STRATEGIES
    parts = parts or Parts()
    found: list[Run] = []
    for name, (i, shape) in itertools.product(models, enumerate(shapes)):
        of_part = parts.of(f"{name}-{i}", functools.partial(measure, name, shape, strategies, quick))
        found += [Run(**fields) for fields in of_part]
    header = ["model", "cluster", "strategy", "predicted", "measured", "time error", "memory errors, per device"]
    kinds = ["instructions", "runs", "of an iteration", "error, of an iteration", "without sign", "error of the kind"]
    text = table(header, rows(found)) + "\n\n## Where the time's error comes from\n\n" + table(kinds, by_kind(found))
    return Report("Predicted against measured", text, figures(found))
