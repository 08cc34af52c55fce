#!/usr/bin/env bash
# A study whose worker trains several trials beside one frozen model (study.pack), with pruning and a kill -9 of that worker: every trial is,
# to the bit, what its configuration gives when it is trained alone; the kill costs each trial that ran one retry, and no other; what
# the process reserves is each trial's own plan and the frozen model's once. Found by it: a message that goes to another trial of the process, a
# trial that is lost with it, a worker that is started for one of its trials only, a pruned trial that goes on, a stop for all.
# ctest: cost=60
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
cat >adapters.ini <<INI
include = $here/follow.ini
[model]
hidden_dropout = 0.1
ignore_mismatched_sizes = true
[data]
validation = $here/validation.tsv
[train]
max_steps = 24
warmup_steps = 0
[eval]
strategy = steps
steps = 3
[output]
save_steps = 4
[adapter]
type = lora
dropout = 0.1
[study]
sampler = random
pruner = median
pruner_startup_trials = 2
pruner_warmup_steps = 12
trials = 8
pack = 4
keep = all
[space]
adapter.r = choice(2, 4, 8)
adapter.targets = choice(auto, all-linear)
adapter.alpha = float(1, 32)
train.learning_rate = float(1e-4, 3e-2, log)
train.seed = int(0, 1000)
train.batch_size = choice(3, 8)
INI
# attribute TRIAL KEY
attribute() {
    python3 -S -c 'import sqlite3, sys
row = sqlite3.connect("studies/p/study.db").execute("SELECT value_json FROM trial_user_attributes JOIN trials USING (trial_id) WHERE number = ? AND key = ?", (int(sys.argv[1]), sys.argv[2])).fetchone()
print(row[0] if row else "0")' "$@"
}

# ---- one worker, and its end ---------------------------------------------------------------------------------------------
"$FTENGINE" tune adapters.ini --study p >out 2>err </dev/null &
coordinator=$!
begun() { grep -ls '"step":4[,}]' studies/p/trials/*/metrics.jsonl 2>/dev/null | wc -l; }
until [ "$(begun)" -ge 2 ]; do
    kill -0 $coordinator 2>/dev/null || fail "the study ended before two trials of the pack had four steps"
    sleep 0.02
done
workers=$(pgrep -P $coordinator)
[ "$(wc -w <<<"$workers")" = 1 ] || fail "the study has the processes $workers, and should have one worker"
kill -9 "$workers"
wait $coordinator || fail "the study ended with $?"
says "1 worker"

# ---- what came of it -----------------------------------------------------------------------------------------------------
retried=0
for i in 0 1 2 3 4 5 6 7; do
    retries=$(attribute $i retries)
    [ "$retries" -le 1 ] || fail "trial $i was tried again $retries times"
    retried=$((retried + retries))
done
[ "$retried" -ge 2 ] && [ "$retried" -le 4 ] || fail "$retried trials were tried again, of the four at most that ran"
grep -l "which have the frozen model in common" studies/p/trials/*/log.txt | wc -l | grep -qx 8 || fail "not every trial shared the model"
grep -qE "pack +beside [1-3] other" studies/p/trials/*/log.txt || fail "no trial had others beside it"

# ---- each alone ----------------------------------------------------------------------------------------------------------
cat >same.py <<'PYTHON'
"""same.py PACKED ALONE: the lines of metrics.jsonl are those of the run alone, as far as they go; a trial that ended well has all of them, and
the same adapter and predictions. Says how it ended, and whether it took what was planned."""
import json
import os
import sys

def lines(path):
    return [{k: v for k, v in json.loads(line).items() if k != "tokens_per_second"} for line in open(f"{path}/metrics.jsonl")]

packed, alone = sys.argv[1:]
a, b = lines(packed), lines(alone)
assert a == b[:len(a)], f"{packed}: {next(x for x in zip(a, b) if x[0] != x[1])}"
run = json.load(open(f"{packed}/run.json"))
if run["status"] == "completed":
    assert len(a) == len(b), f"{packed} has {len(a)} lines of {len(b)}"
    for name in "adapter/adapter_model.safetensors", "predictions.jsonl":
        assert open(f"{packed}/{name}", "rb").read() == open(f"{alone}/{name}", "rb").read(), f"{packed}/{name}"
    for peak in "peak_reserved_bytes", "peak_allocated_bytes":
        assert run["memory"][peak] == run["planned"][peak], f"{packed}: {peak}"
print(run["status"])
PYTHON
for dir in studies/p/trials/*; do
    expect 0 "$FTENGINE" train "$dir/config.ini" output.dir="alone/${dir##*/}"
    expect 0 python3 -S same.py "$dir" "alone/${dir##*/}"
    cat out >>ends
done
grep -q completed ends || fail "no trial ran to its end"
grep -qv completed ends || fail "no trial was pruned: nothing left a pack early"

# ---- Ctrl-C, and on ------------------------------------------------------------------------------------------------------
"$FTENGINE" tune adapters.ini --study q --trials 5 >out 2>err </dev/null &
coordinator=$!
until grep -qs '"step":4[,}]' studies/q/trials/*/metrics.jsonl; do
    kill -0 $coordinator 2>/dev/null || fail "the study ended before a trial had four steps"
    sleep 0.02
done
kill -INT $coordinator
wait $coordinator
[ $? = 130 ] || fail "Ctrl-C gave another exit code"
expect 0 "$FTENGINE" tune adapters.ini --study q --trials 5
for dir in studies/q/trials/*; do
    [ -d "alone/${dir##*/}" ] && cmp -s "$dir/config.ini" studies/p/trials/"${dir##*/}"/config.ini && expect 0 python3 -S same.py "$dir" "alone/${dir##*/}"
done
exit 0
