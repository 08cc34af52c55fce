#!/usr/bin/env bash
# Features from outside: what is said and where they are kept, two runs at once, kill -9 before, in the pass over the texts and while the head is trained, a damaged
# file, seeds and folds and a study that share one, the bound, what a plan says of it, and frozen layers that are not in memory while the head is trained.
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

# The plan of a head alone has no frozen layers and no word table: those of the model, to the byte. With the pass in front it is the larger of both.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common data.feature_cache="$kept" memory.active_vocabulary=off --json
mv out alone.json
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common data.feature_cache="$scratch/none" memory.active_vocabulary=off --json
python3 - "$here/model/model.safetensors" alone.json out <<'PY' || fail "plans: $(cat alone.json out)"
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    tensors = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
alone, both = (json.load(open(name))["memory"] for name in sys.argv[2:])
size = lambda t: t["data_offsets"][1] - t["data_offsets"][0]
table = [size(t) for name, t in tensors.items() if name.endswith("word_embeddings.weight")]
layers = [size(t) for name, t in tensors.items() if ".layer." in name and len(t["shape"]) == 2]
print(both["at_peak"]["weights"], alone["at_peak"]["weights"], len(table), len(layers))
sys.exit(not (len(table) == 1 and len(layers) == 12 and both["at_peak"]["weights"] - alone["at_peak"]["weights"] == sum(table + layers)
              and alone["peak_requested_bytes"] < both["peak_requested_bytes"]))
PY

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

# Killed in the pass over the texts: of more of them, so that it takes a while (how long, the first run says).
times=20
while :; do
    head -n 1 "$here/train.tsv" >many.tsv
    for _ in $(seq $times); do tail -n +2 "$here/train.tsv"; done >>many.tsv
    rm -rf many "$kept"
    train output.dir=many data.train=many.tsv train.micro_batch=2 train.max_steps=6 train.warmup_steps=0
    pass=$(json many/run.json 'd["features"]["seconds"]')
    python3 -c "import sys; sys.exit(not $pass > 0.4)" && break
    [ $times -gt 2000 ] && fail "a pass over $((300 * times)) texts takes $pass s"
    times=$((times * 3))
done
caught=0
for try in 1 2 3 4 5 6 7 8; do
    rm -rf killed "$kept"
    # shellcheck disable=SC2086
    "$FTENGINE" train $common data.feature_cache="$kept" output.dir=killed data.train=many.tsv train.micro_batch=2 train.max_steps=6 train.warmup_steps=0 >out 2>err &
    pid=$!
    for _ in $(seq 6000); do grep -q "Run Start" err && break; sleep 0.01; done
    sleep "$(python3 -c "print($pass / (1 + $try))")"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    grep -q "made in" err && continue # it was through
    caught=1
    [ -z "$(find "$kept" -name '*.features' 2>/dev/null)" ] || fail "rows that were not all made are in the cache"
    train output.dir=killed data.train=many.tsv train.micro_batch=2 train.max_steps=6 train.warmup_steps=0 output.exists=resume
    says "made in"
    grep -q "made anew" err && fail "something was left that had to be refused"
    same many killed
    [ "$(find "$kept" -type f ! -name '*.features' | wc -l)" = 0 ] || fail "left behind: $(ls -A "$kept")"
    break
done
[ $caught = 1 ] || fail "no run was killed in its pass of $pass s"

# A model whose layers are most of what the process holds: they are given back, in the ledger too, and the model is saved with them all the same.
mkdir wide
cp "$here"/model/* wide
python3 - <<'PY'
import json
config = json.load(open("wide/config.json")) | {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4}
json.dump(config, open("wide/config.json", "w"))
PY
wide="$common model.path=wide model.init=random memory.active_vocabulary=off train.max_steps=4 train.warmup_steps=0"
expect 0 "$FTENGINE" train $wide data.feature_cache="$kept" output.dir=wide-made --verbose
says "the frozen layers are not needed from here on"
before=$(sed -n 's/^reserved *\([0-9.]*\)MiB of cpu$/\1/p' err)
expect 0 "$FTENGINE" train $wide data.feature_cache=off output.dir=wide-off
same wide-made wide-off
rm -r "$kept"
# shellcheck disable=SC2086
"$FTENGINE" train $wide data.feature_cache="$kept" output.dir=wide-held train.max_steps=100000000 eval.strategy=no output.save_steps=0 >out-held 2>err-held &
pid=$!
for _ in $(seq 6000); do grep -q "Training Start" err-held && break; sleep 0.01; done
expect 0 "$FTENGINE" devices --json
kill -9 $pid
wait $pid 2>/dev/null
after=$(json out 'd["devices"][0]["reserved_bytes"] / 2**20')
[ -n "${FT_SANITIZE:-}" ] || python3 -c "import sys; sys.exit(not 5 < $after < $before - 10)" || # sanitizers keep what is freed
    fail "$before MiB were reserved for the pass, $after MiB for the head: the layers have 12"

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
