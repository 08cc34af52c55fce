#!/usr/bin/env bash
# fuzz.sh BUILD_DIRECTORY SECONDS - runs every fuzz target of a build for so many seconds, starting from its committed
# seeds (tests/fuzz/seeds/TARGET) and from what earlier runs found. Ends with an error at the first finding.
set -euo pipefail

build=$(realpath "$1")
seconds=$2
source=$(realpath "$(dirname "$0")/..")
ran=0
for target in "$build"/tests/fuzz/fuzz_*; do
    if [ ! -f "$target" ] || [ ! -x "$target" ]; then continue; fi
    name=$(basename "$target")
    corpus=$build/corpus/$name
    mkdir -p "$corpus" "$build/findings"
    seeds=()
    [ ! -d "$source/tests/fuzz/seeds/$name" ] || seeds=("$source/tests/fuzz/seeds/$name")
    echo "== $name, $seconds s"
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/findings/$name-" "$corpus" "${seeds[@]}"
    ran=$((ran + 1))
done
if [ $ran -eq 0 ]; then
    echo "fuzz.sh: no fuzz target in $build/tests/fuzz" >&2
    exit 1
fi
echo "$ran fuzz targets ran without a finding"
