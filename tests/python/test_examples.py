"""Every example exports at a small size, with weights and without, and the file trains."""

import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from motley.reference import load_module

LANGUAGE = "--layers 1 --hidden 16 --heads 2 --sequence 8 --vocabulary 32"
IMAGE = "--image-size 32 --classes 4"
OPTIONS = {
    "gpt2": LANGUAGE,
    "bert": f"{LANGUAGE} --intermediate 32",
    "llama": f"{LANGUAGE} --intermediate 32 --key-value-heads 1",
    "moe": f"{LANGUAGE} --intermediate 32 --key-value-heads 1 --experts 4",
    "resnet50": f"{IMAGE} --layers 1 1 1 1 --width 4",
    "vgg19": f"{IMAGE} --width 0.1 --hidden 16 --channels 1",
    "inception_v3": "--image-size 75 --classes 4 --no-auxiliary",
    "mobilenet_v2": f"{IMAGE} --width 0.25",
}


def export(name: str, path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, *OPTIONS[name].split(), *more.split(), "-o", str(path)])
    importlib.import_module(name).main()
    with zipfile.ZipFile(path) as archive:
        graph: dict[str, Any] = json.loads(archive.read(f"{path.stem}/models/model.json"))
    return graph


def inputs(graph: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Three samples for each input, from its shape in the file: floats at random, integers below 4."""
    made = {}
    for spec in graph["graph_module"]["signature"]["input_specs"]:
        if "user_input" not in spec:
            continue
        name = spec["user_input"]["arg"]["as_tensor"]["name"]
        meta = graph["graph_module"]["graph"]["tensor_values"][name]
        shape = [size.get("as_int", 3) for size in meta["sizes"]]
        is_float = meta["dtype"] == 7
        made[name] = torch.randn(shape) if is_float else torch.randint(0, 4, shape)
    return made


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_example_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = export(name, tmp_path / f"{name}.pt2", monkeypatch)
    module = load_module(tmp_path / f"{name}.pt2")
    loss = module(**inputs(graph))
    loss.backward()
    assert loss.shape == ()
    assert torch.isfinite(loss)
    assert any(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize("name", ["gpt2", "vgg19"])
def test_example_without_weights_has_the_same_shapes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = export(name, tmp_path / "heavy.pt2", monkeypatch)
    light = export(name, tmp_path / "light.pt2", monkeypatch, "--no-weights")

    def shapes(graph: dict[str, Any]) -> list[Any]:
        return sorted((k, v["sizes"]) for k, v in graph["graph_module"]["graph"]["tensor_values"].items())

    assert str(shapes(light)) == str(shapes(heavy))
    assert (tmp_path / "light.pt2").stat().st_size < (tmp_path / "heavy.pt2").stat().st_size


def test_the_seed_makes_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stem, seed in (("a", 1), ("b", 1), ("c", 2)):
        export("gpt2", tmp_path / f"{stem}.pt2", monkeypatch, f"--seed {seed}")
    first = [next(load_module(tmp_path / f"{stem}.pt2").parameters()) for stem in "abc"]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
