#!/usr/bin/env bash
# Remakes the pictures of docs/schedules.md from what the simulator says of a GPT-2 of 24 layers on four equal GPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

.venv/bin/python examples/gpt2.py --layers 24 --hidden 1024 --heads 16 --vocabulary 1024 --sequence 512 --no-weights \
  -o "$work/model.pt2" > /dev/null
for schedule in gpipe 1f1b interleaved-1f1b zb-h1 zb-h2 zb-v chimera bpipe graphpipe pipedream pipedream-2bw; do
  build/release/bin/motley simulate "$work/model.pt2" --cluster examples/clusters/four.yaml --batch 64 \
    --strategy "pp:$schedule" --trace "$work/trace.json" > /dev/null
  .venv/bin/python examples/draw_timeline.py "$work/trace.json" -o "docs/schedules/$schedule.png"
done
