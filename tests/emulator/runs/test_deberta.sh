#!/usr/bin/env bash
# DeBERTa v1, v2 and v3 with device.name=cuda, on the emulator as in test_training.sh: twenty steps beside the CPU's, in the
# memory that was planned, with the same bits in another order of threads.
# ctest: part=1 tsan_part=0 asan_part=4 cost=1001
steps=20
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1

# learned RUN: the loss fell
learned() {
    python3 - "$1/metrics.jsonl" <<'PYTHON' || fail "$1 learned nothing"
import json, sys
losses = [line["loss"] for line in map(json.loads, open(sys.argv[1])) if "loss" in line]
assert len(losses) == 20 and sum(losses[:5]) - sum(losses[-5:]) > 0.1, losses
PYTHON
}
if [ "${FT_SANITIZE:-}" = thread ]; then # every kernel, in two steps of each precision
    model v3 deberta_v3 initializer_range=0.3
    model wide deberta_v3 initializer_range=0.1 hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    trained v3-cuda v3 cuda train.max_steps=2 eval.steps=1
    for precision in bf16 fp16; do trained $precision-cuda wide cuda train.max_steps=2 eval.steps=1 train.precision=$precision; done
    exit 0
fi
replayed() {
    [ "$(json "$1/run.json" 'd["graphs"]["replayed"] > 20 and not d["graphs"]["failed"]')" = True ] || fail "$1: $(json "$1/run.json" 'd["graphs"]')"
}
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
    learned "$family-cuda"
    SIMT_ORDER=random trained "$family-random" "$family" cuda
    same "$family-cuda" "$family-random"
    trained "$family-graphs" "$family" cuda device.graphs=on
    beside 2e-5 "$family-cuda" "$family-graphs" # filled micro-batches: other sequences share a slab (test_step_graphs.c: the same bits)
    replayed "$family-graphs"
done

# 16 bits, where heads of 32 go through tensor cores.
model wide deberta_v3 initializer_range=0.1 hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
for precision in $precisions; do
    for device in cpu cuda; do trained "$precision-$device" wide $device train.precision=$precision train.learning_rate=0.001; done
    tolerance=3e-3
    [ $precision = bf16 ] && tolerance=3e-2
    beside $tolerance $precision-cpu $precision-cuda
    learned $precision-cuda
    SIMT_ORDER=skewed trained "$precision-skewed" wide cuda train.precision=$precision train.learning_rate=0.001
    same "$precision-cuda" "$precision-skewed"
    trained "$precision-graphs" wide cuda train.precision=$precision train.learning_rate=0.001 device.graphs=on
    beside $tolerance "$precision-cuda" "$precision-graphs"
    replayed "$precision-graphs"
done

# In pieces, and computed again: the CPU's run of whole batches.
trained v3-pieces v3 cuda train.micro_batch=3 train.gradient_checkpointing=on
beside 2e-5 v3-cpu v3-pieces
exit 0
