#!/usr/bin/env bash
# Adapters beside frozen models in every form that model.storage has, with device.name=cuda on the emulator, in three precisions: two steps
# beside the CPU's, in the memory that was planned. What nothing else brings to CUDA's kernels is here: products with few columns, a
# weight that is made anew for its product, gradients of parts of Q, K and V, masks of an adapter's own.
# ctest: part=3 tsan=leave cost=400
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1

# both NAME TOLERANCE MODEL [OPTION...]: on both devices
both() {
    local name=$1 tolerance=$2 of=$3
    shift 3
    for device in cpu cuda; do trained "$name-$device" "$of" $device adapter.type=lora adapter.init=false train.learning_rate=0.001 "$@"; done
    beside "$tolerance" "$name-cpu" "$name-cuda"
}
# Heads of 32 go through tensor cores; widths are whole blocks of 64 in 4 bits, and are not (deberta_v1).
wide="initializer_range=0.1,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64"
model bert bert_gelu $wide
model v3 deberta_v3 $wide
model v1 deberta_v1 initializer_range=0.3
model modern modernbert $wide
precisions="fp32 bf16 fp16" few_bits="int8 nf4 nf4_double"
[ -z "${FT_SANITIZE:-}" ] || precisions="fp32 bf16" few_bits="int8 nf4_double" # the rest is the same code

for precision in $precisions; do
    tolerance=3e-3
    [ $precision = fp32 ] && tolerance=2e-5
    [ $precision = bf16 ] && tolerance=3e-2
    other="precision fp32" # of the types of 16 bits a run has one
    [ $precision = fp32 ] && other="precision bf16 fp16"
    for storage in $other $few_bits; do
        both "bert-$precision-$storage" $tolerance bert train.precision=$precision model.storage=$storage adapter.targets=all-linear adapter.r=5 adapter.dropout=0.1
    done
    both "dora-$precision" $tolerance bert train.precision=$precision adapter.type=dora adapter.targets=all-linear adapter.r=5 adapter.dropout=0.1 model.storage=nf4
    both "dora-v3-$precision" $tolerance v3 train.precision=$precision adapter.type=dora adapter.targets=all-linear
    both "v3-$precision" $tolerance v3 train.precision=$precision model.storage=nf4 adapter.targets=all-linear adapter.dropout=0.1
done
# One adapter for three parts; parts of Q, K and V with ranks of their own, whose products are one; a layer that is split; no dropout at all.
both v1 2e-5 v1 adapter.targets=all-linear model.storage=nf4_double adapter.dropout=0.1
both v1-dora 2e-5 v1 adapter.type=dora adapter.targets=all-linear adapter.dropout=0.1
both pieces-dora 2e-5 bert adapter.type=dora adapter.rank_pattern=query=3 adapter.targets=query,value,output.dense train.micro_batch=3 train.gradient_checkpointing=on model.storage=int8
both pieces 2e-5 bert adapter.rank_pattern=query=3 adapter.targets=query,value,output.dense train.micro_batch=3 train.gradient_checkpointing=on model.storage=int8
both modern 2e-5 modern adapter.targets=all-linear adapter.bias=all model.storage=nf4
exit 0
