"""Others' data: plans that they measured on GPUs, predicted; and plans for their profiles, beside their own."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import BIN, ROOT, Figure, Report, table
from bench.rulers import Planned, Sailor, pipedream_optimum, read_pipedream, read_plan

# Where the data lies (docs/validate.md says what they are): sailor/, pipedream/ and piper/ in it.
DATA = Path(os.environ.get("MOTLEY_VALIDATION", ROOT.parent / "shared" / "validation"))

# OPT-350M, 1024 samples an iteration: GPUs, and of the plan that Sailor's planner finds its own estimate of an
# iteration and how long it searched (run on a machine like this one).
SAILOR = (
    ({"A100-40": 16}, 15.31, 0.02),
    ({"A100-40": 8, "V100-16": 8}, 22.37, 0.02),
    ({"A100-40": 16, "V100-16": 16}, 12.15, 0.06),
    ({"A100-40": 32, "V100-16": 96}, 5.26, 0.71),
)
GPUS_OF_A_NODE = 4
PART_OF_THEIR_TIME = 0.9  # to search in: what is under way when it is over still ends
# Nodes of PipeDream's cluster, workers of each, bytes per second inside and between them.
NODES, WORKERS, INSIDE, BETWEEN = 4, 4, 4.29e9, 1.25e9
MINIBATCHES = 256
# Piper's BERT-32: devices of 8 GB, and seconds per sample at its optimum; 25 GB/s, 1920 samples.
PIPER = ((8, 0.166), (32, 0.042), (128, 0.0101))
PIPER_SAMPLES = 1920


def motley(*arguments: object) -> dict[str, Any]:
    command = [str(BIN / "motley"), *map(str, arguments), "--json"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def measured() -> tuple[str, list[Figure]]:
    result = motley("validate", DATA / "sailor" / "measured")
    rows = [
        [
            Path(plan["plan"]).stem.removeprefix("plan_config_"),
            f"{plan['iteration_seconds']:.3f}",
            f"{plan['measured_seconds']:.3f}",
            f"{100 * plan['time_error']:+.1f} %",
            f"{plan['peak_memory_bytes'] / 1e9:.2f}",
            f"{plan['measured_memory_bytes'] / 1e9:.2f}",
            f"{100 * plan['memory_error']:+.1f} %",
        ]
        for plan in result["plans"]
    ]
    header = ["plan", "seconds", "measured", "error", "GB on a GPU", "measured", "error"]
    text = (
        "## Measured plans, predicted\n\n"
        "OPT-350M on nodes of four GH200, as Sailor's authors measured it (Strati et al., SOSP 2025). `N` nodes, `D`\n"
        "replicas of each stage, tensor parallelism 4. Nothing is fitted to these plans; [validate.md](validate.md)\n"
        f"says what enters, and where the errors come from.\n\n{table(header, rows)}"
    )
    time, memory = result["time"], result["memory"]
    return text, [
        Figure("validate-time-mean", 100 * time["mean"], "%", "<= 6"),
        Figure("validate-time-max", 100 * time["worst"], "%", "<= 12"),
        Figure("validate-memory-mean", 100 * memory["mean"], "%", "<= 4"),
        Figure("validate-memory-under-max", 100 * memory["most_under"], "%", "<= 2"),
    ]


def plan_for_sailor(gpus: dict[str, int], budget: float) -> tuple[dict[str, Any], Planned]:
    kinds: dict[str, str] = {}
    for gpu, count in gpus.items():
        for _ in range(0, count, GPUS_OF_A_NODE):
            kinds[f"n{len(kinds)}"] = gpu
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yaml"
        names = ",".join(f"{gpu}={count}" for gpu, count in gpus.items())
        model = DATA / "sailor" / "profiles" / "OPT-350"
        plan = motley("plan", model, "--gpus", names, "--batch", 1024, "--budget", budget, "-o", file)
        return plan, read_plan(file, kinds)


def sailor() -> tuple[str, list[Figure]]:
    """In no more time than Sailor's planner takes."""
    ruler = Sailor(DATA / "sailor", "OPT-350")
    rows, plan_ratios, search_ratios = [], [], []
    for gpus, theirs, their_search in SAILOR:
        plan, planned = plan_for_sailor(gpus, PART_OF_THEIR_TIME * their_search)
        ours = ruler.iteration(planned)
        plan_ratios.append(ours / theirs)
        search_ratios.append(plan["search_seconds"] / their_search)
        rows.append(
            [
                " + ".join(f"{count} {gpu}" for gpu, count in gpus.items()),
                f"{theirs:.2f}",
                f"{ours:.2f}",
                f"{plan_ratios[-1]:.3f}",
                f"{plan['iteration_seconds']:.2f}",
                f"{their_search:.2f}",
                f"{plan['search_seconds']:.3f}",
                planned.words,
            ]
        )
    header = ["GPUs", "Sailor's plan", "ours", "ratio", "simulated", "Sailor's search", "ours", "our plan"]
    text = (
        "## Plans for Sailor's profiles\n\n"
        "OPT-350M, 1024 samples an iteration; seconds. Both plans are judged by Sailor's own estimate with its\n"
        "own figures (`bench/rulers.py`), ours by motley's simulator as well, in which the GPUs of a node share\n"
        "its links. motley searches in nine tenths of the time that Sailor took. When that is over, it takes the\n"
        "first plan by its own estimate that fits; the simulation that says so is not counted.\n"
        "[profiles.md](profiles.md)\n\n"
        f"{table(header, rows)}"
    )
    return text, [
        Figure("sailor-plan-ratio", max(plan_ratios), "ratio", "<= 1"),
        Figure("sailor-search-ratio", max(search_ratios), "ratio", "<= 1"),
    ]


def star(devices: int, memory: str, rate: str) -> str:
    return (
        f"nodes:\n  - name: n\n    devices: {{kind: profiled, count: {devices}, memory: {memory}}}\n"
        f"    peer: {{bandwidth: {rate}, latency: 0s}}\n"
    )


def pairs_of_levels() -> str:
    return (
        f"nodes:\n  - name: n\n    count: {NODES}\n    devices: {{kind: profiled, count: {WORKERS}, memory: 1TiB}}\n"
        f"    peer: {{bandwidth: {INSIDE / 1e9}GB/s, latency: 0s}}\n"
        f"switches: [s]\nlinks:\n  - {{between: [n, s], bandwidth: {BETWEEN / 1e9}GB/s, latency: 0s}}\n"
    )


def layer_graphs(quick: bool) -> tuple[str, list[Figure]]:
    rows, ratios = [], []

    def add(graph: Path, cluster: str, name: str, batch: int, theirs: float) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cluster.yaml"
            file.write_text(cluster)
            plan = motley("plan", graph, "--cluster", file, "--batch", batch, "--budget", 3 if quick else 8)
        ours = plan["iteration_seconds"] / batch
        ratios.append(ours / theirs)
        rows.append([graph.stem, name, str(batch), f"{1e3 * theirs:.2f}", f"{1e3 * ours:.2f}", f"{ratios[-1]:.3f}"])

    levels = [(WORKERS, INSIDE), (NODES, BETWEEN)]
    for model in ("vgg16",) if quick else ("vgg16", "resnet50", "alexnet", "gnmt"):
        graph = DATA / "pipedream" / f"{model}.txt"
        optimum = pipedream_optimum(read_pipedream(graph), levels)
        add(graph, pairs_of_levels(), f"PipeDream, {NODES} x {WORKERS}", MINIBATCHES, optimum)
    for devices, theirs in PIPER[:1] if quick else PIPER:
        cluster = star(devices, "8GiB", "25GB/s")
        add(DATA / "piper" / "bert32a100.json", cluster, f"Piper, {devices}", PIPER_SAMPLES, theirs)
    header = ["graph", "planner, devices", "of an iteration", "theirs, ms", "ours, ms", "ratio"]
    text = (
        "## Plans for PipeDream's and Piper's graphs\n\n"
        "Milliseconds per minibatch (PipeDream) or sample (Piper). Theirs is the slowest stage at the optimum of\n"
        "their own cost model: PipeDream's is recomputed by its dynamic program, Piper's are what its published\n"
        "code finds. Ours is the whole iteration as simulated, the filling and draining of the pipeline included,\n"
        "divided by its minibatches or samples. PipeDream updates after every minibatch, with the weights of\n"
        "before; motley's plans are synchronous and update once per iteration.\n\n"
        f"{table(header, rows)}"
    )
    return text, [Figure("layer-graph-ratio", max(ratios), "ratio", "<= 1")]


def run(quick: bool) -> Report:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is not there: say where others' data lies with MOTLEY_VALIDATION=FOLDER")
    parts = [measured(), sailor(), layer_graphs(quick)]
    text = "\n\n".join(text for text, _ in parts)
    return Report("Others' measured plans and profiles", text, [figure for _, figures in parts for figure in figures])
