"""One device: motley's worker against PyTorch eager, both with one thread, in turns."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness import BIN, ROOT, Figure, Report, table

EAGER = [sys.executable, str(ROOT / "bench" / "worker_eager.py")]
MODELS = {
    "gpt2": "GPT-2, 4 layers of 256, 128 tokens, batch 8",
    "resnet": "ResNet-18 at 64 x 64 pixels, batch 8",
}


def samples_per_second(command: list[str]) -> float:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return float(json.loads(output)["samples_per_second"])


def compare(model: str, folder: Path, rounds: int, seconds: float) -> tuple[list[float], list[float]]:
    """Samples per second of motley and of eager, round by round; who goes first alternates."""
    stem = folder / model
    subprocess.run([*EAGER, model, "--export", str(stem)], check=True, stderr=subprocess.DEVNULL)
    ours = [str(BIN / "worker_bench"), f"{stem}.pt2", f"{stem}.safetensors", "--seconds", str(seconds)]
    theirs = [*EAGER, model, "--seconds", str(seconds)]
    motley: list[float] = []
    eager: list[float] = []
    for i in range(rounds):
        for command, results in [(ours, motley), (theirs, eager)][:: 1 if i % 2 == 0 else -1]:
            results.append(samples_per_second(command))
    return motley, eager


def run(quick: bool) -> Report:
    rounds, seconds = (1, 2.5) if quick else (3, 3.0)
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for model, what in MODELS.items():
            motley, eager = compare(model, Path(folder), rounds, seconds)
            each = [m / e for m, e in zip(motley, eager, strict=True)]
            ratio = statistics.median(each)
            ratios.append(ratio)
            span = f"{min(each):.3f} to {max(each):.3f}"
            rates = [f"{statistics.median(values):.1f}" for values in (motley, eager)]
            rows.append([what, *rates, f"{ratio:.3f}", span])
    text = (
        "Whole training steps (forward, backward, SGD), one thread each, in turns; samples per second of CPU time, "
        f"medians of {rounds} round(s); the ratio is the median of the rounds' ratios. Both run one model on the same "
        "inputs; eager uses PyTorch's fused SGD.\n\n"
        + table(["model", "motley, samples/s", "eager, samples/s", "motley / eager", "range of the rounds"], rows)
    )
    return Report(
        "The worker against PyTorch eager", text, [Figure("worker-vs-eager", min(ratios), "ratio", ">= 0.95")]
    )
