"""Exports VGG-19 (torchvision) with its cross entropy."""

import common
import torch
from torchvision.models.vgg import VGG, cfgs, make_layers


def main() -> None:
    parser = common.image_parser(__doc__, "vgg19.pt2", 224)
    parser.add_argument("--width", type=float, default=1.0, help="factor on the channels of the convolutions")
    parser.add_argument("--hidden", type=int, default=4096, help="width of the classifier's two layers")
    parser.add_argument("--dropout", type=float, default=0.5)
    options = parser.parse_args()

    def make() -> torch.nn.Module:
        layers = [max(1, round(size * options.width)) if isinstance(size, int) else size for size in cfgs["E"]]
        first, last = int(layers[0]), int(layers[-2])
        features = make_layers(layers)
        if options.channels != 3:
            features[0] = torch.nn.Conv2d(options.channels, first, 3, padding=1)
        model: torch.nn.Module = VGG(features, options.classes, dropout=options.dropout)
        model.classifier = torch.nn.Sequential(
            torch.nn.Linear(last * 49, options.hidden),
            torch.nn.ReLU(True),
            torch.nn.Dropout(options.dropout),
            torch.nn.Linear(options.hidden, options.hidden),
            torch.nn.ReLU(True),
            torch.nn.Dropout(options.dropout),
            torch.nn.Linear(options.hidden, options.classes),
        )
        return model

    common.export_image_model(options, common.build(options, make))


if __name__ == "__main__":
    main()
