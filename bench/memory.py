"""Predicted against measured memory: examples trained by several strategies on emulated devices."""

import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import BIN, ROOT, Figure, Report, table

LANGUAGE = "--layers 4 --hidden 256 --heads 4 --sequence 128 --vocabulary 2048"
MODELS = {  # options of the example, batch size, optimizer
    "gpt2": (LANGUAGE, 24, "adamw"),
    "bert": (f"{LANGUAGE} --intermediate 1024", 24, "sgd"),
    "llama": (f"{LANGUAGE} --intermediate 512 --key-value-heads 2", 24, "adam"),
    "moe": (f"{LANGUAGE} --intermediate 256 --key-value-heads 2 --experts 4", 12, "sgd"),
    "resnet50": ("--image-size 64 --classes 10", 24, "sgd"),
    "vgg19": ("--image-size 64 --width 0.5 --hidden 1024 --classes 10", 24, "sgd"),
    "inception_v3": ("--image-size 139 --classes 10", 12, "adam"),
    "mobilenet_v2": ("--image-size 96 --classes 10", 24, "sgd"),
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


def export(name: str, options: str, folder: Path) -> Path:
    model = folder / f"{name}.pt2"
    script = ROOT / "examples" / f"{name}.py"
    subprocess.run([sys.executable, script, *options.split(), "-o", model], check=True, stdout=subprocess.DEVNULL)
    return model


def write_data(model: Path, folder: Path, samples: int) -> None:
    """Random arrays for the model's inputs: floats, and integers below 4, which any vocabulary and loss has."""
    with zipfile.ZipFile(model) as archive:
        program: dict[str, Any] = json.loads(archive.read(f"{model.stem}/models/model.json"))["graph_module"]
    folder.mkdir()
    random = np.random.default_rng(0)
    for spec in program["signature"]["input_specs"]:
        if "user_input" not in spec:
            continue
        name = spec["user_input"]["arg"]["as_tensor"]["name"]
        meta = program["graph"]["tensor_values"][name]
        shape = [size.get("as_int", samples) for size in meta["sizes"]]
        floats = meta["dtype"] == importlib.import_module("torch._export.serde.schema").ScalarType.FLOAT
        array = random.standard_normal(shape, np.float32) if floats else random.integers(0, 4, shape)
        np.save(folder / f"{name}.npy", array)


def train(name: str, cluster: str, folder: Path, strategies: tuple[str, ...]) -> list[dict[str, Any]]:
    options, batch, optimizer = MODELS[name]
    model = folder / f"{name}.pt2"
    if not model.exists():
        export(name, options, folder)
        write_data(model, folder / f"{name}-data", 4 * batch)
    command: list[str | Path] = [
        BIN / "motley",
        "run",
        model,
        "--batch",
        str(batch),
        "--data",
        folder / f"{name}-data",
        "--json",
    ]
    command += ["--optimizer", optimizer, "--iterations", str(ITERATIONS), "--profiles", folder / "profiles.sqlite"]
    for agent in CLUSTERS[cluster]:
        command += ["--agent", f"{agent},devices=1,threads=1"]
    for strategy in strategies:
        command += ["--strategy", strategy]
    runs: list[dict[str, Any]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return runs


def run(quick: bool) -> Report:
    rows = []
    errors: dict[str, list[float]] = {"peak": [], "reserved": [], "allocated": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in QUICK if quick else MODELS:
            for cluster in list(CLUSTERS)[:1] if quick else CLUSTERS:
                for result in train(name, cluster, Path(folder), STRATEGIES[:3] if quick else STRATEGIES):
                    for device, memory in result["memory"].items():
                        row = [name, cluster, result["strategy"], device]
                        for kind, list_ in errors.items():
                            predicted, measured = memory[f"predicted_{kind}_bytes"], memory[f"measured_{kind}_bytes"]
                            list_.append(100 * (predicted / measured - 1))
                            row += [f"{predicted / 2**20:.1f}", f"{measured / 2**20:.1f}", f"{list_[-1]:+.1f} %"]
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
    found = [
        Figure("memory-error-mean", statistics.mean(abs(e) for e in errors["peak"]), "percent", "<= 5"),
        Figure("memory-under-max", max(0.0, -min(errors["peak"])), "percent", "<= 2"),
        Figure("allocated-error-mean", statistics.mean(abs(e) for e in errors["allocated"]), "percent", "<= 2"),
        Figure("allocated-under-max", max(0.0, -min(errors["allocated"])), "percent", "<= 2"),
    ]
    return Report("Memory, predicted against measured", text, found)
