#!/usr/bin/env bash
# train.precision=bf16 and fp16: PyTorch's trajectory in mixed precision beside ours (tests/vectors/make_precision_vectors.py),
# the same bits however the step is cut, the loss scale and its skipped steps, what is saved, and what diverges.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/fixtures/shell_test.sh disable=SC2154
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
run="$here/follow.ini data.cache_dir=none"
# train DIR [OPTION...]
train() {
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir="$dir" "$@"
}

# ---- beside PyTorch ----------------------------------------------------------------------------------------------------------
# beside DIR PRECISION: within twice PyTorch's distance from fp32
beside() {
    [ "$(json "$1/run.json" 'd["precision"]')" = "$2" ] || fail "run.json names another precision"
    expect 0 "$FTENGINE" predict "$1" --data "$here/validation.tsv" --json --logits --precision "$2"
    python3 "$SOURCE_DIR/tests/train/precision_gap.py" "$here" "$2" "$1/metrics.jsonl" out >verdict 2>&1 || fail "$1: $(cat verdict)"
    cat verdict
}
for precision in bf16 fp16; do
    train $precision train.precision=$precision
    beside $precision $precision
    train narrow-$precision train.precision=$precision train.residual=16bit # what adds up from layer to layer
    beside narrow-$precision $precision
    cmp -s $precision/metrics.jsonl narrow-$precision/metrics.jsonl && fail "train.residual=16bit changes nothing in $precision"
done
# What is saved is fp32, for everybody: the weights that were trained, not what they were rounded to.
python3 - bf16/model <<'PYTHON' || fail "the saved model is not one of fp32"
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:start])
header.pop("__metadata__", None)
assert {t["dtype"] for t in header.values()} == {"F32"}
assert json.load(open(sys.argv[1] + "/config.json"))["dtype"] == "float32"
begin, end = header["classifier.weight"]["data_offsets"]
assert any(data[start + begin + i:start + begin + i + 2] != b"\0\0" for i in range(0, end - begin, 4)), "only bf16 numbers"
PYTHON
# Fewer bytes, where a model is large enough for it to show.
plan="plan model.path=bert-base-uncased data.max_length=128 train.batch_size=32 --json"
for precision in fp32 bf16 fp16; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" $plan train.precision=$precision
    json out 'd["memory"]["at_peak"]' >plan-$precision
done
python3 - <<'PYTHON' || fail "plans of the precisions: $(cat plan-fp32 plan-bf16 plan-fp16)"
import ast
a, b, c = (ast.literal_eval(open("plan-" + p).read()) for p in ("fp32", "bf16", "fp16"))
norms = 25 * 2 * 768 * 4 # whose weights are fp32 too, behind those of 16 bits
# In bf16 the weights with their tails are as large as weights of fp32; in fp16 there is a master copy beside them.
assert abs(b["weights"] - a["weights"] - norms) <= 512 and abs(c["weights"] - 1.5 * a["weights"] - norms) <= 512
b.pop("weights"), c.pop("weights")
assert b.pop("workspace") < c.pop("workspace") # products of bf16 do not widen their operands first
assert b == c and b["gradients"] == a["gradients"] and b["optimizer"] == a["optimizer"]
assert b["activations"] < 0.52 * a["activations"], b["activations"] / a["activations"]
PYTHON
# Between layers: the rows in fp32, of 4 bytes a number, are gone, and so are 2 bytes of their gradient; where recomputation begins there are 2 for 4.
for every in off 1; do
    for residual in fp32 16bit; do
        expect 0 "$FTENGINE" plan model.path=bert-large-uncased data.max_length=512 train.batch_size=32 train.precision=bf16 train.gradient_checkpointing=$every train.residual=$residual --json
        json out 'd["memory"]["phases"]["forward"], d["memory"]["peak_requested_bytes"]' >plan-$every-$residual
    done
done
python3 - <<'PYTHON' || fail "plans of train.residual: $(cat plan-*-16bit plan-*-fp32)"
import ast
rows = 32 * 512 * 1024
for every, kept in ("off", 0), ("1", 23):
    (forward, peak), (narrow_forward, narrow_peak) = (ast.literal_eval(open(f"plan-{every}-{residual}").read()) for residual in ("fp32", "16bit"))
    print(every, forward - narrow_forward, peak - narrow_peak)
    assert forward - narrow_forward >= (2 * kept + 2) * rows and peak - narrow_peak >= 2 * rows * (1 if kept == 0 else 6), (every, (forward - narrow_forward) / rows, (peak - narrow_peak) / rows)
PYTHON

# ---- the same bits -----------------------------------------------------------------------------------------------------------
# same A B: the same model after training
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2: other bits than $1"; }
drop="model.hidden_dropout=0.1 model.attention_dropout=0.1 model.classifier_dropout=0.1 train.max_steps=20"
for form in bf16-fp32 bf16-16bit fp16-fp32 fp16-16bit; do
    types="train.precision=${form%-*} train.residual=${form#*-}"
    # shellcheck disable=SC2086
    train drop-$form $drop $types device.threads=1 output.save_steps=7 output.save_total_limit=9
    n=0
    for way in train.micro_batch=3 train.gradient_checkpointing=1 device.threads=3 device.isa=portable; do
        n=$((n + 1))
        # shellcheck disable=SC2086
        train way-$form-$n $drop $types $way
        same drop-$form way-$form-$n
    done
    # From the checkpoint in its middle.
    cp -r drop-$form again-$form
    for dir in "again-$form"/checkpoints/*; do [ "$dir" = "again-$form/checkpoints/step-00000007" ] || rm -r "$dir"; done
    # shellcheck disable=SC2086
    train again-$form $drop $types output.save_steps=7 output.save_total_limit=9 output.exists=resume
    same drop-$form again-$form
done
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=drop-bf16-16bit $drop train.precision=bf16 train.residual=fp32 output.exists=resume
one_error "cannot be resumed with another train.residual"

# ---- the loss scale ----------------------------------------------------------------------------------------------------------
# Behind its first step a run is stopped, given a loss scale that is too large, and continued: as in PyTorch.
often="train.precision=fp16 output.save_steps=1 output.save_total_limit=200"
# shellcheck disable=SC2086
train scale $often
for dir in scale/checkpoints/*; do [ "$dir" = scale/checkpoints/step-00000001 ] || rm -r "$dir"; done
[ "$(json scale/checkpoints/step-00000001/state.json 'd["loss_scale"], d["finite_steps"], d["skipped_steps"]')" = "(65536.0, 1, 0)" ] ||
    fail "the checkpoint lacks the state of the loss scale"
sed -i 's/"loss_scale": *65536\(\.0\)*/"loss_scale":16777216.0/' scale/checkpoints/step-00000001/state.json
cp -r scale scale-2
# shellcheck disable=SC2086
train scale $often output.exists=resume
python3 - "$here" <<'PYTHON' || fail "the loss scale goes another way than PyTorch's"
import json, sys
want = json.load(open(sys.argv[1] + "/precision.json"))["overflow"]
lines = [json.loads(line) for line in open("scale/metrics.jsonl")][:12]
# The first line was written before the scale was raised. Ours overflows less: PyTorch's gradients of weights are fp16, too.
scales = [2.0**24] + [l["loss_scale"] for l in lines[1:]]
assert scales[:6] == want["scales"][:6] and all(a >= b for a, b in zip(scales, want["scales"])), scales
skips = [b < a for a, b in zip(scales, scales[1:])]
for rates, of in (([l["learning_rate"] for l in lines], scales), (want["learning_rates"], want["scales"])):
    skipped = 0  # warm-up: a tenth of the rate more a step, but for those that were skipped
    for k, rate in enumerate(rates):
        assert abs(rate - 3e-4 * (k - skipped)) < 1e-12, (k, rate, skipped)
        skipped += k > 0 and of[k] < of[k - 1]
assert all(abs(l["loss"] - x) < 2e-3 for l, x in zip(lines[:7], want["losses"])), [l["loss"] for l in lines]
assert [l["step"] for l in lines] == list(range(1, 13))
skipped = sum(skips)
assert lines[-1]["skipped_steps"] == skipped > 3, (skipped, lines[-1])
run = json.load(open("scale/run.json"))
assert run["status"] == "completed" and run["steps"] == 100 and run["skipped_steps"] >= skipped and run["loss_scale"] <= 2.0**18
PYTHON
says "steps overflowed fp16"
# A checkpoint in the middle of that keeps all of it: the same bits as without a stop.
cp -r scale parts
for dir in parts/checkpoints/*; do [ "$dir" = parts/checkpoints/step-00000009 ] || rm -r "$dir"; done
# shellcheck disable=SC2086
train parts $often output.exists=resume
same scale parts
cmp <(grep -o '"loss_scale".*' scale/metrics.jsonl) <(grep -o '"loss_scale".*' parts/metrics.jsonl) ||
    fail "a resumed run has another loss scale"
for scale in 3.0 4.9406564584124654e-324; do # the second is one, but no number of single precision
    sed -i "s/\"loss_scale\": *[0-9.e-]*/\"loss_scale\":$scale/" scale-2/checkpoints/step-00000001/state.json
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $run output.dir=scale-2 $often output.exists=resume
    one_error "not a power of two"
done
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=parts $often train.precision=bf16 output.exists=resume
one_error "cannot be resumed with another train.precision: it was \"fp16\", now it is \"bf16\""

# ---- what diverges -----------------------------------------------------------------------------------------------------------
# In bf16 at once; in fp16 when no scale helps, and then nothing was changed since the last good step.
for precision in bf16 fp16; do
    # shellcheck disable=SC2086
    expect 5 "$FTENGINE" train $run output.dir=far-$precision train.precision=$precision train.learning_rate=100 \
        train.weight_decay=1 train.warmup_steps=3 train.lr_scheduler=constant_with_warmup
    one_error "diverged at step"
    [ "$(json far-$precision/run.json 'd["status"]')" = diverged ] || fail "run.json: another status"
done
says "train.precision=bf16 does not overflow"
[ "$(json far-fp16/run.json 'd["loss_scale"] >= 2.0**-14 and d["skipped_steps"] >= 25')" = True ] ||
    fail "fp16 gave up too early: $(cat far-fp16/run.json)"

# ---- words -------------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=none train.precision=bf17
one_error "bf17"
says "bf16"
expect 0 "$FTENGINE" eval bf16 --data "$here/validation.tsv" --precision fp16
for precision in fp32 fp16 int8; do expect 0 "$FTENGINE" eval narrow-bf16 --data "$here/validation.tsv" --precision $precision; done
for precision in fp32 auto; do
    for command in "train $run output.dir=none" "plan $run"; do
        # shellcheck disable=SC2086
        expect 2 "$FTENGINE" $command train.precision=$precision train.residual=16bit
        one_error "16bit is for train.precision=bf16 or fp16"
    done
done
expect 2 "$FTENGINE" eval bf16 --data "$here/validation.tsv" --precision int4
one_error "int4"
# shellcheck disable=SC2086
train auto train.precision=auto train.max_steps=2
says "precision  fp32 (train.precision = auto): bf16 would reserve"
# shellcheck disable=SC2086
train fp32 train.precision=fp32 train.max_steps=2
same auto fp32
[ "$(json auto/run.json 'd["precision"]')" = fp32 ] || fail "auto is another precision"

# ---- 8 bits ------------------------------------------------------------------------------------------------------------------
# Predictions alone: the same bits whatever computes them and how texts come together, about those of fp32, in planned memory.
answers() { # NAME [OPTION...]
    local name=$1
    shift
    expect 0 "$FTENGINE" predict bf16 --data "$here/validation.tsv" --json --logits "$@"
    mv out "$name.jsonl"
}
answers exact
answers int8 --precision int8 device.threads=1
for way in device.threads=3 device.isa=portable eval.batch_size=1 eval.batch_size=5; do
    answers other --precision int8 $way
    cmp -s int8.jsonl other.jsonl || fail "int8: other bits with $way"
done
python3 - <<'PYTHON' || fail "int8 is not near fp32"
import json
exact, int8 = ([json.loads(line)["logits"] for line in open(name)] for name in ("exact.jsonl", "int8.jsonl"))
values = [[v for row in rows for v in (row.values() if isinstance(row, dict) else row)] for rows in (exact, int8)]
off = max(abs(a - b) for a, b in zip(*values))
assert 0 < off < 0.05 * max(map(abs, values[0])), off
PYTHON
expect 0 "$FTENGINE" eval bf16 --data "$here/validation.tsv" --precision int8
expect 0 "$FTENGINE" embed bf16 --data "$here/validation.tsv" --pooling mean --precision int8
expect 0 "$FTENGINE" predict bf16 --data "$here/validation.tsv" --precision int8 --verbose
need=$(python3 -c "import re; n, u = re.search(r'memory +([0-9.]+)([KMG])iB for the whole process', open('err').read()).groups(); print(int((float(n) + 0.01) * 2 ** {'K': 10, 'M': 20, 'G': 30}[u]))")
expect 0 "$FTENGINE" predict bf16 --data "$here/validation.tsv" --precision int8 "memory.host_limit=$need"
for command in "train $run output.dir=none" "plan $run"; do
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" $command train.precision=int8
    one_error "int8 is for eval and predict"
done
[ ! -e none ] || fail "a run began in int8"
expect 2 "$FTENGINE" predict bf16 --data "$here/validation.tsv" --precision int8 model.storage=nf4
one_error "nf4 beside train.precision=int8"
exit 0
