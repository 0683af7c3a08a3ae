"""Exports GPT-2 (transformers) with its next-token loss. The default is GPT-2 small; XL is
--layers 48 --hidden 1600 --heads 25."""

import common
from transformers import GPT2Config, GPT2LMHeadModel


def main() -> None:
    parser = common.parser(__doc__, "gpt2.pt2")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--dropout", type=float, default=0.1)
    options = parser.parse_args()
    config = GPT2Config(
        n_layer=options.layers,
        n_embd=options.hidden,
        n_head=options.heads,
        n_positions=options.sequence,
        vocab_size=options.vocabulary,
        resid_pdrop=options.dropout,
        embd_pdrop=options.dropout,
        attn_pdrop=options.dropout,
        bos_token_id=options.vocabulary - 1,
        eos_token_id=options.vocabulary - 1,
    )
    common.export_next_token_model(options, common.build(options, lambda: GPT2LMHeadModel(config)))


if __name__ == "__main__":
    main()
