"""Training data as motley reads it (docs/data.md): one array per model input, in an order made of a seed."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file

_MASK = (1 << 64) - 1


def splitmix64(state: int) -> tuple[int, int]:
    """The next state and number of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return state, mixed ^ (mixed >> 31)


def sample_order(samples: int, seed: int, epoch: int) -> list[int]:
    """The order in which an epoch visits the samples."""
    order = list(range(samples))
    state = splitmix64(seed)[1] ^ epoch
    for count in range(samples, 1, -1):
        state, number = splitmix64(state)
        place = number % count
        order[count - 1], order[place] = order[place], order[count - 1]
    return order


def load_array(folder: str | os.PathLike[str], name: str) -> torch.Tensor:
    """The array of one input; NAME.npy counts when NAME.safetensors is there too."""
    plain = Path(folder) / f"{name}.npy"
    if plain.exists():
        return torch.from_numpy(numpy.load(plain))
    stored = load_file(Path(folder) / f"{name}.safetensors")
    return stored[name] if name in stored else next(iter(stored.values()))


def batches(
    folder: str | os.PathLike[str], names: Iterable[str], batch: int, seed: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Global batches without end, epoch after epoch; what is left over at the end of one is dropped."""
    arrays = {name: load_array(folder, name) for name in names}
    samples = min(len(array) for array in arrays.values())
    if samples < batch:
        raise ValueError(f"{os.fspath(folder)} has {samples} samples, fewer than a batch of {batch}")
    epoch = 0
    while True:
        order = torch.tensor(sample_order(samples, seed, epoch))
        for begin in range(0, samples - batch + 1, batch):
            chosen = order[begin : begin + batch]
            yield {name: array[chosen] for name, array in arrays.items()}
        epoch += 1
