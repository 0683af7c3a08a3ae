"""Plans that others measured on GPUs: predicted against measured."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from bench.harness import BIN, ROOT, Figure, Report, table

# Where the data lies (docs/validate.md says what they are): sailor/measured in it.
DATA = Path(os.environ.get("MOTLEY_VALIDATION", ROOT.parent / "shared" / "validation"))


def run(quick: bool) -> Report:
    plans = DATA / "sailor" / "measured"
    if not plans.is_dir():
        raise SystemExit(f"{plans} is not there: say where others' data lies with MOTLEY_VALIDATION=FOLDER")
    output = subprocess.run([BIN / "motley", "validate", plans, "--json"], check=True, stdout=subprocess.PIPE).stdout
    result: dict[str, Any] = json.loads(output)
    rows = [
        [
            Path(plan["plan"]).stem.removeprefix("plan_config_"),
            f"{plan['iteration_seconds']:.3f}",
            f"{plan['measured_seconds']:.3f}",
            f"{100 * plan['time_error']:+.1f} %",
            f"{plan['peak_memory_bytes'] / 1e9:.2f}",
            f"{plan['measured_memory_bytes'] / 1e9:.2f}",
            f"{100 * plan['memory_error']:+.1f} %",
        ]
        for plan in result["plans"]
    ]
    header = ["plan", "seconds", "measured", "error", "GB on a GPU", "measured", "error"]
    text = (
        "OPT-350M on nodes of four GH200, as Sailor's authors measured it (Strati et al., SOSP 2025). `N` nodes, `D`\n"
        "replicas of each stage, tensor parallelism 4. Nothing is fitted to these plans; [validate.md](validate.md)\n"
        f"says what enters, and where the errors come from.\n\n{table(header, rows)}"
    )
    time, memory = result["time"], result["memory"]
    figures = [
        Figure("validate-time-mean", 100 * time["mean"], "%", "<= 6"),
        Figure("validate-time-max", 100 * time["worst"], "%", "<= 12"),
        Figure("validate-memory-mean", 100 * memory["mean"], "%", "<= 4"),
        Figure("validate-memory-under-max", 100 * memory["most_under"], "%", "<= 2"),
    ]
    return Report("Measured plans of others, predicted", text, figures)
