#!/usr/bin/env bash
# Counters of the kernels of one training step with Nsight Compute, and the per-stage table that follows from them.
#
#   scripts/profile_ncu.sh CONFIG [FILTER] [STAGE] [OUT]      (OUT without its ending; default profile)
#
# STAGE selects one stage by its NVTX range (domain sdm-bench; ranges case:<id> > measure > fwd, bwd > stage names); without it,
# or with -, every kernel of the measured step. Warm-up is left out: the tool starts the profiler around the measured launches only.
# Environment: SDM_BENCH (default build/sdm-bench), NCU (default ncu), SDM_BENCH_ARGS (further arguments of the run), ROOF
# (arguments of ncu_table.py, for example "--roof 4200 --roof gather=4984"), NCU_SET (for example full: a section set for the GUI).
# Reading counters needs permission: root, or the driver option NVreg_RestrictProfilingToAdminUsers=0.
set -euo pipefail
if [[ $# -lt 1 || $1 == -h || $1 == --help ]]; then sed -n '2,11s/^# \{0,1\}//p' "$0"; exit $(( $# < 1 ? 2 : 0 )); fi
here=$(cd "$(dirname "$0")" && pwd)
tool=${SDM_BENCH:-build/sdm-bench}
ncu=${NCU:-ncu}
config=$1 filter=${2:-.} stage=${3:--} out=${4:-profile}
command -v "$ncu" > /dev/null || { echo "profile_ncu.sh: $ncu is not installed (set NCU to its path)" >&2; exit 2; }

# The stage is on top of the range stack ("]"), inside the measured step; all of them: the range measure anywhere in the stack.
range="sdm-bench@measure/"
[[ $stage != - ]] && range="sdm-bench@$stage/]"
read -ra more <<< "${SDM_BENCH_ARGS:-}"
read -ra roof <<< "${ROOF:-}"
metrics=$(python3 "$here/ncu_table.py" --metrics)
what=(--metrics "$metrics")
[[ -n ${NCU_SET:-} ]] && what+=(--set "$NCU_SET")
# Cache control none: the caches are as the step leaves them, as in the measurement. Clocks stay free for the same reason.
"$ncu" --nvtx --nvtx-include "$range" --profile-from-start off --cache-control none --clock-control none --replay-mode kernel \
  "${what[@]}" --force-overwrite --export "$out" \
  "$tool" run "$config" --filter "$filter" --device cuda --profile --quiet "${more[@]}"
"$ncu" --import "$out.ncu-rep" --csv --page raw --print-units base > "$out.csv"
python3 "$here/ncu_table.py" "${roof[@]}" "$out.csv"
