"""A PyTorch module with its loss becomes the `.pt2` file that `motley` reads."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.export import Dim, ExportedProgram


def export_model(
    module: torch.nn.Module,
    example_inputs: Mapping[str, torch.Tensor],
    path: str | os.PathLike[str],
    weights: bool = True,
) -> ExportedProgram:
    """Writes `module`, in training mode, to `path`; the file is replaced as a whole or not at all.

    The module's forward takes the tensors of `example_inputs` by name, each with samples along its first dimension,
    and returns the loss: a scalar that is a mean or a sum over the samples. At least two example samples are needed,
    since PyTorch takes a size of 1 for a constant. With weights=False the file holds shapes alone: enough to plan with;
    a module on the meta device is exported that way too.
    """
    sizes = {tensor.shape[0] for tensor in example_inputs.values() if tensor.dim() > 0}
    if len(sizes) != 1 or min(sizes) < 2 or any(tensor.dim() == 0 for tensor in example_inputs.values()):
        raise ValueError(f"example inputs need the same first dimension of at least 2, the samples; they have {sizes}")
    module.train()
    batch = Dim("batch", min=1)
    program = torch.export.export(
        module, (), kwargs=dict(example_inputs), dynamic_shapes={name: {0: batch} for name in example_inputs}
    )
    if not weights:
        for name, tensor in program.state_dict.items():
            stripped = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            program.state_dict[name] = torch.nn.Parameter(stripped, tensor.requires_grad) if is_parameter else stripped
    target = Path(path)
    # PyTorch names the archive's inner folder after the file, so the half-written one has the same name elsewhere.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        half = Path(folder) / target.name
        torch.export.save(program, half)
        half.replace(target)
    return program
