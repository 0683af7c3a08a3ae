"""Draws a timeline that `motley simulate --trace` or `motley run --trace` kept: what each device works on, and when.

motley simulate MODEL ... --strategy pp:1f1b --trace trace.json
.venv/bin/python examples/draw_timeline.py trace.json -o timeline.svg        (or .png)

A box is a pass over a micro-batch, with its number where that fits in; ops of one pass that follow each other are one
box. Where a trace has several timelines, the first is drawn.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed
from matplotlib import pyplot
from matplotlib.patches import Patch

COLOURS = {"forward": "#7aa6d8", "backward": "#7fc29b", "weights": "#c5e3cf", "update": "#d9b3d9"}
MEANS = {"forward": "forward", "backward": "backward", "weights": "weight gradients alone", "update": "updates"}


@dataclass
class Box:
    device: str
    kind: str
    micro_batch: int
    start: float  # microseconds
    end: float


def kind_of(name: str) -> str:
    for ending, kind in ((".dx", "backward"), (".dw", "weights"), (".update", "update")):
        if name.endswith(ending):
            return kind
    return "forward"


def boxes_of(trace: dict[str, Any]) -> list[Box]:
    events = trace["traceEvents"]
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    first = trace["motley"]["timelines"][0]["label"] + " "
    computes = [
        event
        for event in events
        if event["ph"] == "X" and event["cat"] == "compute" and names[event["pid"]].startswith(first)
    ]
    gap = 0.005 * max(event["ts"] + event["dur"] for event in computes)  # shorter ones do not show
    boxes: dict[int, list[Box]] = {pid: [] for pid in sorted({event["pid"] for event in computes})}
    for event in sorted(computes, key=lambda event: event["ts"]):
        of_device = boxes[event["pid"]]
        kind, micro_batch = kind_of(event["name"]), event["args"]["micro_batch"]
        start, end = event["ts"], event["ts"] + event["dur"]
        last = of_device[-1] if of_device else None
        # Weights' gradients among those of inputs are part of one backward pass. Where a device waited, that shows.
        together = last is not None and (last.kind == kind or {last.kind, kind} == {"backward", "weights"})
        if last and together and last.micro_batch == micro_batch and start - last.end < gap:
            last.end = end
            last.kind = "backward" if kind == "backward" else last.kind
        else:
            of_device.append(Box(names[event["pid"]].removeprefix(first), kind, micro_batch, start, end))
    return [box for of_device in boxes.values() for box in of_device]


def draw(trace: dict[str, Any], output: Path) -> None:
    boxes = boxes_of(trace)
    devices = list(dict.fromkeys(box.device for box in boxes))
    begin, end = min(box.start for box in boxes), max(box.end for box in boxes)
    figure, axes = pyplot.subplots(figsize=(12, 0.8 + 0.45 * len(devices)))
    for box in boxes:
        row = devices.index(box.device)
        width = (box.end - box.start) / 1000
        left = (box.start - begin) / 1000
        axes.barh(row, width, left=left, height=0.9, color=COLOURS[box.kind], edgecolor="white", linewidth=0.3)
        if width > 0.012 * (end - begin) / 1000 and box.kind != "update":
            axes.text(left + width / 2, row, str(box.micro_batch), ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(devices)), devices)
    axes.invert_yaxis()
    axes.set_xlim(0, (end - begin) / 1000)
    axes.set_xlabel("ms")
    shown = [kind for kind in MEANS if any(box.kind == kind for box in boxes)]
    axes.legend(
        handles=[Patch(color=COLOURS[kind], label=MEANS[kind]) for kind in shown],
        ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize="small",
    )  # fmt: skip
    axes.set_title(f"{trace['motley']['strategy']}", loc="left", fontsize="medium")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    draw(json.loads(options.trace.read_text()), options.output)


if __name__ == "__main__":
    main()
