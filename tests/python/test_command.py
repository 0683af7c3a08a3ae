"""The `motley` command as a user meets it: results as JSON, exit codes, and what it says of bad input."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import CLUSTER, ROOT, Daemons, agents, motley, refused, result
from safetensors.numpy import load_file, save


def planning_on(folder: Path, cluster: str) -> list[object]:
    return [folder / "model.pt2", "--cluster", folder / cluster, "--batch", 16, "--profiles", folder / "none"]


@pytest.fixture
def planning(folder: Path) -> list[object]:
    return planning_on(folder, "cluster.yaml")


def test_every_command_has_help_with_an_example() -> None:
    for command in (
        "inspect",
        "profile",
        "plan",
        "simulate",
        "compare",
        "explain",
        "what-if",
        "validate",
        "run",
        "status",
    ):
        process = motley(command, "--help")
        assert process.returncode == 0
        assert f"Example: motley {command}" in process.stdout


def test_inspect_counts_parameters(folder: Path) -> None:
    # 64 * 32 tokens (tied with the head), 16 * 32 places; per layer 4 * 32^2 + 8 * 32^2 weights and 13 * 32 biases and
    # normalizations; 2 * 32 of the last normalization.
    expected = 64 * 32 + 16 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32
    assert result("inspect", folder / "model.pt2", "--batch", 4)["parameters"] == expected


def unfit(*arguments: object) -> Any:
    """The result of what does not fit."""
    process = motley(*arguments, "--json")
    assert process.returncode == 2, process.stderr
    return json.loads(process.stdout)


def test_compare_lists_every_strategy(planning: list[object]) -> None:
    strategies = result("compare", *planning, "--budget", 0.5)
    names = {"ev-ps", "ev-ar", "cp-ps", "cp-ar", "mp:big/0", "mp:small/0", "mp:small/1", "mp-blocks"}
    names |= {"pp:gpipe", "pp:1f1b"}
    assert names <= {entry["strategy"] for entry in strategies}
    for entry in strategies:
        assert entry["feasible"] and entry["reasons"] == []
        assert entry["iteration_seconds"] > 0
        assert set(entry["peak_memory_bytes"]) <= {"big/0", "small/0", "small/1"}


def test_plan_is_no_worse_than_any_strategy_and_no_better_than_the_bound(planning: list[object], folder: Path) -> None:
    plan = result("plan", *planning, "--budget", 1, "-o", folder / "plan.yaml")
    strategies = result("compare", *planning, "--budget", 0)
    assert plan["iteration_seconds"] <= min(entry["iteration_seconds"] for entry in strategies)
    assert 0 < plan["lower_bound_seconds"] <= plan["iteration_seconds"]
    assert plan["estimated_share"] == 1
    again = result("simulate", *planning, "--strategy", folder / "plan.yaml")
    assert again["iteration_seconds"] == plan["iteration_seconds"]


def test_simulate_writes_a_timeline(planning: list[object], folder: Path) -> None:
    result("simulate", *planning, "--strategy", "ev-ar", "--trace", folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)
    none = folder / "none"
    same = result("explain", "--against", folder / "trace.json", "--profiles", none)
    assert same["predicted_seconds"] == pytest.approx(same["measured_seconds"], abs=1e-9)
    process = motley("explain", "--cluster", folder / "cluster.yaml")
    assert process.returncode >= 100 and "model is required" in process.stderr


def test_what_if_combines_what_varies(planning: list[object], folder: Path) -> None:
    vary = ["--vary", "bandwidth=1Gbps,x1", "--vary", "kind:T4=T4,A10", "--strategy", "ev-ar", "cp-ar"]
    sweep = result("what-if", *planning, *vary)
    assert sweep["axes"] == ["bandwidth", "kind of T4"]
    values = [outcome["values"] for outcome in sweep["outcomes"]]
    assert values == [["1Gbps", "T4"], ["1Gbps", "A10"], ["x1", "T4"], ["x1", "A10"]]
    unchanged = sweep["outcomes"][2]
    known = {entry["strategy"]: entry for entry in result("compare", *planning, "--budget", 0)}
    assert unchanged["iteration_seconds"] == known[unchanged["strategy"]]["iteration_seconds"]
    assert unchanged["iteration_seconds"] < sweep["outcomes"][0]["iteration_seconds"]

    lines = motley("what-if", *planning, *vary, "--csv").stdout.splitlines()
    rows = list(csv.DictReader(lines))
    assert [float(row["iteration_seconds"]) for row in rows] == [o["iteration_seconds"] for o in sweep["outcomes"]]
    assert "did you mean bandwidth?" in refused("what-if", *planning, "--vary", "bandwith=1Gbps")


def test_what_if_names_the_bottleneck_and_the_cheapest_and_is_drawn(folder: Path) -> None:
    (folder / "priced.yaml").write_text("prices: {V100-16GB: 2.5, T4: 0.5, A10: 1}" + CLUSTER)
    job = planning_on(folder, "priced.yaml")
    sweep = result(
        "what-if", *job, "--vary", "kind:T4=T4,A10", "--vary", "lost=none,big", "--draws", 20, "--samples-per-second", 1
    )
    prices = [outcome["price_per_hour"] for outcome in sweep["outcomes"]]
    assert prices == [3.5, 1, 4.5, 2] and sweep["cheapest"] == 1
    for outcome in sweep["outcomes"]:
        assert 0 < outcome["bottlenecks"][0]["share"] <= 1 + 1e-9
        best = min(remedy["iteration_seconds"] for remedy in outcome["remedies"])
        assert best < outcome["iteration_seconds"]
        assert outcome["noise"]["median_seconds"] <= outcome["noise"]["p95_seconds"]
    (folder / "sweep.json").write_text(json.dumps(sweep))
    for name, head in {"sweep.svg": b"<?xml", "sweep.png": b"\x89PNG"}.items():
        draw: list[str | Path] = [sys.executable, ROOT / "examples" / "draw_what_if.py", folder / "sweep.json"]
        draw += ["-o", folder / name]
        subprocess.run(draw, check=True)
        assert (folder / name).read_bytes().startswith(head)


def test_infeasible_is_a_result_with_reasons(folder: Path) -> None:
    tiny = planning_on(folder, "tiny.yaml")
    (folder / "tiny.yaml").write_text(
        CLUSTER.replace("kind: T4, ", "kind: T4, memory: 1MiB, ").replace("V100-16GB", "V100-16GB, memory: 1MiB")
    )
    entry = unfit("simulate", *tiny, "--strategy", "mp:big/0")
    assert not entry["feasible"]
    assert "big/0 needs" in entry["reasons"][0]
    assert unfit("plan", *tiny, "--budget", 0.2, "-o", folder / "no.yaml")["changes"]
    assert not (folder / "no.yaml").exists()
    assert not any(entry["feasible"] for entry in unfit("compare", *tiny, "--budget", 0))
    assert unfit("explain", *tiny, "--budget", 0)["plan"]["reasons"]
    assert not any(
        outcome["feasible"] for outcome in unfit("what-if", *tiny, "--vary", "bandwidth=1Gbps,x1")["outcomes"]
    )
    run = ["run", folder / "model.pt2", "--batch", 12, "--data", folder / "data", "--strategy", "ev-ar"]
    process = motley(*run, "--agent", "memory=1MiB,devices=1", "--profiles", folder / "profiles.sqlite")
    assert process.returncode == 2 and process.stdout == ""
    assert "the strategy ev-ar does not fit" in process.stderr and "node0/0 needs" in process.stderr


def test_what_fits_in_part_is_no_failure(folder: Path) -> None:
    """Of several strategies or scenarios, one is enough."""
    half = planning_on(folder, "half.yaml")
    (folder / "half.yaml").write_text(CLUSTER.replace("kind: T4, ", "kind: T4, memory: 1MiB, "))
    assert {entry["feasible"] for entry in result("compare", *half, "--budget", 0)} == {True, False}
    sweep = result("what-if", *half, "--vary", "lost=none,big")
    assert [outcome["feasible"] for outcome in sweep["outcomes"]] == [True, False]
    assert result("explain", *half, "--budget", 0)["plan"]["feasible"]
    assert unfit("explain", *half, "--budget", 0, "--plan", "ev-ar")["plan"]["reasons"]
    # More replicas than samples: nothing to simulate, and no timeline to write.
    few = [folder / "model.pt2", "--cluster", folder / "cluster.yaml", "--batch", 2, "--profiles", folder / "none"]
    entry = unfit("simulate", *few, "--strategy", "ev-ar", "--trace", folder / "no.json")
    assert entry["iteration_seconds"] is None and entry["reasons"]
    assert not (folder / "no.json").exists()


def test_what_does_not_leave_headroom_does_not_fit(planning: list[object]) -> None:
    model, *job = planning
    for headroom, fits in {"0": True, "10%": True, "99.99%": False, "10GiB": True, "1TiB": False}.items():
        judged = result if fits else unfit
        for command in (["simulate", "--strategy", "cp-ar"], ["compare", "--budget", 0], ["explain", "--budget", 0]):
            found = judged(*command[:1], model, *job, *command[1:], "--headroom", headroom)
            entries = found if isinstance(found, list) else [found.get("plan", found)]
            for entry in entries:  # all cards have 16 GB
                assert entry["feasible"] == fits, (command, headroom, entry["strategy"])
                assert fits or "of headroom (" in entry["reasons"][0]
        outcome = judged("what-if", model, *job, "--headroom", headroom, "--no-remedies")["outcomes"][0]
        assert outcome["feasible"] == fits
        assert motley("plan", model, *job, "--headroom", headroom, "--budget", 0).returncode == (0 if fits else 2)


def test_a_peak_is_told_by_what_it_is_for(planning: list[object], folder: Path) -> None:
    model, *job = planning
    parameters = result("inspect", model, "--batch", 16)["parameters"]
    for command in (["simulate", "--strategy", "ev-ar"], ["explain", "--plan", "ev-ar", "--budget", 0]):
        found = result(command[0], model, *job, *command[1:], "--optimizer", "sgd", "--momentum", 0.9)
        plan = found.get("plan", found)
        assert set(plan["memory"]) == {"big/0", "small/0", "small/1"}
        for device, memory in plan["memory"].items():
            uses = memory["uses"]
            assert sum(uses.values()) == memory["peak_bytes"] == plan["peak_memory_bytes"][device]
            assert min(uses.values()) >= 0
            # Each device has all of the model: float32 weights and as much momentum.
            assert uses["weights"] == uses["optimizer_states"] == 4 * parameters
            assert uses["activations"] > 0 and memory["largest"][0]["bytes"] > 0
            assert memory["reserved_bytes"] + uses["context"] == memory["peak_bytes"]
        text = motley(command[0], model, *job, *command[1:], "--momentum", 0.9).stdout
        assert "optimizer states" in text and "allocator overhead" in text


def test_bad_input_is_named(planning: list[object], folder: Path) -> None:
    half = folder / "half.pt2"
    half.write_bytes((folder / "model.pt2").read_bytes()[:1000])
    assert "half.pt2" in refused("inspect", half)
    (folder / "bad.yaml").write_text(CLUSTER.replace("25Gbps", "25Gbpz"))
    assert "bad.yaml:7" in refused("compare", *planning_on(folder, "bad.yaml"))
    assert "ev-ar" in refused("simulate", *planning, "--strategy", "even")
    assert "no.yaml: there is no such plan file" in refused("simulate", *planning, "--strategy", "no.yaml")
    assert "is no model" in refused("inspect", folder)
    assert "this is a folder" in refused("compare", *planning_on(folder, "data"))


def test_wrong_words_are_named_with_what_was_meant(folder: Path) -> None:
    model = folder / "model.pt2"
    wrong = {
        ("inspekt",): "there is no command inspekt (did you mean inspect?)",
        ("inspect", model, "--btach", 3): "motley inspect has no option --btach (did you mean --batch?)",
        ("inspect", model, "more"): "motley inspect takes no further argument more",
        ("inspect", "--jsno"): "has no option --jsno (did you mean --json?)",
        ("inspect", model, "--optimizer", "sdg"): "sdg not in {adam,adamw,sgd}",
        ("inspect", model, "--learning-rate", "nan"): "nan is no number of at least 0",
        ("inspect", model, "--beta1", 1): "1 is no number from 0 to below 1",
        ("inspect", model, "--batch", 0): "0 is no number from 1 to ",
        ("plan", model, "--batch", 8, "--budget", "nan"): "nan is no number of at least 0",
        ("plan", model, "--batch", 8, "--headroom", "100%"): "write a number from 0% to below 100%",
        ("what-if", model, "--batch", 8, "--headroom", "-1GiB"): "is no size in bytes",
        ("status", "--coordinator", "nowhere"): "is no HOST:PORT",
        ("run", model, "--batch", 8, "--data", folder, "--checkpoint-every", 5): "requires --output",
    }
    for arguments, says in wrong.items():
        process = motley(*arguments)
        assert process.returncode >= 100 and process.stdout == ""
        assert says in process.stderr


def test_results_go_to_pipes_and_through_links(planning: list[object], folder: Path) -> None:
    process = motley("plan", *planning, "--budget", 0, "-o", "/dev/stdout")
    assert process.returncode == 0 and process.stdout.startswith("motley_plan: 1")
    (folder / "link.yaml").symlink_to("linked.yaml")
    (folder / "linked.yaml").write_text("old")
    result("plan", *planning, "--budget", 0, "-o", folder / "link.yaml")
    assert (folder / "link.yaml").is_symlink() and "motley_plan" in (folder / "linked.yaml").read_text()
    assert "cannot be written" in refused("plan", *planning, "-o", folder / "nowhere" / "plan.yaml")


def test_run_is_refused_before_anything_starts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("TMPDIR", str(state))

    def run(*more: object, data: Path = folder / "data") -> str:
        where = [*agents(), "--profiles", tmp_path / "profiles.sqlite"]
        said = refused("run", folder / "model.pt2", "--batch", 12, "--data", data, *where, *more)
        assert list(state.iterdir()) == [] and not (tmp_path / "profiles.sqlite").exists()
        return said

    assert "there is no such folder" in run(data=folder / "model.pt2")
    (tmp_path / "none").mkdir()
    assert "no array for the model's input 'input_ids'" in run(data=tmp_path / "none")
    (tmp_path / "few").mkdir()
    np.save(tmp_path / "few" / "input_ids.npy", np.zeros((5, 16), np.int64))
    assert "has 5 samples, fewer than one batch of 12" in run(data=tmp_path / "few")
    assert 'unknown strategy "ev-arr" (did you mean ev-ar?)' in run("--strategy", "ev-ar", "ev-arr")
    assert "there is no such plan file" in run("--strategy", "plan.yaml")
    assert "cannot be made" in run("-o", folder / "model.pt2")
    assert "cannot be written" in run("--trace", tmp_path / "nowhere" / "trace.json")
    assert "two agents are named a" in run("--agent", "name=a")
    assert "cannot be a node's name" in run("--agent", "name=c/d")


def test_run_trains_on_two_agents(folder: Path) -> None:
    run = ["run", folder / "model.pt2", "--batch", 12, "--data", folder / "data", "--iterations", 4, "--budget", 0.5]
    where = [*agents(), "--profiles", folder / "profiles.sqlite", "-o", folder / "out"]
    even, best = result(*run, *where, "--strategy", "ev-ar", "search", "--trace", folder / "run.json")
    assert even["strategy"] == "ev-ar"
    # The same batches from the same start, whatever the plan.
    assert even["losses"] == pytest.approx(best["losses"], rel=1e-4)
    assert len(best["losses"]) == 4 and best["measured_seconds"] > 0 and best["estimated_share"] < 0.5
    names = json.dumps(json.loads((folder / "run.json").read_text()))
    assert "predicted a/0" in names and "measured a/0" in names
    assert best["saved"]
    for memory in best["memory"].values():
        assert memory["predicted_peak_bytes"] > 0 and memory["measured_peak_bytes"] > 0
        assert memory["capacity_bytes"] > memory["headroom_bytes"] == 0
    # The trace alone tells where the error comes from: all parts of the iteration.
    found = result("explain", "--against", folder / "run.json")
    for of in ("predicted_seconds", "measured_seconds"):
        parts = sum(kind[of] for kind in found["kinds"]) + found["elsewhere"][of]
        assert parts == pytest.approx(found[of])
        assert found[of] == pytest.approx(best["accuracy"][of], abs=1e-8)
    again = result("explain", "--against", folder / "run.json", "--profiles", folder / "profiles.sqlite")
    assert again["measured_seconds"] == found["measured_seconds"]


def test_plans_on_what_a_coordinator_measured(folder: Path, daemons: Daemons) -> None:
    job = [folder / "model.pt2", "--coordinator", daemons.address, "--batch", 8]
    plan = result("plan", *job, "--budget", 0.5, "-o", folder / "measured.yaml")
    assert plan["estimated_share"] == 0
    strategies = {entry["strategy"] for entry in result("compare", *job, "--budget", 0)}
    assert {"mp:a/0", "mp:b/0", "search"} <= strategies
    again = result("simulate", *job, "--strategy", folder / "measured.yaml")
    assert again["iteration_seconds"] == plan["iteration_seconds"]


def test_plans_later_on_what_a_coordinator_measured(folder: Path, daemons: Daemons, tmp_path: Path) -> None:
    here = ["--profiles", tmp_path / "data" / "profiles.sqlite", "--batch", 8]
    found = tmp_path / "cluster.yaml"
    result("profile", folder / "model.pt2", *here, "--coordinator", daemons.address, "-o", found)
    assert (
        result("simulate", folder / "model.pt2", *here, "--cluster", found, "--strategy", "ev-ar")["estimated_share"]
        == 0
    )


def test_a_plan_needs_one_cluster(planning: list[object], folder: Path) -> None:
    assert "--cluster FILE, or --coordinator" in refused("plan", folder / "model.pt2", "--batch", 8)
    both = motley("plan", *planning, "--coordinator", "127.0.0.1:1")
    assert both.returncode != 0 and "excludes" in both.stderr


def test_a_run_goes_on_from_a_checkpoint(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses are those of a run in one piece; what cannot be gone on from is refused before anything starts."""
    run = ["run", folder / "model.pt2", "--batch", 12, "--data", folder / "data", "--strategy", "ev-ar"]
    run += [*agents(), "--profiles", folder / "profiles.sqlite", "--momentum", 0.9]
    out = tmp_path / "out"
    (whole,) = result(*run, "--iterations", 6, "--checkpoint-every", 3, "-o", out)
    assert sorted(path.name for path in out.iterdir()) == [
        "step-3.safetensors",
        "step-6.safetensors",
        "weights.safetensors",
    ]
    (rest,) = result(*run, "--iterations", 3, "--resume", out / "step-3.safetensors")
    assert rest["losses"] == pytest.approx(whole["losses"][3:], rel=1e-5)

    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("TMPDIR", str(state))
    good = load_file(out / "step-3.safetensors")
    metadata = {"format": "motley-checkpoint-1", "iteration": "3"}
    name = "model.transformer.wpe.weight"
    momentum = f"optimizer.{name}.momentum_buffer"
    bad = {
        "cannot be read (No such file": None,
        "not a whole safetensors file": (out / "step-3.safetensors").read_bytes()[:-1],
        "not a checkpoint of motley": save(good, {"format": "pt"}),
        f"there is no '{name}' in it: it is of another model": save(
            {key: value for key, value in good.items() if key != name}, metadata
        ),
        f"there is no '{momentum}' in it: it holds weights alone": save(
            {key: value for key, value in good.items() if key != momentum}, metadata
        ),
        f"'{name}' is f32 [32, 16] there, but f32 [16, 32] in the model": save(
            good | {name: np.zeros((32, 16), np.float32)}, metadata
        ),
        f"'{name}' is f64 [16, 32] there, but f32 [16, 32] in the model": save(
            good | {name: np.zeros((16, 32))}, metadata
        ),
        "'another.weight' in it is not of this training": save(good | {"another.weight": np.zeros(3)}, metadata),
    }
    file = tmp_path / "bad.safetensors"
    for says, content in bad.items():
        if content is not None:
            file.write_bytes(content)
        message = refused(*run, "-o", tmp_path / "none", "--resume", file)
        assert str(file) in message and says in message
    assert "cannot be read (Is a directory)" in refused(*run, "--resume", out)
    assert "holds weights alone" in refused(*run, "--resume", out / "weights.safetensors")
    assert list(state.iterdir()) == [] and not (tmp_path / "none").exists()


def test_a_graph_that_others_profiled_is_planned(tmp_path: Path) -> None:
    layer = "n{0} -- Linear -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=8\n"
    (tmp_path / "layers.txt").write_text(
        "".join(layer.format(i) for i in range(4)) + "\tn0 -- n1\n\tn1 -- n2\n\tn2 -- n3\n"
    )
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    planning = [tmp_path / "layers.txt", "--cluster", tmp_path / "cluster.yaml", "--batch", 1, "--budget", 0.2]
    assert "--profiled-on KIND" in refused("plan", *planning)
    plan = result("plan", *planning, "--profiled-on", "V100-16GB", "-o", tmp_path / "plan.yaml")
    # Four layers of 3 ms, one after the other on the V100: the sample can be no faster.
    assert plan["iteration_seconds"] == pytest.approx(0.012)
    assert "not of the device catalogue" in plan["costs"]
    again = result("simulate", *planning[:-2], "--profiled-on", "V100-16GB", "--strategy", tmp_path / "plan.yaml")
    assert again["iteration_seconds"] == plan["iteration_seconds"]
    assert result("inspect", tmp_path / "layers.txt")["parameters"] == 4 * 2
