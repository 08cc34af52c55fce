#!/usr/bin/env bash
# Ranking with device.name=cuda, on the emulator: training beside the CPU's in three precisions, in the memory that was planned, and figures by query.
# Catches: relevances that reach the device as labels, scores of another pair, a plan without targets.
# ctest: cost=20
steps=6
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
for split in train validation; do
    awk -F'\t' -v OFS='\t' 'NR == 1 { print "query", "document", "relevance"; next } { print "query " int(NR / 4), $1, NR % 4 / 4 }' "$here/$split.tsv" >$split.tsv
done
ranking="train.task=ranking data.train=$scratch/train.tsv data.validation=$scratch/validation.tsv data.text_column=query data.text_pair=document
    data.label_column=relevance eval.metric=loss train.batch_size=4 data.max_length=40"
model bert bert_gelu initializer_range=0.1,hidden_size=64,num_attention_heads=2,max_position_embeddings=64,type_vocab_size=2
for precision in fp32 bf16 fp16; do
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        trained "$precision-$device" bert $device $ranking train.precision=$precision train.learning_rate=0.001
    done
    tolerance=3e-3
    [ $precision = fp32 ] && tolerance=2e-5
    [ $precision = bf16 ] && tolerance=3e-2
    beside $tolerance "$precision-cpu" "$precision-cuda"
done
expect 0 "$FTENGINE" eval fp32-cuda --data validation.tsv --json device.name=cuda
cp out cuda.json
expect 0 "$FTENGINE" eval fp32-cuda --data validation.tsv --json device.name=cpu
python3 -S - <<'E2' || fail "figures"
import json
cuda, cpu = (json.load(open(name)) for name in ("cuda.json", "out"))
assert cuda["examples"] == cpu["examples"] > 1 and set(cuda["metrics"]) == set(cpu["metrics"]) and "ndcg_10" in cpu["metrics"]
assert all(abs(cuda["metrics"][k] - cpu["metrics"][k]) < 1e-3 for k in cpu["metrics"]), (cuda["metrics"], cpu["metrics"])
E2
