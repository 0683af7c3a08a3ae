"""Trains a .pt2 in plain PyTorch with weights that lack updates, as an asynchronous pipeline does, batch after batch:
delayed_training.py MODEL DATA STEPS BATCH SEED DELAYS OUT.

DELAYS is JSON: {"samples": [...], "updates": {NAME: [...]}}: an iteration's batch is cut in batches of so many samples,
each of which ends with an update; for each of these, the updates of the iteration that a parameter has had when it is
taken. OUT receives the losses, means over the iterations' samples. The optimizer is SGD with a momentum of 0.9.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from motley.data import batches  # noqa: E402
from motley.reference import Optimizer, input_names, load_module  # noqa: E402


def main(model: str, folder: str, steps: int, batch: int, seed: int, delays: str, out: str) -> None:
    torch.set_num_threads(1)
    module = load_module(model)
    delay = json.loads(delays)
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    aliases: dict[torch.nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        aliases.setdefault(parameter, []).append(name)
    taken = {
        name: next(delay["updates"][alias] for alias in aliases[p] if alias in delay["updates"])
        for name, p in parameters.items()
    }
    newest = {name: torch.nn.Parameter(p.detach().clone()) for name, p in parameters.items()}
    stepper = Optimizer("sgd", 0.05, 0.9).make(list(newest.values()))
    losses = []
    for _, inputs in zip(range(steps), batches(folder, input_names(model), batch, seed), strict=False):
        versions = {name: [p.detach().clone()] for name, p in newest.items()}
        total, begin = 0.0, 0
        for index, samples in enumerate(delay["samples"]):
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(versions[name][taken[name][index]])
            module.zero_grad()
            result = module(**{name: tensor[begin : begin + samples] for name, tensor in inputs.items()})
            loss = result[0] if isinstance(result, tuple | list) else result
            loss.backward()
            for name, parameter in parameters.items():
                newest[name].grad = parameter.grad
            stepper.step()
            for name, parameter in newest.items():
                versions[name].append(parameter.detach().clone())
            total += loss.item() * samples / batch
            begin += samples
        losses.append(total)
    save_file({"losses": torch.tensor(losses)}, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6], sys.argv[7])
