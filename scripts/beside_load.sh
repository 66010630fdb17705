#!/usr/bin/env bash
# beside_load.sh SDM_BENCH [FOLDER]: the persistent kernels on a GPU that another process keeps busy. Three shapes run in
# fused mode with their checks, alone and then beside a process that times passes of `default` all the while. The second
# run must end, pass its checks and leave the same digests. FOLDER keeps both results, alone.json and beside_load.json.
set -euo pipefail
bench=$(realpath "$1")
folder=${2:-$(mktemp -d)}
config=$(dirname "$(realpath "$0")")/../configs/h200_perf.json

fused() {
  "$bench" run "$config" --device cuda --filter '/(default|f32_128|flag64)$' --set launch=fused --set timing.l2=hot \
    --set timing.per_stage=false --set timing.max_seconds=0.5 --force -q -o "$1"
}

fused "$folder/alone.json"
"$bench" run "$config" --device cuda --filter '/default$' --no-checks --set timing.max_seconds=300 \
  --set timing.min_samples=1000000 --set timing.per_stage=false --force -q -o "$folder/load.json" 2>"$folder/load.log" &
load=$!
trap 'kill "$load" 2>/dev/null; wait "$load" || true' EXIT
sleep 8 # its inputs, and the first samples
fused "$folder/beside_load.json"
kill -0 "$load" || { echo "the load ended too soon: $(tail -1 "$folder/load.log")" >&2; exit 1; }
"$bench" compare "$folder/alone.json" "$folder/beside_load.json" || true # how much the load took
"$bench" compare "$folder/alone.json" "$folder/beside_load.json" --digests
