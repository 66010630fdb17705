#!/usr/bin/env bash
# kill_loop.sh [RUNS [SEED]]: SIGINT, SIGTERM and SIGKILL at random moments of RUNS (200) small runs on the CPU, in one
# process and isolated, and what must hold then (tests/cli/kill_test.cpp). PRESET names the build, cpu by default.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(bash scripts/build.sh "${PRESET:-cpu}" cli_tests sdm-bench)
export SDM_KILL_RUNS=${1:-200}
if [ $# -ge 2 ]; then export SDM_KILL_SEED=$2; fi
exec "$folder/tests/cli_tests" --gtest_filter='KillLoop.*'
