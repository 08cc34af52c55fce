#!/usr/bin/env bash
# Runs on CUDA devices that are not what they were when the run was planned: which device it takes, where it goes on, and
# that the numbers stay those of an undisturbed run. Kernels, driver and cuBLASLt as in test_training.sh.
. "${SOURCE_DIR:?is set by ctest}/tests/engine/shell_test.sh" || exit 1
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
python3 - <<'PYTHON' || fail "the CPU found something else"
import json
runs = [[l for l in map(json.loads, open(d + "/metrics.jsonl")) if "out_of_memory" not in l] for d in ("base", "cpu")]
assert len(runs[0]) == len(runs[1]) == 6, [len(r) for r in runs]
for a, b in zip(*runs):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second": assert abs(a[key] - b[key]) <= 2e-6 * max(1, abs(a[key])), (key, a[key], b[key])
PYTHON

# ---- only what the configuration allows ---------------------------------------------------------------------------------
for options in "device.name=cuda" "device.name=cuda device.wait=true device.wait_timeout=1s device.check_interval=0.2s" \
               "memory.on_oom=fail" "memory.max_retries=0"; do
    # shellcheck disable=SC2086
    FAKE_CUDA="$driver,devices=2,$gone" expect 3 "$FTENGINE" train $run output.dir=none $options
    one_error "out of memory on cuda:0"
    [ ! -e none ] || fail "a run that could not start left a directory"
done

# ---- a device that is too small -----------------------------------------------------------------------------------------
trained small version=13000,memory=25165824
[ "$(device small)" = cpu ] || fail "a run on a device that it does not fit"
says "device.name=auto is the CPU: "
# shellcheck disable=SC2086
FAKE_CUDA=version=13000,memory=25165824 expect 3 "$FTENGINE" train $run output.dir=none device.name=cuda
exit 0
