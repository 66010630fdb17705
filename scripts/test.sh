#!/usr/bin/env bash
# test.sh [PRESET]: installs what is missing, builds everything and runs all tests; those that need a GPU skip without
# one. Presets: cpu, dev, release, sanitize, thread; by default `dev` where nvcc and a GPU are found, else `cpu`.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  sanitize | thread) bash scripts/install_deps.sh clang >&2 ;;
  *) bash scripts/install_deps.sh >&2 ;;
esac
folder=$(bash scripts/build.sh "${1:-}")
exec ctest --preset "$(basename "$folder")" --parallel "${JOBS:-$(nproc)}"
