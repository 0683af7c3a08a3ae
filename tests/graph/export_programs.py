"""Makes the small programs that the importer's tests read, right and wrong ones: export_programs.py FOLDER. Does
nothing when the folder is newer than this script."""

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Inputs = tuple[Tensor, ...]


class Small(nn.Module):
    """The parts that every program below has: a linear layer whose weights are 0, 1, 2, ..."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(2, outputs)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(2.0 * outputs).view(outputs, 2))
            self.linear.bias.zero_()

    def line(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result


class Classifier(Small):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(self.line(x), y)


class Stored(Small):
    """Weights that are stored strided, with an offset, and in shared memory."""

    halves: Tensor

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(12.0)
        self.turned = nn.Parameter(base[:6].view(2, 3).t())  # [[0, 3], [1, 4], [2, 5]]
        self.part = nn.Parameter(base[7:9])  # 7, 8
        self.tied = self.linear.weight
        self.register_buffer("halves", torch.ones(2, dtype=torch.bfloat16))
        self.constant = torch.tensor([5, 6])

    def forward(self, x: Tensor) -> Tensor:
        h = functional.linear(x, self.tied) + functional.linear(x, self.turned) + self.line(x)
        return (h.sum(1) * self.part.sum() + self.halves.sum() + self.constant.sum()).mean()


class InPlace(Small):
    def forward(self, x: Tensor) -> Tensor:
        h = self.line(x)
        before = h.view(-1)
        h.relu_()
        h[:, 0] = 0.0
        return (h.mean() + before.sum()) / 2


class Norm(Small):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(self.line(x))
        return (normal**2).mean()


class State(Small):
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.line(x)
        with torch.no_grad():
            self.table[1] = h.mean(0)
        return (h * self.table.sum(0)).mean()


class Needless(Small):
    """Whatever can go: only linear, sum and mean are left."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = functional.dropout(self.line(x), 0.0)
        h = functional.dropout(h, 0.5, training=False)
        h = h.to(torch.float32).contiguous()[:].expand(-1, 3).clone() * 1.0
        unused = h.exp()
        return h.sum(1).mean(), unused


class Random(Small):
    def forward(self, x: Tensor) -> Tensor:
        h = functional.dropout(self.line(x), 0.5)
        return functional.scaled_dot_product_attention(h[:, None], h[:, None], h[:, None], dropout_p=0.1).mean()


class Views(Small):
    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.line(x).chunk(3, dim=1)
        turned = torch.cat([a, b, c], 1).t()
        return (turned.reshape(-1).sum() + turned.t().reshape(-1).mean()) + 0 * c.reshape(-1, 1, 1).sum()


class NoGradient(Small):
    def forward(self, x: Tensor) -> Tensor:
        h = self.line(x)
        with torch.no_grad():
            scale = h.exp() * x.shape[0]
        return (h * scale * h.detach().sum()).mean()


class Sizes(Small):
    def forward(self, x: Tensor) -> Tensor:
        pairs = (x[:, None] + x[None]).view(-1, 2)  # B * B rows
        return self.line(pairs).mean() + torch.arange(2 * x.shape[0] + 1).sum()


class Halves(Small):
    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).mean() + torch.ones(x.shape[0] // 2 + 1).sum()


class PerSample(Small):
    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).mean(1)


class Counts(Small):
    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).argmax()


class Branches(Small):
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return self.line(result).mean()


class WritesParameter(Small):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.linear.weight.clamp_(-1.0, 1.0)
        return self.line(x).mean()


def export(module: nn.Module, inputs: Inputs, symbolic: tuple[Any, ...] | None = None) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=64)
    sizes = symbolic if symbolic is not None else tuple({0: batch} for _ in inputs)
    return torch.export.export(module.train(), inputs, dynamic_shapes=sizes)


def strip(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    for name, tensor in program.state_dict.items():
        program.state_dict[name] = nn.Parameter(torch.empty_like(tensor, device="meta"))
    return program


def rewrite(source: Path, target: Path, change: Callable[[bytes], bytes]) -> None:
    """Copies an archive, with `change` applied to its graph."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry.filename, change(content) if entry.filename.endswith("models/model.json") else content)


def newer_schema(content: bytes) -> bytes:
    graph = json.loads(content)
    graph["schema_version"]["major"] = 99
    return json.dumps(graph).encode()


def main(folder: Path) -> None:
    stamp = folder / "complete"
    if stamp.exists() and stamp.stat().st_mtime > Path(__file__).stat().st_mtime:
        return
    folder.mkdir(parents=True, exist_ok=True)
    x, y = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
    batch = torch.export.Dim("batch", min=1, max=64)
    programs: dict[str, torch.export.ExportedProgram] = {
        "classifier": export(Classifier(), (x, y)),
        "stripped": strip(export(Classifier(), (x, y))),
        "stored": export(Stored(), (x,)),
        "in_place": export(InPlace(), (x,)),
        "norm": export(Norm(), (x,)),
        "functional_norm": export(Norm(), (x,)).run_decompositions(),
        "state": export(State(), (x,)),
        "needless": export(Needless(), (x,)),
        "random": export(Random(), (x,)),
        "views": export(Views(), (x,)),
        "no_gradient": export(NoGradient(), (x,)),
        "sizes": export(Sizes(), (x,)),
        "halves": export(Halves(), (x,)),
        "fixed": export(Classifier(), (x, y), (None, None)),
        "two_sizes": export(PerSample(3), (torch.ones(4, 5, 2),), ({0: batch, 1: torch.export.Dim("length")},)),
        "per_sample": export(PerSample(), (x,)),
        "counts": export(Counts(), (x,)),
        "branches": export(Branches(), (x,)),
        "writes_parameter": export(WritesParameter(), (x,)),
    }
    for name, program in programs.items():
        torch.export.save(program, folder / f"{name}.pt2")

    good = (folder / "classifier.pt2").read_bytes()
    (folder / "truncated.pt2").write_bytes(good[: len(good) // 2])
    (folder / "empty.pt2").write_bytes(b"")
    (folder / "text.pt2").write_text("this is not a model\n")
    torch.save({"a": x}, folder / "saved.pt2")
    with zipfile.ZipFile(folder / "plain.pt2", "w") as plain:
        plain.writestr("folder/readme.txt", "nothing to see")
    rewrite(folder / "classifier.pt2", folder / "newer.pt2", newer_schema)
    rewrite(folder / "classifier.pt2", folder / "broken_json.pt2", lambda content: content[:1000])
    rewrite(
        folder / "classifier.pt2",
        folder / "other_json.pt2",
        lambda content: content.replace(b'"nodes": [', b'"nodes": 5, "x": ['),
    )
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
