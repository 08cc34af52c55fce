#!/usr/bin/env bash
# 64-bit ARM: built with Debian's cross compiler, run by qemu's emulation of a user's programs. Ten steps in fp32 (and in bf16, with an adapter, of other
# families), studies of 20 trials by ask and tell and of trainings, and what the Python module says, have the bits that they have here. Needs packages of
# Debian for arm64, from its servers at the first time, and minutes.
# ctest: label=full_size sanitize=leave timeout=7200
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! command -v aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null; then
    echo "skipped: tools/install.sh aarch64 installs the cross compiler and the emulator on x86-64"
    exit 77
fi
arm=${FT_AARCH64_BUILD:-$BUILD_DIR/aarch64}
"$SOURCE_DIR/tools/aarch64.sh" "$arm" >out 2>err || fail "the build: $(tail -5 out)"
file -b "$arm/dist/ftengine" | grep -q aarch64 || fail "what was built is $(file -b "$arm/dist/ftengine")"

cp -r "$here" trainer || fail "copy"
for family in modernbert deberta_v3; do # their shapes before the trainer's vocabulary; weights are drawn
    mkdir $family && cp trainer/model/vocab.txt $family/ && echo '{"tokenizer_class": "BertTokenizer"}' >$family/tokenizer_config.json || fail "copy"
    python3 -c "import json, sys; print(json.dumps(json.load(open(sys.argv[1])) | {'vocab_size': len(open('trainer/model/vocab.txt').readlines())}))" \
        "$SOURCE_DIR/tests/vectors/$family/config.json" >$family/config.json || fail "$family"
done
base="trainer/follow.ini data.validation=trainer/validation.tsv eval.strategy=steps eval.steps=5 train.max_steps=10 train.warmup_steps=2 data.cache_dir=none
      model.ignore_mismatched_sizes=true"
# Values of metrics.jsonl that are no time, and the predictions to the last digit.
figures() {
    python3 - "$1" <<'PYTHON'
import json, sys
for line in open(f"{sys.argv[1]}/metrics.jsonl"):
    print({k: v for k, v in json.loads(line).items() if "second" not in k})
print(open(f"{sys.argv[1]}/predictions.jsonl").read())
PYTHON
}
number=0
while read -r options; do
    number=$((number + 1))
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $base $options output.dir=here-$number
    # shellcheck disable=SC2086
    expect 0 "$arm/run" train $base $options output.dir=arm-$number
    for path in here-$number/model/model.safetensors here-$number/adapter/adapter_model.safetensors; do
        [ ! -e $path ] || cmp "$path" "${path/#here/arm}" || fail "other weights with $options"
    done
    [ "$(figures here-$number)" = "$(figures arm-$number)" ] || fail "other figures with $options: $(diff <(figures here-$number) <(figures arm-$number))"
    echo "$(sha256sum here-$number/*/*model.safetensors | cut -c1-16) $options"
done <<'CASES'
model.hidden_dropout=0.1 train.lr_scheduler=linear
train.lr_scheduler=cosine train.label_smoothing=0.1 train.gradient_accumulation_steps=2
train.precision=bf16
adapter.type=lora adapter.r=4 adapter.dropout=0.1
model.path=modernbert model.init=random train.loss=focal
model.path=deberta_v3 model.init=random train.lr_scheduler=polynomial
CASES
[ $number = 6 ] || fail "$number cases"

for sampler in tpe gp; do
    mkdir -p here-$sampler arm-$sampler
    (cd here-$sampler && python3 "$SOURCE_DIR/tests/fixtures/ask_and_tell.py" $sampler 20 "$FTENGINE") >here.txt 2>err || fail "$sampler"
    (cd arm-$sampler && python3 "$SOURCE_DIR/tests/fixtures/ask_and_tell.py" $sampler 20 "$arm/run") >arm.txt 2>err || fail "$sampler, emulated"
    [ "$(wc -l <here.txt)" = 20 ] && cmp here.txt arm.txt || fail "$sampler: $(diff here.txt arm.txt)"
    echo "$(sha256sum here.txt | cut -c1-16) 20 trials of $sampler"
done

# The module, with a study of trainings: the coordinator is in Python, trials are processes of the program.
cat >use.py <<'PYTHON'
import sys
import ftengine
study = ftengine.tune("trainer/follow.ini", study=sys.argv[1], trials=20, parallel=1, train="trainer/train.tsv", validation="trainer/validation.tsv", max_steps=2,
                      space={"learning_rate": "float(1e-4, 1e-2, log)", "batch_size": [4, 8], "train.weight_decay": "float(0, 0.1)"}, **{"data.cache_dir": "none", "eval.strategy": "epoch"})
for trial in ftengine.study("trials", sys.argv[1])["trials"]:
    print(trial["number"], trial["state"], sorted(trial["params"].items()), trial["values"])
with ftengine.load(sys.argv[2]) as model:
    print([[float(p).hex() for p in row] for row in model.predict_proba(["a fine opera", "the ferry left late"])])
PYTHON
mkdir here arm && cp -r trainer here/ && cp -r trainer arm/ || fail "copy"
export PYTHONPATH=$SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1
(cd here && FTENGINE_LIBRARY=$BUILD_DIR/libftengine.so FTENGINE_PROGRAM=$FTENGINE python3 -S ../use.py study ../here-1) >here.txt 2>err || fail "the module: $(cat here.txt)"
(cd arm && FTENGINE_LIBRARY=$arm/libftengine.so FTENGINE_PROGRAM=$arm/run "$arm/python" ../use.py study ../here-1) >arm.txt 2>err || fail "the module, emulated: $(cat arm.txt)"
[ "$(wc -l <here.txt)" = 21 ] && cmp here.txt arm.txt || fail "a study of trainings: $(diff here.txt arm.txt)"
echo "$(sha256sum here.txt | cut -c1-16) 20 trainings of a study, and a prediction, from Python"
