#!/usr/bin/env bash
# `ftengine embed` on the emulated GPU: first rows, means and poolings of all rows, near the CPU's, in three precisions.
# Catches: rows that come home under another text's number, a type of rows that the host reads as another, a pass whose memory was laid out for logits.
# ctest: cost=15
steps=2
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
model bert bert_gelu
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run model.path=bert output.dir=run device.name=cpu
tail -n +2 "$here/validation.tsv" | cut -f1 | head -9 >texts.txt
for precision in fp32 bf16 fp16; do
    for pooling in cls mean max,lasttoken,weightedmean; do
        expect 0 "$FTENGINE" embed run --data texts.txt --format text --pooling $pooling device.name=cpu
        cp out cpu.jsonl
        expect 0 "$FTENGINE" embed run --data texts.txt --format text --pooling $pooling device.name=cuda --precision $precision eval.batch_size=4
        cp out cuda.jsonl
        python3 -S - $precision <<'E2' || fail "$pooling in $precision"
import json, sys
cpu, cuda = ([json.loads(line)["embedding"] for line in open(name)] for name in ("cpu.jsonl", "cuda.jsonl"))
assert [len(v) for v in cpu] == [len(v) for v in cuda] and len(cpu) == 9
far = max(abs(a - b) for x, y in zip(cpu, cuda) for a, b in zip(x, y))
assert far < {"fp32": 1e-5, "bf16": 0.1, "fp16": 0.02}[sys.argv[1]], far
assert any(a != b for a, b in zip(cpu[0], cpu[1]))
E2
    done
done
