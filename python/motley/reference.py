"""Trains a `.pt2` file in plain PyTorch on one device, with the batches that motley takes: what its losses are
compared with. Prints {"losses": [...]}.

    python -m motley.reference model.pt2 data --batch 32 --steps 50 --optimizer adamw --learning-rate 1e-3
"""

import argparse
import importlib
import json
import os
import zipfile
from dataclasses import dataclass

import torch
from safetensors.torch import save_file

from motley.data import batches


@dataclass(frozen=True)
class Optimizer:
    """The options that motley has, with its defaults."""

    kind: str = "sgd"  # or "adam", "adamw"
    learning_rate: float = 0.01
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def make(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        if self.kind == "sgd":
            return torch.optim.SGD(
                parameters, self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
            )
        make = torch.optim.AdamW if self.kind == "adamw" else torch.optim.Adam
        betas = (self.beta1, self.beta2)
        return make(parameters, self.learning_rate, betas=betas, eps=self.epsilon, weight_decay=self.weight_decay)


def load_module(path: str | os.PathLike[str]) -> torch.nn.Module:
    """The exported program as a module that trains. Parameters that shared memory when exported share it again."""
    with zipfile.ZipFile(path) as archive:
        graphs = [archive.read(name) for name in archive.namelist() if "/models/" in name]
    if any(b"torch.ops.transformers." in graph for graph in graphs):
        importlib.import_module("transformers.integrations.moe")  # brings its own op
    module = torch.export.load(os.fspath(path)).module()
    # PyTorch loads tied weights as parameters of their own that share memory: an optimizer would step each.
    first: dict[tuple[int, torch.Size, tuple[int, ...]], torch.nn.Parameter] = {}
    for name, parameter in list(module.named_parameters()):
        shared = first.setdefault((parameter.data_ptr(), parameter.shape, parameter.stride()), parameter)
        if shared is not parameter and parameter.numel() > 0:
            owner, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(owner), attribute, shared)
    return module


def input_names(path: str | os.PathLike[str]) -> list[str]:
    """The model's inputs, in order."""
    return list(torch.export.load(os.fspath(path)).graph_signature.user_inputs)


def train(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str],
    batch: int,
    steps: int,
    optimizer: Optimizer | None = None,
    seed: int = 0,
    device: str = "cpu",
    save: str | os.PathLike[str] | None = None,
) -> list[float]:
    """The loss of each step. `save` keeps the parameters and buffers after the last one, as safetensors."""
    module = load_module(path).to(device)
    names = input_names(path)
    stepper = (optimizer or Optimizer()).make([p for p in module.parameters() if p.requires_grad])
    losses = []
    for _, inputs in zip(range(steps), batches(data, names, batch, seed), strict=False):
        stepper.zero_grad()
        result = module(**{name: tensor.to(device) for name, tensor in inputs.items()})
        loss = result[0] if isinstance(result, tuple | list) else result
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    if save is not None:
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in module.named_parameters()}
        state |= {name: tensor.detach().cpu().contiguous() for name, tensor in module.named_buffers()}
        save_file(state, save)
    return losses


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="a .pt2 file with weights")
    options.add_argument("data", help="a folder with one array per input")
    options.add_argument("--batch", type=int, required=True)
    options.add_argument("--steps", type=int, default=50)
    options.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd")
    for name in ("learning_rate", "momentum", "beta1", "beta2", "epsilon", "weight_decay"):
        options.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(Optimizer, name))
    options.add_argument("--seed", type=int, default=0, help="of the order of samples")
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--save", metavar="FILE", help="keep the final weights, as safetensors")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    optimizer = Optimizer(
        given.optimizer,
        given.learning_rate,
        given.momentum,
        given.beta1,
        given.beta2,
        given.epsilon,
        given.weight_decay,
    )
    losses = train(
        given.model, given.data, given.batch, given.steps, optimizer, given.seed, given.device, save=given.save
    )
    print(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
