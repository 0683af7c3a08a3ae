"""What the benchmarks share: figures with goals, tables, and a description of the machine they ran on."""

import datetime
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"


@dataclass(frozen=True)
class Figure:
    """One number of a benchmark and what it should be: `goal` is an operator and a bound, such as ">= 0.95"."""

    name: str
    value: float
    unit: str
    goal: str

    def __str__(self) -> str:
        return f"figure: {self.name} {self.value:.4g} {self.unit} (goal {self.goal})"


@dataclass(frozen=True)
class Report:
    """What a benchmark found: the text of its page (Markdown, tables and the commands) and its figures."""

    title: str
    text: str
    figures: list[Figure]


class Unfinished(Exception):
    """More parts are to be measured before there is a report."""


@dataclass
class Parts:
    """What the parts of a long benchmark found, each in a file of a folder, so that it can be made in several sittings;
    without a folder, in one."""

    folder: Path | None = None
    at_most: int | None = None  # parts to measure in this sitting

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        """What the part found; measured unless that is in its file. As JSON holds it."""
        if self.folder is None:
            return json.loads(json.dumps(measure()))
        file = self.folder / f"{name}.json"
        if not file.exists():
            if self.at_most == 0:
                raise Unfinished(f"{name} and what comes after it are still to be measured")
            self.at_most = None if self.at_most is None else self.at_most - 1
            found = json.dumps(measure())
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(found)
        return json.loads(file.read_text())


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns also line up as plain text."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, *rows]
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine_shape() -> str:
    """The machine's shape, not its name: cores, processor family, memory."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB of memory, no GPU used"


def page(report: Report, command: str) -> str:
    """The page of docs/ that a full run remakes."""
    figures = "\n".join(f"    {figure}" for figure in report.figures)
    made = f"Made by `{command}` on {datetime.date.today().isoformat()}; machine: {machine_shape()}."
    return f"# {report.title}\n\n{made}\n\n{report.text}\n\n## Figures\n\n{figures}\n"
