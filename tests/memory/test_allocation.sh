#!/usr/bin/env bash
# Every host allocation of a short training run (and of eval and predict) fails once: a clean error or a right result, and
# never half a model. One thread, so that the N-th allocation is the same one in every run.
# ctest: part=0 cost=999
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
library=$BUILD_DIR/tests/libfailmalloc.so
[ -f "$library" ] || { echo "skipped: no libfailmalloc.so (a sanitized build)"; exit 0; }
SWEEP_STEP=${SWEEP_STEP:-13} # 1: every single one; 13 shares no factor with the allocations of a step
sweep=$SOURCE_DIR/tests/preload/sweep.sh
export DEBUGINFOD_URLS=''
head -9 "$here/train.tsv" >train.tsv
head -5 "$here/validation.tsv" >dev.tsv
run="$here/follow.ini device.threads=1 data.train=$scratch/train.tsv data.validation=$scratch/dev.tsv data.cache_dir=$scratch/cache
     train.max_steps=2 train.batch_size=4 train.logging_steps=1 eval.strategy=steps eval.steps=1 output.save_steps=1 model.hidden_dropout=0.1"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir="$scratch/whole"
# A run that says it is done has the model of an undisturbed one; what stands under a final name is whole. What the ladder
# did about a refusal is the one line more that its metrics may have.
cat >check.sh <<'CHECK'
[ ! -e "$1/model" ] || for f in config.json model.safetensors vocab.txt ftengine.json; do [ -s "$1/model/$f" ] || exit 1; done
[ "$CODE" != 0 ] || { cmp whole/model/model.safetensors "$1/model/model.safetensors" && cmp whole/predictions.jsonl "$1/predictions.jsonl" &&
    cmp <(sed 's/,"tokens_per_second":[^,}]*//' whole/metrics.jsonl) <(sed '/"out_of_memory"/d; s/,"tokens_per_second":[^,}]*//' "$1/metrics.jsonl"); }
CHECK
# shellcheck disable=SC2086
CLEAN="rm -rf '$scratch/run' '$scratch/cache'" CHECK="bash check.sh run" bash "$sweep" "$library" --step "$SWEEP_STEP" --allow "0 3" -- \
    "$FTENGINE" train $run output.dir="$scratch/run" || exit 1
bash "$sweep" "$library" --step "$SWEEP_STEP" --allow "0 3" -- "$FTENGINE" eval "$scratch/whole" --data "$scratch/dev.tsv" --json device.threads=1 || exit 1
CLEAN="rm -f '$scratch/p.tsv'" bash "$sweep" "$library" --step "$SWEEP_STEP" --allow "0 3" -- \
    "$FTENGINE" predict "$scratch/whole" --data "$scratch/dev.tsv" --format tsv --output "$scratch/p.tsv" device.threads=1 || exit 1
