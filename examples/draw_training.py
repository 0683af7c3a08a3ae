"""Draws the curve that `motley train-policy` wrote: how well the policy imitates, and how good its own strategies are.

motley train-policy -o policy
.venv/bin/python examples/draw_training.py policy/metrics.csv -o training.svg        (or .png)
"""

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed
from matplotlib import pyplot

PANELS = [
    ("imitation", "cross entropy of the best plan's choice"),
    ("agreement", "share of places decided like it"),
    ("sampled", "time of a drawn strategy over the best known"),
    ("held_out", "best of 8 proposals over a search, unseen cases"),
]


def draw(rows: list[dict[str, str]], path: Path) -> None:
    figure, grid = pyplot.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for axes, (column, title) in zip(grid.flat, PANELS, strict=True):
        shown = [row for row in rows if row[column] and not (column == "sampled" and float(row["entropy"]) == 0)]
        axes.plot([int(row["step"]) for row in shown], [float(row[column]) for row in shown], color="tab:blue")
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("step")
        if column in ("sampled", "held_out"):
            axes.set_yscale("log")
            axes.axhline(1, color="gray", linewidth=0.8)
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", type=Path, help="metrics.csv of a training")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the picture, .svg or .png")
    arguments = parser.parse_args()
    with arguments.metrics.open() as file:
        draw(list(csv.DictReader(file)), arguments.output)


if __name__ == "__main__":
    main()
