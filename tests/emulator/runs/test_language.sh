#!/usr/bin/env bash
# Language models of three families trained with device.name=cuda, on the emulator: two steps beside the CPU's in three precisions, in the memory that
# was planned: causal attention on tensor cores and off them, loss and gradients chunk by chunk, a tied weight, norms of queries and keys.
# ctest: part=1 tsan=leave sanitize=leave
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
run="$run train.task=causal_lm memory.loss_rows=33"

for family in qwen2_tied qwen3 llama; do
    model "$family" "causal_lm/$family" initializer_range=0.3
    for device in cpu cuda; do trained "$family-$device" "$family" $device; done
    beside 2e-5 "$family-cpu" "$family-cuda"
    model "wide-$family" "causal_lm/$family" initializer_range=0.1,hidden_size=64,num_attention_heads=2,num_key_value_heads=1,head_dim=32
    for precision in bf16 fp16; do
        for device in cpu cuda; do
            trained "$family-$precision-$device" "wide-$family" $device train.precision=$precision train.learning_rate=0.001
        done
        tolerance=3e-3
        [ $precision = bf16 ] && tolerance=3e-2
        beside $tolerance "$family-$precision-cpu" "$family-$precision-cuda"
    done
done
