"""What a search finds for real models on unlike clusters, against every fixed strategy and against the bound."""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness import BIN, ROOT, Figure, Parts, Report, table
from bench.validate import DATA

WORK = ROOT / "build" / "bench" / "strategy"  # exported models, to be used again


@dataclass(frozen=True)
class Model:
    script: str  # of examples/, or a file among others' data
    options: str
    batches: tuple[int, ...]  # samples per device: a usual number, and a large one


PROFILED = "--profiled-on V100-16GB"
LARGE = "--hidden 1024 --heads 16 --intermediate 4096"
MODELS = {
    "VGG-19": Model("vgg19", "", (24, 96)),
    "ResNet-152": Model("resnet50", "--layers 3 8 36 3", (24, 96)),
    "Inception-v3": Model("inception_v3", "", (24, 96)),
    "MobileNet-v2": Model("mobilenet_v2", "", (24, 96)),
    "NASNet-A": Model("nasnet", "", (24, 96)),
    "Transformer": Model("transformer", "", (32, 128)),
    "BERT-large": Model("bert", f"--layers 24 {LARGE}", (4, 16)),
    "XLNet-large": Model("xlnet", f"--layers 24 {LARGE}", (4, 16)),
    "GPT-2": Model("gpt2", "", (2, 8)),
    "mixture of experts": Model("moe", "", (4, 16)),
    # Of these a device of the smaller clusters cannot hold a replica.
    "BERT, 48 layers": Model("bert", f"--layers 48 {LARGE}", (8,)),
    "XLNet, 48 layers": Model("xlnet", f"--layers 48 {LARGE}", (8,)),
    # PipeDream's graphs of layers with measured times, of V100 (docs/profiles.md); a sample is a minibatch of 64 or so.
    "VGG-16 (PipeDream)": Model("pipedream/vgg16.txt", PROFILED, (1, 4)),
    "ResNet-50 (PipeDream)": Model("pipedream/resnet50.txt", PROFILED, (1, 4)),
    "Inception-v3 (PipeDream)": Model("pipedream/inception_v3.txt", PROFILED, (1, 4)),
    "AlexNet (PipeDream)": Model("pipedream/alexnet.txt", PROFILED, (1, 4)),
    "GNMT (PipeDream)": Model("pipedream/gnmt.txt", PROFILED, (1, 4)),
}
SIZES = ("usual", "large")
# Files of examples/clusters, and how many devices they have.
CLUSTERS = {"heterog": 8, "heterog-twice": 16, "v100-t4": 16, "a100-v100": 16, "lab": 16, "two-zones": 64}
THOUSANDS = {"thousand": 1000, "ten-thousand": 10000}
CASES = [
    (model, cluster, size)
    for size in range(len(SIZES))
    for model, cluster in itertools.product(MODELS, CLUSTERS)
    if size < len(MODELS[model].batches)
]
QUICK = [
    ("VGG-19", "v100-t4", 0),
    ("ResNet-152", "a100-v100", 0),
    ("MobileNet-v2", "lab", 0),
    ("BERT, 48 layers", "heterog", 0),
]
SMALL_CASES, QUICK_SMALL_CASES = 200, 10  # against the exact optimum
GOAL = 1.3  # times the best fixed strategy
OVER_WORST = 3.2  # ... the slowest, HeteroG's 222 % over data parallelism
SECONDS = 5  # that a search may take
QUICK_SECONDS = 3
PATIENCE = 60.0  # seconds, with thousands of devices


@dataclass(frozen=True)
class Row:
    """What a search found for one model on one cluster at one batch size."""

    model: str
    cluster: str
    batch: int
    plan: float | None  # seconds per iteration; nothing when it does not fit
    bound: float  # 0: none is known
    fixed: dict[str, float]  # seconds per iteration of the fixed strategies that fit
    pipelines: dict[str, float]  # likewise, of even stages
    evaluations: int
    seconds: float  # of the search
    words: str  # what the plan is

    @property
    def best(self) -> float | None:
        return min(self.fixed.values(), default=None)

    @property
    def speed_up(self) -> float | None:
        """Over the best fixed strategy."""
        return self.best / self.plan if self.best and self.plan else None

    @property
    def left(self) -> float | None:
        """The most speed-up over the best fixed strategy that the bound leaves."""
        return self.best / self.bound if self.best and self.bound else None

    @property
    def over_worst(self) -> float | None:
        return max(self.fixed.values()) / self.plan if self.fixed and self.plan else None

    @property
    def gap(self) -> float | None:
        """How much longer than the bound the plan takes, in percent."""
        return 100 * (self.plan / self.bound - 1) if self.plan and self.bound else None

    @property
    def loses(self) -> bool:
        others = [*self.fixed.values(), *self.pipelines.values()]
        return bool(others) and (self.plan is None or self.plan > min(others) * (1 + 1e-9))


def model_arguments(name: str) -> list[str | Path]:
    """The model's file: one of others' data, or without weights, made once for this script and these options."""
    model = MODELS[name]
    if "/" in model.script:
        return [DATA / model.script, *model.options.split()]
    scripts = [ROOT / "examples" / f"{script}.py" for script in (model.script, "common")]
    content = b"".join(script.read_bytes() for script in scripts) + model.options.encode()
    file = WORK / f"{model.script}-{hashlib.sha256(content).hexdigest()[:12]}.pt2"
    if not file.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(scripts[0]), *model.options.split(), "--no-weights", "-o", str(file)]
        quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet)
    return [file]


def explain(model: str, cluster: str, batch: int, budget: int, at_most: float | None = None) -> dict[str, Any]:
    """What `motley explain` says of the plan that it searches for. Its costs are the catalogue's: no store is named.
    Raises TimeoutExpired after `at_most` seconds."""
    file = ROOT / "examples" / "clusters" / f"{cluster}.yaml"
    command: list[str | Path] = [BIN / "motley", "explain", *model_arguments(model), "--cluster", file, "--json"]
    command += ["--batch", str(batch), "--budget", str(budget)]
    nothing_measured = os.environ | {"XDG_DATA_HOME": str(WORK / "nothing-measured")}
    run = subprocess.run(command, stdout=subprocess.PIPE, env=nothing_measured, timeout=at_most)
    if run.returncode not in (0, 2):  # 2: nothing fits
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def in_words(explanation: dict[str, Any]) -> str:
    """Stages, micro-batches and recomputation, then how many op groups run on how many devices."""
    runs = explanation["placement"]
    parts = []
    stages = 1 + max(run["stage"] for run in runs)
    if stages > 1:
        parts.append(f"{stages} stages by {explanation['schedule']}")
    if explanation["micro_batches"] > 1:
        parts.append(f"{explanation['micro_batches']} micro-batches")
    total = sum(run["groups"] for run in runs)
    again = sum(run["groups"] for run in runs if run["recompute"] != "none")
    groups: dict[str, int] = {}
    for run in runs:
        devices = len(run["samples"])
        shares = "" if len(set(run["samples"].values())) == 1 else " unequally"
        method = {"all-reduce": "", "parameter-server": " by servers"}[run["gradients"]]
        key = f"{devices}{shares}{method}" if devices > 1 else "1"
        groups[key] = groups.get(key, 0) + run["groups"]
    most = sorted(groups.items(), key=lambda entry: -entry[1])
    said = [f"{100 * number / total:.0f} % on {where}" for where, number in most[:3]]
    parts.append(", ".join(said) + (", ..." if len(most) > len(said) else ""))
    if again > 0:
        parts.append(f"{100 * again / total:.0f} % recomputed")
    return "; ".join(parts)


def measure(model: str, cluster: str, size: int, budget: int) -> dict[str, Any]:
    """A Row's fields."""
    batch = MODELS[model].batches[size] * CLUSTERS[cluster]
    found = explain(model, cluster, batch, budget)
    plan = found["plan"]
    others = [other for other in found["alternatives"] if "decision" not in other and other["feasible"]]
    fitting = {other["strategy"]: other["iteration_seconds"] for other in others}
    row = Row(
        model,
        cluster,
        batch,
        plan["iteration_seconds"] if plan["feasible"] else None,
        found["lower_bound_seconds"],
        {name: seconds for name, seconds in fitting.items() if not name.startswith("pp:")},
        {name: seconds for name, seconds in fitting.items() if name.startswith("pp:")},
        found["evaluations"],
        found["search_seconds"],
        in_words(found),
    )
    print("   " + ", ".join(cells(row)), file=sys.stderr, flush=True)
    return asdict(row)


def seconds_on(cluster: str) -> float:
    """From the start of a command to its plan of ResNet-152 for thousands of devices; no more than PATIENCE."""
    model_arguments("ResNet-152")
    began = time.perf_counter()
    with contextlib.suppress(subprocess.TimeoutExpired):
        explain("ResNet-152", cluster, 32 * THOUSANDS[cluster], QUICK_SECONDS, PATIENCE)
    return time.perf_counter() - began


def number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def cells(row: Row) -> list[str]:
    best = min(row.fixed, key=row.fixed.__getitem__, default=None)
    return [
        row.model,
        row.cluster,
        str(row.batch),
        number(row.plan and 1000 * row.plan, ".1f"),
        "none fits" if best is None else f"{1000 * row.fixed[best]:.1f} ({best.split(':')[0]})",
        number(row.speed_up, ".2f"),
        number(row.left, ".2f"),
        number(row.over_worst, ".1f"),
        number(min(row.pipelines.values()) / row.plan if row.pipelines and row.plan else None, ".2f"),
        number(row.gap, ".0f"),
        str(row.evaluations),
        f"{row.seconds:.0f}",
        row.words,
    ]


HEADER = [
    "model", "cluster", "batch", "plan, ms", "best fixed, ms", "speed-up", "bound leaves", "over the worst",
    "over even stages", "above the bound, %", "evaluations", "seconds", "the plan",
]  # fmt: skip


def summary(rows: list[Row]) -> str:
    compared = [row for row in rows if row.speed_up is not None]
    little = [row for row in compared if row.left is not None and row.left < GOAL]
    rest = [row.speed_up or 0 for row in compared if row not in little]
    alone = [row for row in rows if not row.fixed]
    far = sum((row.over_worst or 0) >= OVER_WORST for row in compared)
    lines = [
        f"{sum(row.loses for row in rows)} of {len(rows)} plans are slower than a fixed strategy or even stages.",
        f"In {len(little)} of {len(compared)} cases the bound leaves less than {GOAL} times the best fixed strategy"
        + (f"; in the others the median speed-up is {statistics.median(rest):.2f}." if rest else "."),
        f"{far} plans are at least {OVER_WORST} times as fast as the slowest fixed strategy that fits.",
        f"In {len(alone)} cases no fixed strategy fits, in {sum(row.plan is not None for row in alone)} a plan does.",
    ]
    return "\n".join(f"- {line}" for line in lines)


INTRODUCTION = """\
What `motley plan` finds, against what needs no search: even and proportional shares with parameter servers or
all-reduce (`ev-ps`, `ev-ar`, `cp-ps`, `cp-ar`), one device alone, the model in blocks, and even pipelines (on up to 16
devices). Costs are the [catalogue's](catalogue.md) estimates in float32, for PipeDream's graphs of layers their own,
[scaled](profiles.md) to other GPUs; the optimizer is SGD; clusters are those of `examples/clusters/`. A search ends
after """
EXPLANATION = """\
`best fixed`: of those that fit, without pipelines. `bound leaves`: its time over the lower bound, what no plan can
surpass. `-`: none fits, or no bound is known. `the plan`: which share of the op groups runs on how many devices."""


def optimum_gap(cases: int) -> float:
    """How much longer the search's plan takes than the exact optimum, in percent, at the most of random small cases."""
    command = [str(BIN / "exact_bench"), "--cases", str(cases)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    gaps = [case["gap"] for case in found if case["gap"] is not None]
    if any(gap < 0 for gap in gaps):
        return float("inf")  # no plan where there is one
    return 100 * float(max(gaps))


def run(quick: bool, parts: Parts | None = None) -> Report:
    if not quick and not (DATA / "pipedream").is_dir():
        raise SystemExit(
            f"{DATA / 'pipedream'} is not there: say where others' data lies with MOTLEY_VALIDATION=FOLDER"
        )
    parts = parts or Parts()
    budget = QUICK_SECONDS if quick else SECONDS
    rows = []
    for model, cluster, size in QUICK if quick else CASES:
        name = re.sub("[^A-Za-z0-9]+", "-", f"{model} {cluster} {SIZES[size]}")
        rows.append(Row(**parts.of(name, functools.partial(measure, model, cluster, size, budget))))
    seconds = {name: parts.of(f"seconds-{name}", functools.partial(seconds_on, name)) for name in THOUSANDS}
    gap = parts.of("optimum-gap", functools.partial(optimum_gap, QUICK_SMALL_CASES if quick else SMALL_CASES))
    text = "\n\n".join(
        [f"{INTRODUCTION}{budget} s.", summary(rows), table(HEADER, [cells(row) for row in rows]), EXPLANATION]
    )
    speed_ups = [row.speed_up for row in rows if row.speed_up is not None]
    gaps = [row.gap for row in rows if row.gap is not None]
    figures = [
        Figure("plan-vs-best-fixed-median", statistics.median(speed_ups), "ratio", f">= {GOAL}"),
        Figure("optimum-gap-max", gap, "percent", "< 2"),
        Figure("bound-gap-median", statistics.median(gaps), "percent", "< 15"),
        Figure("seconds-1000", seconds["thousand"], "s", "< 10"),
        Figure("seconds-10000", seconds["ten-thousand"], "s", "< 60"),
    ]
    return Report("Strategies", text, figures)
