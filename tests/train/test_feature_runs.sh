#!/usr/bin/env bash
# Features from outside: what is said and where they are kept, two runs at once, kill -9 before and while the head is trained, a damaged
# file, seeds and folds and a study that share one, the bound, and what a plan says of it.
# ctest: cost=20
. "$(dirname "$0")/../fixtures/shell_test.sh"

common="$here/follow.ini data.validation=$here/validation.tsv data.test= device.threads=1 eval.strategy=epoch train.parameters=classifier model.classifier_dropout=0.1"
kept=$scratch/features
train() { # shellcheck disable=SC2086 # words
    "$FTENGINE" train $common data.feature_cache="$kept" "$@" >out 2>err || fail "train $*"
}
same() {
    cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" && cmp -s "$1/predictions.jsonl" "$2/predictions.jsonl" ||
        fail "$1 and $2 have other bits"
}
files() { find "$kept" -type f | wc -l; }

# Without, made, found.
train output.dir=off data.feature_cache=off
grep -q "^features" err && fail "features were made without being asked for"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common data.feature_cache="$kept" --json
json out "d['features']['from_cache'], d['features']['trunk']['sequences'] > 0" >said
[ "$(cat said)" = "(False, True)" ] || fail "the plan says $(cat said)"
train output.dir=made
says "features   of 360 texts made in"
train output.dir=found device.threads=2 train.micro_batch=3
says "features   of 360 texts from $kept"
[ "$(files)" = 2 ] || fail "$(files) files of features, two sets of texts"
same off made
same off found
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common data.feature_cache="$kept"
grep -q "of all texts are in the cache" out || fail "the plan does not know of the cache: $(cat out)"

# A checkpoint holds the head, and a run goes on from it with the same bits, also when the features are gone.
small=$(stat -c %s made/checkpoints/step-*/state.safetensors | tail -1)
whole=$(stat -c %s made/model/model.safetensors)
[ "$small" -lt $((whole / 2)) ] || fail "the checkpoint takes $small bytes of the $whole of the model"
for how in on gone off; do
    rm -rf stopped
    # shellcheck disable=SC2086
    "$FTENGINE" train $common data.feature_cache="$kept" output.dir=stopped output.save_steps=1 >out 2>err &
    pid=$!
    for _ in $(seq 12000); do [ -e stopped/checkpoints/step-00000004 ] && break; sleep 0.01; done
    kill -9 $pid
    wait $pid 2>/dev/null
    cache=$kept
    [ $how = gone ] && rm -r "$kept"
    [ $how = off ] && cache=off
    train output.dir=stopped output.save_steps=1 output.exists=resume data.feature_cache="$cache"
    same off stopped
done

# Killed at any moment of the beginning: nothing that is believed, and the next run is as ever.
for moment in 0.01 0.02 0.03 0.04 0.06 0.08; do
    rm -rf "$kept" early
    # shellcheck disable=SC2086
    "$FTENGINE" train $common data.feature_cache="$kept" output.dir=early >out 2>err &
    pid=$!
    sleep $moment
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    rm -rf early
    train output.dir=early
    same off early
done

# Two at once, with nothing there yet.
rm -rf "$kept"
for n in 1 2; do
    # shellcheck disable=SC2086
    "$FTENGINE" train $common data.feature_cache="$kept" output.dir=both$n >out$n 2>err$n &
    eval "pid$n=$!"
done
wait "$pid1" && wait "$pid2" || fail "one of two at once: $(cat err1 err2)"
same off both1
same off both2
[ "$(files)" = 2 ] || fail "two at once left $(ls -A "$kept")"

# A byte of the rows is another, or the file is another's: one line, and made anew.
one=$(find "$kept" -size +10k -name '*.features' | head -1)
[ -n "$one" ] || one=$(find "$kept" -name '*.features' | head -1)
printf 'x' | dd of="$one" bs=1 seek=1000 conv=notrunc 2>/dev/null
train output.dir=damaged
[ "$(grep -c "is not used and will be made anew: its checksum is wrong" err)" = 1 ] || fail "a damaged file is not said once"
same off damaged
train output.dir=again
says "features   of 360 texts from $kept"
other=$(find "$kept" -name '*.features' ! -path "$one" | head -1)
cp "$other" "$one"
train output.dir=foreign
[ "$(grep -c "will be made anew: it belongs to other texts" err)" = 1 ] || fail "a foreign file is not said once"
same off foreign

# Seeds, and folds of one file, which are cut anew: one set of rows.
rm -rf "$kept"
train output.dir=folds data.validation= data.folds=3 train.seeds=1,2 train.max_steps=6 train.warmup_steps=0
[ "$(grep -c "^features .* made in" err)" = 1 ] || fail "rows were made $(grep -c "^features .* made in" err) times for folds and seeds"
train output.dir=plain data.validation= data.folds=3 train.seeds=1,2 train.max_steps=6 train.warmup_steps=0 data.feature_cache=off
(cd folds && find . -name predictions.jsonl -o -name model.safetensors) | sort >list
[ "$(wc -l <list)" -ge 6 ] || fail "folds left $(cat list)"
while read -r file; do cmp -s "folds/$file" "plain/$file" || fail "$file of folds has other bits"; done <list

# A study: its trials read what the first made.
rm -rf "$kept"
cat >study.ini <<INI
include = $here/follow.ini
[space]
train.learning_rate = float(1e-4, 1e-2, log)
model.head.hidden = choice(4, 8)
[study]
objective = maximize eval.accuracy
INI
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune study.ini ${common#* } model.path="$here/model" data.train="$here/train.tsv" train.max_steps=8 train.warmup_steps=0 \
    data.feature_cache="$kept" model.ignore_mismatched_sizes=true --study heads --trials 5 --parallel 1
[ "$(files)" = 2 ] || fail "five trials left $(files) files"
grep -l '"from_cache": true' studies/heads/trials/*/run.json | wc -l >said
[ "$(cat said)" = 4 ] || fail "$(cat said) trials of 5 found the rows of the first"

# The bound: what takes more is computed in every epoch.
{ cat "$here/train.tsv"; tail -n +2 "$here/train.tsv"; } >twice.tsv # 600 rows of 128 bytes
train output.dir=bound data.train=twice.tsv data.feature_cache_limit=64KiB train.max_steps=2 train.warmup_steps=0
says "and data.feature_cache_limit is 64.0KiB: every text is computed in every epoch"
[ "$(json bound/run.json "'features' in d")" = False ] || fail "features beyond the bound"

# Where they cannot be kept the run has its rows all the same.
mkdir closed
touch closed/file
train output.dir=closed-run data.feature_cache="$scratch/closed/file"
says "what the frozen model makes of the texts is not kept in"
same off closed-run
