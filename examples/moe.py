"""Exports a small mixture of experts (transformers' Mixtral) with its next-token loss."""

import common
from transformers import MixtralConfig, MixtralForCausalLM


def main() -> None:
    parser = common.parser(__doc__, "moe.pt2")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--key-value-heads", type=int, default=4)
    parser.add_argument("--intermediate", type=int, default=1792, help="of one expert")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--experts-per-token", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--dropout", type=float, default=0.0, help="of the attention")
    options = parser.parse_args()
    config = MixtralConfig(
        num_hidden_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.heads,
        num_key_value_heads=options.key_value_heads,
        intermediate_size=options.intermediate,
        num_local_experts=options.experts,
        num_experts_per_tok=options.experts_per_token,
        max_position_embeddings=options.sequence,
        vocab_size=options.vocabulary,
        attention_dropout=options.dropout,
    )
    # One matrix product over all experts; the loop over experts cannot be exported.
    config._experts_implementation = "grouped_mm"
    common.export_next_token_model(options, common.build(options, lambda: MixtralForCausalLM(config)))


if __name__ == "__main__":
    main()
