"""Three agents of speed 1 : 0.5 : 0.25, the slowest on a slow link: in network namespaces with cgroups where the
machine allows it (bench/box), else with the agents' own emulation."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / "build" / "release" / "bin"
BOX = ROOT / "bench" / "box" / "box.sh"

EMULATED = (
    "name=A,speed=0.8,bandwidth=1Gbps,latency=100us",
    "name=B,speed=0.4,bandwidth=1Gbps,latency=100us",
    "name=C,speed=0.2,bandwidth=200Mbps,latency=100us",
)


def box_works() -> str | None:
    """Why no cluster can be made of namespaces and cgroups here; None when it can."""
    check = subprocess.run([BOX, "--check"], capture_output=True, text=True)
    return None if check.returncode == 0 else (check.stderr or check.stdout).strip()


def emulated() -> list[str]:
    """Options of `motley run` and `motley profile` for the emulated cluster."""
    return [option for agent in EMULATED for option in ("--agent", f"{agent},devices=1,threads=1")]


@contextmanager
def daemons_in_box(state: Path, profiles: Path) -> Iterator[list[str]]:
    """Within a command of box.sh: a coordinator and an agent on each host. Yields the options that reach them."""
    lines = Path(os.environ["BOX_DIR"], "hosts").read_text().splitlines()
    hosts = {name: address for address, name in (line.split() for line in lines)}
    coordinator = f"{hosts['coordinator']}:7070"
    commands: list[list[str | Path]] = [
        [BIN / "motley-coordinator", "--listen", coordinator, "--state", state / "coordinator", "--profiles", profiles]
    ]
    for name in sorted(set(hosts) - {"coordinator", "localhost"}):
        agent = ["--name", name, "--coordinator", coordinator, "--listen", f"{hosts[name]}:7071"]
        agent += ["--state", str(state / name), "--cpu-devices", "1", "--threads", "1"]
        commands.append([BOX.parent / "on", name, BIN / "motley-agent", *agent])
    running: list[subprocess.Popen[bytes]] = []
    state.mkdir(parents=True, exist_ok=True)
    try:
        for command in commands:
            with open(state / f"daemon-{len(running)}.log", "wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
            time.sleep(0.5)
        yield ["--coordinator", coordinator]
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
