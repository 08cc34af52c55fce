#!/usr/bin/env bash
# Decoders from end to end: language modelling and classes of whole texts, with heads of their own and tied ones, LoRA; any micro-batches and any
# number of rows whose logits exist at once give the same bits, planned bytes are metered, eval agrees with the run, a run goes on with the same bits.
# Catches: logits of the whole vocabulary that no plan counts, a head that is saved twice or not at all, a figure of other tokens than the run's,
# an adapter that takes the head with it, and a task that a model cannot do and nobody refuses.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1

# decoder DIR FAMILY [KEY...]: a configuration of tests/vectors in front of the trainer's vocabulary
decoder() {
    mkdir "$1" && cp "$here/model/vocab.txt" "$1" && echo '{"tokenizer_class": "BertTokenizer"}' >"$1/tokenizer_config.json"
    json "$SOURCE_DIR/tests/vectors/$2/config.json" "__import__('json').dumps(d | {'vocab_size': len(open('$1/vocab.txt').readlines()), 'initializer_range': 0.1} | dict(${3:-}))" >"$1/config.json"
}
decoder own causal_lm/llama
decoder tied causal_lm/qwen2_tied
decoder qwen3 causal_lm/qwen3
common="$here/follow.ini model.init=random data.train=$here/train.tsv data.validation=$here/validation.tsv data.test= train.max_steps=6 eval.strategy=steps eval.steps=6 data.cache_dir=none
        model.ignore_mismatched_sizes=true"
language="$common train.task=causal_lm eval.metric=perplexity memory.loss_rows=40"
# shellcheck disable=SC2086
train() { expect 0 "$FTENGINE" train $language "$@"; }
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$3"; }
metered() {
    [ "$(json "$1/run.json" 'd["memory"]["peak_requested_bytes"] == d["planned"]["peak_requested_bytes"]')" = True ] || fail "$1: planned and metered differ: $(json "$1/run.json" 'd["memory"], d["planned"]')"
}
last_of() { python3 -S -c 'import json, sys
print([d for d in map(json.loads, open(sys.argv[1])) if "eval_loss" in d][-1][sys.argv[2]])' "$1/metrics.jsonl" "$2"; }

for model in own tied qwen3; do
    train model.path=$model output.dir=$model-run
    metered $model-run
    [ "$(json $model-run/model/config.json 'd["architectures"][0].endswith("ForCausalLM") and "problem_type" not in d and "id2label" not in d')" = True ] ||
        fail "config.json: $(cat $model-run/model/config.json)"
    head=$(grep -c '"lm_head.weight"' $model-run/model/model.safetensors)
    [ "$head" = "$([ $model = tied ] && echo 0 || echo 1)" ] || fail "$model: the head is $head times in the file"
    micro=1
    [ $model = tied ] && micro=auto # its one gradient has both parts in turns
    train model.path=$model output.dir=$model-cut train.micro_batch=$micro train.gradient_checkpointing=on memory.loss_rows=7 device.threads=1
    metered $model-cut
    same $model-run $model-cut "$model: micro-batches of one text and seven rows at once give another model"
    # Perplexity is of tokens, and what eval says of the saved model is what the run said.
    expect 0 "$FTENGINE" eval $model-run --data "$here/validation.tsv" --json
    python3 -S -c 'import json, math, sys
m = json.load(open("out"))["metrics"]
run = float(sys.argv[1])
sys.exit(not (abs(m["loss"] - run) <= 1e-6 * run and abs(m["perplexity"] - math.exp(m["loss"])) <= 1e-6 * m["perplexity"]))' "$(last_of $model-run eval_loss)" ||
        fail "$model: eval says $(cat out), the run said $(last_of $model-run eval_loss)"
done
train model.path=own output.dir=all memory.loss_rows=100000
[ "$(json own-run/run.json 'd["memory"]["peak_requested_bytes"]')" -lt "$(json all/run.json 'd["memory"]["peak_requested_bytes"]')" ] || fail "fewer rows at once take no less memory"
same own-run all "all rows at once give another model"
python3 -S -c 'import json, sys
lines = [json.loads(line) for line in open("own-run/predictions.jsonl")]
sys.exit(not (len(lines) > 50 and all(d["tokens"] > 0 and d["loss"] > 0 for d in lines)))' || fail "predictions: $(head -2 own-run/predictions.jsonl)"

# Tokens that the cache has, and which of them are learned.
train model.path=tied output.dir=first data.cache_dir=cache
grep -q "from cache" err && fail "nothing was cached yet: $(cat err)"
train model.path=tied output.dir=second data.cache_dir=cache output.save_steps=2 output.save_total_limit=9
[ "$(grep -c "from cache" err)" = 2 ] || fail "the cache was not used: $(cat err)"
same first second "tokens of the cache give another model"
same tied-run second "tokens of the cache give another model than those that were made"
rm -r second/model second/run.json second/checkpoints/step-00000006 second/checkpoints/step-00000004
train model.path=tied output.dir=second data.cache_dir=cache output.save_steps=2 output.save_total_limit=9 output.exists=resume
same first second "the run that went on with cached tokens has another model"

# It goes on where it stopped.
train model.path=tied output.dir=more output.save_steps=2 output.save_total_limit=9
rm -r more/model more/run.json more/checkpoints/step-00000006 more/checkpoints/step-00000004
train model.path=tied output.dir=more output.save_steps=2 output.save_total_limit=9 output.exists=resume
same tied-run more "the run that went on has another model"

# Adapters beside a model with weights: the head stays as it is, and merged they say the same.
lora="adapter.type=lora adapter.r=4 adapter.targets=all-linear model.init=pretrained"
for model in own tied qwen3; do
    train $lora model.path=$model-run/model output.dir=$model-lora
    metered $model-lora
    grep -q 'lm_head\|embed_tokens' $model-lora/adapter/adapter_model.safetensors && fail "$model: the head is in the adapter's file"
    [ "$(json $model-lora/adapter/adapter_config.json 'd["task_type"], d["modules_to_save"], len(d["target_modules"]) % 7')" = "('CAUSAL_LM', None, 0)" ] ||
        fail "adapter_config.json: $(cat $model-lora/adapter/adapter_config.json)"
    expect 0 "$FTENGINE" merge $model-lora --output $model-merged
    expect 0 "$FTENGINE" eval $model-merged --data "$here/validation.tsv" --json
    python3 -S -c 'import json, sys
sys.exit(abs(json.load(open("out"))["metrics"]["loss"] - float(sys.argv[1])) > 1e-5)' "$(last_of $model-lora eval_loss)" || fail "$model: merged it says $(cat out)"
done

# Classes of whole texts.
for model in own tied qwen3; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common model.path=$model output.dir=$model-classes
    metered $model-classes
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common model.path=$model output.dir=$model-classes-cut train.micro_batch=1 train.gradient_checkpointing=on
    same $model-classes $model-classes-cut "$model: micro-batches of one text give another classifier"
    expect 0 "$FTENGINE" eval $model-classes --data "$here/validation.tsv" --json
    python3 -S -c 'import json, sys
sys.exit(abs(json.load(open("out"))["metrics"]["loss"] - float(sys.argv[1])) > 1e-6)' "$(last_of $model-classes eval_loss)" || fail "$model: eval says $(cat out)"
done

# What cannot be.
expect 2 "$FTENGINE" predict own-run --data "$here/validation.tsv"
one_error "decoding ids to text is supported of byte-level BPE"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $language output.dir=none
one_error "causal_lm is for decoders"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common model.path=own train.task=token_classification output.dir=none
one_error "token_classification on a llama model, a decoder, is not supported"
