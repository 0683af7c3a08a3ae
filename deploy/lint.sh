#!/usr/bin/env bash
# What CI checks beyond the tests: formatting, Python types, clang-tidy, and that a folder uses only those before it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
.venv/bin/ruff format --check --quiet .
.venv/bin/ruff check --quiet .
git ls-files '*.py' | xargs .venv/bin/mypy --no-error-summary
.venv/bin/python deploy/check_layout.py

# clang-tidy on the core: files that include LibTorch, gRPC or CLI11 take up to a minute each, so they are checked by
# `deploy/lint.sh --all`; all are compiled with -Werror. A file whose check passed is not checked again until it, a header
# or the rules change.
folders=(base graph profiler compiler simulator strategy imports)
[ "${1:-}" != --all ] || folders+=(proto runtime agent coordinator cli)
passed=build/release/tidy
mkdir -p $passed
rules=$(cat .clang-tidy $(git ls-files '*.h' '*.proto') | sha256sum)
export passed rules
tidy_one() {
  stamp=$passed/$(cat "$1" - <<<"$rules$1" | sha256sum | cut -d' ' -f1)
  [ -e "$stamp" ] || { clang-tidy -p build/release --quiet "$1" 2> >(grep -vE '^([0-9]+ warnings? (and|generated)|Suppressed|Use -header)' >&2) && touch "$stamp"; }
}
export -f tidy_one
{ git grep -LE '#include [<"](torch|ATen|c10)/' -- "${folders[@]/%//*.cc}" || true; } |
  xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}'
echo "format, types, clang-tidy and layout: clean"
