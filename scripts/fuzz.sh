#!/usr/bin/env bash
# fuzz.sh [TARGET|all [SECONDS]]: builds the libFuzzer targets (preset fuzz, needs clang++) and runs one of config,
# result, safetensors, thresholds, or all of them one after another, for SECONDS each (60). What they discover stays in
# build/PRESET/found/TARGET and is where the next run goes on; a finding is left there as crash-*, timeout-* or oom-* and ends
# the script with an error. JOBS runs that many processes of a target at once; PRESET names another build (sanitize).
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(config result safetensors thresholds)
seconds=${2:-60}
if [ "${1:-all}" != all ]; then
  printf '%s\n' "${targets[@]}" | grep -qx -- "$1" || { echo "fuzz.sh: no target '$1'; there are ${targets[*]}" >&2; exit 2; }
  targets=("$1")
fi

bash scripts/install_deps.sh clang >&2
folder=$(bash scripts/build.sh "${PRESET:-fuzz}" "${targets[@]/#/fuzz_}")
for target in "${targets[@]}"; do
  found=$folder/found/$target
  mkdir -p "$found"
  echo "fuzzing $target for $seconds s" >&2
  # -entropic=0: choosing inputs by entropy costs libFuzzer several times what these parsers take.
  options=(-entropic=0 -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1
           -artifact_prefix="$found/")
  if [ "${JOBS:-1}" -gt 1 ]; then options+=(-fork="$JOBS"); fi
  UBSAN_OPTIONS=print_stacktrace=1 "$folder/tests/fuzz/fuzz_$target" "${options[@]}" "$found" "tests/fuzz/corpus/$target" \
    2>"$found.log" || { tail -n 60 "$found.log" >&2; echo "fuzz.sh: a finding in $target, see $found" >&2; exit 1; }
  grep -E 'stat::(number_of_executed|average_exec|new_units|peak_rss)' "$found.log" >&2 || true
done
