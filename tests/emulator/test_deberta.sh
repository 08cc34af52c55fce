#!/usr/bin/env bash
# DeBERTa v1, v2 and v3 with device.name=cuda, on the emulator as in test_training.sh: twenty steps beside the CPU's, in the
# memory that was planned, with the same bits in another order of threads.
. "${SOURCE_DIR:?is set by ctest}/tests/engine/shell_test.sh" || exit 1
: "${FAKE_CUDA_DIR:?}" "${EMULATED_MODULE:?}" "${FAKE_CUBLASLT:?}"
export FAKE_REPORT=$scratch/report FTENGINE_CUDA_MODULE=$EMULATED_MODULE FTENGINE_CUBLASLT=$FAKE_CUBLASLT
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export FAKE_CUDA=version=13000,memory=1073741824
run="$here/follow.ini model.init=random data.validation=$here/validation.tsv eval.strategy=steps eval.steps=10 train.max_steps=20
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
    python3 - "$@" <<'PYTHON' || fail "$2 and $3 went different ways"
import json, sys
tolerance, *runs = float(sys.argv[1]), *sys.argv[2:]
lines = [[json.loads(line) for line in open(run + "/metrics.jsonl")] for run in runs]
assert len(lines[0]) == len(lines[1]) == 22, [len(l) for l in lines]
for a, b in zip(*lines):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        if key != "tokens_per_second" and isinstance(a[key], (int, float)):
            assert abs(a[key] - b[key]) <= tolerance * max(1, abs(a[key])), (key, a, b)
losses = [line["loss"] for line in lines[1] if "loss" in line]
assert sum(losses[:5]) - sum(losses[-5:]) > 0.1, losses
PYTHON
}
if [ "${FT_SANITIZE:-}" = thread ]; then # every kernel, in two steps of each precision
    model v3 deberta_v3 initializer_range=0.3
    model wide deberta_v3 initializer_range=0.1 hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    trained v3-cuda v3 cuda train.max_steps=2 eval.steps=1
    for precision in bf16 fp16; do trained $precision-cuda wide cuda train.max_steps=2 eval.steps=1 train.precision=$precision; done
    exit 0
fi
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$1 and $2: other bits"; }

model v3 deberta_v3 initializer_range=0.3
model v2 deberta_v2_conv initializer_range=0.3
model v1 deberta_v1 initializer_range=0.3
families="v3 v2 v1" precisions="bf16 fp16"
[ -z "${FT_SANITIZE:-}" ] || families=v3 precisions=bf16 # the same kernels and calls: for sanitizers once is enough
for family in $families; do
    trained "$family-cpu" "$family" cpu
    trained "$family-cuda" "$family" cuda
    beside 2e-5 "$family-cpu" "$family-cuda"
    SIMT_ORDER=random trained "$family-random" "$family" cuda
    same "$family-cuda" "$family-random"
    trained "$family-graphs" "$family" cuda device.graphs=on
    beside 2e-5 "$family-cuda" "$family-graphs" # filled micro-batches: other sequences share a slab (test_step_graphs.c: the same bits)
    [ "$(json "$family-graphs/run.json" 'd["graphs"]["replayed"] > 20 and not d["graphs"]["failed"]')" = True ] ||
        fail "$family: $(json "$family-graphs/run.json" 'd["graphs"]')"
done

# 16 bits, where heads of 32 go through tensor cores.
model wide deberta_v3 initializer_range=0.1 hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
for precision in $precisions; do
    for device in cpu cuda; do trained "$precision-$device" wide $device train.precision=$precision train.learning_rate=0.001; done
    tolerance=3e-3
    [ $precision = bf16 ] && tolerance=3e-2
    beside $tolerance $precision-cpu $precision-cuda
    SIMT_ORDER=skewed trained "$precision-skewed" wide cuda train.precision=$precision train.learning_rate=0.001
    same "$precision-cuda" "$precision-skewed"
done

# In pieces, and computed again: the CPU's run of whole batches.
trained v3-pieces v3 cuda train.micro_batch=3 train.gradient_checkpointing=on
beside 2e-5 v3-cpu v3-pieces
exit 0
