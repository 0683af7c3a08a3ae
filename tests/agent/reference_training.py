"""Trains a .pt2 in plain PyTorch on data made for it: reference_training.py MODEL DATA STEPS BATCH SEED OPTIMIZER OUT.

Makes DATA (a folder of arrays), and writes the losses and, as "weight.NAME", the parameters at the end to OUT.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from motley.reference import Optimizer, train  # noqa: E402

SAMPLES = 40


def make_data(name: str, example: torch.Tensor) -> torch.Tensor:
    shape = (SAMPLES, *example.shape[1:])
    if example.is_floating_point():
        return torch.randn(shape)
    if example.dim() == 1:
        return torch.randint(0, 10, shape)
    data = torch.randint(0, 64, shape)
    if name == "labels":
        data[::3, : shape[1] // 2] = -100  # samples with unequal numbers of targets
    return data


def main(model: str, folder: str, steps: int, batch: int, seed: int, optimizer: str, out: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(7)
    program = torch.export.load(model)
    Path(folder).mkdir(exist_ok=True)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in program.graph_signature.user_inputs:
            np.save(f"{folder}/{node.name}.npy", make_data(node.name, node.meta["val"]).numpy())
    options = Optimizer("sgd", 0.05, 0.9) if optimizer == "sgd" else Optimizer("adamw", 1e-3, weight_decay=0.01)
    losses = train(model, folder, batch, steps, options, seed, save=f"{out}.weights")
    result = {f"weight.{name}": tensor for name, tensor in load_file(f"{out}.weights").items()}
    save_file(result | {"losses": torch.tensor(losses)}, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6], sys.argv[7])
