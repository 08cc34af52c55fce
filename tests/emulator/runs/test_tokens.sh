#!/usr/bin/env bash
# Token classification with device.name=cuda, on the emulator: training and evaluation beside the CPU's in three precisions, in the memory
# that was planned, with steps as graphs and without; the same bits both ways. Catches: rows of the head that a fill of the batch moves, a
# graph that is replayed with another number of labelled rows, gradients of an earlier step where one has none, and scatter and gather of
# rows in 16 bits.
# ctest: tsan=leave
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
for split in train validation; do
    # Words of the reviews; those of four letters are called names, alone or as the next one's beginning.
    awk -F '\t' 'NR > 1 && NR < 14 { n = split($1, w, " "); inside = 0
        for (i = 1; i <= n && i <= 9; i++) { long = length(w[i]) == 4; print w[i] "\t" (long ? (inside ? "I-X" : "B-X") : "O"); inside = long }
        print "" }' "$here/$split.tsv" >$split.conll
done
tokens="train.task=token_classification data.train=$scratch/train.conll data.validation=$scratch/validation.conll eval.metric=f1_micro train.batch_size=4"
families="bert_gelu deberta_v3 modernbert"
[ -z "${FT_SANITIZE:-}" ] || families=bert_gelu
for family in $families; do
    range=0.1
    model "$family" "$family" initializer_range=$range,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    precisions=bf16 # the others' kernels are the same
    [ $family = bert_gelu ] && precisions="fp32 bf16 fp16"
    for precision in $precisions; do
        for device in cpu cuda; do
            # shellcheck disable=SC2086
            trained "$family-$precision-$device" "$family" $device $tokens train.precision=$precision train.learning_rate=0.001
        done
        tolerance=3e-3
        [ $precision = fp32 ] && tolerance=2e-5
        [ $precision = bf16 ] && tolerance=3e-2
        beside $tolerance "$family-$precision-cpu" "$family-$precision-cuda"
    done
done
# Graphs.
for graphs in on off; do
    # shellcheck disable=SC2086
    trained graphs-$graphs bert_gelu cuda $tokens device.graphs=$graphs train.max_steps=4 train.micro_batch=3
done
cmp graphs-on/model/model.safetensors graphs-off/model/model.safetensors || fail "steps as graphs give another model"
# Steps without a tag among others.
python3 -S -c 'print(12 * "Ada B-X\nleft O\n\nAda _\nleft _\n\n", end="")' >few.conll
for graphs in on off; do
    # shellcheck disable=SC2086
    trained few-$graphs bert_gelu cuda $tokens data.train=few.conll train.batch_size=1 device.graphs=$graphs train.max_steps=6 train.precision=bf16
    [ "$(python3 -S -c 'import json, sys
lines = [d for d in map(json.loads, open(sys.argv[1])) if "grad_norm" in d]
print(any(d["loss"] == 0 for d in lines) and any(d["loss"] > 0 for d in lines) and all((d["loss"] == 0) == (d["grad_norm"] == 0) for d in lines))' \
        few-$graphs/metrics.jsonl)" = True ] || fail "a step without a tag has a gradient: $(cat few-$graphs/metrics.jsonl)"
done
cmp few-on/model/model.safetensors few-off/model/model.safetensors || fail "steps without a tag as graphs give another model"
echo "tokens: all as expected"
