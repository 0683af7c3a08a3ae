"""Checks that dependencies point one way: a folder includes only headers of the folders before it."""

import re
import subprocess
import sys

ORDER = [
    "base",
    "proto",
    "graph",
    "runtime",
    "profiler",
    "compiler",
    "simulator",
    "strategy",
    "imports",
    "agent",
    "coordinator",
    "cli",
]
# Everything else builds in seconds because it does not see LibTorch.
TORCH_FOLDERS = ("runtime/", "strategy/policy/", "tests/", "bench/")
TORCH = re.compile(r"(torch|ATen|c10)/(?!csrc/utils/generated_serialization_types\.h)")
INCLUDE = re.compile(r'#include [<"]([^>"]+)[>"]')


def problems(path: str) -> list[str]:
    found = []
    folder = path.split("/")[0]
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            if include is None:
                continue
            below = include[1].split("/")[0]
            if folder in ORDER and below in ORDER and ORDER.index(below) > ORDER.index(folder):
                found.append(f"{path}:{number}: {folder}/ must not use {below}/, which stands above it")
            if TORCH.match(include[1]) and not path.startswith(TORCH_FOLDERS):
                found.append(f"{path}:{number}: only {', '.join(TORCH_FOLDERS)} include LibTorch")
    return found


if __name__ == "__main__":
    files = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc"], capture_output=True, text=True, check=True
    ).stdout.split()
    sys.exit("\n".join(problem for path in files for problem in problems(path)) or None)
