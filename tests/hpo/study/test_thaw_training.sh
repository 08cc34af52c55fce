#!/usr/bin/env bash
# A trial that was pruned goes on with the real trainer on a tiny model, and comes to the bits of the same configuration trained
# alone without a stop.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >tiny.ini <<INI
[model]
path = $here/model
hidden_dropout = 0.1
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 60
batch_size = 8
[eval]
strategy = steps
steps = 15
metric = accuracy
[study]
trials = 2
pruner = threshold
pruner_lower = 2
keep_pruned = 1GiB
[space]
train.learning_rate = float(1e-4, 3e-3, log)
train.lr_scheduler = choice(linear, cosine)
INI

# Accuracy is below 2 at every evaluation.
expect 1 "$FTENGINE" tune tiny.ini --study cold
expect 0 "$FTENGINE" study show cold --json
[ "$(json out 'd["trials"]["pruned"]')" = 2 ] || fail "not both were pruned"
[ "$(json out 'd["outlook"]')" = None ] || fail "something is said of two trials"
for i in 0 1; do
    step=$(find studies/cold/trials/0000$i/checkpoints -name 'step-*' -type d | sed 's/.*step-0*//' | sort -n | tail -1)
    [ -n "$step" ] || fail "no checkpoint of trial $i"
done
expect 0 "$FTENGINE" study thaw cold 0 1 --json && is_document study_thaw
[ "$(json out '[t["number"] for t in d["trials"]]')" = "[2, 3]" ] || fail "not trials 2 and 3: $(cat out)"
expect 2 "$FTENGINE" study thaw cold 0
says "goes on already, as trial 2"
expect 0 "$FTENGINE" tune --study cold --add 2
says "trial 2 goes on where trial 0 was pruned"
best=$(sed -n 's/^best trial \([0-9]*\):.*/\1/p' out)
for i in 0 1; do
    thawed=studies/cold/trials/0000$((i + 2))
    expect 0 "$FTENGINE" train studies/cold/trials/0000$i/config.ini output.dir=alone$i output.exists=new
    [ "$(json alone$i/run.json 'd["metrics"]')" = "$(json $thawed/run.json 'd["metrics"]')" ] || fail "trial $i came to another result"
    grep -h eval_accuracy alone$i/metrics.jsonl | sed 's/"[a-z_]*\(seconds\|per_second\|bytes\)[a-z_]*":[^,}]*,*//g' >alone.txt
    grep -h eval_accuracy $thawed/metrics.jsonl | sed 's/"[a-z_]*\(seconds\|per_second\|bytes\)[a-z_]*":[^,}]*,*//g' >thawed.txt
    cmp alone.txt thawed.txt || fail "trial $i said something else on its way"
    [ -d studies/cold/trials/0000$i/checkpoints ] && fail "trial $i still has what another one goes on with"
done
cmp alone$((best - 2))/model/model.safetensors studies/cold/trials/0000$best/model/model.safetensors || fail "another model"
expect 2 "$FTENGINE" study thaw cold 2
says "trial 2 came to its end"
exit 0
