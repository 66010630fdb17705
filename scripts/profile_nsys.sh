#!/usr/bin/env bash
# A timeline of one training step with Nsight Systems: kernels under the NVTX ranges of the domain `sdm-bench`.
#
#   scripts/profile_nsys.sh CONFIG [FILTER] [OUT]      (OUT without its ending; default profile)
#
# The tool starts and stops the profiler around exactly the measured launches of a case, so that warm-up and set-up are not in
# the report. With several cases (FILTER matches more than one id) a report is written for each: OUT.1, OUT.2, ...
# Environment: SDM_BENCH (default build/sdm-bench), NSYS (default nsys), SDM_BENCH_ARGS (further arguments of the run).
set -euo pipefail
if [[ $# -lt 1 || $1 == -h || $1 == --help ]]; then sed -n '2,9s/^# \{0,1\}//p' "$0"; exit $(( $# < 1 ? 2 : 0 )); fi
tool=${SDM_BENCH:-build/sdm-bench}
nsys=${NSYS:-nsys}
config=$1 filter=${2:-.} out=${3:-profile}
command -v "$nsys" > /dev/null || { echo "profile_nsys.sh: $nsys is not installed (set NSYS to its path)" >&2; exit 2; }

cases=$("$tool" list "$config" --filter "$filter" | wc -l)
end=stop
[[ $cases -gt 1 ]] && end=repeat:$cases
read -ra more <<< "${SDM_BENCH_ARGS:-}"
"$nsys" profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none \
  --capture-range=cudaProfilerApi --capture-range-end="$end" --force-overwrite=true --output="$out" \
  "$tool" run "$config" --filter "$filter" --device cuda --profile --quiet "${more[@]}"

for report in "$out".nsys-rep "$out".[0-9]*.nsys-rep; do
  [[ -e $report ]] || continue
  echo "== $report"
  "$nsys" stats --force-export=true --report nvtx_kern_sum,nvtx_gpu_proj_sum,cuda_gpu_kern_sum --format column "$report"
done
