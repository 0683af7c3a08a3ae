"""Exports a Llama (transformers) with its next-token loss. The default has 1.2 billion parameters (as Llama 3.2 1B)."""

import common
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    parser = common.parser(__doc__, "llama.pt2")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--key-value-heads", type=int, default=8)
    parser.add_argument("--intermediate", type=int, default=8192)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--dropout", type=float, default=0.0, help="of the attention")
    options = parser.parse_args()
    config = LlamaConfig(
        num_hidden_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.heads,
        num_key_value_heads=options.key_value_heads,
        intermediate_size=options.intermediate,
        max_position_embeddings=options.sequence,
        vocab_size=options.vocabulary,
        attention_dropout=options.dropout,
        tie_word_embeddings=True,
    )
    common.export_next_token_model(options, common.build(options, lambda: LlamaForCausalLM(config)))


if __name__ == "__main__":
    main()
