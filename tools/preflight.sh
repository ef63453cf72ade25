#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what the set-up needs and says what to do when something is missing.
# Usage: tools/preflight.sh PYTHON [tests]     "tests" also wants GoogleTest.
set -u
python=${1:-python3}
failed=0

problem() {
  echo "set-up: $1" >&2
  echo "        Try: $2" >&2
  failed=1
}

# Debian package $1 provides what is missing ($2): installs it when we are root, else says how.
want() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "set-up: $2 is missing; installing the Debian package $1"
    { apt-get install -y -qq "$1" || { apt-get update -qq && apt-get install -y -qq "$1"; }; } \
      >/dev/null 2>&1 && return 0
  fi
  return 1
}

if ! command -v "$python" >/dev/null; then
  problem "no Python at '$python'" "make PYTHON=/path/to/python3.11 ..."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  problem "Python 3.11 or later is needed, $python is $("$python" -V 2>&1)" \
    "make PYTHON=/path/to/python3.11 ..."
else
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    problem "$python has no venv module" "apt-get install python3-venv"
  fi
  header=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h
  [ -e "$header" ] || want python3-dev "$header" ||
    problem "$header not found" "apt-get install python3-dev"
fi

cxx=${CXX:-c++}
if ! command -v "$cxx" >/dev/null && ! want g++ "a C++ compiler"; then
  problem "no C++ compiler '$cxx'" "apt-get install g++, or CXX=/path/to/compiler make ..."
elif ! echo '#include <concepts>
#include <span>
int main() { std::span<int> s; return static_cast<int>(s.size()); }' |
  "$cxx" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
  problem "$cxx ($("$cxx" --version | head -n 1)) does not compile C++20" \
    "CXX=g++-12 make ..., or any g++ 11 or clang 14 and later"
fi

# torch, the PJRT plugin, the test packages and the build together take about 4 GB.
free_mb=$(df -Pm . | awk 'NR == 2 {print $4}')
if [ ! -e .venv/.deps ] && [ "$free_mb" -lt 5000 ]; then
  problem "5 GB of free disk are needed here, $free_mb MB are free" \
    "free some space, or clone onto another disk"
fi

if [ "${2:-}" = tests ] && ! echo '#include <gtest/gtest.h>' |
  "$cxx" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
  want libgtest-dev "GoogleTest (for the C++ tests)" ||
    problem "GoogleTest not found (the C++ tests need it)" "apt-get install libgtest-dev (as root)"
fi

command -v ccache >/dev/null ||
  echo "set-up: ccache not found; builds work without it, a second one is slower"
exit $failed
