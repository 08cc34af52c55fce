#!/usr/bin/env bash
# run.sh BUILD_DIRECTORY [SECONDS] [TARGET...] - builds the fuzz targets (or those named) with clang and runs each for
# SECONDS (20), from its seeds (seeds/TARGET) and from what earlier runs found, one on each core at a time. One line a target;
# error on a finding, which is said last.
set -euo pipefail

build=${1:?usage: run.sh BUILD_DIRECTORY [SECONDS] [TARGET...]}
seconds=${2:-20}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for source in "$here"/fuzz_*.c; do targets+=("$(basename "$source" .c)"); done
fi

generator=()
if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S "$here/../.." -B "$build" "${generator[@]}" -D CMAKE_C_COMPILER=clang -D FT_FUZZ=ON >"$build.log" 2>&1 &&
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >>"$build.log" 2>&1 || {
    tail -40 "$build.log" >&2
    exit 1
}

run_one() {
    local name=$1 corpus=$build/corpus/$1 log=$build/$1.log seeds=() words=() longest=4096 bytes
    mkdir -p "$corpus" "$build/findings"
    if [ -d "$here/seeds/$name" ]; then seeds=("$here/seeds/$name"); fi
    if [ -f "$here/dictionaries/$name.dict" ]; then words=("-dict=$here/dictionaries/$name.dict"); fi
    # Left alone it makes nothing longer than the longest seed, which may be twenty bytes.
    bytes=$(find "$corpus" "${seeds[@]}" -type f -printf '%s\n' | sort -n | tail -1)
    if [ "${bytes:-0}" -gt $longest ]; then longest=$bytes; fi
    if "$build/tests/fuzz/$name" -max_total_time="$seconds" -max_len="$longest" "${words[@]}" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$name-" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
        echo "ok    $name: $runs inputs in $seconds s, $rate a second, $(find "$corpus" -type f | wc -l) kept"
    else
        { # kept for the end, with all that is needed elsewhere: CI's files are gone and the first lines of its output may be
            echo "FOUND $name: $(grep -m1 -E '^SUMMARY|ERROR' "$log" || true), see $log and $build/findings"
            grep -m1 -A12 -E '^ +#0 ' "$log" | cut -c 1-150 || true
            for file in "$build/findings/$name-"*; do
                if [ "$file" -nt "$build/began" ]; then echo "  its first bytes, base64: $(head -c 3000 "$file" | base64 -w 0)"; fi
            done
        } >"$build/findings/said-$name"
        return 1
    fi
}
export -f run_one
export build seconds here
rm -f "$build"/findings/said-*
touch "$build/began"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I NAME bash -c 'run_one NAME' || {
    cat "$build"/findings/said-*
    exit 1
}
