#!/usr/bin/env bash
# format.sh [--check] [FILE...]: clang-format over the given files, or over all C++ and CUDA files of the repository.
# --check changes nothing and fails where a file is not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
if [ "${1:-}" = --check ]; then
  mode=(--dry-run --Werror)
  shift
fi
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh'); fi
"${CLANG_FORMAT:-clang-format}" "${mode[@]}" "${files[@]}"
