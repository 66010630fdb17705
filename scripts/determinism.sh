#!/usr/bin/env bash
# All that speaks about bits on one GPU: every float through every shared function, every planted fault, the stored outputs of the
# published kernels, random shapes, every shape in all surroundings, the price of order. usage: determinism.sh SDM_BENCH FOLDER
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
step golden 60 "$bench" conform "$here/tests/golden" --device cuda
python3 "$here/scripts/random_shapes.py" 60 > "$out/random_shapes.json" || failed=1
step random_shapes 120 "$bench" run "$out/random_shapes.json" --device cuda --no-timing
step determinism 300 "$bench" run "$here/configs/determinism.json" --device cuda --no-timing -o "$out/determinism.json" --force
step determinism_cost 300 "$bench" run "$here/configs/determinism_cost.json" --device cuda -o "$out/determinism_cost.json" --force
tail -n 16 "$out/numerics.txt"
tail -n 1 "$out/planted_faults.txt"
for name in golden random_shapes determinism; do tail -n 1 "$out/$name.txt"; done
grep -h "price of order" "$out/determinism_cost.txt"
exit $failed
