"""What the papers of pipeline schedules claim, and what motley's simulator says of the same pipelines."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.harness import BIN, Figure, Report, table

Options = dict[str, float | str | bool]
Found = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    system: str
    says: str
    setting: str
    expected: str
    options: Options
    found: Callable[[Found], float | list[float]]
    value: float | list[float]
    why_not: str = ""  # the reason when they differ


def seconds(found: Found) -> float:
    return float(found["seconds"])


def kept(found: Found) -> list[float]:
    return [float(value) for value in found["kept"]]


def bubble(found: Found) -> float:
    """Share of the iteration in which a device waits."""
    return 1 - float(found["busy"][0]) / seconds(found)


def pipeline(schedule: str, p: int, m: int, **more: float | str | bool) -> Options:
    return {"schedule": schedule, "stages": p, "micro-batches": m, **more}


GPIPE = "GPipe (Huang et al., NeurIPS 2019)"
FLUSH = "PipeDream-Flush (Narayanan et al., ICML 2021), DAPPLE (Fan et al., PPoPP 2021)"
INTERLEAVED = "Interleaved 1F1B (Narayanan et al., SC 2021)"
CHIMERA = "Chimera (Li, Hoefler, SC 2021)"
ZERO = "Zero Bubble (Qi et al., ICLR 2024)"
# Where a paper takes the backward pass as one, so does the row: weights' gradients take no time of their own.
DOUBLE: Options = {"input-gradient": 2, "weight-gradient": 0}
EQUAL: Options = {"input-gradient": 1, "weight-gradient": 0}
HALF: Options = {"forward": 0.5, "input-gradient": 1, "weight-gradient": 0}
PROFILED: Options = {"forward": 18.522, "input-gradient": 18.086, "weight-gradient": 9.337}
TOGETHER: Options = {"forward": 18.522, "input-gradient": 18.086 + 9.337, "weight-gradient": 0}
CLAIMS = (
    Claim(GPIPE, "bubble (p-1)/(m+p-1)", "p 4, m 8", "3/11", pipeline("gpipe", 4, 8, **DOUBLE), bubble, 3 / 11),
    Claim(GPIPE, "bubble (p-1)/(m+p-1)", "p 8, m 16", "7/23", pipeline("gpipe", 8, 16, **DOUBLE), bubble, 7 / 23),
    Claim(
        GPIPE, "keeps all m micro-batches", "p 4, m 8", "8 8 8 8",
        pipeline("gpipe", 4, 8, **DOUBLE), kept, [8, 8, 8, 8],
    ),
    Claim(
        GPIPE, "recomputing: (m+p-1)(2f+b)", "p 4, m 8, f 1, b 2", "44",
        pipeline("gpipe", 4, 8, recompute=True, **DOUBLE), seconds, 44,
        "a device that waits for a gradient already makes again what it will need: (p-1)f less",
    ),
    Claim(
        FLUSH, "as long as GPipe: (m+p-1)(f+b)", "p 4, m 8, f 1, b 2", "33",
        pipeline("1f1b", 4, 8, **DOUBLE), seconds, 33,
    ),
    Claim(FLUSH, "keeps p-s on stage s", "p 4, m 8", "4 3 2 1", pipeline("1f1b", 4, 8, **DOUBLE), kept, [4, 3, 2, 1]),
    Claim(
        INTERLEAVED, "bubble v times shorter", "p 4, m 8, v 2, f 1, b 2", "28.5",
        pipeline("interleaved-1f1b", 8, 8, ranks=4, **HALF), seconds, 28.5,
    ),
    Claim(
        INTERLEAVED, "1+(p-1)/(pv) times 1F1B's activations on the first rank", "p 4, m 8, v 2, in chunks", "11",
        pipeline("interleaved-1f1b", 8, 8, ranks=4, **HALF), lambda found: kept(found)[0], 11,
    ),
    Claim(CHIMERA, "2m+p-2 equal passes", "p 4, m 4", "10", pipeline("chimera", 4, 4, **EQUAL), seconds, 10),
    Claim(CHIMERA, "2m+p-2 equal passes", "p 4, m 8", "18", pipeline("chimera", 4, 8, **EQUAL), seconds, 18),
    Claim(CHIMERA, "keeps p/2+1 to p", "p 4, m 8", "3 4 4 3", pipeline("chimera", 4, 8, **EQUAL), kept, [3, 4, 4, 3]),
    Claim(CHIMERA, "5p-4 for m = p, b = 2f", "p 8, m 8", "36", pipeline("chimera", 8, 8, **DOUBLE), seconds, 36),
    Claim(
        ZERO, "H1: m(f+B+W)+(p-1)(f+B-W), a third of 1F1B's bubble", "p 4, m 8, all 1", "27",
        pipeline("zb-h1", 4, 8), seconds, 27,
    ),
    Claim(
        ZERO, "H1 with the authors' profile of 1.5 billion parameters (table 9)", "p 8, m 24", "1293.6 ms",
        pipeline("zb-h1", 8, 24, **PROFILED), lambda found: round(seconds(found), 1), 1293.6,
    ),
    Claim(
        ZERO, "1F1B with the same profile", "p 8, m 24", "1424.3 ms",
        pipeline("1f1b", 8, 24, **TOGETHER), lambda found: round(seconds(found), 1), 1424.3,
    ),
    Claim(
        ZERO, "H2: no bubble but for the skew of p-1 passes", "p 4, m 8, all 1", "27",
        pipeline("zb-h2", 4, 8), seconds, 27,
    ),
    Claim(ZERO, "V: no bubble but for the skew", "p 4, m 8, all 1", "51", {
        **pipeline("zb-v", 8, 8, ranks=4), "v": True}, seconds, 51),
    Claim(ZERO, "V: 1F1B's memory, in chunks", "p 4, m 8", "8 8 8 8", {
        **pipeline("zb-v", 8, 8, ranks=4), "v": True}, kept, [8, 8, 8, 8]),
)  # fmt: skip


def simulate(options: Options) -> Found:
    command = [str(BIN / "papers_bench")]
    for name, value in options.items():
        command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    found: Found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def text_of(value: float | list[float]) -> str:
    return " ".join(f"{one:g}" for one in value) if isinstance(value, list) else f"{value:.6g}"


def agrees(found: float | list[float], value: float | list[float]) -> bool:
    if isinstance(found, list) or isinstance(value, list):
        return found == value
    return abs(found - value) <= 1e-9 * max(1.0, abs(value))


def run(quick: bool) -> Report:
    del quick  # it takes a second
    rows = []
    exact = 0
    for claim in CLAIMS:
        found = claim.found(simulate(claim.options))
        right = agrees(found, claim.value)
        exact += right
        rows.append(
            [
                claim.system,
                claim.says,
                claim.setting,
                claim.expected,
                text_of(found),
                "yes" if right else f"no: {claim.why_not}",
            ]
        )
    text = (
        "Pipelines of one layer per stage in unit times on links that take none, compiled and simulated as any other "
        "deployment. Where a paper takes the backward pass as one, weights' gradients take no time of their own. (With "
        "them 1F1B takes 30 in the first setting, not 33: an input's gradient is sent before weights' are computed.) "
        "Kept: micro-batches, of chunks where a device has several, that a device holds at most.\n\n"
        + table(["system", "claim", "setting", "claimed", "simulated", "agree"], rows)
    )
    return Report("What papers claim", text, [Figure("papers-exact", exact, "rows", f">= {len(CLAIMS)}")])
