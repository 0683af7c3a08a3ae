"""Exports NASNet-A (Zoph et al., CVPR 2018, figure 4) with its cross entropy: cells of five sums of two branches each
that take from the last two cells. The default is NASNet-A (4 @ 1056), which the paper calls mobile; (6 @ 4032), the
large one, is --repeats 6 --width 168 --stem 96 --image-size 331. Without the auxiliary classifier and the dropping of
paths, which the mobile one does without as well."""

from collections.abc import Callable

import common
import torch
from torch import Tensor, nn


def convolution(channels_in: int, channels_out: int) -> nn.Module:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(channels_in, channels_out, 1, bias=False),
        nn.BatchNorm2d(channels_out, eps=0.001),
    )


# A branch from the channels that come in, those that go out, and the stride. What pools keeps the channels.
Make = Callable[[int, int, int], nn.Module]


def separable(kernel: int) -> Make:
    """Twice a convolution of each channel alone and one across channels; the first one takes the stride."""

    def make(channels_in: int, channels: int, stride: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, step in ((channels_in, stride), (channels, 1)):
            layers += [
                nn.ReLU(),
                nn.Conv2d(before, before, kernel, step, kernel // 2, groups=before, bias=False),
                nn.Conv2d(before, channels, 1, bias=False),
                nn.BatchNorm2d(channels, eps=0.001),
            ]
        return nn.Sequential(*layers)

    return make


def average(channels_in: int, channels: int, stride: int) -> nn.Module:
    return nn.AvgPool2d(3, stride, 1, count_include_pad=False)


def maximum(channels_in: int, channels: int, stride: int) -> nn.Module:
    return nn.MaxPool2d(3, stride, 1)


def identity(channels_in: int, channels: int, stride: int) -> nn.Module:
    return nn.Identity()


# What a cell adds: two branches and from where each takes. "last" and "before" are what the last two cells made; a
# number is an earlier sum of the same cell.
Source = str | int
Branch = tuple[Make, Source]
NORMAL: list[tuple[Branch, Branch]] = [
    ((separable(5), "last"), (separable(3), "before")),
    ((separable(5), "before"), (separable(3), "before")),
    ((average, "last"), (identity, "before")),
    ((average, "before"), (average, "before")),
    ((separable(3), "last"), (identity, "last")),
]
NORMAL_MAKES: list[Source] = ["before", 0, 1, 2, 3, 4]
REDUCTION: list[tuple[Branch, Branch]] = [
    ((separable(5), "last"), (separable(7), "before")),
    ((maximum, "last"), (separable(7), "before")),
    ((average, "last"), (separable(5), "before")),
    ((average, 0), (identity, 1)),
    ((separable(3), 0), (maximum, "last")),
]
REDUCTION_MAKES: list[Source] = [1, 2, 3, 4]


class Halving(nn.Module):
    """Half the height and width: a convolution of every other pixel, and one of those beside them."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        half = channels_out // 2
        self.even = nn.Conv2d(channels_in, half, 1, bias=False)
        self.odd = nn.Conv2d(channels_in, channels_out - half, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels_out, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x)
        beside = nn.functional.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        pixels = (nn.functional.avg_pool2d(image, 1, 2) for image in (x, beside))
        normed: Tensor = self.norm(
            torch.cat([f(image) for f, image in zip((self.even, self.odd), pixels, strict=True)], 1)
        )
        return normed


class Cell(nn.Module):
    """Of `channels` filters. `before` is None where there is no cell before the last; then branches take what the last
    one made, all its channels."""

    def __init__(self, last: int, before: int | None, channels: int, reduces: bool, halve_before: bool) -> None:
        super().__init__()
        self.sums, self.makes = (REDUCTION, REDUCTION_MAKES) if reduces else (NORMAL, NORMAL_MAKES)
        self.channels = channels * len(self.makes)
        self.last = convolution(last, channels)
        if before is None:
            self.before: nn.Module = nn.Identity()
        else:
            self.before = (Halving if halve_before else convolution)(before, channels)
        self.branches = nn.ModuleList()
        for make, source in (branch for pair in self.sums for branch in pair):
            channels_in = last if before is None and source == "before" else channels
            self.branches.append(make(channels_in, channels, 2 if reduces and isinstance(source, str) else 1))

    def forward(self, last: Tensor, before: Tensor) -> Tensor:
        inputs: dict[Source, Tensor] = {"last": self.last(last), "before": self.before(before)}
        for i, ((_, left), (_, right)) in enumerate(self.sums):
            inputs[i] = self.branches[2 * i](inputs[left]) + self.branches[2 * i + 1](inputs[right])
        return torch.cat([inputs[source] for source in self.makes], 1)


class NasNet(nn.Module):
    """`repeats` normal cells of `width` filters, a reduction cell, as many of twice as many filters, and so on thrice,
    after a convolution to `stem` channels and two reduction cells of a quarter and half of `width`."""

    def __init__(self, channels: int, classes: int, stem: int, width: int, repeats: int, dropout: float) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, stem, 3, stride=2, bias=False), nn.BatchNorm2d(stem, eps=0.001))
        plan = [(width // 4, True), (width // 2, True)]
        for stage in range(3):
            plan += [(width << stage, True)] if stage > 0 else []
            plan += [(width << stage, False)] * repeats
        cells: list[Cell] = []
        last, before, halve = stem, None, False
        for filters, reduces in plan:
            cells.append(Cell(last, before, filters, reduces, halve))
            last, before, halve = cells[-1].channels, last, reduces
        self.cells = nn.ModuleList(cells)
        self.head = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(last, classes)
        )

    def forward(self, image: Tensor) -> Tensor:
        before = last = self.stem(image)
        for cell in self.cells:
            before, last = last, cell(last, before)
        scores: Tensor = self.head(last)
        return scores


def main() -> None:
    parser = common.image_parser(__doc__, "nasnet.pt2", 224)
    parser.add_argument("--repeats", type=int, default=4, help="normal cells in a row")
    parser.add_argument("--width", type=int, default=44, help="filters of the first normal cells")
    parser.add_argument("--stem", type=int, default=32, help="channels of the first convolution")
    parser.add_argument("--dropout", type=float, default=0.5)
    options = parser.parse_args()

    def make() -> nn.Module:
        return NasNet(options.channels, options.classes, options.stem, options.width, options.repeats, options.dropout)

    common.export_image_model(options, common.build(options, make))


if __name__ == "__main__":
    main()
