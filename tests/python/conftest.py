import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

root = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(root / "python"), str(root / "examples"), str(Path(__file__).parent)]

from command import CLUSTER, ROOT, Daemons  # noqa: E402


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small GPT-2, data for it, and a cluster."""
    folder = tmp_path_factory.mktemp("command")
    size = [
        "--layers",
        "1",
        "--hidden",
        "32",
        "--heads",
        "2",
        "--sequence",
        "16",
        "--vocabulary",
        "64",
        "--dropout",
        "0",
    ]
    export = [sys.executable, str(ROOT / "examples" / "gpt2.py"), *size, "-o", str(folder / "model.pt2")]
    subprocess.run(export, check=True, capture_output=True)
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "data").mkdir()
    np.save(folder / "data" / "input_ids.npy", np.random.default_rng(0).integers(0, 64, (256, 16)))
    return folder


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    started = Daemons(tmp_path_factory.mktemp("daemons"))
    try:
        yield started
    finally:
        started.end()
