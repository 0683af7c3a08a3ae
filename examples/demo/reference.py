"""The same training in plain PyTorch, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def losses(model: Path, data: Path, batch: int, steps: int, options: Sequence[str]) -> list[float]:
    """The loss of each step, by `motley.reference`; `options` are further ones of it, such as the optimizer."""
    command = [
        sys.executable,
        "-m",
        "motley.reference",
        str(model),
        str(data),
        "--batch",
        str(batch),
        "--steps",
        str(steps),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    result = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, env=environment)
    found: list[float] = json.loads(result.stdout)["losses"]
    return found
