#!/usr/bin/env bash
# Question answering with device.name=cuda, on the emulator: training and evaluation beside the CPU's in three precisions, in the memory that was planned,
# with steps as graphs and without; the same bits both ways. Catches: marks that a fill of the batch moves, a filling sequence that has a loss, a graph
# that is replayed with another number of sequences, and rows in 16 bits.
# ctest: tsan=leave
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
for split in train validation; do
    # Words of the reviews; the answer is one of four letters, or there is none.
    python3 -S - "$here/$split.tsv" >$split.jsonl <<'E2'
import json, sys
for n, line in enumerate(list(open(sys.argv[1]))[1:13]):
    words = line.split("\t")[0].split()[:9]
    found = next((w for w in words if len(w) == 4), None)
    context = " ".join(words)
    answers = {"text": [found], "answer_start": [context.index(found)]} if found else {"text": [], "answer_start": []}
    print(json.dumps({"id": n, "question": "which", "context": context, "answers": answers}))
E2
done
questions="train.task=question_answering data.train=$scratch/train.jsonl data.validation=$scratch/validation.jsonl eval.metric=answer_f1 train.batch_size=4"
families="bert_gelu deberta_v3 modernbert"
[ -z "${FT_SANITIZE:-}" ] || families=bert_gelu
for family in $families; do
    model "$family" "$family" initializer_range=0.1,hidden_size=64,num_attention_heads=2,pooler_hidden_size=64
    precisions=bf16 # the others' kernels are the same
    [ $family = bert_gelu ] && precisions="fp32 bf16 fp16"
    for precision in $precisions; do
        for device in cpu cuda; do
            # shellcheck disable=SC2086
            trained "$family-$precision-$device" "$family" $device $questions train.precision=$precision train.learning_rate=0.001
        done
        tolerance=3e-3
        [ $precision = fp32 ] && tolerance=2e-5
        [ $precision = bf16 ] && tolerance=3e-2
        [ $precision = fp32 ] || for device in cpu cuda; do
            # Which of two answers is the better one may be a matter of rounding.
            python3 -S - "$family-$precision-$device/metrics.jsonl" <<'E2'
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
open(sys.argv[1], "w").writelines(json.dumps({k: v for k, v in l.items() if "exact" not in k and "f1" not in k}) + "\n" for l in lines)
E2
        done
        beside $tolerance "$family-$precision-cpu" "$family-$precision-cuda"
    done
done
for graphs in on off; do
    # shellcheck disable=SC2086
    trained graphs-$graphs bert_gelu cuda $questions device.graphs=$graphs train.max_steps=4 train.micro_batch=3
done
cmp graphs-on/model/model.safetensors graphs-off/model/model.safetensors || fail "steps as graphs give another model"
echo "questions: all as expected"
