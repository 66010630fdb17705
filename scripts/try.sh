#!/usr/bin/env bash
# try.sh [OPTION...]: from a fresh clone to a first result: installs what is missing, builds, and runs the quickstart
# config, on the GPU if there is one, else on the CPU replay. Options go to `sdm-bench run`.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/install_deps.sh >&2
folder=$(bash scripts/build.sh "" sdm-bench)
exec "$folder/sdm-bench" run configs/quickstart.json "$@"
