#!/usr/bin/env bash
# check.sh BUILD_DIRECTORY NAME - builds what the tests need whose names match NAME (a regular expression), and runs them.
set -euo pipefail
build=$1 name=${2:-}
[ -n "$name" ] || {
    echo 'check: NAME is missing, for example: make check NAME=kernels/gemm' >&2
    exit 2
}
tests=$(ctest --test-dir "$build" -N -R "$name" | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$tests" ] || {
    echo "check: no test's name matches \"$name\"; nearest by their last part:" >&2
    ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p' | grep -i -- "${name##*/}" >&2 || echo "  none: ctest --test-dir $build -N lists all" >&2
    exit 2
}
# A test of C is a target named by its path. Scripts run the program, those of the emulator what stands for CUDA too.
known=$(cmake --build "$build" --target help)
targets=()
for test in $tests; do
    target=${test%/*}
    target=${target//\//_}_test_${test##*/}
    if grep -qE "(^|\.\.\. )$target(:|\$)" <<<"$known"; then
        targets+=("$target")
    elif [[ $test == emulator/* || $test == preload/* ]]; then
        targets=(all)
        break
    else
        targets+=(program)
    fi
done
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "${JOBS:-$(nproc)}" -R "$name"
