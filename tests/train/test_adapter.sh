#!/usr/bin/env bash
# Runs with adapters from outside: what they leave, that eval, predict and merge take it, that they go on where they stopped with the same
# bits and a small checkpoint, and one clear error each for what cannot be.
# ctest: cost=30
. "$(dirname "$0")/../fixtures/shell_test.sh"

trainer="$SOURCE_DIR/tests/vectors/trainer"
cp -r "$trainer/model" "$scratch/base"
common="$trainer/follow.ini model.path=$scratch/base data.validation=$trainer/validation.tsv data.test= device.threads=1 data.cache_dir=none model.ignore_mismatched_sizes=true"
lora="$common adapter.type=lora adapter.r=4 adapter.dropout=0.1 train.learning_rate=1e-3 train.max_steps=12 train.warmup_steps=0"
train() { # shellcheck disable=SC2086 # words
    "$FTENGINE" train $common "$@" >"$scratch/out" 2>"$scratch/err" || fail "train $*: $(cat "$scratch/err")"
}

# shellcheck disable=SC2086
train $lora output.dir="$scratch/a"
[ ! -e "$scratch/a/model" ] || fail "the run left a model beside its adapter"
LC_ALL=C ls "$scratch/a/adapter" | tr '\n' ' ' | grep -q "adapter_config.json adapter_model.safetensors ftengine.json vocab.txt" || fail "adapter/ holds $(ls "$scratch/a/adapter")"
small=$(stat -c %s "$scratch/a/checkpoints/"step-*/state.safetensors | tail -1)
[ "$small" -lt 40000 ] || fail "the checkpoint of an adapter takes $small bytes: the model is in it"

# The same answers from the run, its adapter, another copy of the base, and the merged model.
predict() { "$FTENGINE" predict "$@" --data "$trainer/validation.tsv" --logits --json 2>"$scratch/err" || fail "predict $*: $(cat "$scratch/err")"; }
predict "$scratch/a" >"$scratch/p1"
predict "$scratch/a/adapter" >"$scratch/p2"
cp -r "$scratch/base" "$scratch/copy"
predict "$scratch/a" --base "$scratch/copy" >"$scratch/p3"
cmp -s "$scratch/p1" "$scratch/p2" && cmp -s "$scratch/p1" "$scratch/p3" || fail "predictions differ by where the adapter or its base lies"
"$FTENGINE" merge "$scratch/a" --output "$scratch/merged" --json >"$scratch/merged.json" 2>"$scratch/err" &&
    python3 -c 'import json, sys; assert json.load(open(sys.argv[1])) == {"format_version": 1, "model": sys.argv[2]}' "$scratch/merged.json" "$scratch/merged" || fail "merge: $(cat "$scratch/err")"
predict "$scratch/merged" >"$scratch/p4"
python3 - "$scratch/p1" "$scratch/p4" <<'PY' || fail "merged and unmerged logits are apart"
import json, sys
a, b = ([json.loads(line)["logits"] for line in open(path)] for path in sys.argv[1:])
worst = max(abs(x[k] - y[k]) for x, y in zip(a, b) for k in x)
sys.exit(not (len(a) == len(b) > 50 and worst <= 1e-5))
PY
"$FTENGINE" eval "$scratch/a" --data "$trainer/validation.tsv" --json >"$scratch/e1" 2>/dev/null || fail "eval of a run with an adapter"
grep -q '"accuracy"' "$scratch/e1" || fail "eval said $(cat "$scratch/e1")"

# From an earlier checkpoint the same bits again; micro-batches and threads change none either.
steps="output.save_steps=5 output.save_total_limit=9"
# shellcheck disable=SC2086
train $lora output.dir="$scratch/b" $steps
cp -r "$scratch/b" "$scratch/c"
rm -r "$scratch/c/adapter" "$scratch/c/run.json" "$scratch/c/checkpoints/step-00000012" "$scratch/c/checkpoints/step-00000010"
# shellcheck disable=SC2086
train $lora output.dir="$scratch/c" $steps output.exists=resume
grep -q "step 6/12" "$scratch/err" || fail "the run did not go on from step 5: $(cat "$scratch/err")"
# shellcheck disable=SC2086
train $lora output.dir="$scratch/d" $steps train.micro_batch=3 device.threads=2
for other in c d; do
    cmp -s "$scratch/b/adapter/adapter_model.safetensors" "$scratch/$other/adapter/adapter_model.safetensors" || fail "run $other has another adapter"
done

# Beside a model of 4 and of 8 bits: the answers of a run's last evaluation are those of its adapter, for predict keeps the model alike, and
# a run that goes on reads the weights of few bits from the model, not from its checkpoint.
for storage in nf4_double int8; do
    # shellcheck disable=SC2086
    train $lora output.dir="$scratch/$storage" model.storage=$storage $steps eval.strategy=steps eval.steps=12
    cp -r "$scratch/$storage" "$scratch/$storage-on"
    rm -r "$scratch/$storage-on/adapter" "$scratch/$storage-on/run.json" "$scratch/$storage-on/checkpoints/step-00000012" "$scratch/$storage-on/checkpoints/step-00000010"
    # shellcheck disable=SC2086
    train $lora output.dir="$scratch/$storage-on" model.storage=$storage $steps eval.strategy=steps eval.steps=12 output.exists=resume
    cmp -s "$scratch/$storage/adapter/adapter_model.safetensors" "$scratch/$storage-on/adapter/adapter_model.safetensors" || fail "$storage: the resumed run has another adapter"
    cmp -s "$scratch/$storage/adapter/adapter_model.safetensors" "$scratch/b/adapter/adapter_model.safetensors" && fail "$storage: the adapter is that beside fp32"
    loss=$(python3 -c 'import json,sys; print([l for l in map(json.loads, open(sys.argv[1])) if "eval_loss" in l][-1]["eval_loss"])' "$scratch/$storage/metrics.jsonl")
    "$FTENGINE" eval "$scratch/$storage" --data "$trainer/validation.tsv" --json >"$scratch/e" 2>"$scratch/err" || fail "eval: $(cat "$scratch/err")"
    python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); x=d.get("loss", d.get("metrics", {}).get("loss")); sys.exit(not abs(x - float(sys.argv[2])) <= 1e-6 * abs(x))' "$scratch/e" "$loss" ||
        fail "$storage: eval of the adapter has another loss than the run, $loss: $(cat "$scratch/e")"
done

# Written in few bits, as bitsandbytes has it: merged, or of a model; and an adapter beside such a model keeps the file's bytes.
for storage in nf4 nf4_double int8; do
    "$FTENGINE" merge "$scratch/a" --output "$scratch/few-$storage" --storage $storage 2>"$scratch/err" || fail "merge --storage $storage: $(cat "$scratch/err")"
    "$FTENGINE" merge "$scratch/merged" --output "$scratch/again-$storage" --storage $storage 2>"$scratch/err" || fail "merge of a model: $(cat "$scratch/err")"
    cmp -s "$scratch/few-$storage/model.safetensors" "$scratch/again-$storage/model.safetensors" || fail "$storage of a merged model are other bytes than of the adapter"
    predict "$scratch/few-$storage" >"$scratch/p5"
    [ "$(wc -l <"$scratch/p5")" = "$(wc -l <"$scratch/p4")" ] || fail "$storage: $(cat "$scratch/err")"
    train model.path="$scratch/few-$storage" model.storage=$storage adapter.type=lora train.max_steps=2 output.dir="$scratch/on-$storage" eval.strategy=no
    ! grep -q "become numbers" "$scratch/err" || fail "$storage: the file's form was not kept"
    train model.path="$scratch/few-$storage" adapter.type=lora train.max_steps=2 output.dir="$scratch/off-$storage" eval.strategy=no
    grep -q "has linear layers as $storage" "$scratch/err" || fail "nothing says that the file has $storage: $(cat "$scratch/err")"
    "$FTENGINE" merge "$scratch/on-$storage" --output "$scratch/plain-$storage" 2>"$scratch/err" || fail "merge beside $storage: $(cat "$scratch/err")"
    ! grep -q quantization_config "$scratch/plain-$storage/config.json" || fail "a model of numbers says that it is quantised"
done

# On from an adapter: its numbers, not new ones; and only with the options that made it.
# shellcheck disable=SC2086
train $lora adapter.path="$scratch/a/adapter" output.dir="$scratch/more" train.learning_rate=0 train.max_steps=1 eval.strategy=no
cmp -s "$scratch/a/adapter/adapter_model.safetensors" "$scratch/more/adapter/adapter_model.safetensors" || fail "a step of rate 0 changed the adapter that it began with"

# A base that is another.
cp -r "$scratch/base" "$scratch/other"
printf '\377' | dd of="$scratch/other/model.safetensors" bs=1 seek=$(($(stat -c %s "$scratch/base/model.safetensors") - 40)) conv=notrunc 2>/dev/null
refused() { # MESSAGE COMMAND...
    local message=$1 status=0
    shift
    "$FTENGINE" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ "$status" = 2 ] || fail "$*: exit code $status, expected 2: $(cat "$scratch/err")"
    [ "$(grep -c 'error: ' "$scratch/err")" = 1 ] || fail "$*: not one error: $(cat "$scratch/err")"
    grep -q -- "$message" "$scratch/err" || fail "$*: expected '$message', got $(cat "$scratch/err")"
}
refused "was trained on other weights" predict "$scratch/a" --base "$scratch/other" --data "$trainer/validation.tsv"
refused "is not there" predict "$scratch/a" --base "$scratch/nowhere" --data "$trainer/validation.tsv"
refused "this is a model: there is no adapter" merge "$scratch/merged" --output "$scratch/m2"
refused "it is nf4, nf4_double, int8 or fp32, got q4" merge "$scratch/a" --output "$scratch/m2" --storage q4
refused "is there already" merge "$scratch/a" --output "$scratch/merged"
refused "is a model, not an adapter" eval "$scratch/merged" --base "$scratch/base" --data "$trainer/validation.tsv"
# shellcheck disable=SC2086
{
    refused "no linear layer of this model is called qeury" train $lora adapter.targets=qeury,value output.dir="$scratch/x"
    grep -q "did you mean query?" "$scratch/err" || fail "no nearest target: $(cat "$scratch/err")"
    refused "rank 999 is larger than a side of bert.encoder.layer" train $lora adapter.r=999 output.dir="$scratch/x"
    refused "adapter.alpha" train $lora adapter.alpha=0 output.dir="$scratch/x"
    refused "is no regular expression" train $lora "adapter.targets=.*(query" output.dir="$scratch/x"
    refused "the model is frozen where there are adapters" train $lora model.freeze_layers=1 output.dir="$scratch/x"
    refused "with an adapter it is auto or adapter" train $lora train.parameters=biases output.dir="$scratch/x"
    refused "there is no layer 7" train $lora adapter.layers=7 output.dir="$scratch/x"
    refused "adapter.r" train $common train.lora_r=4 output.dir="$scratch/x"
    refused "has rank 4 and scale 2 there, by these options 8 and 1" train $lora adapter.path="$scratch/a/adapter" adapter.r=8 output.dir="$scratch/x"
    refused "pissa" train $lora adapter.init=pissa output.dir="$scratch/x"
}
[ ! -e "$scratch/x" ] || fail "a refused run left a directory"
# Adapters of other kinds, and files that do not belong together.
cp -r "$scratch/a/adapter" "$scratch/broken"
sed -i 's/"peft_type": "LORA"/"peft_type": "IA3"/' "$scratch/broken/adapter_config.json"
refused "peft_type is IA3, and only LORA" predict "$scratch/broken" --data "$trainer/validation.tsv"
cp "$scratch/a/adapter/adapter_config.json" "$scratch/broken"
sed -i 's/"r": 4/"r": 3/' "$scratch/broken/adapter_config.json"
refused "has shape \[4, 32\], this model needs \[3, 32\]" predict "$scratch/broken" --data "$trainer/validation.tsv"
sed 's/"bert.encoder.layer.1.attention.self.query",//' "$scratch/a/adapter/adapter_config.json" >"$scratch/broken/adapter_config.json"
refused "layer.1.attention.self.query.lora_. *\|has no place in this model" predict "$scratch/broken" --data "$trainer/validation.tsv"

# Planned for a large model: state is saved, and the inputs of products without an adapter.
large="model.path=bert-large-uncased train.batch_size=32 data.max_length=128 train.precision=bf16 memory.active_vocabulary=off --gpu h200 --json"
peak() { # shellcheck disable=SC2086
    "$FTENGINE" plan $large "$@" 2>"$scratch/err" | python3 -c 'import json, sys; print(json.load(sys.stdin)["memory"]["peak_requested_bytes"])'
}
full=$(peak) && adapted=$(peak adapter.type=lora) && again=$(peak adapter.type=lora train.gradient_checkpointing=on) || fail "plan: $(cat "$scratch/err")"
[ $((adapted * 100)) -le $((full * 45)) ] || fail "adapters plan $adapted bytes, full fine-tuning $full"
[ $((again * 100)) -le $((full * 20)) ] || fail "adapters with recomputation plan $again bytes, full fine-tuning $full"
