"""How jobs end when a process of theirs does: within seconds, with the reason told, and nothing is left."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import MOTLEY, Daemons, agents, descendants, gone, motley, wait_until

SECONDS = 10  # within which everything ends


class Run:
    """A `motley run` of 1 layer that saves a checkpoint in every iteration, for ever."""

    def __init__(self, folder: Path, where: Path, *more: object):
        self.output = where / "out"
        command = [MOTLEY, "run", folder / "model.pt2", "--batch", 12, "--data", folder / "data"]
        command += ["--iterations", 100000, "-o", self.output, "--checkpoint-every", 1, *more]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def words(self) -> str:
        """What it says when it has failed, soon."""
        _, errors = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 1
        return errors.decode()

    def saved(self) -> bool:
        return any(self.output.glob("step-*.safetensors"))

    def half_written(self) -> list[Path]:
        return list(self.output.glob("*.half"))


@pytest.fixture
def run_on(folder: Path, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*more: object) -> Run:
        runs.append(Run(folder, tmp_path, *more))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.communicate()


def workers(daemons: Daemons) -> list[int]:
    return [pid for name in ("a", "b") for pid in descendants(daemons.programs[name].pid)]


def takes_the_next_job(daemons: Daemons, folder: Path) -> None:
    run = ["run", folder / "model.pt2", "--batch", 12, "--data", folder / "data", "--iterations", 2]
    process = motley(*run, "--coordinator", daemons.address, "--strategy", "ev-ar")
    assert process.returncode == 0, process.stderr
    assert workers(daemons) == []
    for name in ("a", "b"):
        wait_until(lambda name=name: list((daemons.folder / name).glob("jobs/*")) == [])  # type: ignore[misc]


def test_an_interrupt_ends_the_job_in_each_phase(daemons: Daemons, folder: Path, run_on: Callable[..., Run]) -> None:
    def state() -> str:
        return str(daemons.last_job()["state"])

    phases: dict[str, Callable[[Run], bool]] = {
        "profiling": lambda run: len(workers(daemons)) == 1,
        "measuring links": lambda run: len(workers(daemons)) == 2,
        "planning": lambda run: state() == "planning",
        "launching": lambda run: state() == "launching",
        "training": lambda run: state() == "running",
        "saving": lambda run: bool(run.half_written()),
    }
    for phase, reached in phases.items():
        search = ["search", "--budget", 60 if phase == "planning" else 0]
        run = run_on("--coordinator", daemons.address, "--strategy", *search)
        wait_until(lambda reached=reached, run=run: reached(run))  # type: ignore[misc]
        run.process.send_signal(signal.SIGINT)
        assert run.words() == "motley: the job was cancelled\n", phase
        wait_until(lambda: workers(daemons) == [], SECONDS)
        assert run.half_written() == []
    assert {job["state"] for job in daemons.status()["jobs"]} == {"cancelled"}
    takes_the_next_job(daemons, folder)


def test_a_killed_worker_ends_the_job(daemons: Daemons, folder: Path, run_on: Callable[..., Run]) -> None:
    run = run_on("--coordinator", daemons.address, "--strategy", "ev-ar")
    wait_until(run.saved)
    subprocess.run(["kill", "-9", str(descendants(daemons.programs["b"].pid)[0])], check=True)
    assert "the worker of b/0 on node b failed: it ended by signal 9 (Killed)" in run.words()
    assert run.half_written() == []
    takes_the_next_job(daemons, folder)


def test_a_killed_agent_ends_the_job_and_the_next_goes_without_it(
    daemons: Daemons, folder: Path, run_on: Callable[..., Run]
) -> None:
    run = run_on("--coordinator", daemons.address, "--strategy", "ev-ar")
    wait_until(run.saved)
    running = workers(daemons)
    daemons.kill("a")
    assert "the agent of node a" in (words := run.words()) and "no longer answers" in words
    wait_until(lambda: all(map(gone, running)), SECONDS)
    assert run.half_written() == []
    assert daemons.alive() == ["b"]
    run = run_on("--coordinator", daemons.address, "--strategy", "ev-ar")
    wait_until(lambda: daemons.last_job()["state"] == "running")
    run.process.send_signal(signal.SIGINT)
    assert "cancelled" in run.words()
    daemons.start("a")
    wait_until(lambda: daemons.alive() == ["a", "b"])
    takes_the_next_job(daemons, folder)


def test_a_killed_coordinator_ends_the_job_and_goes_on_when_it_is_back(
    daemons: Daemons, folder: Path, run_on: Callable[..., Run]
) -> None:
    run = run_on("--coordinator", daemons.address, "--strategy", "ev-ar")
    wait_until(run.half_written)
    running = workers(daemons)
    daemons.kill("coordinator")
    assert f"the coordinator at {daemons.address} does not answer" in run.words()
    wait_until(lambda: all(map(gone, running)), SECONDS)
    daemons.start("coordinator")
    assert run.half_written() == []
    assert daemons.last_job()["message"] == "the coordinator stopped while the job was under way"
    wait_until(lambda: daemons.alive() == ["a", "b"], SECONDS)
    takes_the_next_job(daemons, folder)


def test_a_killed_command_ends_its_job(daemons: Daemons, folder: Path, run_on: Callable[..., Run]) -> None:
    run = run_on("--coordinator", daemons.address, "--strategy", "ev-ar")
    wait_until(run.saved)
    run.process.kill()
    wait_until(lambda: daemons.last_job()["state"] == "cancelled", SECONDS)
    assert run.half_written() == []
    takes_the_next_job(daemons, folder)


@pytest.mark.parametrize("end", ["interrupt", "kill", "kill the coordinator", "kill an agent"])
def test_a_run_in_place_leaves_nothing(
    end: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_on: Callable[..., Run]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("TMPDIR", str(state))
    run = run_on(*agents(), "--profiles", folder / "profiles.sqlite", "--strategy", "ev-ar")
    wait_until(run.saved)
    started = descendants(run.process.pid)
    daemon = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in reversed(started)}
    assert len(started) >= 5  # a coordinator, two agents, two workers
    match end:
        case "interrupt":
            run.process.send_signal(signal.SIGINT)
            assert "the job was cancelled" in run.words()
        case "kill":
            run.process.kill()
        case "kill the coordinator":
            subprocess.run(["kill", "-9", str(daemon["motley-coordina"])], check=True)
            assert "the coordinator ended by signal 9 (Killed)" in run.words()
        case "kill an agent":
            subprocess.run(["kill", "-9", str(daemon["motley-agent"])], check=True)
            assert "the agent a ended by signal 9 (Killed)" in run.words()
    wait_until(lambda: all(map(gone, started)) and list(state.iterdir()) == [], SECONDS)
    assert run.half_written() == []


def test_an_interrupt_while_the_programs_start_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_on: Callable[..., Run]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("TMPDIR", str(state))
    run = run_on(*agents(), "--profiles", folder / "profiles.sqlite", "--strategy", "ev-ar")
    wait_until(lambda: list(state.iterdir()))
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)  # impatient
    run.process.communicate(timeout=SECONDS)
    wait_until(lambda: list(state.iterdir()) == [], SECONDS)
