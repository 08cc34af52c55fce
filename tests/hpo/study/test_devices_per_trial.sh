#!/usr/bin/env bash
# study.devices_per_trial: trials of two CPU ranks have the values, verdicts and models of trials of one, to the bit; a rank that is killed costs its trial
# one retry; of a worker or a coordinator that is killed no rank is left; what cannot be is refused before there is a study.
# ctest: cost=15
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
cat >tiny.ini <<INI
include = $here/follow.ini
[model]
hidden_dropout = 0.1
[data]
validation = $here/validation.tsv
[train]
max_steps = 24
[eval]
strategy = steps
steps = 3
[output]
save_steps = 4
[device]
name = cpu
threads = 1
[study]
sampler = random
pruner = median
pruner_startup_trials = 2
pruner_warmup_steps = 12
trials = 6
keep = all
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.batch_size = choice(3, 8)
train.seed = int(0, 1000)
INI
# figures STUDY: of every trial what was chosen, how it ended, what it reported, and its model
figures() {
    python3 -S - "$1" <<'PYTHON' || fail "cannot read the study $1"
import hashlib, os, sqlite3, sys
study = f"studies/{sys.argv[1]}"
db = sqlite3.connect(f"file:{study}/study.db?mode=ro", uri=True)
for trial, number, state in db.execute("SELECT trial_id, number, state FROM trials ORDER BY number").fetchall():
    def of(table, columns):
        return sorted(db.execute(f"SELECT {columns} FROM {table} WHERE trial_id = ?", (trial,)).fetchall())
    model = f"{study}/trials/{number:05}/model/model.safetensors"
    # What a pruned trial leaves depends on how far it was when it heard of that.
    kept = hashlib.sha256(open(model, "rb").read()).hexdigest() if state == "COMPLETE" else ""
    print(number, state, of("trial_params", "param_name, param_value"), of("trial_values", "objective, value"),
          of("trial_intermediate_values", "step, intermediate_value"), kept)
PYTHON
}
retries() {
    python3 -S -c 'import sqlite3, sys
print(sum(int(v) for (v,) in sqlite3.connect(f"studies/{sys.argv[1]}/study.db").execute("SELECT value_json FROM trial_user_attributes WHERE key = ?", ("retries",))))' "$1"
}
ranks() { pgrep -f "worker 1 2 [0-9]+ $scratch/studies/$1/"; } # the second ranks of its trials

# ---- the same --------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study one
expect 0 "$FTENGINE" tune tiny.ini --study two study.devices_per_trial=2 --parallel 2 --trials 2
figures one >one.txt
figures two | cmp - <(head -n 2 one.txt) || fail "trials of two ranks, two at a time, differ from $(cat one.txt)"
expect 0 "$FTENGINE" tune tiny.ini --study two study.devices_per_trial=2
figures two | cmp - one.txt || fail "trials of two ranks differ from $(cat one.txt)"
grep -q COMPLETE one.txt && grep -q PRUNED one.txt || fail "not both ends: $(cat one.txt)"
[ "$(grep -l "ranks      2 on .*, 1 thread each" studies/two/trials/*/log.txt | wc -l)" = 6 ] || fail "not every trial had two ranks"
[ "$(json studies/two/trials/00000/run.json '[r["rank"] for r in d["devices"]]')" = "[0, 1]" ] || fail "run.json has not both ranks"
[ "$(retries two)" = 0 ] || fail "a trial was tried again, and nothing had happened"

# ---- kills -----------------------------------------------------------------------------------------------------------------
# begin STUDY: in the background, until a step of a trial was logged since
begin() {
    local before
    before=$(cat studies/"$1"/trials/*/metrics.jsonl 2>/dev/null | wc -l)
    "$FTENGINE" tune tiny.ini --study "$1" study.devices_per_trial=2 train.max_steps=120 eval.steps=40 study.pruner=none --trials 1 >out 2>err </dev/null &
    coordinator=$!
    until [ "$(cat studies/"$1"/trials/*/metrics.jsonl 2>/dev/null | wc -l)" -gt "$before" ] && ranks "$1" >/dev/null; do
        kill -0 $coordinator 2>/dev/null || fail "the study $1 ended before it could be disturbed"
        sleep 0.01
    done
}
gone() {
    for _ in $(seq 6000); do ranks "$1" >/dev/null || return 0; sleep 0.01; done
    fail "a rank of the study $1 is left"
}
expect 0 "$FTENGINE" tune tiny.ini --study calm train.max_steps=120 eval.steps=40 study.pruner=none --trials 1
figures calm >calm.txt
begin rank
kill -9 "$(ranks rank)"
wait $coordinator || fail "a rank that was killed ended the study"
says "rank 1 on $(hostname) was killed by signal 9"
[ "$(retries rank)" = 1 ] || fail "a killed rank cost $(retries rank) retries"
figures rank | cmp - calm.txt || fail "after a killed rank the trial differs"
begin worker
kill -9 "$(pgrep -P "$coordinator" -f 'worker [0-9]+ ')"
wait $coordinator || fail "a worker that was killed ended the study"
[ "$(retries worker)" = 1 ] || fail "a killed worker cost $(retries worker) retries"
gone worker
figures worker | cmp - calm.txt || fail "after a killed worker the trial differs"
begin coordinator
kill -9 "$coordinator"
wait "$coordinator"
gone coordinator
begin coordinator
kill -INT "$coordinator"
wait "$coordinator"
[ $? = 130 ] || fail "Ctrl-C gave another exit code"
gone coordinator
expect 0 "$FTENGINE" tune tiny.ini --study coordinator study.devices_per_trial=2 train.max_steps=120 eval.steps=40 study.pruner=none --trials 1
figures coordinator | cmp - calm.txt || fail "after a killed coordinator the trial differs"

# ---- what cannot be --------------------------------------------------------------------------------------------------------
refused() { # refused WORDS OPTIONS...
    local words=$1
    shift
    expect 2 "$FTENGINE" tune tiny.ini --study refused study.devices_per_trial=2 "$@"
    one_error "$words"
    [ ! -e studies/refused ] || fail "a study that was refused is there"
}
refused "not with study.pack" study.pack=2
refused "a run of several seeds" train.seeds=1,2
refused "a run of all folds" data.folds=3 data.validation=
refused "train.deadline" train.deadline=1h
refused "memory.offload" memory.offload=optimizer
refused "not with device.name in [space]" space.device.name="choice(cpu, auto)"
refused "training a head alone" train.parameters=classifier
refused "a GPU has one rank" device.name=cuda:0,cuda:1,cuda:2,cuda:2
refused "3 devices train a trial, and device.name has 2" device.name=cuda:0,cuda:1 study.devices_per_trial=3
refused "on GPUs or on the CPU, not on both" device.name=cuda:0,cpu
refused "study.devices_per_trial" study.devices_per_trial=65
exit 0
