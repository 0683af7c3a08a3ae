"""The check behind bench/gpu_check.sh: GPT-2 on one GPU against PyTorch on the CPU."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import reference
from text_data import write_text_windows

from bench.harness import ROOT, Figure

BATCH, STEPS, SEQUENCE = 16, 20, 128
OPTIMIZER = ["--optimizer", "adamw", "--learning-rate", "0.001"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model.pt2"
        size = ["--layers", "6", "--hidden", "512", "--heads", "8", "--vocabulary", "256", "--sequence", str(SEQUENCE)]
        export = [sys.executable, str(ROOT / "examples" / "gpt2.py"), *size, "--dropout", "0", "-o", str(model)]
        subprocess.run(export, check=True)
        write_text_windows(folder / "data", SEQUENCE, 1024)
        job = ["--batch", str(BATCH), "--data", str(folder / "data"), "--iterations", str(STEPS), *OPTIMIZER]
        where = ["--agent", "name=gpu", "--strategy", "mp:gpu/0", "--profiles", str(folder / "profiles.sqlite")]
        command = [str(options.bin / "motley"), "run", str(model), *job, *where, "--json"]
        ran = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)[0]
        threads = ["--threads", str(os.cpu_count() or 1)]
        losses = reference.losses(model, folder / "data", BATCH, STEPS, [*OPTIMIZER, *threads])
    differences = [abs(ours - theirs) / theirs for ours, theirs in zip(ran["losses"], losses, strict=True)]
    error = 100 * abs(ran["predicted_seconds"] / ran["measured_seconds"] - 1)
    print(f"predicted {ran['predicted_seconds']:.4f} s, measured {ran['measured_seconds']:.4f} s per iteration")
    # Float32 on another device sums in another order, and twenty steps of AdamW let it grow.
    print(Figure("gpu-loss-difference", max(differences), "relative", "<= 0.001"))
    print(Figure("gpu-time-error", error, "percent", "<= 10"))
    if max(differences) > 1e-3:
        sys.exit("gpu_check: the losses differ from the CPU's")


if __name__ == "__main__":
    main()
