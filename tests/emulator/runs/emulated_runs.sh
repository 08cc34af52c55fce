# Sourced by scripts that train from configurations of tests/vectors with device.name=cuda, on the emulator as in test_training.sh.
# Whoever sources it says in $steps how long runs are; they are evaluated in the middle and at the end.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}" "${steps:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export FAKE_CUDA=version=13000,memory=1073741824
run="$here/follow.ini model.init=random data.validation=$here/validation.tsv eval.strategy=steps eval.steps=$((steps / 2)) train.max_steps=$steps
     train.logging_steps=1 model.hidden_dropout=0.1 model.attention_dropout=0.1 data.cache_dir=none"

# model DIR FAMILY [SETTING...]: a configuration of tests/vectors in front of the trainer's vocabulary; settings are of Python
model() {
    local dir=$1 family=$2
    shift 2
    mkdir "$dir" && cp "$here/model/vocab.txt" "$dir" && echo '{"tokenizer_class": "BertTokenizer"}' >"$dir/tokenizer_config.json"
    python3 - "$SOURCE_DIR/tests/vectors/$family/config.json" "$dir" "$@" <<'PYTHON' || fail "no config.json for $family"
import json, sys
source, directory, *settings = sys.argv[1:]
config = json.load(open(source)) | {"vocab_size": len(open(directory + "/vocab.txt").readlines())}
for setting in settings: config |= eval(f"dict({setting})")
if "patch_size" in config: # pictures, as large as the configuration says
    sides = config["image_size"] if isinstance(config["image_size"], list) else [config["image_size"]] * 2
    json.dump({"image_processor_type": "ViTImageProcessor", "size": dict(zip(("height", "width"), sides))}, open(directory + "/preprocessor_config.json", "w"))
json.dump(config, open(directory + "/config.json", "w"))
PYTHON
}
# trained DIR MODEL DEVICE [OPTION...]: in the memory that was planned, asking nothing that is forbidden
trained() {
    local dir=$1 of=$2 device=$3
    shift 3
    rm -f report
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run model.path="$of" output.dir="$dir" device.name="$device" "$@"
    [ "$(json "$dir/run.json" '{k: v for k, v in d["memory"].items() if k != "outside_allocator_bytes"} == {k: v for k, v in d["planned"].items() if k != "outside_allocator_bytes"}')" = True ] ||
        fail "$dir: planned and metered differ"
    [ "$device" = cpu ] && return
    [ "$(grep -c '^driver 0 misuses, 0 left$' report)" = 1 ] && [ "$(grep -c '^cublasLt 0 misuses, 0 left$' report)" = 1 ] ||
        fail "$dir: $(cat report)"
}
# beside TOLERANCE A B: every number that was logged
beside() {
    python3 - "$((steps + 2))" "$@" <<'PYTHON' || fail "$2 and $3 went different ways"
import json, sys
count, tolerance, *runs = int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]
lines = [[json.loads(line) for line in open(run + "/metrics.jsonl")] for run in runs]
assert len(lines[0]) == len(lines[1]) == count, [len(l) for l in lines]
for a, b in zip(*lines):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second" and isinstance(a[key], (int, float)):
            assert abs(a[key] - b[key]) <= tolerance * max(1, abs(a[key])), (key, a, b)
PYTHON
}
