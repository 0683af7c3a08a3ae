#!/usr/bin/env bash
# Sets up a Debian 12 machine to build and run motley: system packages, and a virtual environment with exact,
# hash-locked versions. Does only what is missing; a second run has nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }

mapfile -t packages < <(grep -vE '^ *(#|$)' deploy/packages.txt)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} system packages: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root or install sudo; missing packages: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

lock=$(sha256sum python/requirements.lock | cut -d' ' -f1)
if [ "$(cat .venv/motley-lock 2>/dev/null)" != "$lock" ]; then
  say "installing Python packages into .venv (about 6 GB, some minutes)"
  [ -x .venv/bin/python ] || /usr/bin/python3 -m venv .venv
  .venv/bin/python -m pip install --disable-pip-version-check --no-input --require-hashes --progress-bar off \
    -r python/requirements.lock
  echo "$lock" > .venv/motley-lock
fi
[ -e build/release/build.ninja ] || { say "configuring build/release"; cmake --preset release; }
