"""Predicted against measured memory: examples trained by several strategies on emulated devices."""

import functools
import itertools
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import BIN, Figure, Parts, Report, table
from bench.predictions import Model, export

LANGUAGE = ["--layers", "4", "--hidden", "256", "--heads", "4", "--sequence", "128", "--vocabulary", "2048"]
MODELS = {  # with the optimizer
    "gpt2": (Model("gpt2", LANGUAGE, 24), "adamw"),
    "bert": (Model("bert", [*LANGUAGE, "--intermediate", "1024"], 24), "sgd"),
    "llama": (Model("llama", [*LANGUAGE, "--intermediate", "512", "--key-value-heads", "2"], 24), "adam"),
    "moe": (
        Model("moe", [*LANGUAGE, "--intermediate", "256", "--key-value-heads", "2", "--experts", "4"], 12),
        "sgd",
    ),
    "resnet50": (Model("resnet50", ["--image-size", "64", "--classes", "10"], 24), "sgd"),
    "vgg19": (
        Model("vgg19", ["--image-size", "64", "--width", "0.5", "--hidden", "1024", "--classes", "10"], 24),
        "sgd",
    ),
    "inception_v3": (Model("inception_v3", ["--image-size", "299", "--classes", "10"], 4), "adam"),
    "mobilenet_v2": (Model("mobilenet_v2", ["--image-size", "96", "--classes", "10"], 24), "sgd"),
}
CLUSTERS = {
    "2 devices": ("name=A,speed=0.8,bandwidth=1Gbps,latency=100us", "name=B,speed=0.4,bandwidth=1Gbps,latency=100us"),
    "3 devices": (
        "name=A,speed=0.8,bandwidth=1Gbps,latency=100us",
        "name=B,speed=0.4,bandwidth=1Gbps,latency=100us",
        "name=C,speed=0.2,bandwidth=200Mbps,latency=100us",
    ),
}
STRATEGIES = ("mp:A/0", "ev-ar", "cp-ps", "mp-blocks")
QUICK = ("gpt2", "mobilenet_v2")
ITERATIONS = 3


def train(name: str, cluster: str, folder: Path, strategies: tuple[str, ...]) -> list[dict[str, Any]]:
    model, optimizer = MODELS[name]
    command: list[str | Path] = [BIN / "motley", "run", folder / "model.pt2", "--data", folder / "data", "--json"]
    command += ["--batch", str(model.batch), "--optimizer", optimizer, "--iterations", str(ITERATIONS)]
    command += ["--profiles", folder / "profiles.sqlite"]
    for agent in CLUSTERS[cluster]:
        command += ["--agent", f"{agent},devices=1,threads=1"]
    for strategy in strategies:
        command += ["--strategy", strategy]
    runs: list[dict[str, Any]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return runs


def measure(name: str, cluster: str, strategies: tuple[str, ...]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="motley-bench.") as folder:
        export(MODELS[name][0], Path(folder))
        return train(name, cluster, Path(folder), strategies)


def run(quick: bool, parts: Parts | None = None) -> Report:
    parts = parts or Parts()
    models = QUICK if quick else list(MODELS)
    clusters = list(CLUSTERS)[:1] if quick else list(CLUSTERS)
    rows = []
    errors: dict[str, list[float]] = {"peak": [], "reserved": [], "allocated": []}
    for name, (i, cluster) in itertools.product(models, enumerate(clusters)):
        strategies = ("cp-ps",) if quick else STRATEGIES
        for result in parts.of(f"{name}-{i}", functools.partial(measure, name, cluster, strategies)):
            for device, memory in result["memory"].items():
                row = [name, cluster, result["strategy"], device]
                for kind, found in errors.items():
                    predicted, measured = memory[f"predicted_{kind}_bytes"], memory[f"measured_{kind}_bytes"]
                    found.append(100 * (predicted / measured - 1))
                    row += [f"{predicted / 2**20:.1f}", f"{measured / 2**20:.1f}", f"{found[-1]:+.1f} %"]
                rows.append(row)
                print(*row, flush=True)
    text = (
        "Peak memory of every worker process in MiB, predicted before it started and measured when it ended. Peak: the "
        "process's resident set. Reserved: what the allocator held. Allocated: bytes of tensors.\n\n"
        + table(
            ["model", "cluster", "strategy", "device"]
            + [f"{kind} {what}" for kind in errors for what in ("predicted", "measured", "error")],
            rows,
        )
    )
    figures = [
        Figure("memory-error-mean", statistics.mean(abs(e) for e in errors["peak"]), "percent", "<= 5"),
        Figure("memory-under-max", max(0.0, -min(errors["peak"])), "percent", "<= 2"),
        Figure("allocated-error-mean", statistics.mean(abs(e) for e in errors["allocated"]), "percent", "<= 2"),
        Figure("allocated-under-max", max(0.0, -min(errors["allocated"])), "percent", "<= 2"),
    ]
    return Report("Memory, predicted against measured", text, figures)
