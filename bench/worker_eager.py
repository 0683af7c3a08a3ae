"""The counterpart of worker_bench: the same model trained by PyTorch eager with one thread.

worker_eager.py MODEL --export STEM writes STEM.pt2 and STEM.safetensors for worker_bench and measures nothing.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet

root = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(root / "python"), str(root / "examples")]
from common import ImageLoss, NextTokenLoss  # noqa: E402
from motley import export_model  # noqa: E402

Example = tuple[nn.Module, dict[str, Tensor]]


def gpt2() -> Example:
    config = transformers.GPT2Config(
        n_layer=4,
        n_embd=256,
        n_head=4,
        n_positions=128,
        vocab_size=4096,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=4095,
        eos_token_id=4095,
    )
    return NextTokenLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": torch.randint(0, 4096, (8, 128))}


def resnet() -> Example:
    model = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=10)
    return ImageLoss(model), {"image": torch.randn(8, 3, 64, 64), "label": torch.randint(0, 10, (8,))}


MODELS: dict[str, Callable[[], Example]] = {"gpt2": gpt2, "resnet": resnet}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--export", metavar="STEM")
    parser.add_argument("--seconds", type=float, default=10, help="how long to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, inputs = MODELS[options.model]()
    if options.export is not None:
        export_model(module, inputs, f"{options.export}.pt2")
        save_file({f"input.{name}": tensor for name, tensor in inputs.items()}, f"{options.export}.safetensors")
        return

    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, fused=True)
    times: list[float] = []
    losses: list[float] = []
    begin = time.process_time()
    while len(times) < 3 or time.process_time() - begin < options.seconds:
        start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = module(**inputs)
        loss.backward()
        optimizer.step()
        times.append(time.process_time() - start)
        losses.append(loss.item())
    times = sorted(times[1:])
    batch = next(iter(inputs.values())).shape[0]
    print(
        json.dumps(
            {
                "samples_per_second": batch / times[len(times) // 2],
                "best_samples_per_second": batch / times[0],
                "iterations": len(times),
                "losses": losses[:3],
                "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
