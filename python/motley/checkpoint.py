"""Reads the safetensors files that motley writes, under the model's own names."""

import os

import torch
from safetensors.torch import load_file


def load_checkpoint(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Fills the module's parameters and buffers from `path`.

    A tensor that is shared under several names is stored under one of them. Raises KeyError naming what the file
    lacks, and RuntimeError (from PyTorch) naming tensors whose shapes differ.
    """
    stored = load_file(path)
    state = module.state_dict(keep_vars=True)
    by_storage = {id(state[name]): tensor for name, tensor in stored.items() if name in state}
    missing = [name for name, tensor in state.items() if id(tensor) not in by_storage]
    if missing:
        raise KeyError(f"{os.fspath(path)} has no tensor for {', '.join(missing)}")
    module.load_state_dict({name: by_storage[id(tensor)] for name, tensor in state.items()})
