"""The built `motley` programs, run as a user runs them."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "build" / "release" / "bin"
MOTLEY = PROGRAMS / "motley"
CLUSTER = """
nodes:
  - {name: big, devices: {kind: V100-16GB}}
  - {name: small, devices: {kind: T4, count: 2}}
switches: [tor]
links:
  - {between: [big, tor], bandwidth: 25Gbps, latency: 10us}
  - {between: [small, tor], bandwidth: 10Gbps, latency: 10us}
"""


def motley(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(MOTLEY), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def result(*arguments: object) -> Any:
    process = motley(*arguments, "--json")
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def refused(*arguments: object) -> str:
    process = motley(*arguments)
    assert process.returncode == 1, process.stdout + process.stderr
    assert process.stdout == ""
    return process.stderr


def agents() -> list[object]:
    """Of a `motley run` in place: two of unequal speed."""
    speeds = {"a": 0.5, "b": 0.25}
    return [x for name, speed in speeds.items() for x in ("--agent", f"name={name},speed={speed},devices=1,threads=1")]


def wait_until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)


class Daemons:
    """A coordinator and two agents, `a` and `b`, of unequal speed, each with a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        self.address = "127.0.0.1:0"
        self.start("coordinator")
        for name in ("a", "b"):
            self.start(name)
        wait_until(lambda: self.alive() == ["a", "b"])

    def start(self, name: str) -> None:
        """A second start is at the same address."""
        file = self.folder / f"{name}.address"
        listen = file.read_text() if file.exists() else "127.0.0.1:0"
        file.unlink(missing_ok=True)
        options: list[object] = ["--listen", listen, "--state", self.folder / name, "--address-file", file]
        program = "motley-coordinator"
        if name != "coordinator":
            program = "motley-agent"
            speed = {"a": 0.5, "b": 0.25}[name]
            options += ["--name", name, "--coordinator", self.address]
            options += ["--emulate", f"speed={speed}", "--cpu-devices", 1, "--threads", 1]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen([PROGRAMS / program, *map(str, options)], stderr=log)
        wait_until(file.exists)
        if name == "coordinator":
            self.address = file.read_text()

    def kill(self, name: str) -> None:
        self.programs[name].kill()
        self.programs[name].wait()

    def status(self) -> Any:
        return result("status", "--coordinator", self.address)

    def alive(self) -> list[str]:
        return [node["name"] for node in self.status()["nodes"] if node["alive"]]

    def last_job(self) -> Any:
        return self.status()["jobs"][-1]

    def end(self) -> None:
        for program in self.programs.values():
            program.terminate()
        for program in self.programs.values():
            program.wait(20)


def descendants(pid: int) -> list[int]:
    """By /proc: the processes whose parents lead to that one, zombies left out."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
