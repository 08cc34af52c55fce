#!/usr/bin/env bash
# zig.sh DIRECTORY - prints the command of zig, which links for an older C library than this machine's (tools/wheel.py): the one that is here, else
# that of the package ziglang, which is fetched into DIRECTORY once. Fails where there is none; the wheel is then for this machine's C library.
set -euo pipefail
version=0.17.1
directory=${1:?where it goes}
if command -v zig >/dev/null; then
    echo zig
elif python3 -m ziglang version >/dev/null 2>&1; then
    echo "python3 -m ziglang"
else
    if ! PYTHONPATH=$directory python3 -m ziglang version >/dev/null 2>&1; then
        python3 -m pip install --quiet --disable-pip-version-check --target "$directory" "ziglang==$version" >&2 ||
            { echo "zig.sh: no zig can be had: the wheel is for the C library of this machine" >&2; exit 1; }
    fi
    echo "env PYTHONPATH=$(cd "$directory" && pwd) python3 -m ziglang"
fi
