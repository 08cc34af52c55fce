#!/usr/bin/env bash
# `ftengine tune` from outside, with the real trainer on a tiny model: killed and continued it does the same trials, the
# best one runs on its own, SQLite's own tools read the study, mistakes are named.
# ctest: asan_part=3
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
tiny_model >tiny.ini
cat >>tiny.ini <<INI
[train]
max_steps = 120
batch_size = 8
[eval]
strategy = steps
steps = 20
metric = accuracy
[output]
save_steps = 15
[study]
trials = 8
startup_trials = 3
pruner = median
pruner_startup_trials = 3
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine, constant)
train.warmup_steps = int(1, 20) if train.lr_scheduler != constant
train.weight_decay = 0.01
INI
cat >dump.py <<'PYTHON'
"""dump.py FILE: what must not depend on how a study was run, read by SQLite itself."""
import sqlite3
import sys

db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
print(db.execute("PRAGMA journal_mode").fetchone()[0])
for table, columns in [("trials", "number, state"), ("trial_params", "trial_id, param_name, param_value, distribution_json"),
                       ("trial_values", "trial_id, objective, value"),
                       ("trial_intermediate_values", "trial_id, step, intermediate_value")]:
    for row in db.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2"):
        print(table, *row)
PYTHON
dump() { python3 -S dump.py "$1" || fail "cannot dump $1"; }

# ---- a study, and its result ------------------------------------------------------------------------------------------
started=$(date +%s%N)
expect 0 "$FTENGINE" tune tiny.ini --study whole
whole_ms=$((($(date +%s%N) - started) / 1000000))
grep -q '^best trial [0-9]*: eval.accuracy 0\.' out || fail "no best trial on standard output: $(cat out)"
grep -qx 'studies/whole/best.ini' out || fail "best.ini is not named: $(cat out)"
[ "$(grep -c '^trial ' err)" = 8 ] || fail "not one line a trial: $(cat err)"
says "all trials are done: 8 trials"
dump studies/whole/study.db >whole.txt
[ "$(head -1 whole.txt)" = delete ] || fail "the file at rest is not plain: $(head -1 whole.txt)"
grep -q 'trials 7 ' whole.txt || fail "not 8 trials: $(cat whole.txt)"

# best.ini is a run of its own, with the figures of the trial, to the last digit.
best=$(sed -n 's/^best trial \([0-9]*\):.*/\1/p' out)
expect 0 "$FTENGINE" train studies/whole/best.ini output.dir=again
trial=studies/whole/trials/$(printf %05d "$best")
[ "$(json again/run.json 'd["metrics"]')" = "$(json "$trial/run.json" 'd["metrics"]')" ] || fail "best.ini trains to another result"
cmp again/model/model.safetensors "$trial/model/model.safetensors" || fail "best.ini trains another model"
[ "$(find studies/whole/trials -name model -type d | wc -l)" = 1 ] || fail "models are left: $(find studies/whole -name model)"
# A timeline of every trial's memory is for those who ask for it.
[ -z "$(find studies/whole -name memory_timeline.json)" ] || fail "timelines of trials: $(find studies/whole -name 'memory*')"
{ cat tiny.ini; printf '[memory]\ntimeline = true\n'; } >timeline.ini
expect 0 "$FTENGINE" tune timeline.ini --study asked --trials 1
[ -s studies/asked/trials/00000/memory_timeline.json ] || fail "memory.timeline = true in the file is not heard"
expect 0 "$FTENGINE" tune tiny.ini --study asked --trials 2 memory.timeline=true
[ -s studies/asked/trials/00001/memory_timeline.json ] || fail "memory.timeline=true on the command line is not heard"
expect 0 "$FTENGINE" eval "$trial" --data "$here/validation.tsv"

# ---- again: nothing to do, more, from the study's own configuration ----------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study whole
dump studies/whole/study.db | cmp - whole.txt || fail "a finished study changed"
# A full disk behind standard output is not the study's: no pause.
timeout 60 "$FTENGINE" tune tiny.ini --study whole >/dev/full 2>err </dev/null
[ $? = 1 ] || fail "another exit code when standard output is full"
one_error "cannot write: No space left on device (standard output)"
expect 0 "$FTENGINE" tune tiny.ini --study parts --trials 3
expect 0 "$FTENGINE" tune --study parts --trials 5
expect 0 "$FTENGINE" tune --study parts --add 3
dump studies/parts/study.db | cmp - whole.txt || fail "in parts it is another study"

# best.ini is what the best trial ran with, whatever the options are by now.
expect 0 "$FTENGINE" tune tiny.ini --study changed --trials 2
cp studies/changed/best.ini before.ini
expect 0 "$FTENGINE" tune tiny.ini --study changed train.batch_size=4 --trials 2
cmp before.ini studies/changed/best.ini || fail "best.ini has options that the trial did not have"

# ---- killed at random moments ------------------------------------------------------------------------------------------
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
kills=0
for round in $(seq 60); do
    "$FTENGINE" tune tiny.ini --study killed >out 2>err &
    pid=$!
    if [ "$round" -le 12 ]; then
        # Within the first half of what the whole study took: on every machine some of them land in the middle of it.
        ms=$((10 + RANDOM % (whole_ms / 2)))
        sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
        kill -9 $pid 2>/dev/null
    fi
    wait $pid 2>/dev/null
    code=$?
    if [ $code = 0 ] && [ $kills = 0 ] && [ "$round" -le 12 ]; then # faster by far than the whole one: the machine had other work then
        rm -rf studies/killed
        whole_ms=$((whole_ms / 2 + 2))
        continue
    fi
    [ $code = 0 ] && break
    [ $code = 137 ] || fail "exit code $code"
    kills=$((kills + 1))
done
[ $code = 0 ] || fail "the study did not come to its end"
[ $kills -ge 1 ] || fail "no kill reached it"
dump studies/killed/study.db | cmp - whole.txt || fail "killed $kills times it is another study"

# A child does not outlive its coordinator.
"$FTENGINE" tune tiny.ini --study orphan train.max_steps=100000 >out 2>err &
pid=$!
for _ in $(seq 6000); do [ -s studies/orphan/trials/00000/metrics.jsonl ] && break; sleep 0.02; done
child=$(cat "/proc/$pid/task/$pid/children")
[ -n "$child" ] || fail "no child is running"
kill -9 $pid
wait $pid 2>/dev/null
for _ in $(seq 100); do
    # shellcheck disable=SC2086
    kill -0 $child 2>/dev/null || break
    sleep 0.02
done
# shellcheck disable=SC2086
kill -0 $child 2>/dev/null && fail "the trial outlived its coordinator"

# ---- Ctrl-C ------------------------------------------------------------------------------------------------------------
# bash gives background jobs no SIGINT, so SIGTERM asks; both take the same way.
"$FTENGINE" tune tiny.ini --study stopped train.max_steps=100000 >out 2>err &
pid=$!
for _ in $(seq 6000); do [ -s studies/stopped/trials/00000/metrics.jsonl ] && break; sleep 0.02; done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "another exit code after SIGTERM"
says "goes on with the trial that was running"
ls studies/stopped/trials/00000/checkpoints/step-* >/dev/null || fail "the trial was not saved"
dump studies/stopped/study.db | grep 'trials 0 RUNNING' >waiting.txt || fail "the trial is not waiting: $(dump studies/stopped/study.db)"
expect 0 "$FTENGINE" tune --study stopped --timeout 1s
says "the time is up"

# ---- remarks -----------------------------------------------------------------------------------------------------------
# Steps that do not reach the end, conditions that never hold; and what is not as the study began, each time.
cp "$here/train.tsv" own.tsv
odd="tiny.ini --study odd data.train=own.tsv train.max_steps=2 --trials 1"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $odd 'space.train.batch_size=int(4, 15, step=4)' 'space.train.adam_beta1=float(0.8, 0.9) if train.batch_size > 12' \
    'space.train.adam_beta2=float(0.9, 0.99) if train.batch_size > 8' 'space.train.label_smoothing=float(0, 0.1) if train.seed = 7'
says "train.batch_size: steps of 4 from 4 do not reach 15: the last is 12 (space.train.batch_size="
says "train.adam_beta1: what this line asks of train.batch_size never holds, so it is never taken (space.train.adam_beta1="
says "train.label_smoothing: what this line asks of train.seed never holds"
! grep -q "train.adam_beta2: what" err || fail "a condition that may hold is said never to hold"
for _ in 1 2; do
    expect 0 "$FTENGINE" tune --study odd --trials 1 train.max_grad_norm=5
    says "train.max_grad_norm is now 5, the study began with 1: trials may not compare"
done
head -100 "$here/train.tsv" >own.tsv
expect 0 "$FTENGINE" tune --study odd --trials 2 train.max_grad_norm=1
! grep -q "train.max_grad_norm is now" err || fail "what is again as it was is said to have changed"
says "own.tsv holds other data than when the study began: trials may not compare (data.train)"

# ---- mistakes ----------------------------------------------------------------------------------------------------------
expect 2 "$FTENGINE" tune tiny.ini --study whole 'space.train.learning_rate=float(1e-4, 1e-2, log)'
one_error "this study searches another space: train.learning_rate was float(0.0001, 0.03, log), now float(0.0001, 0.01, log)"
# What is missing among choices is told before a study is made; what is searched stands in [space].
expect 2 "$FTENGINE" tune tiny.ini --study x "space.model.path=choice($here/model, nowhere)"
one_error "nowhere"
expect 2 "$FTENGINE" tune tiny.ini --study x "space.data.train=choice($here/train.tsv, nowhere.tsv)" && one_error "there is no $scratch/nowhere.tsv"
expect 2 "$FTENGINE" tune tiny.ini --study x 'train.learning_rate=float(1e-4, 1e-2, log)'
says "what is searched stands in [space], which \`ftengine tune\` reads: train.learning_rate = float(1e-4, 1e-2, log)"
expect 2 "$FTENGINE" tune tiny.ini --study x 'space.train.lerning_rate=float(1e-4, 1e-2, log)'
one_error "unknown option train.lerning_rate"
says "did you mean train.learning_rate?"
expect 2 "$FTENGINE" tune tiny.ini --study x 'space.train.batch_size=int(0, 64)'
one_error "train.batch_size takes a whole number, at least 1"
expect 2 "$FTENGINE" tune tiny.ini --study x study.objective=eval.acuracy
says "did you mean eval.accuracy?"
expect 2 "$FTENGINE" tune tiny.ini --study 'x #2'
one_error "cannot hold a ; or # that begins a word, which starts a comment: 'x #2' (--study)"
expect 2 "$FTENGINE" tune tiny.ini --study 'x ;2'
one_error "(--study)"
expect 2 "$FTENGINE" tune tiny.ini --study x --storage 'sqlite:///x #2.db'
one_error "(--storage)"
[ -z "$(find . -name 'x*')" ] || fail "a refused study left something behind: $(find . -name 'x*')"
expect 2 "$FTENGINE" tune tiny.ini --study x --trials 0x
one_error "study.trials takes a whole number"
expect 2 "$FTENGINE" tune tiny.ini --study x --add 0
one_error "takes a whole number of trials, at least 1"
expect 2 "$FTENGINE" tune tiny.ini --study x --add 2 --trials 3
one_error "does not go with --trials"
expect 2 "$FTENGINE" tune tiny.ini --study x --storage mysql://host/db
one_error "SQLite"
expect 2 "$FTENGINE" tune tiny.ini --sutdy x
says "did you mean --study?"
expect 2 "$FTENGINE" tune
one_error "no configuration given"
expect 2 "$FTENGINE" tune "$here/follow.ini" data.validation="$here/validation.tsv" 'space.train.seed=int(1, 3)'
one_error "needs evaluations"
expect 2 "$FTENGINE" tune "$here/follow.ini" data.validation="$here/validation.tsv" eval.strategy=epoch
one_error "there is nothing to search"
[ ! -e studies/x ] || fail "a refused study left something behind: $(ls -R studies/x)"
# A database that cannot be opened: no directory is left, and one that was there stays.
echo "no database" >damaged.db
expect 2 "$FTENGINE" tune tiny.ini --study x --storage sqlite:///damaged.db
one_error "damaged.db"
mkdir -p empty/studies/x
(cd empty && "$FTENGINE" tune ../tiny.ini --study x --storage sqlite:///nowhere/x.db) >out 2>err && fail "no such directory, but it runs"
one_error "nowhere/x.db"
[ -d empty/studies/x ] || fail "a directory of somebody's was removed"
mkdir new
(cd new && "$FTENGINE" tune ../tiny.ini --study x --storage sqlite:///nowhere/x.db) >out 2>err && fail "no such directory, but it runs"
[ -z "$(ls new)" ] || fail "a refused study left $(ls -R new)"
[ ! -e studies/x ] || fail "a refused study left something behind: $(ls -R studies/x)"
expect 0 "$FTENGINE" help tune

# ---- other places ------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study one --storage sqlite:///all.db --trials 2
expect 0 "$FTENGINE" tune tiny.ini --study two --storage sqlite:///all.db --trials 2 study.keep=none
expect 2 "$FTENGINE" study show two && one_error "there is no study 'two'"
says "studies/two has the runs of one that is kept in $PWD/all.db: --storage names it"
[ "$(find studies/one -name model -type d | wc -l) $(find studies/two -name model -type d | wc -l)" = "1 0" ] || fail "kept models"
[ "$(dump all.db | grep -c '^trials ')" = 4 ] || fail "not both studies in one file"
[ ! -e studies/one/study.db ] || fail "a second file"
# Its config.ini tells the database from anywhere.
grep -qx "storage = sqlite:///$PWD/all.db" studies/two/config.ini || fail "not absolute: $(grep ^storage studies/two/config.ini)"

# ---- enqueued before the first trial -------------------------------------------------------------------------------------
expect 0 "$FTENGINE" study create tiny.ini --study queued train.max_steps=20
grep -q "study 'queued': 0 trials, in studies/queued/study.db" out || fail "create: $(cat out)"
expect 2 "$FTENGINE" study enqueue queued train.learning_rat=0.01 && one_error "there is no parameter" && says "did you mean 'train.learning_rate'"
expect 2 "$FTENGINE" study enqueue queued train.learning_rate=0.5 && one_error "is not in float(0.0001, 0.03, log)" && says "the nearest is 0.03"
expect 2 "$FTENGINE" study enqueue queued train.lr_scheduler=linaer && one_error "there is no choice 'linaer'"
expect 0 "$FTENGINE" study enqueue queued train.learning_rate=0.01 train.lr_scheduler=cosine train.warmup_steps=7
expect 0 "$FTENGINE" study create tiny.ini --study queued train.max_steps=20 --json # it is there, and stays
grep -q '"trials": *1' out || fail "create again: $(cat out)"
expect 2 "$FTENGINE" study create tiny.ini --study queued space.train.warmup_steps= && one_error "this study searches another space"
expect 0 "$FTENGINE" tune --study queued --trials 1
expect 0 "$FTENGINE" study best queued
for line in 'train.learning_rate *0.01' 'train.lr_scheduler *cosine' 'train.warmup_steps *7'; do
    grep -q "^$line\$" out || fail "not what was enqueued: $(cat out)"
done

# ---- a directory holds the runs of one study -----------------------------------------------------------------------------
# Two studies of one name in two databases: the second would clear the directories of the first.
ls -lR --time-style=full-iso studies/one >before
expect 2 "$FTENGINE" tune tiny.ini --study one --trials 1
one_error "this directory holds the runs of the study one in $PWD/all.db"
says "another name with --study"
expect 2 "$FTENGINE" tune tiny.ini --study one --storage sqlite:///other.db --trials 1
one_error "holds the runs of the study one"
[ ! -e other.db ] || fail "a refused study made a database"
expect 0 "$FTENGINE" tune tiny.ini --study plain --trials 1
rm studies/plain/owner # as an older version left it
expect 2 "$FTENGINE" tune tiny.ini --study plain --storage sqlite:///other.db --trials 1
one_error "holds the runs of another study in $PWD/studies/plain/study.db"
expect 2 "$FTENGINE" tune tiny.ini --study guest --storage sqlite:///studies/plain/study.db --trials 1
one_error "holds the runs of another study"
says "give another --storage"
ls -lR --time-style=full-iso studies/one | cmp before - || fail "a refused study touched another's directory"
expect 0 "$FTENGINE" tune tiny.ini --study plain --trials 2
# A database may be moved, and a directory with its database be copied.
mv all.db moved.db
expect 0 "$FTENGINE" tune tiny.ini --study one --storage sqlite:///moved.db --trials 3
grep -qx "$PWD/moved.db" studies/one/owner || fail "another owner: $(cat studies/one/owner)"
cp -r studies/plain studies/copy
expect 0 "$FTENGINE" tune tiny.ini --study copy --trials 3
# Runs whose study is gone are nobody's to remove, except a study's of the same place.
rm moved.db
expect 2 "$FTENGINE" tune tiny.ini --study one --storage sqlite:///other.db --trials 1
one_error "the runs of a study that is gone"
[ -e studies/one/trials/00002 ] && [ ! -e other.db ] || fail "a refused study wrote or removed something"
expect 0 "$FTENGINE" tune tiny.ini --study one --storage sqlite:///moved.db --trials 1
expect 0 "$FTENGINE" study delete plain --yes
[ ! -e studies/plain ] || fail "delete left $(ls studies/plain)"
echo "all good"
