"""Exports the Transformer of Vaswani et al. (2017), an encoder and a decoder, with its translation loss. The default is
the base model; big is --hidden 1024 --heads 16 --intermediate 4096. transformers' Marian is this model: sinusoidal
positions, layers normalised after each sum, and one embedding for both sides and the output."""

import common
import torch
from transformers import MarianConfig, MarianMTModel


class TranslationLoss(torch.nn.Module):
    """Mean cross entropy of each target token from the source and the target tokens before it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=source, labels=target, use_cache=False).loss
        return loss


def main() -> None:
    parser = common.parser(__doc__, "transformer.pt2")
    parser.add_argument("--layers", type=int, default=6, help="of the encoder, and of the decoder")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--intermediate", type=int, default=2048)
    parser.add_argument("--sequence", type=int, default=128, help="of the source, and of the target")
    parser.add_argument("--vocabulary", type=int, default=37000, help="of both languages")
    parser.add_argument("--dropout", type=float, default=0.1)
    options = parser.parse_args()
    config = MarianConfig(
        encoder_layers=options.layers,
        decoder_layers=options.layers,
        d_model=options.hidden,
        encoder_attention_heads=options.heads,
        decoder_attention_heads=options.heads,
        encoder_ffn_dim=options.intermediate,
        decoder_ffn_dim=options.intermediate,
        max_position_embeddings=options.sequence,
        vocab_size=options.vocabulary,
        dropout=options.dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=options.vocabulary - 1,
        decoder_start_token_id=options.vocabulary - 1,
        eos_token_id=options.vocabulary - 2,
    )
    tokens = torch.zeros(2, options.sequence, dtype=torch.int64)
    model = common.build(options, lambda: MarianMTModel(config))
    common.export(options, TranslationLoss(model), {"source": tokens, "target": tokens.clone()})


if __name__ == "__main__":
    main()
