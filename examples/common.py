"""What the example scripts share: options, seeds, losses, and the export itself."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from motley import export_model  # noqa: E402


class ImageLoss(torch.nn.Module):
    """Cross entropy of an image classifier; an auxiliary classifier (Inception) counts 0.4."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        scores = self.model(image)
        if isinstance(scores, torch.Tensor):
            return torch.nn.functional.cross_entropy(scores, label)
        main, auxiliary = scores
        loss = torch.nn.functional.cross_entropy(main, label)
        return loss if auxiliary is None else loss + 0.4 * torch.nn.functional.cross_entropy(auxiliary, label)


class NextTokenLoss(torch.nn.Module):
    """Mean cross entropy of predicting each token from those before it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=input_ids, labels=input_ids, use_cache=False).loss
        return loss


class MaskedTokenLoss(torch.nn.Module):
    """Mean cross entropy of the tokens whose label is not -100."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=input_ids, labels=labels).loss
        return loss


def parser(description: str | None, output: str) -> argparse.ArgumentParser:
    """Options that every example has."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("-o", "--output", default=output, help="the file to write")
    options.add_argument("--no-weights", action="store_true", help="shapes alone: any size, enough to plan with")
    options.add_argument("--seed", type=int, default=0, help="of the initial weights")
    return options


def image_parser(description: str | None, output: str, size: int) -> argparse.ArgumentParser:
    options = parser(description, output)
    options.add_argument("--image-size", type=int, default=size, help="pixels along each side")
    options.add_argument("--channels", type=int, default=3, help="of the image")
    options.add_argument("--classes", type=int, default=1000)
    return options


def build(options: argparse.Namespace, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Makes the model from the seed, or on the meta device when no weights are asked for."""
    torch.manual_seed(options.seed)
    device = "meta" if options.no_weights else "cpu"
    with torch.device(device):
        return make().to(device)  # XLNet makes parameters on the CPU whatever the default is


def export(options: argparse.Namespace, module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
    device = "meta" if options.no_weights else "cpu"
    placed = {name: tensor.to(device) for name, tensor in inputs.items()}
    export_model(module, placed, options.output, weights=not options.no_weights)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    print(f"{options.output}: {parameters:,} parameters" + (", shapes alone" if options.no_weights else ""))


def export_image_model(options: argparse.Namespace, model: torch.nn.Module) -> None:
    image = torch.zeros(2, options.channels, options.image_size, options.image_size)
    export(options, ImageLoss(model), {"image": image, "label": torch.zeros(2, dtype=torch.int64)})


def export_next_token_model(options: argparse.Namespace, model: torch.nn.Module) -> None:
    export(options, NextTokenLoss(model), {"input_ids": torch.zeros(2, options.sequence, dtype=torch.int64)})
