#!/usr/bin/env bash
# The wheel with the CUDA kernels of this build, or the two, where one would have more than 20 MB: each below that, the kernels where pip puts them for program and module, and both
# see them: without a driver that is what they lack.
# With ZIG (ZIG="python3 -m ziglang") the one for glibc 2.28, too.
# ctest: label=full_size sanitize=leave timeout=1800
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
if [ ! -x "$BUILD_DIR/dist/ftengine" ] || [ ! -e "$BUILD_DIR/libftengine_cuda.so" ]; then
    echo "skipped: this build has no CUDA kernels, or no program for packages"
    exit 77
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "skipped: no venv of python3"; exit 77; }
inside() { env -i HOME="$scratch" PATH=/usr/bin:/bin FTENGINE_LEDGER_DIR="$scratch/ledger" "$@"; }

# try [OPTION...]: of wheel.py
try() {
    python3 "$SOURCE_DIR/tools/wheel.py" "$BUILD_DIR" wheel --cuda "$@" >out 2>err || fail "the wheel"
    mapfile -t wheels <out
    wheel=${wheels[0]}
    [ "${#wheels[@]}" = "$(find wheel -name '*.whl' | wc -l)" ] || fail "other wheels than it says: $(ls wheel)"
    rm -rf venv
    python3 -m venv venv >out 2>err || fail "venv"
    env -i PATH=/usr/bin:/bin HOME="$scratch" venv/bin/python -m pip install --quiet --no-index --disable-pip-version-check "${wheels[@]}" >out 2>err || fail "pip install"
    [ -e venv/lib/ftengine/libftengine_cuda.so ] || fail "the kernels are not in lib/ftengine: $(find venv -name '*cuda*')"
    inside venv/bin/ftengine devices --json >program.json 2>err || fail "devices"
    inside venv/bin/python -c 'import json, ftengine; print(json.dumps({"devices": ftengine.devices()}))' >module.json 2>err || fail "devices of the module"
    # What they look for first: without a driver nobody opens the kernels, so a copy of them is asked whether it can be loaded.
    venv/bin/python -c 'import ctypes, sys; assert ctypes.CDLL(sys.argv[1]).ft_cuda_module_get' venv/lib/ftengine/libftengine_cuda.so 2>err || fail "the kernels cannot be loaded"
    ! grep -q "CUDA kernels are missing" program.json module.json || fail "the kernels are not found: $(cat program.json module.json)"
    for wheel in "${wheels[@]}"; do
        echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
        [ "$(stat -c %s "$wheel")" -le 20000000 ] || fail "more than 20 MB"
    done
    [ "${#wheels[@]}" = 1 ] && return
    # Two: the extra of the first is the second.
    rm -rf venv
    python3 -m venv venv >out 2>err || fail "venv"
    env -i PATH=/usr/bin:/bin HOME="$scratch" venv/bin/python -m pip install --quiet --no-index --disable-pip-version-check --find-links wheel 'ftengine[cuda]' >out 2>err || fail "the extra"
    [ -e venv/lib/ftengine/libftengine_cuda.so ] || fail "the extra brings no kernels"
    env -i PATH=/usr/bin:/bin HOME="$scratch" venv/bin/python -m pip uninstall --quiet --yes ftengine-cuda >out 2>err || fail "uninstall"
    inside venv/bin/ftengine devices >out 2>err || fail "devices without the kernels' wheel"
}
try
if [ -n "${ZIG:-}" ]; then
    try --zig "$ZIG"
    for wheel in "${wheels[@]}"; do
        tag=$(grep -oE 'manylinux_2_[0-9]+' <<<"$wheel" | head -n 1)
        [ "${tag#manylinux_2_}" -le 28 ] || fail "linked by zig it is $tag"
    done
fi
