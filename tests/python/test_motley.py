"""Export, checkpoints, data and the reference trainer, on a linear model whose numbers are worked out by hand."""

import zipfile
from pathlib import Path

import numpy
import pytest
import torch
from motley import export_model, load_checkpoint
from motley.data import batches, sample_order, splitmix64
from motley.reference import Optimizer, load_module, train
from safetensors.torch import load_file, save_file


class Line(torch.nn.Module):
    """Half the mean squared distance of weight * x from y."""

    calls: torch.Tensor

    def __init__(self, weight: float = 3.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([weight]))
        self.same = self.weight
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return ((self.weight + self.same) * 0.5 * x - y).square().mean() * 0.5


INPUTS = {"x": torch.ones(2, 1), "y": torch.zeros(2, 1)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "line.pt2"
    export_model(Line(), INPUTS, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    numpy.save(tmp_path / "x.npy", numpy.full((6, 1), 2.0, numpy.float32))
    save_file({"y": torch.zeros(6, 1)}, tmp_path / "y.safetensors")
    return tmp_path


def entries(path: Path) -> dict[str, int]:
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}


def test_export_leaves_only_the_file(model: Path) -> None:
    assert [path.name for path in model.parent.iterdir()] == ["line.pt2"]
    assert "line/models/model.json" in entries(model)


def test_failed_export_leaves_the_old_file(model: Path) -> None:
    before = model.read_bytes()

    class Fails(Line):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no forward")

    with pytest.raises(Exception, match="no forward"):
        export_model(Fails(), INPUTS, model)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == ["line.pt2"]


def test_without_weights_the_file_has_no_bytes_of_them(tmp_path: Path) -> None:
    export_model(Line(), INPUTS, tmp_path / "bare.pt2", weights=False)
    weights = {name: size for name, size in entries(tmp_path / "bare.pt2").items() if "/weights/weight_" in name}
    assert sum(weights.values()) == 0


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3)])
def test_export_needs_two_samples_of_every_input(tmp_path: Path, sizes: tuple[int, int]) -> None:
    inputs = {"x": torch.ones(sizes[0], 1), "y": torch.ones(sizes[1], 1)}
    with pytest.raises(ValueError, match="first dimension of at least 2"):
        export_model(Line(), inputs, tmp_path / "line.pt2")


def test_checkpoint_fills_every_name_of_a_shared_tensor(tmp_path: Path) -> None:
    save_file({"weight": torch.tensor([7.0]), "calls": torch.tensor([4.0])}, tmp_path / "c.safetensors")
    module = Line()
    load_checkpoint(module, tmp_path / "c.safetensors")
    assert module.same.item() == 7.0
    assert module.same is module.weight


def test_checkpoint_names_what_it_lacks(tmp_path: Path) -> None:
    save_file({"same": torch.tensor([7.0])}, tmp_path / "c.safetensors")
    with pytest.raises(KeyError, match="calls"):
        load_checkpoint(Line(), tmp_path / "c.safetensors")


def test_sample_order_is_a_permutation_of_its_own_for_seed_and_epoch() -> None:
    orders = [tuple(sample_order(50, seed, epoch)) for seed in (0, 1) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len(set(orders)) == 4


def test_splitmix64_gives_the_published_numbers() -> None:
    # The widely published test vector of its author's C code: seed 1234567.
    state, numbers = 1234567, []
    for _ in range(3):
        state, number = splitmix64(state)
        numbers.append(number)
    assert numbers == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_batches_drop_what_is_left_over(data: Path) -> None:
    numpy.save(data / "x.npy", numpy.arange(5, dtype=numpy.float32))
    numpy.save(data / "y.npy", numpy.arange(5, dtype=numpy.float32))
    stream = batches(data, ["x", "y"], 2, seed=3)
    seen = [next(stream)["x"].tolist() for _ in range(4)]
    order = sample_order(5, 3, 0) + sample_order(5, 3, 1)
    assert [int(x) for pair in seen for x in pair] == order[0:4] + order[5:9]


def test_batches_need_enough_samples(data: Path) -> None:
    with pytest.raises(ValueError, match="6 samples, fewer than a batch of 7"):
        next(batches(data, ["x", "y"], 7, seed=0))


def test_reference_follows_the_formula(model: Path, data: Path) -> None:
    # Loss (2w)^2 / 2 = 2 w^2, gradient 4w: w becomes w (1 - 0.4) with a rate of 0.1.
    losses = train(model, data, batch=3, steps=4, optimizer=Optimizer(learning_rate=0.1))
    assert losses == pytest.approx([2 * (3 * 0.6**k) ** 2 for k in range(4)])


def test_reference_keeps_shared_parameters_shared_and_saves_state(model: Path, data: Path, tmp_path: Path) -> None:
    assert len(list(load_module(model).parameters())) == 1
    train(model, data, batch=6, steps=2, optimizer=Optimizer(learning_rate=0.1), save=tmp_path / "end.safetensors")
    state = load_file(tmp_path / "end.safetensors")
    assert state["calls"].item() == 2
    assert state["weight"].item() == pytest.approx(3 * 0.36)
