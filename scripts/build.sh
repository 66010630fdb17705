#!/usr/bin/env bash
# build.sh [PRESET [TARGET...]]: configures and builds one preset of CMakePresets.json into build/PRESET and prints that
# folder on stdout. Without a preset, or with "": `dev` where nvcc and a GPU are found, else `cpu`. JOBS limits how many
# compilers run at once. SDM_UNITY=ON compiles the sources of a folder together: quicker where all is built once.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
preset=${1:-}
shift || true
if [ -z "$preset" ]; then
  preset=cpu
  if command -v nvcc >/dev/null && nvidia-smi -L >/dev/null 2>&1; then preset=dev; fi
fi

options=()
if [ -n "${SDM_UNITY:-}" ]; then options+=("-DSDM_UNITY=$SDM_UNITY"); fi
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  case $preset in dev | release) options+=(-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache) ;; esac
fi
targets=()
[ $# -eq 0 ] || targets=(--target "$@")

echo "building preset $preset into build/$preset" >&2
cmake --preset "$preset" "${options[@]}" >&2
cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" "${targets[@]}" >&2
echo "build/$preset"
