"""Exports BERT (transformers) with its masked-token loss. The default is BERT base; large is
--layers 24 --hidden 1024 --heads 16 --intermediate 4096."""

import common
import torch
from transformers import BertConfig, BertForMaskedLM


def main() -> None:
    parser = common.parser(__doc__, "bert.pt2")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--intermediate", type=int, default=3072)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=30522)
    parser.add_argument("--dropout", type=float, default=0.1)
    options = parser.parse_args()
    config = BertConfig(
        num_hidden_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.heads,
        intermediate_size=options.intermediate,
        max_position_embeddings=options.sequence,
        vocab_size=options.vocabulary,
        hidden_dropout_prob=options.dropout,
        attention_probs_dropout_prob=options.dropout,
    )
    tokens = torch.zeros(2, options.sequence, dtype=torch.int64)
    model = common.build(options, lambda: BertForMaskedLM(config))
    common.export(options, common.MaskedTokenLoss(model), {"input_ids": tokens, "labels": tokens.clone()})


if __name__ == "__main__":
    main()
