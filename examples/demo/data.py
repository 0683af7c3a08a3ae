"""Real text as training data: the source files of Python's own standard library, as bytes."""

import sysconfig
from pathlib import Path

import numpy as np


def write_text_windows(folder: Path, sequence: int, samples: int) -> None:
    """Writes input_ids.npy: `samples` windows of `sequence` bytes each, from files in order of their names."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= samples * sequence:
            break
    if len(text) < samples * sequence:
        raise SystemExit(f"Python's standard library has {len(text)} bytes of text, {samples * sequence} are needed")
    windows = np.frombuffer(bytes(text[: samples * sequence]), dtype=np.uint8).reshape(samples, sequence)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "input_ids.npy", windows.astype(np.int64))
