#!/usr/bin/env bash
# Drivers by the CUDA that they know, and modules by the CUDA that built them: which module a driver gets, what a run does where it gets none. A row
# of docs/howto/which-gpu.md each. The driver, the modules and cuBLASLt are emulated; the program looks for modules where it lies.
# ctest: tsan=leave asan_part=2
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${BUILD_DIR:?}" "${FAKE_CUDA_DIR:?}" "${FAKE_CUBLASLT:?}"
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FTENGINE_CUBLASLT=$FAKE_CUBLASLT
unset FTENGINE_CUDA_MODULE CUDA_VISIBLE_DEVICES
run="$here/follow.ini train.max_steps=1 data.cache_dir=none"
for place in 13 12 both none; do
    mkdir -p $place/bin $place/lib
    ln "$FTENGINE" $place/bin/ftengine 2>/dev/null || cp "$FTENGINE" $place/bin/ftengine || fail "no room"
done
for place in 13 both; do ln -s "$BUILD_DIR/tests/emulator/libemulated_module.so" $place/bin/libftengine_cuda.so; done
# as `make install` has it; which of two it is does not depend on where they lie
for place in 12 both; do ln -s "$BUILD_DIR/tests/emulator/libemulated_module12.so" $place/lib/libftengine_cuda12.so; done

old='the NVIDIA driver supports CUDA %s, but the kernels need 13.0'
# version of the driver, place, and what it gets: the CUDA of the kernels, or what is said
while IFS='|' read -r version place gets; do
    export FAKE_CUDA=version=$version,memory=1073741824
    expect 0 "$place/bin/ftengine" devices --json
    row="driver $version, modules: $place"
    case $gets in
    1?.?)
        [ "$(json out 'd["devices"][1]["kernels"]["cuda"], d["devices"][1]["trains"]')" = "('$gets', True)" ] || fail "$row: $(cat out)"
        # shellcheck disable=SC2086
        expect 0 $place/bin/ftengine train $run output.dir="$version-$place" device.name=cuda
        [ "$(json "$version-$place/run.json" 'd["device"], d["status"]')" = "('cuda:0', 'completed')" ] || fail "$row: $(cat "$version-$place/run.json")"
        ;;
    *)
        [ "$(json out 'd["devices"][1:] == [] or not d["devices"][1]["trains"]')" = True ] || fail "$row trains: $(cat out)"
        # shellcheck disable=SC2086
        expect 4 $place/bin/ftengine train $run output.dir=none device.name=cuda # who names it gets an error
        one_error "$gets"
        [ ! -e none/run.json ] || fail "$row: a run that could not start left a directory"
        [ "$version" -ge 12000 ] || continue
        # shellcheck disable=SC2086
        expect 0 $place/bin/ftengine train $run output.dir="$version-$place" # whoever does not, a warning, and once more at the end
        says "warning: a GPU (NVIDIA Fake 4096) is not used, device.name=auto is the CPU: $gets"
        [ "$(grep -c 'NVIDIA Fake 4096' err)" -ge 2 ] || fail "$row: not in the summary"
        ;;
    esac
done <<ROWS
11080|both|the NVIDIA driver supports CUDA 11.8, but 12.0 is needed
12000|both|12.4
12040|both|12.4
12080|both|12.4
13000|both|13.0
13010|both|13.0
12000|12|12.4
13000|12|12.4
12040|13|$(printf "$old" 12.4)
12080|13|$(printf "$old" 12.8)
13000|13|13.0
12040|none|the CUDA kernels are missing: libftengine_cuda.so was not found
ROWS

# Predictions say it too.
export FAKE_CUDA=version=12040,memory=1073741824
expect 0 13/bin/ftengine predict 13000-13 --data "$here/validation.tsv" --output predictions.jsonl
says "warning: a GPU (NVIDIA Fake 4096) is not used, device.name=auto is the CPU: the NVIDIA driver supports CUDA 12.4"
expect 4 13/bin/ftengine predict 13000-13 --data "$here/validation.tsv" --output predictions.jsonl device.name=cuda
exit 0
