"""Exports XLNet (transformers) with the loss of classifying a text, as it is fine-tuned: attention both ways with
relative positions, in one stream; the second stream and permuted orders are for pre-training alone. The default is
XLNet base; large is --layers 24 --hidden 1024 --heads 16 --intermediate 4096."""

import common
import torch
from transformers import XLNetConfig, XLNetForSequenceClassification


class TextLoss(torch.nn.Module):
    """Mean cross entropy of a text's class."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.model(input_ids=input_ids).logits, label)


def main() -> None:
    parser = common.parser(__doc__, "xlnet.pt2")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--intermediate", type=int, default=3072)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    options = parser.parse_args()
    config = XLNetConfig(
        n_layer=options.layers,
        d_model=options.hidden,
        n_head=options.heads,
        d_inner=options.intermediate,
        vocab_size=options.vocabulary,
        dropout=options.dropout,
        summary_last_dropout=options.dropout,
        id2label={i: f"class {i}" for i in range(options.classes)},
    )
    inputs = {
        "input_ids": torch.zeros(2, options.sequence, dtype=torch.int64),
        "label": torch.zeros(2, dtype=torch.int64),
    }
    common.export(options, TextLoss(common.build(options, lambda: XLNetForSequenceClassification(config))), inputs)


if __name__ == "__main__":
    main()
