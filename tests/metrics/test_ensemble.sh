#!/usr/bin/env bash
# predict with several models: the mean of their probabilities by label, whatever number a model gives it; and what is
# refused. Ids are copied from their column.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
train() { expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=30 output.dir="$1" "${@:2}"; }
train a
train b train.seed=8
grep -v travel "$here/train.tsv" >two.tsv
train two data.train=two.tsv model.ignore_mismatched_sizes=true
sed 's/travel$/journey/' "$here/train.tsv" >other.tsv
train other data.train=other.tsv
awk -F '\t' 'BEGIN { OFS = FS } { print (NR == 1 ? "premise\thypothesis" : $1 "\t" $1), $2 }' "$here/train.tsv" >pairs.tsv
train pairs data.train=pairs.tsv data.text_column=premise data.text_pair=hypothesis
# The model of b with its labels named in another order: another model.
cp -r b turned
python3 - <<'PYTHON'
import json
order = ["travel", "food", "music"]
for name in ("config", "ftengine"):
    path = f"turned/model/{name}.json"
    value = json.load(open(path))
    if name == "config":
        value["id2label"], value["label2id"] = {str(i): n for i, n in enumerate(order)}, {n: i for i, n in enumerate(order)}
    else:
        value["labels"] = order
    json.dump(value, open(path, "w"))
PYTHON
awk -F '\t' 'BEGIN { OFS = FS } { print (NR == 1 ? "number" : "n" NR), $0 }' "$here/validation.tsv" >numbered.tsv
for run in a b turned; do expect 0 "$FTENGINE" predict $run --data numbered.tsv --id number --logits --output $run.jsonl; done
expect 0 "$FTENGINE" predict a b turned --data numbered.tsv --id number --logits --output mean.jsonl
expect 0 "$FTENGINE" predict turned b a --data numbered.tsv --id number --logits --output back.jsonl
expect 0 "$FTENGINE" predict a b turned --data numbered.tsv --id number --output mean.tsv
python3 - <<'PYTHON' || fail "the mean is not the mean"
import csv
import json
rows = {name: [json.loads(line) for line in open(name + ".jsonl")] for name in ("a", "b", "turned", "mean", "back")}
assert len(rows["mean"]) == 60 and [r["id"] for r in rows["mean"]] == [f"n{i}" for i in range(2, 62)]
assert any(x["label"] != y["label"] for x, y in zip(rows["a"], rows["turned"])), "or the order of the labels could not be seen"
assert list(rows["back"][0]["probabilities"]) == ["travel", "food", "music"] # the first model's
for i, mean in enumerate(rows["mean"]):
    for what in ("probabilities", "logits"):
        for label, value in mean[what].items():
            want = sum(rows[name][i][what][label] for name in ("a", "b", "turned")) / 3
            assert abs(value - want) < 1e-8 and abs(rows["back"][i][what][label] - want) < 1e-8, (i, what, label, value, want)
    assert mean["label"] == max(mean["probabilities"], key=mean["probabilities"].get)
table = list(csv.DictReader(open("mean.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE))
assert [(r["number"], r["label"]) for r in table] == [(r["id"], r["label"]) for r in rows["mean"]]
PYTHON

refuses() { # refuses TEXT WORD...
    expect 2 "$FTENGINE" predict "${@:2}"
    one_error "$1"
    [ ! -s out ] || fail "something was printed: $(cat out)"
}
refuses 'this model has 2 labels, the first one 3' a two --data numbered.tsv
refuses '"journey" is none of the first model'"'"'s' a b other --data numbered.tsv && says '"food", "music"'
refuses 'trained on pairs of texts' a pairs --data numbered.tsv
refuses 'trained on single texts' pairs a --data pairs.tsv
refuses 'nowhere' a nowhere --data numbered.tsv
refuses 'no column "nummer"' a b --data numbered.tsv --id nummer && says number
refuses 'plain text has no column of ids' a --data numbered.tsv --format text --id number
expect 2 "$FTENGINE" predict a two --data numbered.tsv --output refused.tsv
[ ! -e refused.tsv ] || fail "a refused prediction left a file"
