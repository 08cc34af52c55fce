#!/usr/bin/env bash
# Every allocation of a round through engine/io fails once: a clean "out of memory" each time, and the directory that stood
# there before stays whole. Also that the library fails what it is told to, for else this test could not fail.
# ctest: sanitize=leave
set -euo pipefail

library=$BUILD_DIR/tests/libfailmalloc.so
program=$BUILD_DIR/tests/io_round
here=$(cd "$(dirname "$0")" && pwd)
model=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$work" "$model"' EXIT

# A small model, for the time goes with the number of allocations.
header='{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b.weight":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}}'
{ printf '\x'"$(printf %x ${#header})"'\0\0\0\0\0\0\0' && printf '%s012345678901' "$header"; } >"$model/model.safetensors"
echo '{"model_type": "bert", "hidden_size": 24, "layer_norm_eps": 1e-12, "id2label": {"0": "no", "1": "yes"}}' >"$model/config.json"

vectors=$here/../vectors/torch_files
mkdir "$model/torch" "$model/indexed"
cp "$vectors/plain.bin" "$model/torch/pytorch_model.bin"
cp "$vectors/legacy.bin" "$model/indexed/one.bin"
echo '{"weight_map": {"f32": "one.bin", "cut": "one.bin"}}' >"$model/indexed/pytorch_model.bin.index.json"

fail() { echo "$1" >&2 && exit 1; }

"$program" "$work" "$model"
old=$(ls -A "$work")
[ "$old" = model ] || fail "the round leaves $old"

COUNT_FILE=$work/count LD_PRELOAD=$library "$program" "$work" "$model"
total=$(cat "$work/count")
rm "$work/count"
[ "$total" -gt 50 ] || fail "only $total allocations counted"
code=0
FAIL_FROM=1 LD_PRELOAD=$library "$program" "$work" "$model" 2>"$work/err" || code=$?
[ $code -eq 3 ] || fail "without any memory the code is $code: $(cat "$work/err")"
grep -q "out of host memory" "$work/err" || fail "without any memory it says: $(cat "$work/err")"
rm "$work/err"
FAIL_FROM=$((total + 1)) LD_PRELOAD=$library "$program" "$work" "$model"

# A code of 1 would be another error than the one that happened. With 0 it did without (clearing up, closing), and the files
# must be the same to the byte: nothing that found no room may be missing in silence.
cp -r "$work/model" "$model/good"
CHECK="diff -r $work/model $model/good" "$here/sweep.sh" "$library" --allow "0 3" -- "$program" "$work" "$model"
left=$(ls -A "$work")
[ "$left" = model ] || fail "left behind: $left"
