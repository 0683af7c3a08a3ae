"""Exports Inception-v3 (torchvision) with its cross entropy, the auxiliary classifier's included."""

import common
import torch
from torchvision.models.inception import BasicConv2d, Inception3


def main() -> None:
    parser = common.image_parser(__doc__, "inception_v3.pt2", 299)
    parser.add_argument("--no-auxiliary", action="store_true", help="needed below 299 pixels; the least is 75")
    parser.add_argument("--dropout", type=float, default=0.5)
    options = parser.parse_args()

    def make() -> torch.nn.Module:
        model: torch.nn.Module = Inception3(
            options.classes, not options.no_auxiliary, init_weights=False, dropout=options.dropout
        )
        if options.channels != 3:
            model.Conv2d_1a_3x3 = BasicConv2d(options.channels, 32, kernel_size=3, stride=2)
        return model

    common.export_image_model(options, common.build(options, make))


if __name__ == "__main__":
    main()
