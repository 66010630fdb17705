#!/usr/bin/env bash
# build.sh [PRESET [TARGET...]]: configures and builds one preset of CMakePresets.json into build/PRESET and prints that
# folder on stdout. Without a preset: `dev` where nvcc and a GPU are found, else `cpu`. JOBS limits the compilers at once.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
preset=${1:-}
if [ -z "$preset" ]; then
  preset=cpu
  if command -v nvcc >/dev/null && nvidia-smi -L >/dev/null 2>&1; then preset=dev; fi
fi
shift || true

options=()
command -v ccache >/dev/null && options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
[ "$preset" = dev ] || [ "$preset" = release ] && command -v ccache >/dev/null && options+=(-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)

echo "building preset $preset into build/$preset" >&2
cmake --preset "$preset" "${options[@]}" >&2
cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" ${1:+--target "$@"} >&2
echo "build/$preset"
