#!/usr/bin/env bash
# A trial that was pruned goes on with the real trainer on a tiny model, and one that ended, of one run or of several, goes on to more steps:
# each comes to the bits of the same configuration trained alone without a stop.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
tiny_model >tiny.ini
cat >>tiny.ini <<INI
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
expect 2 "$FTENGINE" study thaw cold 0 9
says "there is no trial 9"
expect 0 "$FTENGINE" study show cold --json
[ "$(json out 'd["trials"]["waiting"]')" = 0 ] || fail "a mistake in the second number queued the first"
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
expect 2 "$FTENGINE" study thaw cold 2 --steps 90
says "this run of 60 steps cannot go on to 90: with train.lr_scheduler = "
expect 2 "$FTENGINE" study thaw cold 2 --steps 60
says "it has 60 steps, and 60 are no more"

# ---- to more steps, from an end in the middle of the schedule, killed on the way
lines() { grep -h eval_accuracy "$1/metrics.jsonl" | sed 's/"[a-z_]*\(seconds\|per_second\|bytes\)[a-z_]*":[^,}]*,*//g'; }
# same NUMBER STEPS: trial NUMBER of the study steady has so many, and is what its configuration comes to alone
same() {
    local dir
    dir=studies/steady/trials/$(printf %05d "$1")
    [ "$(json "$dir/run.json" 'd["status"], d["steps"]')" = "('completed', $2)" ] || fail "trial $1: $(json "$dir/run.json" 'd["status"], d["steps"]')"
    rm -rf "alone-$1"
    expect 0 "$FTENGINE" train "$dir/config.ini" "output.dir=alone-$1" output.exists=new
    [ "$(json "alone-$1/run.json" 'd["metrics"], d["steps"], d["best"]')" = "$(json "$dir/run.json" 'd["metrics"], d["steps"], d["best"]')" ] || fail "trial $1 came to another result"
    cmp <(lines "alone-$1") <(lines "$dir") || fail "trial $1 said something else on its way"
    cmp "alone-$1/model/model.safetensors" "$dir/model/model.safetensors" || fail "trial $1: another model"
    cmp "alone-$1/predictions.jsonl" "$dir/predictions.jsonl" || fail "trial $1: other predictions"
    python3 - studies/steady/study.db "$1" "$dir/metrics.jsonl" <<'PYTHON' || fail "trial $1: Optuna reads other values on its way"
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
stored = dict(db.execute("SELECT step, intermediate_value FROM trial_intermediate_values JOIN trials USING (trial_id) WHERE number = ?", (int(sys.argv[2]),)))
told = {l["step"]: l["eval_loss"] for l in map(json.loads, open(sys.argv[3])) if "eval_loss" in l}
assert stored == told, (stored, told)
PYTHON
}
steady=(tiny.ini train.max_steps=50 study.pruner=none space.train.lr_scheduler=constant eval.metric=loss --study steady)
expect 0 "$FTENGINE" tune "${steady[@]}" --trials 3
for i in 0 1 2; do [ -d studies/steady/trials/0000$i/checkpoints/step-00000050 ] || fail "trial $i has no checkpoint of its end"; done
expect 0 "$FTENGINE" study thaw steady 0 2 --steps 80 --json && is_document study_thaw
[ "$(json out '[(t["thaws"], t["number"], t["steps"]) for t in d["trials"]]')" = "[(0, 3, 80), (2, 4, 80)]" ] || fail "not trials 3 and 4: $(cat out)"
expect 0 "$FTENGINE" study thaw steady 1 --epochs 2.5
[ "$(head -1 out)" = "trial 5 waits, and goes on where trial 1 ended, to 2.5 epochs" ] || fail "it says $(cat out)"
for attempt in 1 2 3 4; do
    "$FTENGINE" tune --study steady study.keep=all --trials 6 >out 2>err &
    pid=$!
    sleep 0.$((RANDOM % 9 + 1))
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
done
expect 0 "$FTENGINE" tune --study steady study.keep=all --trials 6
same 3 80
same 4 80
same 5 95
grep -q '^epochs = 2.5$' studies/steady/trials/00005/config.ini || fail "trial 5's configuration does not say how far it went"
# What is best by more steps than the study's configuration has can be trained again as it is.
expect 0 "$FTENGINE" study best steady --json
best=$(json out 'd["trials"][0]["number"]')
steps=$(json "studies/steady/trials/$(printf %05d "$best")/run.json" 'd["steps"]')
expect 0 "$FTENGINE" train studies/steady/best.ini output.dir=again output.exists=new
[ "$(json again/run.json 'd["steps"], d["best"]["value"]')" = "$(json "studies/steady/trials/$(printf %05d "$best")/run.json" 'd["steps"], d["best"]["value"]')" ] || fail "best.ini is not trial $best of $steps steps"

# ---- another program cannot go on from a checkpoint: it is asked for another trial
expect 0 "$FTENGINE" study thaw steady 3 --steps 90
expect 0 "$FTENGINE" study ask steady --json
[ "$(json out 'd["number"]')" = 7 ] || fail "a thawed trial went to another program: $(cat out)"
expect 0 "$FTENGINE" study tell steady --state fail 7
expect 0 "$FTENGINE" tune --study steady study.keep=all --add 1
same 6 90

# ---- of several runs
expect 0 "$FTENGINE" tune "${steady[@]:0:5}" --study seeds train.seeds=1,2 --trials 1
expect 0 "$FTENGINE" study thaw seeds 0 --steps 80
expect 0 "$FTENGINE" tune --study seeds --add 1
expect 0 "$FTENGINE" train studies/seeds/trials/00001/config.ini output.dir=alone-seeds output.exists=new
[ "$(json alone-seeds/run.json 'd["metrics"]')" = "$(json studies/seeds/trials/00001/run.json 'd["metrics"]')" ] || fail "a trial of several runs came to another result"
[ "$(json studies/seeds/trials/00001/seed-2/run.json 'd["steps"]')" = 80 ] || fail "not every run of a trial went on"
exit 0
