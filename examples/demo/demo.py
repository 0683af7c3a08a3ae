"""The main job: a GPT-2 from a public library, trained on three devices of unequal speed on the plan that motley chose.

Prints, for every strategy that it ran, the predicted and the measured time per iteration and the speed-up over even
data parallelism; for the chosen plan also the loss curve beside plain PyTorch on one device. Leaves a timeline for
Perfetto.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from text_data import write_text_windows  # noqa: E402

from demo import cluster, reference  # noqa: E402
from demo.cluster import Cluster  # noqa: E402

SEQUENCE = 128
BATCH = 84  # even shares: 28 each; in proportion to 1 : 0.5 : 0.25: 48, 24, 12
STRATEGIES = ("ev-ps", "ev-ar", "cp-ps", "cp-ar", "mp:A/0", "mp-blocks", "search")
OPTIMIZER = ("--optimizer", "adamw", "--learning-rate", "0.001")


@dataclass(frozen=True)
class Job:
    """What is trained, and where its files are."""

    out: Path
    iterations: int = 12
    long_iterations: int = 40
    search_seconds: float = 10
    profile_seconds: float = 50

    @property
    def model(self) -> Path:
        return self.out / "model.pt2"

    @property
    def data(self) -> Path:
        return self.out / "data"


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def prepare(job: Job) -> None:
    job.out.mkdir(parents=True, exist_ok=True)
    say("exporting a GPT-2 of 2 layers from transformers")
    size = ["--layers", "2", "--hidden", "128", "--heads", "4", "--sequence", str(SEQUENCE), "--vocabulary", "256"]
    export = [sys.executable, str(ROOT / "examples" / "gpt2.py"), *size, "--dropout", "0", "-o", str(job.model)]
    subprocess.run(export, check=True)
    say("writing the source text of Python's standard library as training data")
    write_text_windows(job.data, SEQUENCE, 4096)


def motley_run(job: Job, where: Cluster, strategies: tuple[str, ...], iterations: int) -> list[dict[str, Any]]:
    """Runs the strategies one after the other from the same start; what `motley run --json` says of each."""
    arguments: list[str | Path] = ["run", job.model, "--batch", str(BATCH), "--data", job.data, *OPTIMIZER]
    arguments += ["--iterations", str(iterations), "--budget", str(job.search_seconds), "--json"]
    arguments += ["--profile-budget", str(job.profile_seconds)]
    for strategy in strategies:
        arguments += ["--strategy", strategy]
    runs: list[dict[str, Any]] = json.loads(where.motley(*arguments, "--trace", job.out / "timeline.json"))
    return runs


def strategy_table(runs: list[dict[str, Any]]) -> str:
    even = next(run["measured_seconds"] for run in runs if run["strategy"] == "ev-ar")
    lines = [f"{'strategy':12} {'predicted':>10} {'measured':>10} {'error':>8} {'speed-up over ev-ar':>20}"]
    for run in runs:
        predicted, measured = run["predicted_seconds"], run["measured_seconds"]
        error = 100 * (predicted / measured - 1)
        lines.append(
            f"{run['strategy']:12} {predicted:8.3f} s {measured:8.3f} s {error:+6.1f} % {even / measured:20.2f}"
        )
    return "\n".join(lines)


def loss_table(ours: list[float], pytorch: list[float]) -> str:
    lines = [f"{'iteration':>9} {'motley':>10} {'PyTorch':>10} {'difference':>11}"]
    step = max(1, (len(ours) - 1) // 8)
    for i in [*range(0, len(ours) - 1, step), len(ours) - 1]:
        difference = abs(ours[i] - pytorch[i]) / pytorch[i]
        lines.append(f"{i + 1:9} {ours[i]:10.5f} {pytorch[i]:10.5f} {difference:11.1e}")
    return "\n".join(lines)


def run(job: Job, where: Cluster) -> list[dict[str, Any]]:
    say("profiling the agents, planning, and training on each strategy in turn")
    runs = motley_run(job, where, STRATEGIES[:-1], job.iterations)
    runs += motley_run(job, where, STRATEGIES[-1:], job.long_iterations)
    chosen = runs[-1]
    print("\nTime per iteration:\n" + strategy_table(runs))
    print(f"\nNo strategy can take less than {chosen['lower_bound_seconds']:.3f} s on these devices.\n")
    say("the same batches in plain PyTorch on one device")
    losses = reference.losses(job.model, job.data, BATCH, job.long_iterations, OPTIMIZER)
    print("\nLoss of the chosen plan, beside PyTorch on one device:\n" + loss_table(chosen["losses"], losses))
    print(f"\nTimeline, predicted and measured side by side, for ui.perfetto.dev: {job.out / 'timeline.json'}")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="folder for all files")
    parser.add_argument("--emulate", action="store_true", help="emulate the devices even where a box could be made")
    options = parser.parse_args()
    job = Job(options.out.resolve())
    prepare(job)
    profiles = job.out / "profiles.sqlite"
    reason = "asked for" if options.emulate else cluster.box_works()
    if reason is None:
        say("making three hosts of speed 1 : 0.5 : 0.25 with network namespaces and cgroups")
        with cluster.in_box(profiles) as where:
            run(job, where)
    else:
        say(f"emulating three devices of speed 1 : 0.5 : 0.25 ({reason})")
        run(job, cluster.emulated(profiles))


if __name__ == "__main__":
    main()
