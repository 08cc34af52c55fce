#!/usr/bin/env bash
# What is compiled by which release of nvcc (kernels/cuda/CMakeLists.txt): cmake alone, with programs in its place that only say their release.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
command -v cmake >/dev/null || { echo "skipped: no cmake"; exit 77; }
mkdir source
cat >source/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(toolkits NONE)
add_subdirectory($SOURCE_DIR/kernels/cuda kernels)
CMAKE
nvcc() { # nvcc RELEASE: a toolkit in the folder RELEASE
    mkdir -p "$1/bin"
    printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.1"\n' "$1" "$1" >"$1/bin/nvcc" && chmod +x "$1/bin/nvcc"
}
# release | of a second one, CUDA 12's | FT_CUDA_TARGETS | what cmake says of the modules
packaged="80 89 90a 100f 120" count=0
while IFS='|' read -r release second targets wanted; do
    nvcc "$release"
    [ -z "$second" ] || nvcc "$second"
    rm -rf build
    expect 0 env -u CUDACXX -u CUDA_HOME -u CUDA12_HOME cmake -S source -B build -D FT_NVCC="$scratch/$release/bin/nvcc" \
        -D FT_NVCC12="${second:+$scratch/$second/bin/nvcc}" -D FT_CUDA_TARGETS="$targets"
    said=$(sed -n "s|^-- CUDA kernels: ||; s|$scratch/||g; s|/bin/nvcc||g; /^sm_\|^not built/p" out | paste -sd';')
    [ "$said" = "$wanted" ] || fail "CUDA $release${second:+ and $second}, $targets: '$said', not '$wanted'"
    count=$((count + 1))
done <<TABLE
12.3||80 90a|not built, 12.3 is of CUDA 12.3, but 12.4 is needed
12.4||$packaged|sm_80 sm_89 sm_90a ptx_90 with 12.4 (CUDA 12.4)
12.8||$packaged|sm_80 sm_89 sm_90a sm_100 sm_120 ptx_120 with 12.8 (CUDA 12.8)
12.9||$packaged|sm_80 sm_89 sm_90a sm_100 sm_120 ptx_120 with 12.9 (CUDA 12.9)
12.9||100f|sm_100 ptx_100 with 12.9 (CUDA 12.9)
12.8||90a 100a|sm_90a sm_100a ptx_100 with 12.8 (CUDA 12.8)
12.9||90a 100a|sm_90a sm_100a ptx_100 with 12.9 (CUDA 12.9)
13.0||$packaged|sm_80 sm_89 sm_90a sm_100f sm_120 ptx_120 with 13.0 (CUDA 13.0)
13.0|12.9|$packaged|sm_80 sm_89 sm_90a sm_100f sm_120 ptx_120 with 13.0 (CUDA 13.0);sm_80 sm_89 sm_90a sm_100 sm_120 ptx_120 with 12.9 (CUDA 12.9)
13.0|12.4|$packaged|sm_80 sm_89 sm_90a sm_100f sm_120 ptx_120 with 13.0 (CUDA 13.0);sm_80 sm_89 sm_90a ptx_90 with 12.4 (CUDA 12.4)
13.0|12.3|80 90a|sm_80 sm_90a ptx_90 with 13.0 (CUDA 13.0)
TABLE
[ $count = 11 ] || fail "$count cases, not 11"
exit 0
