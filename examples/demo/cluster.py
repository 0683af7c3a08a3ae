"""Agents of unequal speed: in network namespaces with cgroups where the machine allows it (bench/box), else with the
agents' own emulation."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / "build" / "release" / "bin"
BOX = ROOT / "bench" / "box" / "box.sh"
ON = BOX.parent / "on"
FULL_SPEED = 0.8  # of a core: the rest is for the network and the system


@dataclass(frozen=True)
class Host:
    """A node with one device."""

    name: str
    percent: int  # of full speed
    core: int  # that it is pinned to in the box
    mbits: int  # of its port, each way
    mebibytes: int | None = None  # of memory, at most


HOSTS = (Host("A", 100, 0, 1000), Host("B", 50, 1, 1000), Host("C", 25, 1, 200))


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up: how `motley` is called on it."""

    options: list[str]  # of `motley run` and `motley profile`
    prefix: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def motley(self, *arguments: str | Path) -> str:
        """Runs the command on the cluster; what it printed."""
        command = [*self.prefix, str(BIN / "motley"), *map(str, arguments), *self.options]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=self.environment, stdin=subprocess.DEVNULL
        ).stdout


def box_works() -> str | None:
    """Why no cluster can be made of namespaces and cgroups here; None when it can."""
    check = subprocess.run([BOX, "--check"], capture_output=True, text=True)
    return None if check.returncode == 0 else (check.stderr or check.stdout).strip()


def emulated(profiles: Path, hosts: tuple[Host, ...] = HOSTS) -> Cluster:
    """Agents that `motley run` starts in place."""
    options = ["--profiles", str(profiles)]
    for host in hosts:
        speed = FULL_SPEED * host.percent / 100
        emulation = f"speed={speed:.4g},bandwidth={host.mbits}Mbps,latency=100us"
        options += ["--agent", f"name={host.name},{emulation},devices=1,threads=1"]
    return Cluster(options)


@contextmanager
def in_box(profiles: Path, hosts: tuple[Host, ...] = HOSTS) -> Iterator[Cluster]:
    """A coordinator, and an agent on each host of a box; all of it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="motley-cluster.") as folder, box(Path(folder), hosts) as environment:
        lines = Path(environment["BOX_DIR"], "hosts").read_text().splitlines()
        addresses = {name: address for address, name in (line.split() for line in lines)}
        with daemons(Path(folder), profiles, hosts, addresses, environment) as coordinator:
            yield Cluster(["--coordinator", coordinator], [str(ON), "coordinator"], environment)


@contextmanager
def box(folder: Path, hosts: tuple[Host, ...]) -> Iterator[dict[str, str]]:
    """Yields the environment in which bench/box/on reaches the hosts. The box is up while `cat` runs in it."""
    description = folder / "hosts"
    lines = (f"{h.name} {h.percent} {h.core} {h.mbits}mbit {h.mebibytes or ''}\n" for h in hosts)
    description.write_text("".join(lines))
    up = folder / "environment"
    hold = f'env -0 > "{up}.part" && mv "{up}.part" "{up}" && exec cat > /dev/null'
    process = subprocess.Popen([BOX, "-f", description, "sh", "-c", hold], stdin=subprocess.PIPE)
    try:
        while not up.exists():
            if process.poll() is not None:
                raise RuntimeError(f"no box: box.sh ended with status {process.returncode}")
            time.sleep(0.05)
        yield dict(entry.split("=", 1) for entry in up.read_text().split("\0") if entry)
    finally:
        process.communicate()


@contextmanager
def daemons(
    state: Path, profiles: Path, hosts: tuple[Host, ...], addresses: dict[str, str], environment: dict[str, str]
) -> Iterator[str]:
    """Yields the coordinator's address."""
    coordinator = f"{addresses['coordinator']}:7070"
    serve: list[str | Path] = [BIN / "motley-coordinator", "--listen", coordinator, "--state", state / "coordinator"]
    commands: list[list[str | Path]] = [[ON, "coordinator", *serve, "--profiles", profiles]]
    for host in hosts:
        agent = ["--name", host.name, "--coordinator", coordinator, "--listen", f"{addresses[host.name]}:7071"]
        agent += ["--state", str(state / host.name), "--cpu-devices", "1", "--threads", "1"]
        commands.append([ON, host.name, BIN / "motley-agent", *agent])
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with open(state / f"daemon-{len(running)}.log", "wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))
            time.sleep(0.5)
        yield coordinator
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
