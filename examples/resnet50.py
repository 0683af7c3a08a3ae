"""Exports a ResNet of bottleneck blocks (torchvision) with its cross entropy. The default is ResNet-50; 101 is
--layers 3 4 23 3, 152 is --layers 3 8 36 3."""

from typing import Any

import common
import torch
from torchvision.models.resnet import Bottleneck, ResNet


def main() -> None:
    parser = common.image_parser(__doc__, "resnet50.pt2", 224)
    parser.add_argument("--layers", type=int, nargs=4, default=[3, 4, 6, 3], help="blocks of each stage")
    parser.add_argument(
        "--width", type=int, default=64, help="channels of a block's 3x3 convolution in the first stage"
    )
    parser.add_argument("--dropout", type=float, default=0.0, help="before the last layer")
    options = parser.parse_args()

    def make() -> torch.nn.Module:
        model: Any = ResNet(Bottleneck, options.layers, options.classes, width_per_group=options.width)
        if options.channels != 3:
            model.conv1 = torch.nn.Conv2d(options.channels, 64, 7, stride=2, padding=3, bias=False)
        if options.dropout > 0:
            model.fc = torch.nn.Sequential(torch.nn.Dropout(options.dropout), model.fc)
        module: torch.nn.Module = model
        return module

    common.export_image_model(options, common.build(options, make))


if __name__ == "__main__":
    main()
