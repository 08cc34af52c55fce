#!/usr/bin/env bash
# study.fidelity = data: trials are whole trainings on growing shares of the texts, which the pruner judges between them. What is pruned
# has paid for its shares alone, and goes on with the next one when it is thawed; what is not is the configuration trained alone. Kills and
# failures between two shares, and while a trial is thawed, change no bit.
# ctest: part=3 asan_part=4
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
tiny_model >tiny.ini
cat >>tiny.ini <<INI
[train]
max_steps = 60
batch_size = 8
[eval]
metric = accuracy
[study]
trials = 1
fidelity = data
pruner = threshold
pruner_lower = 2
[space]
train.learning_rate = float(1e-4, 3e-3, log)
train.lr_scheduler = choice(linear, cosine)
INI
dir() { printf 'studies/%s/trials/%05d' "$1" "$2"; }
# what NAME: of each trial its state and the steps at which it reported, as Optuna's programs read them
what() {
    python3 - "studies/$1/study.db" <<'PYTHON'
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for trial, number, state in db.execute("SELECT trial_id, number, state FROM trials ORDER BY number").fetchall():
    steps = [s for s, in db.execute("SELECT step FROM trial_intermediate_values WHERE trial_id = ? ORDER BY step", (trial,))]
    print(number, state, *steps)
PYTHON
}
# whole NAME NUMBER: a completed trial is its settings trained alone on all texts
whole() {
    local trial alone
    trial=$(dir "$1" "$2") alone=alone-$1-$2
    expect 0 "$FTENGINE" train "$trial/config.ini" data.shares= "output.dir=$alone" output.exists=new
    cmp "$alone/model/model.safetensors" "$trial/share-1/model/model.safetensors" || fail "$trial is another model than its settings alone"
    cmp "$alone/predictions.jsonl" "$trial/predictions.jsonl" || fail "$trial has other predictions"
    python3 - "studies/$1/study.db" "$2" "$trial" "$alone" <<'PYTHON' || fail "$trial: the study does not say what its runs came to"
import json, sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
value, = db.execute("SELECT value FROM trials JOIN trial_values USING (trial_id) WHERE number = ?", (int(sys.argv[2]),)).fetchone()
reports = dict(db.execute("SELECT step, intermediate_value FROM trial_intermediate_values JOIN trials USING (trial_id) WHERE number = ?", (int(sys.argv[2]),)))
figure = lambda path: json.load(open(path + "/run.json"))["metrics"]["eval_accuracy"]
runs = [figure(f"{sys.argv[3]}/share-{s}") for s in (9, 3, 1)]
assert list(reports) == [1, 3, 9] and all(abs(a - b) < 1e-8 for a, b in zip(reports.values(), runs)), (reports, runs)
assert value == runs[-1] == figure(sys.argv[4]), (value, runs)
PYTHON
}

# ---- pruned at each share: accuracy is below 2 at every one ------------------------------------------------------------------
cases=("0 PRUNED 1" "2 PRUNED 1 3" "4 COMPLETE 1 3 9") # study.pruner_warmup_steps, state, reports
for case in "${cases[@]}"; do
    read -r warmup rest <<<"$case"
    code=1
    [ "$warmup" = 4 ] && code=0 # on all texts a trial is at its end: nothing is left to save
    expect $code "$FTENGINE" tune tiny.ini --study "pruned-$warmup" "study.pruner_warmup_steps=$warmup"
    [ "$(what "pruned-$warmup")" = "0 $rest" ] || fail "warmup $warmup: $(what "pruned-$warmup"), not 0 $rest"
done
whole pruned-4 0
[ ! -s "$(dir pruned-0 0)/share-3/run.json" ] || [ "$(json "$(dir pruned-0 0)/share-3/run.json" 'd["status"]')" != completed ] || fail "a pruned trial went on"
# The same texts for every trial: what a trial sees of a share does not depend on where it was stopped.
for share in 9 3; do cmp "$(dir pruned-2 0)/share-$share/predictions.jsonl" "$(dir pruned-4 0)/share-$share/predictions.jsonl" || fail "share $share differs"; done
expect 0 "$FTENGINE" study export pruned-2 --format jsonl --output trials.jsonl
[ "$(tail -1 trials.jsonl | python3 -c 'import json, sys; print(list(json.load(sys.stdin)["intermediate_values"]))')" = "['1', '3']" ] || fail "the export has no values of shares: $(cat trials.jsonl)"
expect 0 "$FTENGINE" study trials pruned-2 --json && is_document study_trials

# ---- thawed: it goes on with the next share, though nothing is kept of models -----------------------------------------------
[ ! -e "$(dir pruned-0 0)/share-9/model" ] || fail "a pruned trial keeps a model"
for share in 9 3; do [ ! -e "$(dir pruned-4 0)/share-$share/model" ] || fail "a trial keeps the model of share $share, which nobody reads"; done
for warmup in 0 2; do
    expect 0 "$FTENGINE" study thaw pruned-$warmup 0
    expect 0 "$FTENGINE" tune --study pruned-$warmup --add 1
    [ "$(what pruned-$warmup | tail -1)" = "1 COMPLETE 1 3 9" ] || fail "the thawed trial: $(what pruned-$warmup)"
    grep -q "share-9, 1 of 3, had ended before" "$(dir pruned-$warmup 1)/log.txt" || fail "the first share was trained again"
    whole pruned-$warmup 1
done
expect 2 "$FTENGINE" study thaw pruned-4 0
one_error "came to its end" && says "ftengine train studies/pruned-4/trials/00000/share-1/config.ini trains its settings once more"
expect 2 "$FTENGINE" study thaw pruned-4 0 --steps 90
one_error "was trained on shares of the texts" && says "share-1/config.ini train.max_steps=N"

# ---- halving: one of three goes on at a share ------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study halving --trials 12 study.pruner=halving study.startup_trials=20
python3 - <<'PYTHON' || fail "halving: $(what halving)"
import sqlite3
db = sqlite3.connect("file:studies/halving/study.db?mode=ro", uri=True)
rungs = {1: [], 3: []}
for trial, number, state in db.execute("SELECT trial_id, number, state FROM trials ORDER BY number").fetchall():
    reports = dict(db.execute("SELECT step, intermediate_value FROM trial_intermediate_values WHERE trial_id = ?", (trial,)))
    want = [1, 3, 9]
    for step in (1, 3):
        rungs[step].append(reports[step])
        if sum(value > reports[step] for value in rungs[step]) < max(len(rungs[step]) // 3, 1): continue
        want = [s for s in want if s <= step]
        break
    assert list(reports) == want and state == ("COMPLETE" if want[-1] == 9 else "PRUNED"), (number, state, reports, want)
assert 1 <= len(rungs[3]) < 12
PYTHON
best=$(json <("$FTENGINE" study best halving --json) 'd["trials"][0]["number"]')
expect 0 "$FTENGINE" train studies/halving/best.ini output.dir=best
cmp best/model/model.safetensors "$(dir halving "$best")/share-1/model/model.safetensors" || fail "best.ini is another model"
[ ! -e best/share-1 ] || fail "best.ini trains on shares"
# What keeps room on the disk for: the share that a pruned trial was in, and of those at their ends, which cannot go on, nothing.
expect 0 "$FTENGINE" tune tiny.ini --study kept --trials 8 study.pruner=halving study.startup_trials=20 study.keep_pruned=1GiB train.max_steps=180
python3 - "$("$FTENGINE" study best kept --json)" <<'PYTHON' || fail "what is kept: $(find studies/kept -name checkpoints) of $(what kept)"
import json, os, sqlite3, sys
best, = (t["number"] for t in json.loads(sys.argv[1])["trials"])
states = sqlite3.connect("file:studies/kept/study.db?mode=ro", uri=True).execute("SELECT number, state FROM trials").fetchall()
assert {s for _, s in states} == {"COMPLETE", "PRUNED"} and sum(s == "COMPLETE" for _, s in states) > 1
for number, state in states:
    trial = f"studies/kept/trials/{number:05}"
    big = [s for s in os.listdir(trial) if s.startswith("share-") and any(os.path.exists(f"{trial}/{s}/{b}") for b in ("checkpoints", "model"))]
    last = min((s for s in os.listdir(trial) if s.startswith("share-")), key=lambda s: int(s[6:]))
    assert big == (["share-1"] if number == best else []) or (state == "PRUNED" and big in ([], [last])), (number, state, big)
PYTHON
# Of what cannot go on it is said which others can: not one that has, as another trial.
read -r first second rest <<<"$(what kept | awk '$2 == "PRUNED" { print $1 }' | tr '\n' ' ')"
[ -n "$second" ] || fail "fewer than two pruned trials: $(what kept)"
expect 0 "$FTENGINE" study thaw kept "$first"
expect 0 "$FTENGINE" tune --study kept --add 1
rm -r "$(dir kept "$second")"/share-*
expect 2 "$FTENGINE" study thaw kept "$second"
one_error "nothing is left of trial $second" && says "$([ -n "$rest" ] && echo "can go on: ${rest// /, }" | sed 's/, $//' || echo "study.keep_pruned = ")"
for pruner in hyperband median; do
    expect 0 "$FTENGINE" tune tiny.ini --study $pruner --trials 6 study.pruner=$pruner study.pruner_startup_trials=2
    what $pruner | grep -vE '^[0-9]+ (PRUNED 1|PRUNED 1 3|COMPLETE 1 3 9)$' && fail "$pruner: $(what $pruner)"
done
# Other shares: by the reduction factor, or named.
expect 0 "$FTENGINE" tune tiny.ini --study four --trials 1 study.pruner=halving study.pruner_reduction_factor=4
[ "$(what four)" = "0 COMPLETE 1 4 16" ] || fail "by a factor of 4: $(what four)"
expect 0 "$FTENGINE" tune tiny.ini --study named --trials 1 study.pruner=median data.shares=5,1
[ "$(what named)" = "0 COMPLETE 1 5" ] || fail "named shares: $(what named)"
expect 0 "$FTENGINE" tune tiny.ini --study auto --trials 1 study.fidelity=auto study.pruner=median eval.strategy=steps eval.steps=30
[ "$(what auto)" = "0 COMPLETE 30 60" ] || fail "auto: $(what auto)"

# ---- memory: a trial is planned as its largest run is metered ----------------------------------------------------------------
expect 0 "$FTENGINE" plan "$(dir halving "$best")/config.ini" --json
[ "$(json out 'd["memory"]["peak_reserved_bytes"]')" = "$(json "$(dir halving "$best")/run.json" 'd["memory"]["peak_reserved_bytes"]')" ] || fail "planned $(json out 'd["memory"]["peak_reserved_bytes"]'), metered $(json "$(dir halving "$best")/run.json" 'd["memory"]')"
expect 0 "$FTENGINE" plan tiny.ini train.max_steps=0 train.epochs=1 --json
planned=$(json out 'd["space"]["worst"]["bytes"]')
most=0
for share in 9 3 1; do
    expect 0 "$FTENGINE" plan tiny.ini study.fidelity=steps data.share=$share train.max_steps=0 train.epochs=1 --json
    bytes=$(json out 'd["space"]["worst"]["bytes"]')
    [ "$bytes" -le "$most" ] || most=$bytes
done
[ "$planned" = "$most" ] || fail "the space is planned to $planned, its shares to $most"

# ---- killed in the second share and in the last, it goes on to the same bits -------------------------------------------------
slow=(tiny.ini study.pruner=median train.max_steps=1800 --trials 1)
expect 0 "$FTENGINE" tune "${slow[@]}" --study straight
for share in 3 1; do
    "$FTENGINE" tune "${slow[@]}" --study killed-$share >out 2>err &
    pid=$!
    for _ in $(seq 6000); do
        [ -s "$(dir killed-$share 0)/share-$share/metrics.jsonl" ] && break
        sleep 0.02
    done
    kill -9 $pid
    wait $pid 2>/dev/null
    [ "$(what killed-$share | cut -d ' ' -f 2)" = RUNNING ] || fail "it ended before it was killed: $(what killed-$share)"
    stat -c %i "$(dir killed-$share 0)/share-9/run.json" >before
    expect 0 "$FTENGINE" tune "${slow[@]}" --study killed-$share
    stat -c %i "$(dir killed-$share 0)/share-9/run.json" | cmp - before || fail "the first share was trained again"
    [ "$(what killed-$share)" = "0 COMPLETE 1 3 9" ] || fail "after a kill in share $share: $(what killed-$share)"
    for file in share-9/predictions.jsonl share-3/predictions.jsonl predictions.jsonl share-1/model/model.safetensors; do
        cmp "$(dir straight 0)/$file" "$(dir killed-$share 0)/$file" || fail "a kill in share $share gives another $file"
    done
done

# ---- between two shares, and while a trial is thawed: one call is the last of its process, or fails ----------------------------
# planted PLANT COMMAND...: tests/preload/README.md
planted() {
    rm -f planted
    LD_PRELOAD=$BUILD_DIR/tests/libplantfault.so PLANT=$1 PLANT_DONE=$PWD/planted "${@:2}" >out 2>err </dev/null
    [ -e planted ] || fail "there was no $1"
}
# same TRIAL PLANT: it is the one that nothing happened to
same() {
    local file
    for file in share-9/predictions.jsonl share-3/predictions.jsonl predictions.jsonl share-1/model/model.safetensors; do
        cmp "$(dir pruned-4 0)/$file" "$1/$file" || fail "$2 gives another $file"
    done
    [ -z "$(find studies -name '*.ft-tmp' -o -name '*.thaw')" ] || fail "$2 leaves $(find studies -name '*.ft-tmp' -o -name '*.thaw')"
}
if [ -z "$FT_SANITIZE" ]; then # a library of its own does not go with theirs
    # Share 9 has ended and nobody knows; the next one has its directory; it begins; it cannot begin (5: EIO), or cannot be made (28: ENOSPC).
    cases=("mkdir /share-3 kill" "rename /00000/metrics.jsonl kill" "rename /share-3/config.ini kill" "rename /share-1/config.ini 5" "mkdir /share-1 28")
    for case in "${cases[@]}"; do
        rm -rf studies/planted
        planted "$case" "$FTENGINE" tune tiny.ini --study planted study.pruner=median
        expect 0 "$FTENGINE" tune tiny.ini --study planted study.pruner=median
        [ "$(what planted)" = "0 COMPLETE 1 3 9" ] || fail "$case: $(what planted)"
        same "$(dir planted 0)" "$case"
    done
    expect 1 "$FTENGINE" tune tiny.ini --study cold study.pruner_warmup_steps=2 study.keep_pruned=1GiB train.max_steps=60
    mv studies/cold frozen
    cases=("mkdir /00001.thaw kill" "rename /00001.thaw/share-3/run.json 28" "rename /trials/00001 kill" "rename /00000/thawed kill" "rename /00000/thawed 5")
    for case in "${cases[@]}"; do
        rm -rf studies/cold && cp -r frozen studies/cold
        expect 0 "$FTENGINE" study thaw cold 0
        planted "$case" "$FTENGINE" tune --study cold --trials 2
        expect 0 "$FTENGINE" tune --study cold --trials 2
        [ "$(what cold | tail -1)" = "1 COMPLETE 1 3 9" ] || fail "$case: $(what cold)"
        same "$(dir cold 1)" "$case"
        [ -e "$(dir cold 0)/thawed" ] || fail "$case: trial 0 does not know that another one has its checkpoint"
    done
fi

# ---- what does not go together ---------------------------------------------------------------------------------------------
refuses() { # refuses TEXT HINT OPTION...
    expect 2 "$FTENGINE" tune tiny.ini --study refused "${@:3}"
    one_error "$1" && says "$2"
    [ ! -e studies/refused ] || fail "a refused study left a directory"
}
refuses "freeze_thaw pauses" "study.pruner=halving" study.pruner=freeze_thaw
refuses "wilcoxon holds equal runs" "study.pruner=halving" study.pruner=wilcoxon
refuses "without a pruner" "study.fidelity=steps" study.pruner=none
refuses "not with data.folds" "data.validation_split" data.folds=3 data.validation=
refuses "not with train.seeds" "one train.seed" train.seeds=1,2
refuses "the study's to choose" "data.shares=16,4,1" data.share=3
refuses "the study's to choose" "data.shares=16,4,1" "space.data.share=choice(1, 3)"
refuses "one run's" "study.timeout" train.deadline=1h
refuses "before these nothing is seen" "data.shares=9,3,1" data.shares=1
refuses "study.pruner_warmup_steps counts in parts" "study.pruner_warmup_steps=0" study.pruner_warmup_steps=9
refuses "study.pruner_min_resource counts in parts" "study.pruner_min_resource=1" study.pruner=halving study.pruner_min_resource=16
refuses "on one device" "study.devices_per_trial=1" study.devices_per_trial=2
refuses "trials are seen by their steps" "study.fidelity=data" study.fidelity=steps data.shares=3,1
refuses "each must be a multiple" "9, 3, 1" data.shares=9,2,1
refuses "standard input" "" data.train=-
refuses "trials are pruned by one objective" "study.pruner = none" "study.objective=maximize eval.accuracy, minimize seconds.total"
# Reports of another kind do not compare.
expect 2 "$FTENGINE" tune --study halving study.fidelity=steps && one_error "study.fidelity was data 9, 3, 1, now not searched"
expect 2 "$FTENGINE" tune --study halving study.pruner_reduction_factor=4 && one_error "study.fidelity was data 9, 3, 1, now data 16, 4, 1"
exit 0
