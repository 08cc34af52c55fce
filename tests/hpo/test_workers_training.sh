#!/usr/bin/env bash
# Several workers with the real trainer on a tiny model: the same figures as one trial at a time, also when workers are
# killed; the device's limit holds and large trials get their turn; what cannot fit is a result.
# ctest: asan_part=1 cost=996
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
tiny_model >tiny.ini
cat >>tiny.ini <<INI
[train]
max_steps = 60
[eval]
strategy = steps
steps = 20
metric = accuracy
[output]
save_steps = 15
[study]
sampler = grid
trials = 0
keep = none
max_retries = 100
[space]
train.learning_rate = choice(0.001, 0.003, 0.01)
train.batch_size = choice(2, 8, 64)
INI
cat >figures.py <<'PYTHON'
"""figures.py FILE: of every trial its parameters, state and figures, in an order that no worker decides."""
import json
import sqlite3
import sys

db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
rows = []
for trial, state in db.execute("SELECT trial_id, state FROM trials"):
    def of(table, columns, key):
        return sorted(db.execute(f"SELECT {columns} FROM {table} WHERE trial_id = ?", (trial,)).fetchall())
    rows.append((of("trial_params", "param_name, param_value", 0), state, of("trial_values", "objective, value", 0),
                 of("trial_intermediate_values", "step, intermediate_value", 0)))
for row in sorted(rows):
    print(*row)
PYTHON
figures() { python3 -S figures.py "studies/$1/study.db" || fail "cannot read the study $1"; }
# attribute STUDY TRIAL KEY
attribute() {
    python3 -S -c 'import sqlite3, sys
row = sqlite3.connect("studies/" + sys.argv[1] + "/study.db").execute("SELECT value_json FROM trial_user_attributes JOIN trials USING (trial_id) WHERE number = ? AND key = ?", (int(sys.argv[2]), sys.argv[3])).fetchone()
print(row[0] if row else "")' "$@"
}

# ---- the same figures ----------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study one
figures one >one.txt
[ "$(grep -c COMPLETE one.txt)" = 9 ] || fail "not nine trials: $(cat one.txt)"
expect 0 "$FTENGINE" tune tiny.ini --study three --parallel 3
says "workers    3, each with "
figures three | cmp - one.txt || fail "three at a time give other figures"
grep -q "^Trial 4 - Training Start: Allocated: " studies/three/trials/00004/log.txt || fail "no stages: $(cat studies/three/trials/00004/log.txt)"
expect 0 "$FTENGINE" tune tiny.ini --study auto --parallel auto --trials 2
expect 2 "$FTENGINE" tune tiny.ini --study no --parallel 0 && one_error "study.parallel takes auto or a whole number"
expect 2 "$FTENGINE" tune tiny.ini --study no --parallel many && one_error "study.parallel takes auto or a whole number"
expect 2 "$FTENGINE" worker && one_error "is started by \`ftengine tune\`"

# ---- workers that are killed -----------------------------------------------------------------------------------------------
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
longer="train.max_steps=300 eval.steps=100"
[ -z "${FT_SANITIZE:-}" ] || longer="train.max_steps=100 eval.steps=50"
# shellcheck disable=SC2086
"$FTENGINE" tune tiny.ini --study killed --parallel 3 $longer >out 2>err &
pid=$!
kills=0
for _ in $(seq 200); do # until six are gone, or the study is at its end
    [ $kills -lt 6 ] && kill -0 $pid 2>/dev/null || break
    sleep "0.$(printf %03d $((RANDOM % 200)))"
    workers=() # not the process that plans them
    for child in $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do
        tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q '^[^ ]* worker ' && workers+=("$child")
    done
    [ ${#workers[@]} -gt 0 ] && kill -9 "${workers[RANDOM % ${#workers[@]}]}" 2>/dev/null && kills=$((kills + 1))
done
wait $pid || fail "a killed worker ended the study"
[ $kills -gt 0 ] || fail "no worker was killed"
says "killed by signal 9"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune tiny.ini --study whole $longer
figures whole >whole.txt
figures killed | cmp - whole.txt || fail "after $kills kills there are other figures"

# ---- the device's limit ------------------------------------------------------------------------------------------------------
# Room for the largest trial alone, or for several of the others; a watcher looks at the ledger meanwhile.
most=$(for log in studies/three/trials/*/run.json; do json "$log" 'd["memory"]["peak_reserved_bytes"] + d["memory"]["outside_allocator_bytes"]'; done | sort -n | tail -1)
export FTENGINE_LEDGER_CAPACITY=$((most * 5 / 4))
(
    while [ ! -e watched ]; do
        "$FTENGINE" devices --json >devices.json 2>/dev/null && tr '\n' ' ' <devices.json >>devices.jsonl && echo >>devices.jsonl
    done
) &
watcher=$!
expect 0 "$FTENGINE" tune tiny.ini --study packed --parallel 4
touch watched
wait $watcher
figures packed | cmp - one.txt || fail "under a limit there are other figures"
python3 -c "import json; [print(json.loads(line)['devices'][0]['reserved_bytes']) for line in open('devices.jsonl')]" >reserved.txt
python3 -c "import sys; seen = [int(line) for line in open('reserved.txt')]; sys.exit(not (0 < max(seen) <= $FTENGINE_LEDGER_CAPACITY))" ||
    fail "the ledger of $FTENGINE_LEDGER_CAPACITY: $(sort -n reserved.txt | uniq -c)"
# A device that is smaller than a worker alone refuses before anything is begun: that is a plan, not a want of memory.
FTENGINE_LEDGER_CAPACITY=1MiB expect 1 "$FTENGINE" tune tiny.ini --study tiny --trials 1 study.memory_policy=prune
says "no trial completed"
grep -q "OOM" err && fail "a trial that was not begun has run out of memory: $(cat err)"
[ "$(attribute tiny 0 status)" = '"does_not_fit"' ] || fail "the status is $(attribute tiny 0 status)"
[ "$(attribute tiny 0 oom)" = "" ] && [ "$(attribute tiny 0 memory.needed_bytes)" -gt 1048576 ] || fail "recorded as out of memory"
# A worker's own memory counts too, and under sanitizers (no libfailmalloc.so) it grows with what they keep: not there.
if [ -f "$BUILD_DIR/tests/libfailmalloc.so" ]; then
    # With less than the largest wants as it is, what is at auto is fitted: no point of the space is lost.
    least=$(for log in studies/three/trials/*/run.json; do json "$log" 'd["memory"]["peak_reserved_bytes"] + d["memory"]["outside_allocator_bytes"]'; done | sort -n | head -1)
    export FTENGINE_LEDGER_CAPACITY=$(((least + most) / 2 + (1 << 20)))
    expect 0 "$FTENGINE" tune tiny.ini --study small --parallel 2
    [ "$(figures small | grep -c COMPLETE)" = 9 ] || fail "a point of the space was lost: $(figures small)"
    # hold NAME: a run that trains, and room for 1 MiB more: too little for a trial beside it, more than enough without it, whatever the
    # workers themselves take of it. Its reservation grows until its first step: not read before.
    hold() {
        "$FTENGINE" train "$here/follow.ini" train.max_steps=1000000 train.batch_size=256 output.save_steps=0 output.dir="$1" >/dev/null 2>&1 &
        holder=$!
        for _ in $(seq 1200); do
            [ -s "$1/metrics.jsonl" ] && break
            kill -0 $holder || fail "the run that holds the device has ended"
            sleep 0.05
        done
        "$FTENGINE" devices --json >devices.json
        local held
        held=$(json devices.json 'd["devices"][0]["reserved_bytes"]')
        [ "$held" -ge 8388608 ] || fail "the device is not held: $held"
        export FTENGINE_LEDGER_CAPACITY=$((held + (1 << 20)))
    }
    # Who leaves soon, as the workers of a coordinator that was killed do, is waited for.
    hold leaving
    "$FTENGINE" tune tiny.ini --study leaves --parallel 2 --trials 1 >out 2>err &
    pid=$!
    sleep 1
    kill -9 $holder
    wait $pid || fail "a run that left soon was not waited for: $(cat err)"
    # Somebody else has the device: the trial is not at fault, and waits.
    hold staying
    expect 4 "$FTENGINE" tune tiny.ini --study waits --parallel 2 --trials 2
    one_error "no room on the device"
    says "device.wait=true"
    [ "$(figures waits | grep -c RUNNING)" -ge 1 ] || fail "the trial does not wait: $(figures waits)"
    "$FTENGINE" tune tiny.ini --study waits --parallel 2 --trials 2 device.wait=true device.check_interval=0.1s >out 2>err &
    pid=$!
    sleep 0.5
    kill -9 $holder
    wait $pid || fail "with device.wait=true it did not come to its end"
    [ "$(figures waits | grep -c COMPLETE)" = 2 ] || fail "not two trials: $(figures waits)"
fi
unset FTENGINE_LEDGER_CAPACITY

# ---- what cannot fit -----------------------------------------------------------------------------------------------------------
reserved() { json "studies/three/trials/$1/run.json" 'd["memory"]["peak_reserved_bytes"]'; }
sizes=$(for number in 00000 00001 00002 00003 00004 00005 00006 00007 00008; do reserved $number; done | sort -n)
limit=$((($(echo "$sizes" | head -1) + $(echo "$sizes" | tail -1)) / 2))
expect 0 "$FTENGINE" tune tiny.ini --study fit --parallel 2 memory.limit=$limit
[ "$(figures fit | grep -c COMPLETE)" = 9 ] || fail "a point of the space was lost: $(figures fit)"
expect 0 "$FTENGINE" tune tiny.ini --study constrain --parallel 2 memory.limit=$limit study.memory_policy=constrain
expect 0 "$FTENGINE" tune tiny.ini --study prune --parallel 2 memory.limit=$limit study.memory_policy=prune
large=$(figures prune | grep -c PRUNED)
[ "$large" -ge 3 ] && [ "$(figures constrain | grep -c PRUNED)" = "$large" ] || fail "pruned: $(figures prune) $(figures constrain)"
says "too big"
for number in 0 1 2 3 4 5 6 7 8; do
    [ "$(attribute constrain $number status)" = '"does_not_fit"' ] || continue
    needed=$(attribute constrain $number memory.needed_bytes)
    [ "$needed" -gt $limit ] || fail "trial $number needs $needed of $limit"
done
expect 0 "$FTENGINE" tune tiny.ini --study fit study.report_memory_over=$limit
! grep -q "took more than" err || fail "a list of nothing"
expect 0 "$FTENGINE" tune tiny.ini --study one study.report_memory_over=$limit
says "trials that took more than "
[ "$(grep -c '^  trial ' err)" = "$large" ] || fail "the list: $(cat err)"
echo "all good"
