#!/usr/bin/env bash
# Whole runs in bf16 and fp16 with device.name=cuda, on the emulated kernels (as in test_training.sh): within twice PyTorch's
# gap from fp32, beside the CPU's in the same precision, in the memory that was planned, the same bits in any order, and the
# same steps skipped when fp16 overflows.
. "${SOURCE_DIR:?is set by ctest}/tests/engine/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
driver=version=13000,memory=1073741824
export FAKE_CUDA=$driver
run="$here/follow.ini data.cache_dir=none train.logging_steps=1"

# trained DIR DEVICE [OPTION...]: a run from its start, or going on; nothing was asked of CUDA that may not be
trained() {
    local dir=$1 device=$2
    shift 2
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir="$dir" device.name="$device" "$@"
    [ "$device" = cpu ] || { [ "$(grep -c '^driver 0 misuses, 0 left$' report)" = 1 ] &&
        [ "$(grep -c '^cublasLt 0 misuses, 0 left$' report)" = 1 ]; } || fail "$dir: $(cat report)"
}

for precision in bf16 fp16; do
    # ---- beside PyTorch ------------------------------------------------------------------------------------------------------
    trained $precision cuda train.precision=$precision
    [ "$(json $precision/run.json 'd["precision"], d["device"], d["steps"]')" = "('$precision', 'cuda:0', 100)" ] ||
        fail "run.json: $(cat $precision/run.json)"
    # The first 50 steps: behind them roundings have grown into other trajectories, PyTorch's like ours. Runs whose learning
    # rates are a hundredth apart lie between 1.1 and 1.7 of its gap here, on the CPU and on CUDA.
    python3 - "$here" $precision <<'PYTHON' || fail "$precision: farther from fp32 than twice PyTorch's gap"
import json, sys
here, precision = sys.argv[1:]
right = [step["loss"] for step in json.load(open(here + "/expect.json"))["steps"]]
gap = json.load(open(here + "/precision.json"))[precision]["gap"]["first_50"]["rms"]
ours = [json.loads(line)["loss"] for line in open(precision + "/metrics.jsonl")]
assert len(ours) == len(right) == 100
rms = (sum((a - b) ** 2 for a, b in zip(ours[:50], right)) / 50) ** 0.5
assert 0 < rms <= 2 * gap, (rms, gap)
assert sum(ours[80:]) < 0.7 * sum(ours[:20]), "nothing was learnt"
PYTHON
    expect 0 "$FTENGINE" predict $precision --data "$here/validation.tsv" --json --precision $precision device.name=cuda
    mv out on_cuda
    expect 0 "$FTENGINE" predict $precision --data "$here/validation.tsv" --json --precision $precision device.name=cpu
    python3 - out on_cuda $precision <<'PYTHON' || fail "$precision: CUDA predicts something else than the CPU"
import json, sys
a, b = ([json.loads(line)["probabilities"] for line in open(path)] for path in sys.argv[1:3])
assert len(a) == len(b) == 60
worst = max(abs(x[label] - y[label]) for x, y in zip(a, b) for label in x)
assert worst <= {"bf16": 2e-2, "fp16": 2e-3}[sys.argv[3]], worst
PYTHON
    memory='{k: v for k, v in d["%s"].items() if k != "outside_allocator_bytes"}'
    # shellcheck disable=SC2059
    [ "$(json $precision/run.json "$(printf "$memory" memory)")" = "$(json $precision/run.json "$(printf "$memory" planned)")" ] ||
        fail "$precision: planned and metered differ"

    # ---- beside the CPU, and the same bits in any order ----------------------------------------------------------------------
    drop="train.precision=$precision train.max_steps=8 train.micro_batch=5 model.hidden_dropout=0.1 model.attention_dropout=0.1
          model.classifier_dropout=0.1"
    # shellcheck disable=SC2086
    trained cpu-$precision cpu $drop
    # shellcheck disable=SC2086
    trained drop-$precision cuda $drop
    python3 - cpu-$precision drop-$precision $precision <<'PYTHON' || fail "$precision: CUDA and CPU went different ways"
import json, sys
a, b = ([json.loads(line) for line in open(d + "/metrics.jsonl")] for d in sys.argv[1:3])
assert len(a) == len(b) == 8
worst = max(abs(x["loss"] - y["loss"]) / x["loss"] for x, y in zip(a, b))
assert worst <= {"bf16": 4e-3, "fp16": 5e-4}[sys.argv[3]], worst  # half a unit in the last place of the type
assert all(x.get("loss_scale") == y.get("loss_scale") for x, y in zip(a, b))
PYTHON
    # shellcheck disable=SC2086
    SIMT_ORDER=random trained threads-$precision cuda $drop
    # shellcheck disable=SC2086
    FAKE_CUDA="$driver,schedule=2" trained queue-$precision cuda $drop
    for other in threads queue; do
        cmp drop-$precision/model/model.safetensors $other-$precision/model/model.safetensors || fail "$other-$precision: other bits"
    done
done

# ---- a loss scale that is too large ------------------------------------------------------------------------------------------
# Given to a run behind its first step: CPU and CUDA skip the same steps, and go on with the same scale.
scaled="train.precision=fp16 train.max_steps=14 output.save_steps=1 output.save_total_limit=200"
# shellcheck disable=SC2086
trained on-cpu cpu $scaled
for dir in on-cpu/checkpoints/*; do [ "$dir" = on-cpu/checkpoints/step-00000001 ] || rm -r "$dir"; done
sed -i 's/"loss_scale": *65536\(\.0\)*/"loss_scale":16777216.0/' on-cpu/checkpoints/step-00000001/state.json
cp -r on-cpu on-cuda
# shellcheck disable=SC2086
trained on-cpu cpu $scaled output.exists=resume
# shellcheck disable=SC2086
trained on-cuda cuda $scaled output.exists=resume
python3 - <<'PYTHON' || fail "an overflow is not the same on CUDA: $(cat on-cuda/metrics.jsonl)"
import json
a, b = ([json.loads(line) for line in open(d + "/metrics.jsonl")] for d in ("on-cpu", "on-cuda"))
assert len(a) == len(b) == 14
for x, y in zip(a, b):
    for key in ("step", "loss_scale", "skipped_steps", "learning_rate"):
        assert x.get(key) == y.get(key), (key, x, y)
    assert abs(x["loss"] - y["loss"]) <= 5e-4 * x["loss"], (x, y)
assert a[-1]["skipped_steps"] > 3 and a[-1]["loss_scale"] < 2.0**20
PYTHON
exit 0
