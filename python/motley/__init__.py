"""motley for Python: export a model with its loss, read checkpoints, train the reference in plain PyTorch."""

from motley.checkpoint import load_checkpoint
from motley.export import export_model

__all__ = ["export_model", "load_checkpoint"]
