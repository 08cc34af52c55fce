#!/usr/bin/env bash
# train.log of a run directory: what a terminal saw, each line with its time; also with --quiet, of a run that failed, of one that
# goes on, of several runs and of trials, whose stages are called as people search for them. And configs/robust.ini laid over a
# configuration.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 20
batch_size = 4
logging_steps = 5
[memory]
timeline = false
INI
untimed() { # FILE: the lines without their times, which each must have
    grep -vE '^$|^20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]  ' "$1" && fail "a line of $1 without its time"
    sed -E 's/^[0-9]{4}-[0-9-]+ [0-9:]+  //' "$1"
}
train() {
    local code=$1
    shift
    expect "$code" "$FTENGINE" train tiny.ini "$@"
}

# ---- one run -------------------------------------------------------------------------------------------------------------
train 0 output.dir=one
untimed one/train.log | diff - err >difference || fail "train.log is not what was said: $(cat difference)"
grep -q "^model " err && grep -q "evaluation at step 20" err || fail "the run says nothing"
train 0 output.dir=quiet --quiet
grep -v "^warning: " err && fail "--quiet says more than warnings"
untimed quiet/train.log | grep -v "^warning: " | sed -E 's/[0-9.]+ (real )?tokens\/s//; s/[0-9hms]+ left$//; s/quiet/one/; s/^  time .*//; s/[0-9.]+[KM]iB (for the whole process)/\1/' >got
untimed one/train.log | grep -v "^warning: " | sed -E 's/[0-9.]+ (real )?tokens\/s//; s/[0-9hms]+ left$//; s/^  time .*//; s/[0-9.]+[KM]iB (for the whole process)/\1/; s/tokens, from cache/tokens/' >wanted
sed -i 's/tokens, from cache/tokens/' got
diff wanted got >difference || fail "--quiet leaves out of train.log: $(cat difference)"

# ---- one that fails, one that goes on ------------------------------------------------------------------------------------
diverging="train.learning_rate=100 train.weight_decay=1 train.max_steps=60 train.lr_scheduler=constant"
# shellcheck disable=SC2086
train 5 output.dir=diverged $diverging
grep "^ftengine: error: " err >wanted && untimed diverged/train.log | grep -F -f wanted >/dev/null || fail "the error is not in train.log: $(cat diverged/train.log)"
train 0 output.dir=again train.max_steps=10
lines=$(wc -l <again/train.log)
cp -r again before
train 0 output.dir=again train.max_steps=10 output.exists=resume
head -n "$lines" again/train.log | cmp - before/train.log || fail "what goes on overwrites train.log"
[ "$(wc -l <again/train.log)" -gt "$lines" ] || fail "what goes on says nothing in train.log"
# Refused before it begins: what is there stays as it is.
train 2 output.dir=before output.exists=resume train.batch_size=8
cmp before/train.log <(head -n "$lines" again/train.log) || fail "a refused run writes into train.log"
train 2 output.dir=refused model.path=nowhere
[ ! -e refused ] || fail "a refused run leaves $(ls refused)"

# ---- several -------------------------------------------------------------------------------------------------------------
train 0 output.dir=seeds train.seeds=1,2
untimed seeds/train.log | diff - err >difference || fail "train.log of two runs is not what was said: $(cat difference)"
for seed in 1 2; do
    [ "$(grep -c "Run Start" seeds/seed-$seed/train.log)" = 1 ] || fail "not one run in seed-$seed/train.log"
    grep -q "standard deviation" seeds/seed-$seed/train.log && fail "the table is in a single run's train.log"
done
grep -qE "Trial (Start|Success)" seeds/train.log && fail "a trial where there is none"
train 2 output.dir=bad train.seeds=1,2 model.path=nowhere
[ ! -e bad ] || fail "a refused run of two leaves $(ls -R bad)"

# ---- trials --------------------------------------------------------------------------------------------------------------
printf '[study]\ntrials = 2\n[space]\ntrain.learning_rate = float(1e-5, 1e-4)\n' >space.ini
expect 0 "$FTENGINE" tune tiny.ini space.ini --study plain
expect 0 "$FTENGINE" tune tiny.ini space.ini --study folds data.validation= data.folds=3
for study in plain folds; do
    for trial in 0 1; do
        for log in train.log log.txt; do
            file=studies/$study/trials/0000$trial/$log
            for stage in Start Success; do
                [ "$(grep -cE "(^|  )Trial $trial - Trial $stage: Allocated: " "$file")" = 1 ] || fail "not one Trial $stage in $file: $(cat "$file")"
            done
        done
    done
done
folds=studies/folds/trials/00001
[ "$(grep -c "Trial 1 - Training End: " $folds/train.log)" = 3 ] || fail "not three folds: $(cat $folds/train.log)"
grep -q "Trial 1 - Trial Start: " $folds/fold-1/train.log && grep -q "Trial 1 - Trial Success: " $folds/fold-3/train.log || fail "the trial begins or ends elsewhere"
# shellcheck disable=SC2086
expect 1 "$FTENGINE" tune tiny.ini --study diverging $diverging 'space.train.seed=int(1,9)' --trials 1
grep -qE "Trial Success" studies/diverging/trials/00000/train.log && fail "a trial that diverged has succeeded"
grep -q "  ftengine: error: " studies/diverging/trials/00000/train.log || fail "a trial's error is not in its train.log"

# ---- configs/robust.ini --------------------------------------------------------------------------------------------------
robust=$SOURCE_DIR/configs/robust.ini
expect 0 "$FTENGINE" config tiny.ini space.ini "$robust"
for line in "wait = true" "name = auto" "on_oom = ladder" "worker_trials = 50" "max_steps = 20" "batch_size = 4" "trials = 2"; do
    grep -qxF "$line" out || fail "laid over another configuration it has no $line"
done
expect 0 "$FTENGINE" train tiny.ini "$robust" output.dir=robust
cmp robust/model/model.safetensors one/model/model.safetensors || fail "configs/robust.ini changes what is learned"
expect 0 "$FTENGINE" tune tiny.ini space.ini "$robust" --study robust
# It waits for room instead of ending with exit code 4.
FTENGINE_LEDGER_CAPACITY=100MiB "$FTENGINE" train tiny.ini train.max_steps=0 train.epochs=100000 memory.limit=80MiB train.micro_batch=1 output.dir=holds >/dev/null 2>&1 &
holder=$!
for _ in $(seq 1200); do
    grep -q "Training Start" holds/train.log 2>/dev/null && break
    sleep 0.1
done
grep -q "Training Start" holds/train.log || fail "the other run does not begin"
FTENGINE_LEDGER_CAPACITY=100MiB "$FTENGINE" train tiny.ini "$robust" device.min_free_memory=99MiB device.check_interval=0.1s output.dir=waited >out 2>err &
waiter=$!
for _ in $(seq 1200); do
    grep -q "^waiting " err && break
    sleep 0.1
done
grep -q "^waiting " err || fail "it does not wait"
kill -INT $holder && wait $holder
wait $waiter || fail "it waited in vain"
grep -q "waiting    over after" waited/train.log || fail "train.log has no wait: $(cat waited/train.log)"
