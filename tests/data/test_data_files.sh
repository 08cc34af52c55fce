#!/usr/bin/env bash
# The same examples in every format, packing and encoding give the same model, and the same predictions.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
python3 -S - "$here/train.tsv" <<'PYTHON'
import csv, gzip, json, sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")]
header, rows = rows[0], rows[1:60]
rows[3][0] = 'he said "so", and left; naïve'  # every delimiter, a quote, and a character outside ASCII
rows[4][0] = '"'
def text(rows): return "".join("\t".join(row) + "\n" for row in rows)
plain = text([header] + rows)
open("a.tsv", "w", encoding="utf-8", newline="").write(plain)
open("crlf.tsv", "w", encoding="utf-8-sig", newline="").write(plain.replace("\n", "\r\n"))
open("utf16.tsv", "w", encoding="utf-16", newline="").write(plain)
def write(path, index=False, **more):
    with open(path, "w", encoding="utf-8", newline="") as f:
        w = csv.writer(f, **more)
        w.writerow(([""] if index else []) + header)
        for i, row in enumerate(rows): w.writerow(([i] if index else []) + row)
write("b.csv")
write("semicolon.csv", delimiter=";", lineterminator="\n")
write("quoted.csv", quoting=csv.QUOTE_ALL)
write("pandas.csv", index=True)
with open("c.jsonl", "w", encoding="utf-8") as f:
    for row in rows: f.write(json.dumps(dict(zip(reversed(header), reversed(row)))) + "\n")
with gzip.open("a.tsv.gz", "wb") as f: f.write(plain.encode())
# Latin-1 knows fewer characters, so it has a twin of its own in UTF-8.
few = "".join(c if ord(c) < 256 else "?" for c in plain)
open("few.tsv", "w", encoding="utf-8", newline="").write(few)
open("latin1.tsv", "w", encoding="latin-1", newline="").write(few)
# Labels as numbers, and as a data frame with a gap in it writes them.
names = sorted({row[1] for row in rows})
for path, end in (("numbers.tsv", ""), ("floats.tsv", ".0")):
    open(path, "w", encoding="utf-8", newline="").write(text([header] + [[row[0], str(names.index(row[1])) + end] for row in rows]))
PYTHON
options="$here/follow.ini train.max_steps=3 data.validation= output.save_steps=100"
same() { # same FIRST OTHER...: the same model from both
    local first=$1 other
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $options data.train="$first" output.dir="run.$first"
    for other in "$@"; do
        # shellcheck disable=SC2086
        expect 0 "$FTENGINE" train $options data.train="$other" output.dir="run.$other"
        cmp "run.$first/model/model.safetensors" "run.$other/model/model.safetensors" || fail "$other gives another model than $first"
        [ "$(json "run.$other/model/config.json" 'd["id2label"]')" = "$(json "run.$first/model/config.json" 'd["id2label"]')" ] || fail "$other: id2label"
    done
}
same a.tsv crlf.tsv utf16.tsv b.csv semicolon.csv quoted.csv pandas.csv c.jsonl a.tsv.gz
same few.tsv latin1.tsv
same numbers.tsv floats.tsv
[ "$(json run.a.tsv/run.json 'd["data"]["train"]["length_quantiles"][4] == d["data"]["train"]["longest"] and sum(d["data"]["train"]["classes"].values())')" = 59 ] ||
    fail "run.json: $(json run.a.tsv/run.json 'd["data"]')"
# A format that is given wins over the name.
cp b.csv c.tsv
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=c.tsv data.format=csv output.dir=run.c
cmp run.c/model/model.safetensors run.a.tsv/model/model.safetensors || fail "data.format=csv gives another model"

# ---- eval and predict ----------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" predict run.a.tsv --data a.tsv
cp out want
for data in b.csv c.jsonl a.tsv.gz utf16.tsv semicolon.csv; do
    expect 0 "$FTENGINE" predict run.a.tsv --data $data
    cmp out want || fail "predict reads $data in another way"
    "$FTENGINE" predict run.a.tsv --data - <$data >out 2>err || fail "predict of $data from standard input"
    cmp out want || fail "predict reads $data from standard input in another way"
done
expect 0 "$FTENGINE" eval run.a.tsv --data a.tsv --json
json out 'd["metrics"]' >want
for data in quoted.csv c.jsonl; do
    expect 0 "$FTENGINE" eval run.a.tsv --data $data --json
    [ "$(json out 'd["metrics"]')" = "$(cat want)" ] || fail "eval reads $data in another way"
done
expect 0 "$FTENGINE" eval run.a.tsv --data c.tsv --format csv --json
expect 2 "$FTENGINE" eval run.a.tsv --data a.tsv --format text && one_error "--format"
expect 2 "$FTENGINE" predict run.a.tsv --data a.tsv --format excel && one_error "--format"

# ---- a share of the training file as validation --------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=a.tsv data.validation_split=0.25 eval.strategy=epoch output.dir=split
[ "$(json split/run.json '[d["data"][k]["examples"] for k in ("train", "validation")], d["data"]["validation"]["in_train"]')" = "([44, 15], 0)" ] || fail "the split: $(json split/run.json 'd["data"]')"
[ "$(python3 -S -c 'import json; ids = [json.loads(l)["id"] for l in open("split/predictions.jsonl")]; print(len(ids), len(set(ids)), max(ids) > 40 and min(ids) < 20)')" = "15 15 True" ] ||
    fail "predictions.jsonl does not name the rows of the file"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=a.tsv data.validation_split=0.25 eval.strategy=epoch train.seed=99 output.dir=split2
[ "$(cut -d, -f 3 split/predictions.jsonl)" = "$(cut -d, -f 3 split2/predictions.jsonl)" ] || fail "another train.seed cut the file in another way"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.train=a.tsv data.validation=a.tsv data.validation_split=0.25 output.dir=no && one_error "data.validation_split"

# ---- mistakes, and what a run says of its data ---------------------------------------------------------------------------
printf 'text,label\n"one,food\ntwo,music\n' >open.csv
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.train=open.csv output.dir=no && one_error "open.csv:2:1"
printf '{"text": "one", "label": "food"}\n{"text": "two" "label": 1}\n' >bad.jsonl
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.train=bad.jsonl output.dir=no && one_error "bad.jsonl:2:16"
head -c 100 a.tsv.gz >cut.gz
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.train=cut.gz output.dir=no && one_error "ends early"
[ ! -e no ] || fail "a refused run left a directory"
printf 'text\tlabel\none\tfood\ntwo\tmusic\none\ttravel\n\tfood\n' >odd.tsv
printf 'text\tlabel\nnew\tfood\ntwo\tmusic\nthree\tsport\n' >seen.tsv
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=odd.tsv data.validation=seen.tsv eval.strategy=epoch output.dir=odd model.ignore_mismatched_sizes=true
says "1 texts of $scratch/odd.tsv occur again with another label ($scratch/odd.tsv:2 and $scratch/odd.tsv:4)"
says "1 of 3 texts of $scratch/seen.tsv are in the training data too"
says "1 texts of $scratch/odd.tsv are empty"
says "1 of the 4 classes have no training example"
[ "$(json odd/model/config.json 'list(d["id2label"].values())')" = "['food', 'music', 'sport', 'travel']" ] || fail "a class of the validation file is lost"
echo "data files: all as expected"
