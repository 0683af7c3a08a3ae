"""Exports MobileNet-v2 (torchvision) with its cross entropy."""

from typing import Any

import common
import torch
from torchvision.models.mobilenetv2 import MobileNetV2


def main() -> None:
    parser = common.image_parser(__doc__, "mobilenet_v2.pt2", 224)
    parser.add_argument("--width", type=float, default=1.0, help="factor on the channels")
    parser.add_argument("--dropout", type=float, default=0.2)
    options = parser.parse_args()

    def make() -> torch.nn.Module:
        model: Any = MobileNetV2(options.classes, options.width, dropout=options.dropout)
        if options.channels != 3:
            first = model.features[0][0]
            model.features[0][0] = torch.nn.Conv2d(
                options.channels, first.out_channels, 3, stride=2, padding=1, bias=False
            )
        module: torch.nn.Module = model
        return module

    common.export_image_model(options, common.build(options, make))


if __name__ == "__main__":
    main()
