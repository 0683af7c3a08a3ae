#!/usr/bin/env bash
# bench/gpu_check.sh [BIN]: on a machine with a GPU, in under five minutes: profiles it, predicts an iteration, trains, and
# compares the losses with PyTorch's on the CPU. BIN is the folder of motley's programs (build/release/bin); PYTHON names
# an interpreter with torch and transformers (.venv/bin/python).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v nvidia-smi > /dev/null || { echo "gpu_check: there is no NVIDIA GPU here (no nvidia-smi)" >&2; exit 2; }
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
PYTHONPATH=examples exec "${PYTHON:-.venv/bin/python}" -m bench.gpu_check --bin "${1:-build/release/bin}"
