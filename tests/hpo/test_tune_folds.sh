#!/usr/bin/env bash
# A study whose trials are cross-validations: the objective is the mean over folds and seeds, the pruner sees the mean so far
# after each run, models of all but the best trial go, and best.ini does it again.
# ctest: asan_part=4
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
folds = 3
max_length = 24
[train]
max_steps = 30
batch_size = 8
seeds = 1, 2
[eval]
metric = accuracy
[study]
trials = 6
startup_trials = 2
pruner = median
pruner_startup_trials = 2
[space]
train.learning_rate = float(1e-5, 1e-2, log)
INI
expect 0 "$FTENGINE" tune tiny.ini --study cv
python3 - <<'PYTHON' || fail "the study is not what its trials' files say"
import glob
import json
import os
import sqlite3
import statistics
db = sqlite3.connect("file:studies/cv/study.db?mode=ro", uri=True)
states = dict(db.execute("SELECT number, state FROM trials"))
values = dict(db.execute("SELECT number, value FROM trials JOIN trial_values USING (trial_id)"))
assert len(states) == 6 and set(states.values()) <= {"COMPLETE", "PRUNED"} and "COMPLETE" in states.values()
for number, state in states.items():
    directory = f"studies/cv/trials/{number:05}"
    reports = db.execute("SELECT step, intermediate_value FROM trials JOIN trial_intermediate_values USING (trial_id) WHERE number = ? ORDER BY step", (number,)).fetchall()
    runs = [json.load(open(path)) for path in sorted(glob.glob(directory + "/fold-*/run.json"))]
    scores = [r["metrics"]["eval_accuracy"] for r in runs if r["status"] == "completed"]
    if state == "COMPLETE":
        assert len(scores) == 6 and abs(values[number] - statistics.mean(scores)) < 1e-12
        assert [step for step, _ in reports] == [1, 2, 3, 4, 5, 6]
    for step, value in reports:
        assert abs(value - statistics.mean(scores[:step])) < 1e-8, (number, step)
best = max((n for n in states if states[n] == "COMPLETE"), key=lambda n: (values[n], -n))
kept = {int(path.split("/")[3]) for path in glob.glob("studies/cv/trials/*/*/model")}
assert kept == {best} and len(glob.glob(f"studies/cv/trials/{best:05}/*/model/model.safetensors")) == 6, kept
assert all(states[n] == "COMPLETE" or not glob.glob(f"studies/cv/trials/{n:05}/*/checkpoints") for n in states)
open("best", "w").write(f"{best:05}")
PYTHON
expect 0 "$FTENGINE" train studies/cv/best.ini output.dir=again
for run in fold-1-seed-1 fold-3-seed-2; do
    cmp "again/$run/model/model.safetensors" "studies/cv/trials/$(cat best)/$run/model/model.safetensors" || fail "best.ini gives another model"
done
# Run by run: what is reported is each run's own figure, and the value of a completed trial is still their mean.
expect 0 "$FTENGINE" tune tiny.ini --study runs --trials 5 study.pruner=wilcoxon train.seeds=1,2,3 train.max_steps=10
python3 - <<'PYTHON' || fail "the reports are not the runs'"
import glob
import json
import sqlite3
import statistics
db = sqlite3.connect("file:studies/runs/study.db?mode=ro", uri=True)
states = dict(db.execute("SELECT number, state FROM trials"))
values = dict(db.execute("SELECT number, value FROM trials JOIN trial_values USING (trial_id)"))
assert len(states) == 5 and "COMPLETE" in states.values(), states
for number, state in states.items():
    reports = [value for value, in db.execute("SELECT intermediate_value FROM trials JOIN trial_intermediate_values USING (trial_id) WHERE number = ? ORDER BY step", (number,))]
    runs = [json.load(open(path)) for path in sorted(glob.glob(f"studies/runs/trials/{number:05}/fold-*/run.json"))]
    scores = [run["metrics"]["eval_accuracy"] for run in runs if run["status"] == "completed"]
    assert reports == scores[:len(reports)] and len(reports) >= 4, (number, reports, scores)
    if state == "COMPLETE":
        assert len(reports) == 9 and abs(values[number] - statistics.mean(scores)) < 1e-12
PYTHON
expect 2 "$FTENGINE" tune tiny.ini --study other study.pruner=wilcoxon data.folds=0 train.seeds= data.validation="$here/validation.tsv" && one_error "wilcoxon compares trials run by run"
# A figure that folds do not produce is refused before the first trial, and so is one without folds and validation.
expect 2 "$FTENGINE" tune tiny.ini --study other data.folds=0 && one_error "needs data.validation, data.validation_split or data.folds"
[ ! -e studies/other ] || fail "a refused study left a directory"
expect 0 "$FTENGINE" tune tiny.ini --study held data.folds=0 data.validation_split=0.2 --trials 1
# Stopped in its last run, a trial goes on there: the runs before it are taken as they are, whole and with the same result.
slow=(tune tiny.ini --trials 1 study.pruner=none train.seeds= train.max_steps=700)
"$FTENGINE" "${slow[@]}" --study halfway >out 2>err &
pid=$!
for _ in $(seq 6000); do
    [ -s studies/halfway/trials/00000/fold-3/metrics.jsonl ] && break
    sleep 0.02
done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "it was not stopped in its last run"
trial=studies/halfway/trials/00000
stat -c %i $trial/fold-[12]/run.json $trial/fold-[12]/model/model.safetensors >before
expect 0 "$FTENGINE" "${slow[@]}" --study halfway
stat -c %i $trial/fold-[12]/run.json $trial/fold-[12]/model/model.safetensors | cmp - before || fail "runs that had ended were trained again"
[ "$(grep -c "of 3, had ended before" $trial/log.txt)" = 2 ] || fail "the log: $(cat $trial/log.txt)"
expect 0 "$FTENGINE" "${slow[@]}" --study whole
for file in predictions.jsonl fold-1/model/model.safetensors fold-3/model/model.safetensors; do
    cmp $trial/$file studies/whole/trials/00000/$file || fail "going on gives another $file"
done
