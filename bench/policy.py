"""What the learned policy is worth: its proposals alone, and searches with it, with random weights and without."""

import functools
import json
import math
import statistics
import subprocess
from typing import Any

from bench.harness import BIN, ROOT, Figure, Parts, Report, table
from bench.strategy import CLUSTERS, MODELS, SIZES, model_arguments, number

WEIGHTS = ROOT / "strategy" / "policy" / "weights.safetensors"
CASES = [
    ("VGG-19", "heterog", 0),
    ("VGG-19", "lab", 1),
    ("ResNet-152", "v100-t4", 0),
    ("Inception-v3", "heterog", 1),
    ("MobileNet-v2", "lab", 0),
    ("Transformer", "a100-v100", 0),
    ("BERT-large", "heterog", 0),
    ("GPT-2", "v100-t4", 0),
    ("mixture of experts", "lab", 0),
    ("MobileNet-v2", "two-zones", 0),
]
QUICK = [("VGG-19", "heterog", 0), ("MobileNet-v2", "lab", 0)]
GENERATED = 24
QUICK_GENERATED = 5
EVALUATIONS = 500  # of each search
QUICK_EVALUATIONS = 150
Found = dict[str, Any]


def bench(evaluations: int, *what: str) -> list[Found]:
    command = [str(BIN / "policy_bench"), "--policy", str(WEIGHTS), "--evaluations", str(evaluations), *what]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def on_model(model: str, cluster: str, size: int, evaluations: int) -> list[Found]:
    batch = MODELS[model].batches[size] * CLUSTERS[cluster]
    file = ROOT / "examples" / "clusters" / f"{cluster}.yaml"
    return bench(evaluations, "model", str(model_arguments(model)[0]), str(file), "--batch", str(batch))


def gap(found: Found, proposals: str) -> float | None:
    """How much longer than the plan of the search alone the best proposal takes, in percent."""
    times = [seconds for seconds in found[proposals]["iterations"] if seconds is not None]
    return 100 * (min(times) / found["none"][-1][1] - 1) if times and found["none"] else None


def saved(found: Found, with_: str, evaluations: int) -> float | None:
    """The evaluations of the search alone over those of the search with a policy until it has one as good, to 0.1 %,
    as the plan that the search alone ends with; one that never has it counts with all its evaluations."""
    if not found["none"]:
        return None
    needed, goal = found["none"][-1]
    reached = [count for count, seconds in found[with_] if seconds <= 1.001 * goal]
    return float(needed / (reached[0] if reached else evaluations))


def better(found: Found, with_: str) -> float | None:
    """The time of the plan of the search alone over that of the search with a policy."""
    return found["none"][-1][1] / found[with_][-1][1] if found["none"] and found[with_] else None


def row(name: str, found: Found, evaluations: int) -> list[str]:
    return [
        name,
        str(found["groups"]),
        str(found["devices"]),
        number(found["none"][-1][1] * 1000 if found["none"] else None, ".1f"),
        number(gap(found, "policy_proposals"), ".1f"),
        number(gap(found, "random_proposals"), ".0f"),
        number(saved(found, "policy", evaluations), ".2f"),
        number(saved(found, "random", evaluations), ".2f"),
        number(better(found, "policy"), ".3f"),
        number(better(found, "random"), ".3f"),
        f"{found['policy_proposals']['seconds']:.2f}",
    ]


HEADER = [
    "case", "groups", "devices", "search alone, ms", "proposals, % above", "random weights", "evaluations saved",
    "random weights", "faster plan", "random weights", "seconds to propose",
]  # fmt: skip


def median(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else math.nan


def run(quick: bool, parts: Parts | None = None) -> Report:
    parts = parts or Parts()
    evaluations = QUICK_EVALUATIONS if quick else EVALUATIONS
    real: list[tuple[str, Found]] = []
    for model, cluster, size in QUICK if quick else CASES:
        name = f"policy-{model}-{cluster}-{SIZES[size]}".replace(" ", "-")
        found = parts.of(name, functools.partial(on_model, model, cluster, size, evaluations))
        real.append((f"{model}, {cluster}, {SIZES[size]}", found[0]))
    count = QUICK_GENERATED if quick else GENERATED
    made: list[Found] = parts.of(
        "policy-generated", functools.partial(bench, evaluations, "cases", "--count", str(count))
    )
    generated = [(f"generated {at + 1}", found) for at, found in enumerate(made)]
    founds = [found for _, found in real + generated]
    text = (
        f"Searches of {evaluations} evaluations, on models and clusters that the policy never saw in training: real "
        "ones (those of [bench-strategy.md](bench-strategy.md)) and generated ones of other numbers. `proposals`: the "
        "best of 16, without any search, against the plan of the search alone. `evaluations saved`: those after which "
        "the search alone has its plan, over those after which the search with the policy has one as good. `faster "
        "plan`: the time of the former over that of the latter after the same number of evaluations. Next to each the "
        "same with random weights. [policy.md](policy.md) says how the policy was trained.\n\n"
        + table(HEADER, [row(name, found, evaluations) for name, found in real + generated])
    )
    seconds = max(found["policy_proposals"]["seconds"] for found in founds)
    figures = [
        Figure("policy-gap-unseen", median([gap(f, "policy_proposals") for f in founds]), "percent", "< 10"),
        Figure("random-gap-unseen", median([gap(f, "random_proposals") for f in founds]), "percent", "> 10"),
        Figure("evaluations-saved", median([saved(f, "policy", evaluations) for f in founds]), "ratio", ">= 5"),
        Figure("evaluations-saved-random", median([saved(f, "random", evaluations) for f in founds]), "ratio", "< 5"),
        Figure("seconds-to-propose", seconds, "s", "< 1"),
    ]
    return Report("The policy", text, figures)
