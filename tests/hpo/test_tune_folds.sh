#!/usr/bin/env bash
# A study whose trials are cross-validations: the objective is the mean over folds and seeds, the pruner sees the mean so far
# after each run, models of all but the best trial go, and best.ini does it again.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/engine/shell_test.sh" || exit 1
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
# A figure that folds do not produce is refused before the first trial, and so is one without folds and validation.
expect 2 "$FTENGINE" tune tiny.ini --study other data.folds=0 && one_error "needs data.validation, data.validation_split or data.folds"
[ ! -e studies/other ] || fail "a refused study left a directory"
expect 0 "$FTENGINE" tune tiny.ini --study held data.folds=0 data.validation_split=0.2 --trials 1
