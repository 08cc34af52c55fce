"""make_parquet.py - the Parquet files of this folder, by pyarrow 26, and the same rows as JSON lines, as the test reads them beside each other.

reviews    classes, in three row groups; numbers of every kind, a list, a date, a column and a struct of bytes, nulls
words      words and tags
questions  SQuAD's questions as the Hub has them
numbers    a regression, without compression
"""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
rows = [line.rstrip("\n").split("\t") for line in open(HERE.parent / "trainer/train.tsv", encoding="utf-8")][1:49]
names = sorted({label for _, label in rows})


def put(name, table, left_out=(), **how):
    pq.write_table(table, HERE / f"{name}.parquet", **how)
    with open(HERE / f"{name}.jsonl", "w", encoding="utf-8") as out:
        for row in table.drop_columns(list(left_out)).to_pylist():
            out.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


texts = [text for text, _ in rows]
texts[3], texts[4] = 'he said "so",\nand left; naïve 🎈', ""
put("reviews", pa.table({
    "id": pa.array(range(48), pa.int64()), "text": texts, "label": pa.array([names.index(label) for _, label in rows], pa.int8()),
    "price": pa.array([None if i % 5 == 0 else i / 8 for i in range(48)], pa.float64()), "day": [date(2026, 1, 1 + i % 28) for i in range(48)],
    "words": [text.split()[:3] for text in texts], "raw": pa.array([b"\x00\xff"] * 48, pa.binary()),
    "image": pa.array([{"bytes": b"\x89PNG", "path": "a.png"}] * 48, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
}), left_out=("raw", "image"), row_group_size=20, compression="zstd")  # fmt: skip
put("words", pa.table({"tokens": [["Ada", "left", "New", "York", "."]] * 20, "ner_tags": [["B-PER", "O", "B-LOC", "I-LOC", "O"]] * 20}))
put("questions", pa.table({
    "id": [f"q{i}" for i in range(20)], "question": ["Who left?"] * 20, "context": ["Ada left New York."] * 20,
    "answers": pa.array([{"text": ["Ada"], "answer_start": [0]}] * 20, pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])),
}))  # fmt: skip
put("numbers", pa.table({"text": texts[:20], "stars": pa.array([i / 4 for i in range(20)], pa.float32())}), compression="none")
