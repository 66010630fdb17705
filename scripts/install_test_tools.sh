#!/usr/bin/env bash
# Installs the programs of others that tests hold our output against: headless Chromium, google-benchmark's compare.py,
# and Python's safetensors. A test whose program is missing skips and says so.
set -euo pipefail

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
  chromium libbenchmark-tools python3-numpy python3-scipy python3-pip
python3 -c 'import safetensors' 2>/dev/null ||
  python3 -m pip install --quiet --break-system-packages safetensors ||
  echo "install_test_tools.sh: safetensors could not be installed; its test will skip" >&2
