#!/usr/bin/env bash
# ftengine devices --watch: runs and how far they are, memory in use and reserved, a GPU's temperature and load as a fake driver and
# a fake NVML tell them, drawn anew; on a terminal over the last picture.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
unset FAKE_CUDA FAKE_NVML FAKE_SENSORS CUDA_VISIBLE_DEVICES
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
mkdir seen && cp "$BUILD_DIR/tests/libfake_driver.so" seen/libcuda.so.535.129.03 && ln -s libcuda.so.535.129.03 seen/libcuda.so.1 &&
    cp "$BUILD_DIR/tests/libfake_nvml.so" seen/libnvidia-ml.so.1 || fail "no fake driver"
me=$(cat /proc/$$/comm)
[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] || me="another program" # in a container the driver's numbers are not its own

# watch LINES OPTION...: as many lines as that of it, in `out`
watch() {
    local lines=$1
    shift
    LD_LIBRARY_PATH="$scratch/seen${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FAKE_CUDA="devices=1,memory=25769803776,capability=89" \
        timeout 120 "$FTENGINE" devices --watch --interval 0.1s "$@" 2>err | head -n "$lines" >out
    [ -s err ] && fail "messages on standard error"
    [ "$(wc -l <out)" = "$lines" ] || fail "it ends before line $lines: $(cat out)"
}
prints() { grep -qE -- "$1" out || fail "the output lacks: $1, it is: $(cat out)"; }

# ---- nobody is there -----------------------------------------------------------------------------------------------------
watch 10
[ "$(grep -c '^cpu ' out)" = 2 ] || fail "not two pictures: $(cat out)"
prints '^        memory [0-9.]+GiB, used \[[#-]{10}\] [0-9.]+[KMG]iB, reserved \[----------\] 0B$'
prints '^cuda:0  NVIDIA Fake 4096$'
prints '^        memory 24.00GiB, reserved \[----------\] 0B$'
watch 2 --json
[ "$(json <(head -1 out) '[(x["device"], x["runs"], x["others"]) for x in d["devices"]], d["devices"][1]["temperature_celsius"], d["devices"][1]["used_bytes"]')" = \
    "([('cpu', [], []), ('cuda:0', [], [])], None, None)" ] || fail "$(cat out)"

# ---- what the driver tells, as it changes ----------------------------------------------------------------------------------
export FAKE_SENSORS="6442450944 25769803776 71 98" FAKE_NVML="$$=3221225472;4294967294=?"
watch 7
prints '^cuda:0  NVIDIA Fake 4096, 71 °C, 98% busy$'
prints '^        memory 24.00GiB, used \[###-------\] 6.00GiB, reserved '
prints "^        pid $$ +other      3.00GiB used  $me$"
prints '^        pid 4294967294 other      \? used  another program$'
export FAKE_SENSORS="- - 64 -"
watch 7
prints '^cuda:0  NVIDIA Fake 4096, 64 °C$'
export FAKE_SENSORS=$scratch/sensors
echo "0 25769803776 50 0" >sensors
(sleep 1; echo "0 25769803776 80 1" >sensors.new && mv sensors.new sensors) &
watch 300
prints ', 50 °C, 0% busy$'
prints ', 80 °C, 1% busy$'
FAKE_NVML="error=4" watch 5 && prints '^cuda:0  NVIDIA Fake 4096, 80 °C' && { grep -q other out && fail "others: $(cat out)"; }
unset FAKE_SENSORS FAKE_NVML

# ---- a run ---------------------------------------------------------------------------------------------------------------
"$FTENGINE" train "$here/follow.ini" device.name=cpu train.max_steps=2000000 data.validation= eval.strategy=no "output.dir=a run" >/dev/null 2>train.err &
run=$!
for _ in $(seq 1200); do
    [ -s ledger/cpu.notes ] && break
    sleep 0.1
done
[ -s ledger/cpu.notes ] || fail "the run says nothing: $(cat train.err)"
step() { json <(head -1 out) 'd["devices"][0]["runs"][0]["step"]'; }
watch 1 --json && is_document devices_watch
before=$(step)
[ "$(json <(head -1 out) '[(r["pid"], r["run"], r["steps"], r["doing"], 0 < r["used_bytes"] <= r["taken_bytes"] <= r["reserved_bytes"]) for r in d["devices"][0]["runs"]]')" = \
    "[($run, '$scratch/a run', 2000000, 'trains', True)]" ] || fail "$(cat out)"
for _ in $(seq 100); do
    sleep 0.3
    watch 1 --json
    [ "$(step)" -gt "$before" ] && break
done
[ "$(step)" -gt "$before" ] || fail "it does not go on from step $before"
watch 4
prints "^        pid $run +trains     \[-{10}\]   0%  step [0-9]+/2000000  [0-9.]+[KM]iB used, [0-9.]+[KM]iB reserved  [0-9hms]+ left  $scratch/a run$"
kill -STOP $run # it has no time to say anything: that is shown
sleep 11
watch 4
prints ' left  \(said 1[1-9]s ago\)  '
kill -9 $run
wait $run 2>/dev/null
watch 4 && { grep -q "pid $run" out && fail "a dead run is shown: $(cat out)"; }

# ---- on a terminal: over the last picture, every line to its end --------------------------------------------------------------
# The terminal is python's, which is here for json() as well, and it is read until there are two pictures: how fast they come depends on the machine.
LD_LIBRARY_PATH="$scratch/seen" FAKE_CUDA="devices=1" TERM=xterm timeout 120 python3 - "$FTENGINE" >typescript <<'END' ||
import os, pty, signal, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "devices", "--watch", "--interval", "0.1s"])
seen = b""
while seen.count(b"\033[H") < 2:
    try:
        more = os.read(terminal, 65536)
    except OSError:  # Linux says the end of a terminal so
        more = b""
    if not more:
        break
    seen += more
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(seen.count(b"\033[H") < 2 or b"\033[K" not in seen)
END
    fail "it is not drawn over the last one: $(cat -v typescript)"

# ---- bad usage -----------------------------------------------------------------------------------------------------------
expect 2 "$FTENGINE" devices --interval 1s && one_error "--interval is about --watch"
expect 2 "$FTENGINE" devices --watch --pick && one_error "--watch shows all devices"
expect 2 "$FTENGINE" devices --watch --interval soon && one_error "(--interval)"
exit 0
