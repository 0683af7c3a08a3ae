"""The command behind bench/run."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench import (
    demo,
    memory,
    papers,
    pipeline,
    policy,
    predictions,
    simulator,
    strategy,
    strategy_box,
    validate,
    worker,
)
from bench.harness import ROOT, Parts, Report, Unfinished, page

BENCHMARKS: dict[str, tuple[Callable[[bool], Report], str]] = {
    "worker": (worker.run, "one device: motley's worker against PyTorch eager, both with one thread"),
    "box": (predictions.run, "a cluster in a box: time and memory of real jobs, predicted against measured"),
    "simulator": (simulator.run, "the simulator's speed: compiled deployments, flows, growth to 10 million tasks"),
    "demo": (demo.run, "three unequal devices: every strategy, predicted against measured"),
    "memory": (memory.run, "every worker's memory, predicted against measured"),
    "validate": (validate.run, "others' measured plans, predicted; and plans for their profiles, beside their own"),
    "strategy": (strategy.run, "what a search finds on unlike clusters, against every fixed strategy and the bound"),
    "strategy-box": (strategy_box.run, "five plans on a cluster in a box, measured against every fixed strategy"),
    "policy": (policy.run, "the learned policy: its proposals, and searches with it, with random weights and without"),
    "papers": (papers.run, "what papers claim of pipeline schedules, and what the simulator says"),
    "pipeline": (pipeline.run, "a model that no host holds alone: the planned pipeline against even stages"),
}
IN_PARTS: dict[str, Callable[[bool, Parts], Report]] = {
    "box": predictions.run,
    "memory": memory.run,
    "strategy": strategy.run,
    "policy": policy.run,
    "strategy-box": strategy_box.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Remakes the tables of docs/.",
        epilog="\n".join(f"  {name:12} {what}" for name, (_, what) in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), help="without a name: lists the benchmarks")
    parser.add_argument("--quick", action="store_true", help="end within 50 seconds; print figures, write nothing")
    parser.add_argument(
        "--parts",
        type=Path,
        metavar="FOLDER",
        help=f"of {', '.join(IN_PARTS)}: keep in FOLDER what every part finds, and measure only those that it lacks",
    )
    parser.add_argument("--at-most", type=int, metavar="N", help="with --parts: end after measuring N of them")
    options = parser.parse_args()
    if options.name is None:
        parser.print_help()
        return
    if options.parts is None:
        report = BENCHMARKS[options.name][0](options.quick)
    elif options.name in IN_PARTS:
        try:
            report = IN_PARTS[options.name](options.quick, Parts(options.parts, options.at_most))
        except Unfinished as more:
            sys.exit(f"no report yet: {more}")
    else:
        parser.error(f"{options.name} has no parts")
    print(report.text, flush=True)
    for figure in report.figures:
        print(figure)
    if not options.quick:
        target = ROOT / "docs" / f"bench-{options.name}.md"
        target.write_text(page(report, f"bench/run {options.name}"))
        print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
