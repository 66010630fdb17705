#!/usr/bin/env bash
# The tools of compute-sanitizer on a config, one after the other: memcheck, racecheck, initcheck, synccheck.
#
#   scripts/sanitize.sh [CONFIG] [FILTER]      (default configs/smoke.json, all its cases)
#
# Every tool's log goes to sanitize_<tool>.log; ends with 0 where all are clean, else with 1 after all have run. Timing is off; the
# checks run, so that replay and repeats are seen by the tools too. CUDA graphs are off for racecheck, which does not look into them.
# Environment: SDM_BENCH (default build/sdm-bench), SANITIZER (default compute-sanitizer), TOOLS (a subset of the four).
set -uo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0; fi
tool=${SDM_BENCH:-build/sdm-bench}
sanitizer=${SANITIZER:-compute-sanitizer}
config=${1:-configs/smoke.json} filter=${2:-.}
command -v "$sanitizer" > /dev/null || { echo "sanitize.sh: $sanitizer is not installed (set SANITIZER to its path)" >&2; exit 2; }

failed=0
for check in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
  log=sanitize_$check.log
  more=()
  [[ $check == memcheck ]] && more=(--leak-check full)
  if "$sanitizer" --tool "$check" --error-exitcode 99 --log-file "$log" "${more[@]}" \
       "$tool" run "$config" --filter "$filter" --device cuda --no-timing --quiet --set launch=eager --format table > "sanitize_$check.out"; then
    echo "$check: clean ($(grep -c '' "$log") lines in $log)"
  else
    code=$?
    failed=1
    if [[ $code == 99 ]]; then echo "$check: errors, see $log"; else echo "$check: the run ended with $code, see sanitize_$check.out and $log"; fi
    tail -n 5 "$log"
  fi
done
exit $failed
