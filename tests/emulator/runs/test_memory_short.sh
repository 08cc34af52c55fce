#!/usr/bin/env bash
# Runs on CUDA devices that are not what they were when the run was planned: which device it takes, where it goes on, and
# that the numbers stay those of an undisturbed run. Kernels, driver and cuBLASLt as in test_training.sh.
# ctest: tsan=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
driver=version=13000,memory=1073741824
gone=taken=1073741824,taken_from=4194304 # of device 0, all of it, when the arena of the steps is asked for
run="$here/follow.ini data.validation=$here/validation.tsv eval.strategy=steps eval.steps=2 train.max_steps=4 train.logging_steps=1
     data.cache_dir=none"

# trained DIR SETTINGS [OPTION...]: a run whose driver is set up so; nothing forbidden was asked for, everything came back
trained() {
    local dir=$1 settings=$2
    shift 2
    rm -f report
    # shellcheck disable=SC2086
    FAKE_CUDA=$settings expect 0 "$FTENGINE" train $run output.dir="$dir" "$@"
    [ ! -f report ] || [ "$(grep -c ' 0 misuses, 0 left$' report)" = 2 ] || fail "$dir: $(cat report)"
}
device() { json "$1/run.json" 'd["device"]'; }
actions() { json "$1/run.json" '[r["action"] for r in d["memory_retries"]]'; }

trained base "$driver"
[ "$(device base)" = cuda:0 ] && [ "$(actions base)" = "[]" ] || fail "base: $(cat base/run.json)"

# ---- by number, and the one with most free memory -----------------------------------------------------------------------
trained second "$driver,devices=2" device.name=cuda:1
[ "$(device second)" = cuda:1 ] || fail "device.name=cuda:1 is $(device second)"
cmp base/model/model.safetensors second/model/model.safetensors || fail "cuda:1: other bits"
# shellcheck disable=SC2086
FAKE_CUDA="$driver,devices=2" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda:2
one_error "no device cuda:2: this machine has 2 CUDA devices"
expect 2 "$FTENGINE" train $run output.dir=none device.name=cuda:x && one_error "device.name"
trained most "$driver,devices=2,taken=900000000,taken_from=0"
[ "$(device most)" = cuda:0 ] || fail "the driver says that 0 is as free as 1 until it is used: $(device most)"

# ---- taken away while the run starts ------------------------------------------------------------------------------------
trained other "$driver,devices=2,$gone"
[ "$(device other)" = cuda:1 ] || fail "not on the other device: $(cat err)"
says "the run goes on on cuda:1"
cmp base/model/model.safetensors other/model/model.safetensors || fail "on the other device: other bits"
trained cpu "$driver,$gone"
[ "$(device cpu)" = cpu ] || fail "not on the CPU: $(cat err)"
grep -q '"out_of_memory":{.*"action":"the run goes on on cpu"' cpu/metrics.jsonl || fail "metrics.jsonl: $(cat cpu/metrics.jsonl)"
[ "$(json cpu/run.json '[(e["device"], e["first_step"], e["last_step"]) for e in d["earlier_devices"]]')" = "[('cuda:0', 0, 0)]" ] ||
    fail "run.json does not tell the devices apart: $(json cpu/run.json 'd.get("earlier_devices")')"
[ "$(json cpu/run.json 'd["memory"]["peak_reserved_bytes"] == d["planned"]["peak_reserved_bytes"]')" = True ] || fail "memory is not the CPU's"
[ "$(json cpu/memory_timeline.json '[e["args"]["name"] for e in d["traceEvents"] if e["ph"] == "M"]')" = \
    "['ftengine memory on cuda:0', 'ftengine memory on cpu']" ] || fail "the timeline is not of both devices"
expect 0 "$FTENGINE" report cpu --output page.html
grep -q "Before that on cuda:0, steps 0 to 0: peak" page.html || fail "the page does not name the first device"
python3 - <<'PYTHON' || fail "the CPU found something else"
import json
runs = [[l for l in map(json.loads, open(d + "/metrics.jsonl")) if "out_of_memory" not in l] for d in ("base", "cpu")]
assert len(runs[0]) == len(runs[1]) == 6, [len(r) for r in runs]
for a, b in zip(*runs):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second": assert abs(a[key] - b[key]) <= 2e-6 * max(1, abs(a[key])), (key, a[key], b[key])
PYTHON

# A session on another device than the one before is told apart as well, and again when a third begins on that.
trained sessions "$driver"
for again in 1 2; do
    trained sessions "$driver" device.name=cpu output.exists=resume
    [ "$(json sessions/run.json '[(e["device"], e["first_step"], e["last_step"], sorted(e)) for e in d["earlier_devices"]]')" = \
        "[('cuda:0', 0, 4, ['device', 'device_description', 'first_step', 'last_step', 'memory'])]" ] ||
        fail "session $again: $(json sessions/run.json 'd.get("earlier_devices")')"
    [ "$(json sessions/run.json 'd["earlier_devices"][0]["memory"]["peak_reserved_bytes"]')" = "$(json base/run.json 'd["memory"]["peak_reserved_bytes"]')" ] ||
        fail "session $again: the peaks of the GPU are lost"
done

# ---- only what the configuration allows ---------------------------------------------------------------------------------
for options in "device.name=cuda" "device.name=cuda device.wait=true device.wait_timeout=1s device.check_interval=0.2s" \
               "memory.on_oom=fail" "memory.max_retries=0"; do
    # shellcheck disable=SC2086
    FAKE_CUDA="$driver,devices=2,$gone" expect 3 "$FTENGINE" train $run output.dir=none $options
    one_error "out of memory on cuda:0"
    [ ! -e none ] || fail "a run that could not start left a directory"
done

# ---- a limit of MPS: less is free, the device's size is the same ---------------------------------------------------------------
need=$(json base/run.json 'd["planned"]["peak_reserved_bytes"]')
later=268435456 # what is left to code that is loaded later, of what is free
trained limited "$driver,limit=$((later + need))"
[ "$(device limited)" = cuda:0 ] || fail "a run that fits its limit: $(cat err)"
cmp base/model/model.safetensors limited/model/model.safetensors || fail "under a limit: other bits"
# A micro-batch that is left to the plan is fitted into it; what was asked for is refused before anything is taken.
# shellcheck disable=SC2086
FAKE_CUDA="$driver,limit=$((need - 1))" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda memory.limit=$need
one_error "no room on the device: cuda:0 has"
[ ! -e none ] || fail "a run that could not start left a directory"
FAKE_CUDA="$driver,limit=67108864" expect 0 "$FTENGINE" devices --json
[ "$(json out '[(x["total_bytes"], x["free_bytes"]) for x in d["devices"][1:]]')" = "[(1073741824, 67108864)]" ] || fail "devices: $(cat out)"

# ---- a device that is too small -----------------------------------------------------------------------------------------
trained small version=13000,memory=25165824
[ "$(device small)" = cpu ] || fail "a run on a device that it does not fit"
says "device.name=auto is the CPU: "
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=25165824 expect 3 "$FTENGINE" train $run output.dir=none device.name=cuda

# ---- AdamW's state on the host of a run that comes to the CPU, or begins there -------------------------------------------
trained offload "$driver,$gone" memory.offload=optimizer output.save_steps=2 output.save_total_limit=5
[ "$(device offload)" = cpu ] && [ "$(json offload/run.json 'd["resolved"]["offload"]')" = none ] || fail "offload: $(cat offload/run.json)"
says "the run goes on on cpu, where AdamW's state is now"
cmp cpu/model/model.safetensors offload/model/model.safetensors || fail "offloaded, then on the CPU: other bits"
rm -r offload/checkpoints/step-00000004
trained offload version=13000,devices=0 memory.offload=optimizer output.save_steps=2 output.save_total_limit=5 output.exists=resume
says "memory.offload=optimizer: the memory of the cpu is the host's anyway"
cmp cpu/model/model.safetensors offload/model/model.safetensors || fail "resumed on the CPU: other bits"
FAKE_CUDA=$driver FTENGINE_LEDGER_CAPACITY=1MiB expect 3 "$FTENGINE" plan --table model.path="$here/model" device.name=cuda memory.offload=optimizer
one_error "pinned memory of the host are needed"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=none device.name=cpu memory.offload=optimizer
one_error "optimizer needs a device with memory of its own, and this run is computed on the cpu"

# ---- beside a device the process is reserved on the host, too -------------------------------------------------------------
# Catches: a host part that is reserved with memory.offload alone, so that runs on the CPU and on other devices count on that memory too;
# a reservation that outlives its run; a refusal that comes after the run has begun.
# shellcheck disable=SC2086
FAKE_CUDA=$driver "$FTENGINE" train $run output.dir=beside device.name=cuda memory.offload=none train.max_steps=100000 eval.strategy=no 2>beside.err &
beside=$!
for _ in $(seq 200); do
    FAKE_CUDA=$driver "$FTENGINE" devices --json >devices.json 2>/dev/null
    on=$(json devices.json "sorted((e['device'].split(':')[0], r['bytes'] > 1 << 20) for e in d['devices'] for r in e['reservations'] or [] if r['pid'] == $beside)")
    [ "$on" = "[('cpu', True), ('cuda', True)]" ] && break
    sleep 0.1
done
kill -9 $beside && wait $beside 2>/dev/null
[ "$on" = "[('cpu', True), ('cuda', True)]" ] || fail "reserved: $on: $(cat beside.err devices.json)"
rm -r beside

# ---- what graphs are left is not for tensors ----------------------------------------------------------------------------
# Of 100 MiB that may be reserved 64 are the driver's. The run would take 38, and is fitted to what is left.
for limit in auto 100%; do
    FTENGINE_LEDGER_CAPACITY=104857600 trained "graphs-$limit" "$driver" device.name=cuda device.graphs=on eval.strategy=no train.max_steps=1 \
        train.batch_size=128 memory.limit="$limit"
    says "would need 38.0MiB, and 36.0MiB may be taken"
    [ "$(json "graphs-$limit/run.json" 'd["memory"]["peak_reserved_bytes"] <= 36 << 20')" = True ] || fail "$(json "graphs-$limit/run.json" 'd["memory"]')"
done
# What fills micro-batches up is no text: they are reported without it, evaluations are no larger for it, and where a device has no
# graphs there is none.
planned() { # planned SETTINGS OPTION...
    # shellcheck disable=SC2086
    FAKE_CUDA=$1 expect 0 "$FTENGINE" plan --json $run eval.batch_multiplier=2 "${@:2}"
}
look='d["resolved"]["micro_batch"], d["resolved"]["micro_batch_tokens"], d["resolved"]["train"], d["resolved"]["eval"]'
planned "$driver" device.name=cuda device.graphs=off
calls=$(json out "$look")
planned "$driver" device.name=cuda device.graphs=on
[ "$(json out "$look")" = "$calls" ] || fail "with graphs $(json out "$look"), without $calls"
planned version=13000,devices=0 device.graphs=off
calls=$(json out "$look, d['memory']['peak_requested_bytes']")
planned version=13000,devices=0 device.graphs=on
[ "$(json out "$look, d['memory']['peak_requested_bytes']")" = "$calls" ] || fail "a CPU plans for graphs: $(cat out)"
exit 0
