"""Exports the models that tests read: export_all.py FOLDER. Does nothing when the folder is newer than this script.

NAME.pt2 is a small model with weights, NAME.safetensors a batch of data for it with PyTorch's answer: "input.ARGUMENT",
"loss", "gradient.PARAMETER" and, where the model has state, "buffer.NAME" after the step. full-NAME.pt2 is the model at
its published size without weights.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import torchvision
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("python", "examples")]
from motley import export_model  # noqa: E402
from nasnet import NasNet  # noqa: E402
from transformer import TranslationLoss  # noqa: E402
from xlnet import TextLoss  # noqa: E402


class LanguageModel(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.model(input_ids=input_ids, labels=labels, use_cache=False).loss
        return loss


class Classifier(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        output = self.model(images)
        if isinstance(output, Tensor):
            return nn.functional.cross_entropy(output, labels)
        main, auxiliary = output  # Inception
        return nn.functional.cross_entropy(main, labels) + 0.4 * nn.functional.cross_entropy(auxiliary, labels)


class Recommender(nn.Module):
    """Bags of a table's rows beside dense features, and their products, as DLRM has them."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Linear(4, 8)
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, sparse: Tensor, label: Tensor) -> Tensor:
        first = self.bottom(dense)
        vectors = torch.stack([first, *(bag(sparse[:, i]) for i, bag in enumerate(self.bags))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, offset=-1)
        scores = self.top(torch.cat([first, products[:, rows, columns]], 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(scores, label)


Example = tuple[nn.Module, dict[str, Tensor]]
batch = 4
tokens = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}

LAYERS: dict[str, Any] = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


def text(model: nn.Module, length: int = 16, vocabulary: int = 64) -> Example:
    ids = torch.randint(0, vocabulary, (batch, length))
    labels = ids.clone()
    labels[0, length // 2 :] = -100  # samples with unequal numbers of targets
    return LanguageModel(model), {"input_ids": ids, "labels": labels}


def images(model: nn.Module, size: int, classes: int = 10) -> Example:
    return Classifier(model), {
        "images": torch.randn(batch, 3, size, size),
        "labels": torch.randint(0, classes, (batch,)),
    }


def gpt2(**options: Any) -> nn.Module:
    dropout: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**dropout, **options))


def bert(**options: Any) -> nn.Module:
    dropout: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(**dropout, **options))


def llama(**options: Any) -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**options))


def moe(**options: Any) -> nn.Module:
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**options))


def t5(**options: Any) -> nn.Module:
    start: dict[str, Any] = {"decoder_start_token_id": 0, "pad_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(dropout_rate=0.0, **start, **options))


def translation() -> Example:
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            **{f"{side}_{size}": value for side in ("encoder", "decoder") for size, value in LAYERS.items()},
            vocab_size=64,
            d_model=32,
            max_position_embeddings=16,
            dropout=0.0,
            activation_function="relu",
            pad_token_id=63,
            decoder_start_token_id=63,
            eos_token_id=62,
        )
    )
    words = torch.randint(0, 60, (2, batch, 16))
    return TranslationLoss(model), {"source": words[0], "target": words[1]}


def xlnet() -> Example:
    size: dict[str, Any] = {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}
    classes = {i: f"class {i}" for i in range(10)}
    config = transformers.XLNetConfig(dropout=0.0, summary_last_dropout=0.0, id2label=classes, **size)
    data = {"input_ids": torch.randint(0, 64, (batch, 16)), "label": torch.randint(0, 10, (batch,))}
    return TextLoss(transformers.XLNetForSequenceClassification(config)), data


def small_swin() -> nn.Module:
    module: nn.Module = torchvision.models.SwinTransformer(
        [4, 4], 16, [2, 2], [2, 4], window_size=[4, 4], stochastic_depth_prob=0.0, num_classes=10
    )
    return module


def small_vgg19() -> nn.Module:
    model: Any = torchvision.models.VGG(
        torchvision.models.vgg.make_layers([16, "M", 16, "M", 32, "M", 32, "M"]), num_classes=10, dropout=0.0
    )
    model.avgpool = nn.AdaptiveAvgPool2d((2, 2))
    model.classifier = nn.Sequential(nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Linear(64, 10))
    module: nn.Module = model
    return module


def small_inception() -> nn.Module:
    """A quarter of the channels."""
    blocks = torchvision.models.inception

    def thin(channels_in: int, channels_out: int, **options: Any) -> nn.Module:
        thinner: nn.Module = blocks.BasicConv2d(
            channels_in if channels_in == 3 else channels_in // 4, channels_out // 4, **options
        )
        return thinner

    parts = [blocks.InceptionA, blocks.InceptionB, blocks.InceptionC, blocks.InceptionD, blocks.InceptionE]
    model: Any = blocks.Inception3(
        aux_logits=False,
        init_weights=False,
        dropout=0.0,
        inception_blocks=[thin, *(functools.partial(part, conv_block=thin) for part in parts), blocks.InceptionAux],
    )
    model.fc = nn.Linear(512, 10)
    module: nn.Module = model
    return module


class Writer(nn.Module):
    """Writes in place through views of all sorts, and into buffers; what looks at that memory later sees it."""

    steps: Tensor
    table: Tensor
    average: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.turn = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("table", torch.zeros(4, 6))
        self.register_buffer("average", torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.linear(x) * 1.0
        cube = h.view(-1, 2, 3)
        cube.transpose(1, 2)[:, 1].mul_(2.0)
        h[:, 0:2].add_(1.0)
        h[:, 3:].copy_(h[:, :3] * 0.5)
        cube.permute(2, 0, 1)[0].mul_(1.5)
        h.select(1, 3).fill_(0.25)
        column = h.narrow(1, 4, 1)
        column.zero_()
        column.add_(x[:, :1])
        cube.flatten(1)[:, 5] = x[:, 2]
        torch.diagonal(cube, 0, 1, 2).mul_(3)
        copy = torch.empty_like(h).copy_(h)
        copy.masked_fill_(h > 1, 0.5)
        self.steps.add_(1)
        with torch.no_grad():
            self.table[1] = h.detach().mean(0)
            self.table[2:].mul_(0.5)
            self.average.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        turned = copy @ self.turn.t()
        total = (turned + h) * self.average
        total.squeeze(0).mul_(0.5)
        loss: Tensor = total.pow(2).mean() + (self.table * 0.1).sum() * total.mean()
        return loss


small: dict[str, Callable[[], Example]] = {
    "gpt2": lambda: text(gpt2(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2)),
    "bert": lambda: text(bert(max_position_embeddings=32, **tokens)),
    "llama": lambda: text(llama(num_key_value_heads=2, max_position_embeddings=32, **tokens)),
    "moe": lambda: text(
        moe(
            experts_implementation="grouped_mm",
            num_local_experts=4,
            num_experts_per_tok=2,
            num_key_value_heads=2,
            max_position_embeddings=32,
            **tokens,
        )
    ),
    "resnet": lambda: images(
        torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10), 64
    ),
    "vgg": lambda: images(small_vgg19(), 32),
    "mobilenet": lambda: images(torchvision.models.mobilenet_v2(num_classes=10, width_mult=0.25, dropout=0.0), 64),
    "inception": lambda: images(small_inception(), 75),
    "vit": lambda: images(torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10, dropout=0.0), 32),
    "swin": lambda: images(small_swin(), 32),
    "t5": lambda: text(t5(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)),
    "translation": translation,
    "xlnet": xlnet,
    "nasnet": lambda: images(NasNet(3, 10, stem=4, width=8, repeats=1, dropout=0.0), 64),
    "recommender": lambda: (
        Recommender(),
        {"dense": torch.randn(batch, 4), "sparse": torch.randint(0, 50, (batch, 3, 2)), "label": torch.rand(batch)},
    ),
    "in_place": lambda: (Writer(), {"x": torch.randn(batch, 6)}),
}

full: dict[str, Callable[[], Example]] = {
    "gpt2": lambda: text(gpt2(), 128, 50257),
    "gpt2-two-layers": lambda: text(gpt2(n_layer=2), 128, 50257),
    "bert": lambda: text(bert(), 128, 30522),
    "resnet50": lambda: images(torchvision.models.resnet50(), 224, 1000),
    "vgg19": lambda: images(torchvision.models.vgg19(), 224, 1000),
    "inception": lambda: images(torchvision.models.inception_v3(init_weights=False, dropout=0.0), 299, 1000),
}


def answer(model: nn.Module, data: dict[str, Tensor], path: Path) -> None:
    loss = model(**data)
    loss.backward()
    content = {f"input.{name}": tensor for name, tensor in data.items()} | {"loss": loss.detach()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            content[f"gradient.{name}"] = parameter.grad
    content |= {f"buffer.{name}": buffer.clone() for name, buffer in model.named_buffers()}
    save_file({name: tensor.contiguous() for name, tensor in content.items()}, path)


def main(folder: Path) -> None:
    stamp = folder / "complete"
    if stamp.exists() and stamp.stat().st_mtime > Path(__file__).stat().st_mtime:
        return
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, make in small.items():
        torch.manual_seed(1)
        model, data = make()
        export_model(model, data, folder / f"{name}.pt2")
        answer(model, data, folder / f"{name}.safetensors")
        print(f"exported {name}", flush=True)
    for name, make in full.items():
        with torch.device("meta"):
            model, data = make()
        export_model(model, data, folder / f"full-{name}.pt2", weights=False)
        print(f"exported full-{name}", flush=True)
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
