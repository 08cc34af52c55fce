#!/usr/bin/env bash
# What language models of three families write with device.name=cuda, on the emulator, beside the CPU: prompts read together, then one query a text over the keys
# that are kept, in fp32 and 16 bits, alone and among others, asking nothing of the driver that is forbidden.
# Catches: sequences without a query in an attention kernel's grid, keys of 16 bits that are added to what lay there, a block that is too small on a GPU.
# ctest: tsan=leave sanitize=leave
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
python3 - <<'PY'
import json
words = "the movie was great and the film was not so good as they said it would be".split()
with open("prompts.jsonl", "w") as f:
    f.writelines(json.dumps({"prompt": " ".join(words[: 1 + 7 * i % 13])}) + "\n" for i in range(5))
with open("texts.jsonl", "w") as f:
    f.writelines(json.dumps({"text": " ".join(words[i:])}) + "\n" for i in range(5))
PY
written() { # FILE ARGUMENTS...
    local file=$1
    shift
    rm -f report
    expect 0 "$FTENGINE" predict "$@" --data prompts.jsonl --output "$file" --max-new-tokens 10
    case "$*" in
    *device.name=cuda*)
        [ "$(grep -c '^driver 0 misuses, 0 left$' report)" = 1 ] && [ "$(grep -c '^cublasLt 0 misuses, 0 left$' report)" = 1 ] || fail "$file: $(cat report)"
        ;;
    esac
}
for kind in "qwen2_tied qwen" "qwen3 qwen" "llama llama3"; do
    read -r family tokenizer <<<"$kind"
    mkdir "$family"
    cp "$SOURCE_DIR/tests/vectors/decoder_tokenizers/$tokenizer"/tokenizer*.json "$family"
    json "$SOURCE_DIR/tests/vectors/causal_lm/$family/config.json" "__import__('json').dumps(d | {'vocab_size': 1500, 'max_position_embeddings': 128, 'initializer_range': 0.3, 'hidden_size': 64,
        'num_attention_heads': 2, 'num_key_value_heads': 1, 'head_dim': 32})" >"$family/config.json"
    expect 0 "$FTENGINE" train model.path="$family" model.init=random data.train=texts.jsonl train.task=causal_lm train.max_steps=1 eval.strategy=no \
        device.name=cpu output.dir="$family-run"
    written cpu.jsonl "$family-run" device.name=cpu
    written cuda.jsonl "$family-run" device.name=cuda
    cmp cpu.jsonl cuda.jsonl || fail "$family: $(diff cpu.jsonl cuda.jsonl)"
    written few.jsonl "$family-run" device.name=cuda eval.batch_size=2
    cmp few.jsonl cuda.jsonl || fail "$family, two texts at a time: $(diff few.jsonl cuda.jsonl)"
    for precision in bf16 fp16; do
        written cuda.jsonl "$family-run" device.name=cuda --precision $precision
        python3 - <<'PY' || fail "$family in $precision: $(diff cpu.jsonl cuda.jsonl)"
import json
pairs = [(json.loads(a), json.loads(b)) for a, b in zip(open("cpu.jsonl"), open("cuda.jsonl"))]
same = sum(a["completion"][:3] == b["completion"][:3] for a, b in pairs)
assert same >= 4 and all(b["completion_tokens"] == a["completion_tokens"] for a, b in pairs), pairs
PY
    done
done
