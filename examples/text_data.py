"""Writes real text as training data for the language models: Python's own standard library, each byte a token."""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("data"), help="the folder to write to")
    parser.add_argument("--sequence", type=int, default=64, help="bytes in a sample, the model's --sequence")
    parser.add_argument("--samples", type=int, default=1024)
    options = parser.parse_args()
    write_text_windows(options.output, options.sequence, options.samples)
    print(f"{options.output}/input_ids.npy: {options.samples} samples of {options.sequence} bytes")


if __name__ == "__main__":
    main()
