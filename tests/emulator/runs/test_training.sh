#!/usr/bin/env bash
# Whole runs with device.name=cuda: the program, its module of kernels compiled for the emulator, a driver and a cuBLASLt
# over host memory. They follow the CPU's runs, take what was planned, and give the same bits in every order of threads and
# of queued work.
# ctest: part=3 tsan_part=3 asan_part=0 cost=1001
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
driver=version=13000,memory=1073741824
export FAKE_CUDA=$driver
# Sanitizers look at what runs, not at how far two runs go apart: of a hundred steps they see ten; ThreadSanitizer, to which every
# step of a precision is the same, sees two, and no order of threads or queues but one.
steps=10 threads=
[ "${FT_SANITIZE:-}" != thread ] || steps=2 threads=1
run="$here/follow.ini data.validation=$here/validation.tsv eval.strategy=steps eval.steps=$((steps / 2)) train.max_steps=$steps train.logging_steps=1
     model.hidden_dropout=0.1 model.attention_dropout=0.1 model.classifier_dropout=0.1 train.micro_batch=5 data.cache_dir=none"

# clean: nothing that the driver or cuBLASLt forbid was asked for, and everything was given back
clean() {
    [ "$(grep -c '^driver 0 misuses, 0 left$' report)" = 1 ] && [ "$(grep -c '^cublasLt 0 misuses, 0 left$' report)" = 1 ] ||
        fail "$1: $(cat report)"
}
# trained DIR [OPTION...]: a run on CUDA, from its start
trained() {
    local dir=$1
    shift
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir="$dir" device.name=cuda "$@"
    clean "$dir"
}
if [ -n "$threads" ]; then
    for precision in fp32 bf16 fp16; do trained $precision train.precision=$precision; done
    trained pieces data.train="$here/validation.tsv" train.gradient_checkpointing=on train.gradient_accumulation_steps=2
    [ "$(json pieces/run.json 'd["status"], d["steps"]')" = "('completed', 2)" ] || fail "run.json: $(cat pieces/run.json)"
    exit 0
fi

# ---- the same training as on the CPU, in the memory that was planned ---------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=cpu device.name=cpu
trained cuda
[ "$(json cuda/run.json 'd["device"], d["status"], d["steps"]')" = "('cuda:0', 'completed', 10)" ] || fail "run.json: $(cat cuda/run.json)"
python3 - <<'PYTHON' || fail "CUDA and CPU went different ways"
import json, os, struct
lines = {d: [json.loads(l) for l in open(d + "/metrics.jsonl")] for d in ("cpu", "cuda")}
assert len(lines["cpu"]) == len(lines["cuda"]) == 12, [len(l) for l in lines.values()]
for a, b in zip(lines["cpu"], lines["cuda"]):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second" and isinstance(a[key], (int, float)):
            assert abs(a[key] - b[key]) <= 2e-6 * max(1, abs(a[key])), (key, a[key], b[key])
def weights(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            yield name, struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
moved = 0
start = dict(weights(os.environ["SOURCE_DIR"] + "/tests/vectors/trainer/model/model.safetensors"))
for (name, a), (other, b) in zip(weights("cpu/model/model.safetensors"), weights("cuda/model/model.safetensors")):
    assert name == other
    worst = max(abs(x - y) for x, y in zip(a, b))
    # Adam divides by the root of v: where a gradient is all rounding, so is the step (the key's bias, rows never seen).
    assert worst <= (2e-2 if name.endswith("key.bias") else 2e-4), (name, worst)
    if name in start: moved = max(moved, max(abs(x - y) for x, y in zip(b, start[name])))
assert moved > 1e-3, moved
PYTHON
memory='{k: v for k, v in d["%s"].items() if k != "outside_allocator_bytes"}'
# shellcheck disable=SC2059
metered=$(json cuda/run.json "$(printf "$memory" memory)")
# shellcheck disable=SC2059
[ "$metered" = "$(json cuda/run.json "$(printf "$memory" planned)")" ] || fail "planned and metered differ: $metered"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run device.name=cuda --json
# shellcheck disable=SC2059
[ "$metered" = "$(json out "$(printf "$memory" memory)")" ] || fail "ftengine plan says something else: $metered, $(cat out)"

# A hundred steps with dropout: the loss of each within 1e-4.
if [ -z "${FT_SANITIZE:-}" ]; then
    hundred="$here/follow.ini data.cache_dir=none model.hidden_dropout=0.1 model.attention_dropout=0.1 model.classifier_dropout=0.1"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $hundred output.dir=hundred-cpu device.name=cpu
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $hundred output.dir=hundred-cuda device.name=cuda
    clean hundred-cuda
    python3 - <<'PYTHON' || fail "a hundred steps: CUDA and CPU went different ways"
import json
runs = [[l for l in map(json.loads, open(f"hundred-{d}/metrics.jsonl")) if "learning_rate" in l] for d in ("cpu", "cuda")]
assert [len(r) for r in runs] == [100, 100], [len(r) for r in runs]
worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(*runs))
print(f"a hundred steps in fp32: losses apart by {worst:.1e} at most")
assert worst < 1e-4, worst
PYTHON
fi

# ---- the same bits in any order ----------------------------------------------------------------------------------------------
same() {
    cmp cuda/model/model.safetensors "$1/model/model.safetensors" || fail "$1: other bits"
}
orders='reverse random skewed' schedules='1 2' # schedules: eager, random; the default waits until somebody does
[ -z "${FT_SANITIZE:-}" ] || orders=random schedules=2
for order in $orders; do
    SIMT_ORDER=$order trained "threads-$order"
    same "threads-$order"
done
for schedule in $schedules; do
    FAKE_CUDA="$driver,schedule=$schedule" trained "queue-$schedule"
    same "queue-$schedule"
done

# ---- 16 bits -----------------------------------------------------------------------------------------------------------------
# A hundred steps are within twice PyTorch's gap from fp32.
[ -n "${FT_SANITIZE:-}" ] || for form in bf16 fp16 bf16-narrow fp16-narrow; do
    precision=${form%-*} residual=fp32
    [ "$form" = "$precision" ] || residual=16bit
    rm -f report
    expect 0 "$FTENGINE" train "$here/follow.ini" output.dir=$form device.name=cuda train.precision=$precision train.residual=$residual data.cache_dir=none
    clean $form
    expect 0 "$FTENGINE" predict $form --data "$here/validation.tsv" --json --logits --precision $precision device.name=cuda
    python3 "$SOURCE_DIR/tests/train/precision_gap.py" "$here" $precision $form/metrics.jsonl out >verdict 2>&1 || fail "$form: $(cat verdict)"
    cat verdict
    # shellcheck disable=SC2059
    [ "$(json $form/run.json "$(printf "$memory" memory)")" = "$(json $form/run.json "$(printf "$memory" planned)")" ] || fail "$form: planned and metered differ"
done
# fp16 stays beside the CPU's fp16, with a loss scale that overflows at first, takes what was planned, and has the same bits in
# another order.
# overflowing DIR OPTION...: ten steps, nine of them with a loss scale of 2^24
overflowing() {
    local dir=$1
    shift
    # shellcheck disable=SC2086
    set -- $run output.dir="$dir" train.precision=fp16 output.save_steps=1 output.save_total_limit=20 "$@"
    expect 0 "$FTENGINE" train "$@"
    for step in "$dir"/checkpoints/*; do [ "$step" = "$dir/checkpoints/step-00000001" ] || rm -r "$step"; done
    sed -i 's/"loss_scale": *65536\(\.0\)*/"loss_scale":16777216.0/' "$dir/checkpoints/step-00000001/state.json"
    rm -f report
    expect 0 "$FTENGINE" train "$@" output.exists=resume
}
overflowing fp16-cpu device.name=cpu
overflowing fp16-cuda device.name=cuda
clean fp16-cuda
SIMT_ORDER=random overflowing fp16-random device.name=cuda
cmp fp16-cuda/model/model.safetensors fp16-random/model/model.safetensors || fail "fp16: other bits in another order"
overflowing fp16-graphs device.name=cuda device.graphs=on # replayed steps are skipped, and the scale halves, as those that are queued
clean fp16-graphs
cmp fp16-cuda/model/model.safetensors fp16-graphs/model/model.safetensors || fail "fp16: other bits from graphs"
[ "$(json fp16-graphs/run.json 'd["graphs"]["replayed"] > 5, d["graphs"]["failed"], d["skipped_steps"] > 3')" = "(True, False, True)" ] ||
    fail "fp16-graphs: $(json fp16-graphs/run.json 'd["graphs"]')"
python3 - <<'PYTHON' || fail "fp16: CUDA and CPU went different ways"
import json
lines = {d: [json.loads(l) for l in open(f"fp16-{d}/metrics.jsonl")] for d in ("cpu", "cuda")}
assert len(lines["cpu"]) == len(lines["cuda"]) == 12
for a, b in zip(lines["cpu"], lines["cuda"]):
    assert a.keys() == b.keys() and all(a.get(k) == b.get(k) for k in ("step", "loss_scale", "skipped_steps", "learning_rate")), (a, b)
    assert abs(a.get("loss", 0) - b.get("loss", 0)) < 2e-3, (a, b)
assert lines["cuda"][-2]["skipped_steps"] > 3, lines["cuda"][-2]
PYTHON
# shellcheck disable=SC2059
[ "$(json fp16-cuda/run.json "$(printf "$memory" memory)")" = "$(json fp16-cuda/run.json "$(printf "$memory" planned)")" ] ||
    fail "fp16: planned and metered differ"

# ---- only the rows of the word table that are read: the same bits, in what was planned ------------------------------------------
head -30 "$here/train.tsv" >few.tsv # evaluations read rows that training does not
precisions='fp32 bf16 fp16'
[ -z "${FT_SANITIZE:-}" ] || precisions=bf16
for precision in $precisions; do
    few="data.train=$scratch/few.tsv data.test=$here/train.tsv train.weight_decay=0.1 train.max_grad_norm=0.5 train.precision=$precision"
    # shellcheck disable=SC2086
    trained "some-$precision" $few
    grep -q 'rows of the word table are trained' err || fail "all rows are on the device: $(cat err)"
    # shellcheck disable=SC2059
    [ "$(json "some-$precision/run.json" "$(printf "$memory" memory)")" = "$(json "some-$precision/run.json" "$(printf "$memory" planned)")" ] ||
        fail "some rows in $precision: planned and metered differ"
    # shellcheck disable=SC2086
    trained "all-$precision" $few memory.active_vocabulary=off
    cmp "some-$precision/model/model.safetensors" "all-$precision/model/model.safetensors" || fail "some rows in $precision: other bits"
    cmp "some-$precision/predictions.jsonl" "all-$precision/predictions.jsonl" || fail "some rows in $precision: other predictions"
done

# ---- stopped and gone on -----------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
longer="$run train.max_steps=30 output.save_steps=3 device.name=cuda"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $longer output.dir=whole
code=0
for _ in $(seq 10); do # a run that is faster than the signal is tried again
    rm -rf parts
    # shellcheck disable=SC2086
    "$FTENGINE" train $longer output.dir=parts >out 2>err &
    pid=$!
    for _ in $(seq 12000); do [ -s parts/metrics.jsonl ] && break; sleep 0.01; done
    kill -INT $pid 2>/dev/null
    wait $pid
    code=$?
    [ $code = 0 ] || break
done
[ $code = 130 ] || fail "exit code $code after SIGINT"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $longer output.dir=parts output.exists=resume
cmp whole/model/model.safetensors parts/model/model.safetensors || fail "a resumed run: another best model"
cmp whole/checkpoints/step-00000030/state.safetensors parts/checkpoints/step-00000030/state.safetensors || fail "a resumed run: another state"

# ---- predict, auto, and what cannot be ---------------------------------------------------------------------------------------
expect 0 "$FTENGINE" eval cuda --data "$here/validation.tsv" device.name=cuda
sort out >on_cuda
expect 0 "$FTENGINE" eval cuda --data "$here/validation.tsv" device.name=cpu
[ "$(grep -o 'accuracy.*' on_cuda)" = "$(sort out | grep -o 'accuracy.*')" ] || fail "eval: $(cat on_cuda out)"

# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=auto train.max_steps=1 eval.strategy=no
[ "$(json auto/run.json 'd["device"]')" = cuda:0 ] || fail "auto is not CUDA"
# shellcheck disable=SC2086
FAKE_CUDA="$driver,capability=75" expect 0 "$FTENGINE" train $run output.dir=old train.max_steps=1 eval.strategy=no
says "warning: a GPU (NVIDIA Fake 4096) is not used, device.name=auto is the CPU: NVIDIA Fake 4096 has compute capability 7.5, but 8.0 is needed"
says "the CPU: NVIDIA Fake 4096 was not used"
# shellcheck disable=SC2086
FAKE_CUDA="version=12020" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda
one_error "supports CUDA 12.2, but the kernels need 13.0"
# shellcheck disable=SC2086
FTENGINE_CUDA_MODULE="$scratch/none.so" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda
one_error "FTENGINE_CUDA_MODULE names a file that cannot be read"
# shellcheck disable=SC2086
FTENGINE_CUBLASLT="$scratch/none.so" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda
one_error "FTENGINE_CUBLASLT names a file that is not there"
# shellcheck disable=SC2086
FTENGINE_CUDA_MODULE="$FAKE_CUBLASLT" expect 4 "$FTENGINE" train $run output.dir=none device.name=cuda
one_error "this is no library of ftengine's CUDA kernels"
[ ! -e none ] || fail "a run that could not start left a directory"
expect 3 "$FTENGINE" train $here/follow.ini output.dir=none device.name=cuda data.cache_dir=none memory.limit=20MiB
exit 0
