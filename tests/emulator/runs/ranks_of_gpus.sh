# Sourced by scripts that train on several GPUs: the program, a rank a process, each on a device of the fake driver with emulated kernels, sums by the fake
# NCCL; runs are of $steps steps, as emulated_runs.sh has them.
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
export FTENGINE_NCCL=${FAKE_NCCL_LIBRARY:?} FAKE_CUDA=$FAKE_CUDA,devices=4
model bert bert_gelu
head -13 "$here/validation.tsv" >few.tsv
options="data.validation=$scratch/few.tsv distributed.channels=2 output.save_steps=2 output.save_total_limit=9"

# ranks DIR MODEL N [OPTION...]: on so many GPUs, in what was planned, asking nothing that is forbidden
ranks() {
    local dir=$1 of=$2 n=$3 list
    shift 3
    list=$(seq -s, 0 $((n - 1)))
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run $options model.path="$of" output.dir="$dir" --devices "cuda:$list" "$@"
    for what in driver cublasLt nccl; do
        [ "$(grep -c "^$what 0 misuses, 0 left$" report)" = "$n" ] || fail "$dir: $what: $(cat report)"
    done
    python3 - "$dir/run.json" "$n" <<'PYTHON' || fail "$dir: planned and metered differ"
import json, sys
run, n = json.load(open(sys.argv[1])), int(sys.argv[2])
assert [(d["rank"], d["device"]) for d in run["devices"]] == [(r, f"cuda:{r}") for r in range(n)], run["devices"]
for device in run["devices"]: # the first one saves, too
    assert device["communication"] == {"planned_bytes": 24 << 20, "bytes": 24 << 20}, device
    keys = run["planned"] if device["rank"] == 0 else ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "at_peak")
    assert all(device["memory"][k] == run["planned"][k] for k in keys), (device["memory"], run["planned"])
PYTHON
}
same() {
    cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2 has another model than $1"
    cmp "$1/predictions.jsonl" "$2/predictions.jsonl" || fail "$2 predicts otherwise than $1"
}

# from DIR N NEW [OPTION...]: the run in DIR, from its first checkpoint on, with another number of GPUs
from() {
    local of=$1 n=$2 dir=$3
    shift 3
    cp -r "$of" "$dir" && rm -r "$dir/checkpoints/step-0000000$steps"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run $options model.path=bert output.dir="$dir" output.exists=resume --devices "cuda:$(seq -s, 0 $((n - 1)))" "$@"
    says "resumed    at step $((steps / 2))"
}
# lost DIR SETTING: a run of two that ends badly
lost() {
    # shellcheck disable=SC2086
    FAKE_NCCL=$2 expect 1 "$FTENGINE" train $run $options model.path=bert output.dir="$1" --devices cuda:0,1
}
