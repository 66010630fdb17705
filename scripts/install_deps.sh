#!/usr/bin/env bash
# install_deps.sh [clang]: installs what a build needs, where it is missing (Debian 12 or later, Ubuntu 24.04 or later); with
# `clang` also what the sanitizers and fuzzers need. The CUDA toolkit is optional and left to the user: without nvcc the CPU
# side is built.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache git libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev
          librandom123-dev libxxhash-dev)
if [ "${1:-}" = clang ]; then packages+=(clang libclang-rt-dev); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install_deps.sh: no apt-get here; install these by other means: ${packages[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: missing ${missing[*]}; run this script as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
