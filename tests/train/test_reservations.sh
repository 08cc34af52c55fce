#!/usr/bin/env bash
# Runs that share a device: what is planned is reserved, waiting runs enter one after the other as they fit, a killed run's
# reservation is gone, and who may not wait or waited too long ends with exit code 4.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
run=("$FTENGINE" train "$here/follow.ini")
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT

# What one such run reserves, in bytes.
reserved_now() { "$FTENGINE" devices --json >devices.json 2>err && json devices.json 'd["devices"][0]["reserved_bytes"]'; }
holder() { # a run that goes on until it is killed; waits for its reservation
    "${run[@]}" train.max_steps=1000000 output.save_steps=0 output.dir="$1" >/dev/null 2>&1 &
    held_by=$!
    for _ in $(seq 200); do
        kill -0 $held_by 2>/dev/null || fail "the holder ended"
        [ "$(reserved_now)" != 0 ] && return
        sleep 0.05
    done
    fail "the holder reserved nothing"
}
holder first
one=$(reserved_now)
[ "$(json devices.json '[r["pid"] for r in d["devices"][0]["reservations"]]')" = "[$held_by]" ] || fail "the ledger: $(cat devices.json)"
[ "$(json devices.json 'd["devices"][0]["free_bytes"] <= d["devices"][0]["total_bytes"] - d["devices"][0]["reserved_bytes"]')" = True ] ||
    fail "free: $(cat devices.json)"
expect 0 "$FTENGINE" devices
grep -qE "^        reserved .*B, .*B free for a run: pid $held_by " out || fail "the reservation is not listed: $(cat out)"

# ---- no room: at once, or after a while --------------------------------------------------------------------------------
export FTENGINE_LEDGER_CAPACITY=$((one * 3 / 2))
expect 4 "${run[@]}" train.max_steps=1 output.dir=no
one_error "no room on the device: cpu has "
says "pid $held_by has reserved"
says "device.wait=true"
[ -e no ] && fail "a run that did not start left a directory"
expect 4 "${run[@]}" train.max_steps=1 output.dir=no device.wait=true device.wait_timeout=1s device.check_interval=0.1s
one_error "after 1 seconds"
says "waiting    for a device: cpu has"
[ -e no ] && fail "a run that did not start left a directory"
expect 4 "$FTENGINE" devices --pick --min-free "$one" && one_error "no device to train on"
expect 0 "$FTENGINE" devices --pick --min-free $((one / 4)) && [ "$(cat out)" = cpu ] || fail "picked: $(cat out)"
# More than there will ever be is not waited for.
expect 4 "${run[@]}" train.max_steps=1 device.wait=true device.min_free_memory=$((one * 2)) && one_error "no device has more than"
FTENGINE_LEDGER_CAPACITY=65536 expect 3 "${run[@]}" train.max_steps=1 device.wait=true && one_error "does not fit"
# A signal ends the wait.
"${run[@]}" train.max_steps=1 output.dir=stopped device.wait=true device.check_interval=1h 2>err >/dev/null &
waiting=$!
for _ in $(seq 2400); do grep -q "^waiting" err && break; sleep 0.05; done
kill -TERM $waiting
wait $waiting
[ $? = 143 ] || fail "a wait that is stopped"
[ -e stopped ] && fail "a run that did not start left a directory"

# ---- a killed run holds nothing ------------------------------------------------------------------------------------------
kill -9 $held_by
wait $held_by 2>/dev/null
[ "$(reserved_now)" = 0 ] || fail "the dead run's reservation is still there: $(cat devices.json)"
expect 0 "$FTENGINE" devices --pick --min-free "$one" --json
[ "$(json out 'd["device"], d["free_bytes"]')" = "('cpu', $FTENGINE_LEDGER_CAPACITY)" ] || fail "picked: $(cat out)"

# ---- four at once, one of which fits -------------------------------------------------------------------------------------
pids=()
for i in 1 2 3 4; do
    "${run[@]}" train.max_steps=20 output.dir="four$i" device.wait=true device.check_interval=0.05s >/dev/null 2>"four$i.err" &
    pids+=($!)
done
for i in 1 2 3 4; do
    wait "${pids[$((i - 1))]}" || { cat "four$i.err"; fail "run $i of four"; }
done
# config.ini is written after a run entered, run.json before it leaves: no two such spans have a moment in common.
python3 - four1 four2 four3 four4 <<'PY' || fail "two runs were in at once"
import os, sys
spans = sorted((os.stat(f"{d}/config.ini").st_mtime_ns, os.stat(f"{d}/run.json").st_mtime_ns) for d in sys.argv[1:])
sys.exit(any(a[0] >= a[1] for a in spans) or any(a[1] > b[0] for a, b in zip(spans, spans[1:])))
PY
[ "$(cat four?.err | grep -c '^waiting    over after')" -ge 1 ] || fail "nobody waited"
[ "$(reserved_now)" = 0 ] || fail "left behind: $(cat devices.json)"
[ ! -s "$FTENGINE_LEDGER_DIR/cpu.ledger" ] || fail "the ledger is not empty: $(cat "$FTENGINE_LEDGER_DIR/cpu.ledger")"
[ "$(ls "$FTENGINE_LEDGER_DIR" | xargs)" = "cpu.ledger cpu.notes" ] || fail "other files: $(ls "$FTENGINE_LEDGER_DIR")"

# ---- words ---------------------------------------------------------------------------------------------------------------
FTENGINE_LEDGER_CAPACITY=lots expect 2 "${run[@]}" && one_error FTENGINE_LEDGER_CAPACITY
touch file
FTENGINE_LEDGER_DIR=$scratch/file expect 2 "${run[@]}" && one_error "FTENGINE_LEDGER_DIR"
expect 2 "$FTENGINE" devices --min-free 4GiB && one_error "--pick"
expect 2 "$FTENGINE" devices --pick --min-free 4G && one_error "--min-free"
exit 0
