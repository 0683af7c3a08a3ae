"""What other planners' own cost models say, from their papers and published code: the rulers that plans for their
profiles are held against. Nothing of motley's simulator is in them."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Stage:
    """Of a plan: the layers from `begin` up to `end`, and per replica its kind of GPU, how many of these it is, and its
    samples of a micro-batch."""

    begin: int
    end: int
    replicas: list[tuple[str, int, int]]


@dataclass(frozen=True)
class Planned:
    stages: list[Stage]
    micro_batches: int

    @property
    def words(self) -> str:
        widths = []
        for stage in self.stages:
            kinds: dict[str, int] = {}
            for gpu, degree, _ in stage.replicas:
                name = gpu if degree == 1 else f"{gpu} x{degree}"
                kinds[name] = kinds.get(name, 0) + 1
            widths.append(" + ".join(f"{count} {name}" for name, count in kinds.items()))
        return " / ".join(widths) + f", {self.micro_batches} micro-batches"


def read_plan(path: Path, kinds: dict[str, str]) -> Planned:
    """Of a plan file (docs/plan.md) whose groups are a chain of layers. `kinds`: by node."""
    text = path.read_text()

    def number(key: str, line: str, missing: int | None = None) -> int:
        found = re.search(rf"\b{key}: (\d+)", line)
        if found is None and missing is not None:
            return missing
        assert found is not None, f"{path} has no {key}"
        return int(found.group(1))

    micro_batches = number("micro_batches", text, 1)
    samples = number("batch", text) / micro_batches
    stages: list[Stage] = []
    of_last = None
    for i, line in enumerate(line for line in text.splitlines() if line.startswith("  - {group:")):
        shares = {name: float(weight) for name, weight in re.findall(r'"([^"]+/[^"]+)": ([0-9.e+]+)', line)}
        replicas = []
        for name, weight in shares.items():
            node, gpus = name.split("/")
            first, _, last = gpus.partition("-")
            degree = int(last) - int(first) + 1 if last else 1
            replicas.append((kinds[node], degree, math.ceil(samples * weight / sum(shares.values()) - 1e-9)))
        decision = (number("stage", line, 0), shares)
        if decision == of_last:
            stages[-1] = Stage(stages[-1].begin, i + 1, replicas)
        else:
            stages.append(Stage(i, i + 1, replicas))
        of_last = decision
    return Planned(stages, micro_batches)


class Sailor:
    """Sailor's estimate of an iteration (Strati et al., SOSP 2025; sailor/Planner/sailor_planner of its repository):
    (m - 1) straggler + the stages' passes + two messages at every cut + the longest ring of gradients, where the
    straggler is the slowest stage with a message. Bandwidths are those of as many GPUs of a node as one replica has."""

    def __init__(self, folder: Path, model: str):
        self.sizes = json.loads((folder / "llm_info.json").read_text())[model]
        self.network = json.loads((folder / "network" / "network_coeffs_all_homo.json").read_text())["inter"]
        self.mixed = json.loads((folder / "network" / "multizone_bandwidths_het.json").read_text())
        self.profiles = folder / "profiles" / model
        self.points: dict[str, Any] = {}

    def seconds(self, gpu: str, degree: int, layers: range, samples: int) -> float:
        """Of a micro-batch's passes; linear between the numbers of samples that were profiled."""
        if gpu not in self.points:
            self.points[gpu] = json.loads((self.profiles / gpu / "profile.json").read_text())
        known = sorted((int(size), of[str(degree)]) for size, of in self.points[gpu].items() if str(degree) in of)
        sums = [(size, sum(of[str(layer)][0] + of[str(layer)][1] for layer in layers)) for size, of in known]
        if samples <= sums[0][0]:
            return float(sums[0][1])
        (a, of_a), (b, of_b) = next(
            (pair for pair in zip(sums, sums[1:], strict=False) if samples <= pair[1][0]), (sums[-2], sums[-1])
        )
        return float(of_a + (samples - a) / (b - a) * (of_b - of_a))

    def between(self, a: str, of_a: int, b: str, of_b: int) -> tuple[list[float], float]:
        """The polynomial and the peak, in one zone."""
        zone = next(iter(self.mixed))
        ends = self.mixed[zone].get(a, {}).get(str(of_a), {}).get(zone, {}).get(b, {})
        polynomial, peak = ends[str(of_b)] if str(of_b) in ends else self.network[a][str(of_a)]
        return polynomial, peak

    @staticmethod
    def message(link: tuple[list[float], float], size: float) -> float:
        (c2, c1, c0), peak = link
        power = math.log2(size / 1e6)
        return size / min(peak, (c2 * power**2 + c1 * power + c0) * 1e9)

    def ring(self, stage: Stage) -> float:
        n = len(stage.replicas)
        if n == 1:
            return 0
        least = min(degree for _, degree, _ in stage.replicas)
        size = sum(self.sizes[str(least)][str(layer)]["params_bytes"] for layer in range(stage.begin, stage.end))
        links = [self.between(gpu, degree, gpu, degree) for gpu, degree in {(g, d) for g, d, _ in stage.replicas}]
        return 2 * (n - 1) * self.message(min(links, key=lambda link: link[1]), size / n)

    def iteration(self, plan: Planned) -> float:
        passes = [
            max(
                self.seconds(gpu, degree, range(stage.begin, stage.end), samples)
                for gpu, degree, samples in set(stage.replicas)
            )
            for stage in plan.stages
        ]
        messages = []
        for one, other in zip(plan.stages, plan.stages[1:], strict=False):
            size = self.sizes["1"][str(one.end - 1)]["act_output_bytes"]
            messages.append(
                max(
                    self.message(self.between(a, of_a, b, of_b), size * max(samples, others))
                    for a, of_a, samples in set(one.replicas)
                    for b, of_b, others in set(other.replicas)
                )
            )
        straggler = max(
            [of_stage + message for of_stage, message in zip(passes, [*messages, 0.0], strict=True)]
            + [of_stage + message for of_stage, message in zip(passes[1:], messages, strict=True)]
        )
        rings = max(self.ring(stage) for stage in plan.stages)
        return (plan.micro_batches - 1) * straggler + sum(passes) + 2 * sum(messages) + rings


@dataclass(frozen=True)
class LayerGraph:
    """PipeDream's, its inputs left out: by layer in an order that respects the edges, seconds both ways, bytes of
    parameters; by layer, the bytes that cross a cut behind it."""

    seconds: Floats
    parameters: Floats
    crossing: Floats


def read_pipedream(path: Path) -> LayerGraph:
    layers: dict[str, tuple[float, float, float]] = {}
    edges: list[tuple[str, str]] = []
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            one, other = line.strip().split(" -- ")
            edges.append((one, other))
        elif line and not line.split(" -- ")[1].startswith("Input"):
            name, _, figures = line.split(" -- ")
            value = {
                key: sum(float(part) for part in text.strip("[]").split(";"))
                for key, text in re.findall(r"(\w+)=(\[[^\]]*\]|[0-9.]+)", figures)
            }
            seconds = (value["forward_compute_time"] + value["backward_compute_time"]) / 1e3
            layers[name] = (seconds, value["parameter_size"], value["activation_size"])
    users: dict[str, list[str]] = {name: [] for name in layers}
    missing = dict.fromkeys(layers, 0)
    for one, other in edges:
        if one in layers and other in layers:
            users[one].append(other)
            missing[other] += 1
    ready = [name for name in layers if missing[name] == 0]
    order: list[str] = []
    while ready:
        ready.sort(key=lambda name: int(re.sub(r"\D", "", name)))
        order.append(ready.pop(0))
        for user in users[order[-1]]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    place = {name: i for i, name in enumerate(order)}
    crossing = [
        sum(layers[name][2] for name in order[: i + 1] if any(place[user] > i for user in users[name]))
        for i in range(len(order))
    ]
    return LayerGraph(
        np.array([layers[name][0] for name in order]),
        np.array([layers[name][1] for name in order]),
        np.array(crossing),
    )


def pipedream_optimum(graph: LayerGraph, levels: list[tuple[int, float]]) -> float:
    """Seconds of the slowest stage for a minibatch, at best: PipeDream's dynamic program over cuts and replication
    (Narayanan et al., SOSP 2019, section 3.1; optimizer/optimizer_graph_hierarchical.py of its repository with
    activations counted). `levels`: workers, and bytes per second between them, from the innermost. On m workers layers
    take (compute + 4 (m - 1)/m parameters / bandwidth) / m, and a cut 2 activations / bandwidth / m. Cuts are those of
    one order of the layers."""
    n = len(graph.seconds)
    inside = np.tri(n, k=-1, dtype=bool)
    seconds = np.concatenate([[0], np.cumsum(graph.seconds)])
    bytes_before = np.concatenate([[0], np.cumsum(graph.parameters)])
    one = np.where(inside, np.inf, seconds[None, 1:] - seconds[:-1, None])  # [first, last] layer
    parameters = bytes_before[None, 1:] - bytes_before[:-1, None]
    below = 1  # workers of the level below
    for number, (workers, rate) in enumerate(levels):
        best = np.stack(
            [(one + 4 * (m - 1) / m * parameters / rate / below) / m for m in range(1, workers + 1)], axis=2
        )
        last_stage = np.stack([(one + 4 * (m - 1) / m * parameters / rate) / m for m in range(1, workers + 1)], axis=2)
        for i in range(1 if number == len(levels) - 1 else n):
            for of in range(2, workers + 1):
                for j in range(i + 1, n):
                    for m in range(1, of):
                        stages = np.maximum(best[i, i:j, of - m - 1], last_stage[i + 1 : j + 1, j, m - 1])
                        stages = np.maximum(stages, 2 * graph.crossing[i:j] / rate / m)
                        if j < n - 1:
                            stages = np.maximum(stages, 2 * graph.crossing[j] / rate / m)
                        best[i, j, of - 1] = min(best[i, j, of - 1], stages.min())
        one = best[:, :, -1]
        below = workers
    return float(one[0, -1])
