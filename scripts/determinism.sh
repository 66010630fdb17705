#!/usr/bin/env bash
# All that speaks about determinism on one GPU: every float through every shared function, every planted fault, every shape
# in all surroundings, the price of order. usage: determinism.sh SDM_BENCH FOLDER
set -u
bench=$1
out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
failed=0

step() {  # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 begin=$SECONDS
  shift 2
  timeout "$seconds" "$@" > "$out/$name.txt" 2>&1
  local code=$?
  [ $code -eq 0 ] || failed=1
  printf '%-18s exit %3d  %4d s\n' "$name" $code $((SECONDS - begin))
}

step numerics 180 "$bench" numerics --device cuda
step planted_faults 180 python3 "$here/scripts/planted_faults.py" "$bench" --device cuda
step determinism 300 "$bench" run "$here/configs/determinism.json" --device cuda --no-timing -o "$out/determinism.json" --force
step determinism_cost 300 "$bench" run "$here/configs/determinism_cost.json" --device cuda -o "$out/determinism_cost.json" --force
tail -n 16 "$out/numerics.txt"
tail -n 1 "$out/planted_faults.txt"
tail -n 1 "$out/determinism.txt"
grep -h "price of order" "$out/determinism_cost.txt"
exit $failed
