"""What the box gives: the CPU share of each host and the rates between them.

Run on the coordinator of a box: `box.sh python3 measure.py`. Needs the hosts A, B and C of the default box.
"""

import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HOSTS = ("A", "B", "C")
FULL = float(os.environ.get("BOX_FULL", "80"))
PORT = 5201


def burn(seconds: float) -> float:
    """Percent of a core that a busy loop gets."""
    wall, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        pass
    return 100 * (time.process_time() - used) / (time.perf_counter() - wall)


def receive(port: int, seconds: float) -> float:
    """Mbit/s of payload that arrive at the port between the first byte and `seconds` later."""
    with socket.create_server(("", port)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        start, received = time.perf_counter(), 0
        while time.perf_counter() - start < seconds and (data := connection.recv(1 << 18)):
            received += len(data)
        return 8e-6 * received / (time.perf_counter() - start)


def send(host: str, port: int) -> None:
    """Sends until the receiver has had enough."""
    with socket.create_connection((host, port)) as connection:
        try:
            while True:
                connection.sendall(bytes(1 << 18))
        except OSError:
            return


def on(host: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["on", host, sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> float:
    return float(process.communicate()[0].splitlines()[-1])


def rate(source: str, target: str, port: int = PORT, seconds: float = 3) -> float:
    receiver = on(target, "receive", str(port), str(seconds))
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sender = on(source, "send", target, str(port))
    mbits = result(receiver)
    sender.wait()
    return mbits


def at_once(*flows: tuple[str, str]) -> list[float]:
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(rate, *flow, PORT + number) for number, flow in enumerate(flows)]
        return [flow.result() for flow in running]


def report() -> None:
    alone = {host: result(on(host, "burn", "2")) for host in HOSTS}
    burning = {host: on(host, "burn", "2") for host in HOSTS}
    together = {host: result(process) for host, process in burning.items()}
    print("CPU, percent of a core    want   alone  together")
    for host, share in zip(HOSTS, (1, 0.5, 0.25), strict=True):
        print(f"  {host}                    {FULL * share:8.1f}{alone[host]:8.1f}{together[host]:10.1f}")
    print("TCP payload, Mbit/s (a frame of 1500 bytes carries 95.6 %)")
    for flow in (("A", "B"), ("B", "A"), ("A", "C"), ("C", "A"), ("coordinator", "A")):
        print(f"  {' to '.join(flow):20}{rate(*flow):8.1f}")
    for name, flows in (
        ("A, B to C", (("A", "C"), ("B", "C"))),
        ("A, C to B", (("A", "B"), ("C", "B"))),
        ("A and B both ways", (("A", "B"), ("B", "A"))),
    ):
        print(f"  {name:20}" + " + ".join(f"{mbits:8.1f}" for mbits in at_once(*flows)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["burn", seconds]:
            print(burn(float(seconds)))
        case ["receive", port, seconds]:
            print(receive(int(port), float(seconds)))
        case ["send", host, port]:
            send(host, int(port))
        case _:
            report()
