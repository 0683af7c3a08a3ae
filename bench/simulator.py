"""The simulator's speed on one thread: deployments that the compiler makes, flows that share links, and growth."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import BIN, ROOT, Figure, Report, table

BENCH = str(BIN / "simulator_bench")
CLUSTER = str(ROOT / "examples" / "clusters" / "heterog.yaml")
MODELS = {"vgg19": "VGG-19", "inception_v3": "Inception-v3"}
GOALS = {"vgg19": 3.7e6, "inception_v3": 1.8e6}
FLOWS = {  # the first two are the figures
    "64 hosts behind one switch": (64, []),
    "1,024 hosts in 64 racks": (1000, ["--racks", "64", "--hosts", "16"]),
    "64 hosts in 8 racks": (64, ["--racks", "8", "--hosts", "8"]),
    "... with half the bandwidth between racks": (64, ["--racks", "8", "--hosts", "8", "--oversubscribed", "2"]),
    "1,024 hosts in 64 racks with half of it": (
        1000,
        ["--racks", "64", "--hosts", "16", "--oversubscribed", "2"],
    ),
}


def measure(*arguments: str) -> dict[str, Any]:
    output = subprocess.run([BENCH, *arguments], check=True, stdout=subprocess.PIPE).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def nanoseconds(result: dict[str, Any], what: str) -> float:
    return float(result[what]) / int(result["tasks"]) * 1e9


def tasks_per_second(result: dict[str, Any]) -> float:
    return int(result["tasks"]) / float(result["simulate_seconds"])


def row(name: str, result: dict[str, Any]) -> list[str]:
    return [
        name,
        str(result["devices"]),
        f"{result['tasks']:,}",
        *(f"{nanoseconds(result, f'{phase}_seconds'):.0f}" for phase in ("compile", "flatten", "simulate")),
        f"{tasks_per_second(result):.3g}",
        f"{result['simulate_peak_bytes'] / 2**30:.2f}",
        f"{result['compile_peak_bytes'] / 2**30:.2f}",
    ]


def run(quick: bool) -> Report:
    seconds = ["--seconds", "1" if quick else "4"]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        # The largest deployment is compiled while the models are exported; it is timed by its own processor time.
        largest = subprocess.Popen([BENCH, *seconds, "chain", "--tasks", "10000000"], stdout=subprocess.PIPE)
        for model in MODELS:
            path = str(Path(folder) / f"{model}.pt2")
            command = [sys.executable, str(ROOT / "examples" / f"{model}.py"), "--no-weights", "-o", path]
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONWARNINGS": "ignore"}
            )
        output, _ = largest.communicate()
        if largest.returncode != 0:
            raise SystemExit("the chain of 10 million tasks failed: it takes 5 GiB of memory to compile")
        for model in MODELS:
            path = str(Path(folder) / f"{model}.pt2")
            results[model] = measure(*seconds, "deployment", path, CLUSTER, "--batch", "64")
    sizes = (100_000,) if quick else (10_000, 100_000, 1_000_000)
    chains = {f"{size:,}": measure(*seconds, "chain", "--tasks", str(size)) for size in sizes}
    chains["10,000,000"] = json.loads(output)
    flows = {
        name: float(measure(*seconds, "flows", "--at-once", str(at_once), *shape)["flows_per_second"])
        for name, (at_once, shape) in list(FLOWS.items())[: 2 if quick else None]
    }
    rates = list(flows.values())
    header = [
        "deployment",
        "devices",
        "tasks",
        "compile, ns",
        "flatten, ns",
        "simulate, ns",
        "tasks/s",
        "GiB",
        "GiB, compile",
    ]
    text = (
        "One thread, processor time. A task is an instruction of a compute stream, a transfer or a collective; "
        "nanoseconds are per task, the best of several runs. What counts is simulating a compiled deployment again"
        " from its flat arrays (times and memory); making these arrays and compiling come before. Memory is the "
        "process's peak, with the model and the cluster, while it simulates, and before, while the compiler's "
        "deployment is there too.\n\n"
        "## Models\n\nEven data parallelism with all-reduce on HeteroG's testbed (`examples/clusters/heterog.yaml`), "
        "batch 64. HeteroG's own simulator does 369 thousand tasks a second on VGG-19, 178 thousand on Inception.\n\n"
        + table(header, [row(MODELS[model], result) for model, result in results.items()])
        + "\n\n## Growth\n\nChains of layers on 64 devices of four speeds, even data parallelism with all-reduce.\n\n"
        + table(header, [row(name, result) for name, result in chains.items()])
        + "\n\n## Flows\n\nBetween random pairs of hosts with 100 Gbit/s each; as soon as one ends, another starts. "
        "SimGrid does 267 thousand a second of processor time with 56 flows at once and 37 thousand with 1,000.\n\n"
        + table(
            ["network", "flows at once", "flows/s"],
            [[name, f"{FLOWS[name][0]:,}", f"{rate:.3g}"] for name, rate in flows.items()],
        )
    )
    smaller, largest_chain = chains["100,000"], chains["10,000,000"]
    figures = [
        *(
            Figure(f"tasks-per-second-{name}", tasks_per_second(results[model]), "1/s", f">= {GOALS[model]:.2g}")
            for model, name in (("vgg19", "vgg19"), ("inception_v3", "inception"))
        ),
        Figure("flows-per-second-64", rates[0], "1/s", ">= 1e+06"),
        Figure("flows-per-second-1000", rates[1], "1/s", ">= 1e+05"),
        Figure(
            "growth-10M",
            nanoseconds(largest_chain, "simulate_seconds") / nanoseconds(smaller, "simulate_seconds"),
            "ratio",
            "<= 1.3",
        ),
        Figure("memory-10M", largest_chain["simulate_peak_bytes"] / 2**30, "GiB", "<= 2"),
    ]
    return Report("The simulator's speed", text, figures)
