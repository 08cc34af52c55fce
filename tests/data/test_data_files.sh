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

# ---- predict while it reads ----------------------------------------------------------------------------------------------
# Rows are written as they come: of a pipe that stays open too, and they stay when it is killed.
mkfifo pipe
"$FTENGINE" predict run.a.tsv --data - --format text <pipe >piped 2>err &
pid=$!
exec 3>pipe
printf 'one text\n' >&3
for _ in $(seq 2400); do [ "$(wc -l <piped)" -ge 2 ] && break || sleep 0.05; done
[ "$(wc -l <piped)" = 2 ] || fail "an open pipe is waited for: $(cat piped)"
kill -9 $pid
exec 3>&-
wait $pid
# A file of many pieces has the rows of its parts, with their lines in errors and their numbers in JSON.
{ head -1 a.tsv && for _ in $(seq 60); do tail -n +2 a.tsv; done; } >many.tsv
"$FTENGINE" predict run.a.tsv --data many.tsv >many.out 2>err || fail "many pieces"
expect 0 "$FTENGINE" predict run.a.tsv --data a.tsv
cp out want
{ head -1 want && for _ in $(seq 60); do tail -n +2 want; done; } | cmp - many.out || fail "many pieces have other rows"
expect 0 "$FTENGINE" predict run.a.tsv --data many.tsv --json
[ "$(tail -1 out | python3 -c 'import json; print(json.loads(input())["id"])')" = 3539 ] || fail "the number of the last row: $(tail -1 out)"
sed '3001s/.*/one column/' many.tsv >ragged.tsv
expect 2 "$FTENGINE" predict run.a.tsv --data ragged.tsv && one_error "ragged.tsv:3001"
# CSV where the name says so, with what needs quotes in quotes.
expect 0 "$FTENGINE" predict run.a.tsv --data b.csv --output p.csv
expect 0 "$FTENGINE" predict run.a.tsv --data b.csv --output p.jsonl
python3 - <<'PYTHON' || fail "p.csv is not what it says"
import csv, json
rows, texts = list(csv.DictReader(open("p.csv", newline=""))), [r[0] for r in list(csv.reader(open("b.csv", newline="")))[1:]]
assert [r["text"] for r in rows] == texts and any("," in t for t in texts) and any('"' in t for t in texts)
assert [r["label"] for r in rows] == [json.loads(line)["label"] for line in open("p.jsonl")]
PYTHON
# What is read is not overwritten, under another name neither; who stops reading is no error.
cp a.tsv kept.tsv && ln -s a.tsv link.tsv
for output in a.tsv ./a.tsv link.tsv; do expect 2 "$FTENGINE" predict run.a.tsv --data a.tsv --output $output && one_error "--output"; done
cmp a.tsv kept.tsv || fail "the texts are gone"
for command in "predict run.a.tsv --data many.tsv" "config" "help train" "compare run.a.tsv --all"; do
    # shellcheck disable=SC2086
    { "$FTENGINE" $command 2>err; echo $? >code; } | head -1 >/dev/null
    [ ! -s err ] && [[ "$(cat code)" =~ ^(0|141)$ ]] || fail "$command | head -1: exit code $(cat code)"
done

# ---- two classes of one name, a label with the separator in it ------------------------------------------------------------
cp -r run.a.tsv twins
python3 - <<'PYTHON'
import json
for name, keys in (("config", ("id2label",)), ("ftengine", ("labels",))):
    path = f"twins/model/{name}.json"
    value = json.load(open(path))
    for key in keys:
        value[key] = {k: v.replace("music", "food") for k, v in value[key].items()} if key == "id2label" else [v.replace("music", "food") for v in value[key]]
    value.pop("label2id", None)
    json.dump(value, open(path, "w"))
PYTHON
expect 0 "$FTENGINE" predict twins --data a.tsv --json --output twins.jsonl
says 'several classes are called "food"'
expect 0 "$FTENGINE" predict run.a.tsv --data a.tsv --json --output single.jsonl
python3 - <<'PYTHON' || fail "ids of one name are mixed up"
import json
for twin, single in zip(map(json.loads, open("twins.jsonl")), map(json.loads, open("single.jsonl"))):
    assert list(twin["probabilities"]) == ["food (id 0)", "food (id 1)", "travel"]
    assert list(twin["probabilities"].values()) == list(single["probabilities"].values())
PYTHON

# Several labels in one cell, of which one has the separator in its name: another one, and that is said.
python3 - <<'PYTHON'
import json
rows = [("one", ["food, hot", "travel"]), ("two", ["travel"]), ("three", ["food, hot"]), ("four", [])]
open("lists.jsonl", "w").write("".join(json.dumps({"text": t, "label": l}) + "\n" for t, l in rows * 8))
PYTHON
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=lists.jsonl output.dir=lists model.ignore_mismatched_sizes=true eval.threshold=0.01
expect 0 "$FTENGINE" predict lists --data lists.jsonl --format jsonl eval.threshold=0.01
says 'labels have "," in their names: several in one cell are separated by "'
separator=$(sed -n 's/.*are separated by "\(.*\)"$/\1/p' err)
[ "$(cut -f 1 out | sed -n 2p)" = "food, hot${separator}travel" ] || fail "a cell of labels: $(head -2 out)"

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
# Which columns were taken; damaged texts, quotes in TSV, classes that are nearly the same, escape sequences in labels.
says 'columns    text from "text", label from "label"'
[ "$(json odd/run.json 'd["data"]["train"]["text_column"], d["data"]["train"]["label_column"]')" = "('text', 'label')" ] || fail "run.json lacks the columns"
printf 'question,sentence,label\nwhy,so,food\nwho,he,music\n' >both.csv
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.train=both.csv output.dir=no && one_error 'which column is meant, "question" or "sentence"?' && says "data.text_column=question"
printf 'text\tlabel\n"one"\tpos\n"tw\xffo \xc3\xa9"\tpos \nthree\tPos\nfour\tnan\nfive\t\033[31mred\n' >slips.tsv
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=slips.tsv output.dir=slips model.ignore_mismatched_sizes=true
says "1 texts of $scratch/slips.tsv are not valid UTF-8: what is broken is read as U+FFFD ($scratch/slips.tsv:3)"
says "2 of 5 texts of $scratch/slips.tsv are in quotes"
says 'the classes "pos" and "pos " are nearly the same'
says 'the classes "Pos" and "pos" are nearly the same'
says 'a class is called "nan"'
says '?[31mred'
! grep -q "$(printf '\033')" err || fail "an escape sequence reaches the terminal"
{ printf 'text\tlabel\n' && for i in $(seq 30); do printf 'text %d\t%d.5\ntext %d b\t%d.5\n' $i $i $i $i; done; } >decimals.tsv
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.train=decimals.tsv output.dir=decimals model.ignore_mismatched_sizes=true
says "30 of the 30 classes are called by decimal numbers; train.task=regression learns numbers"
echo "data files: all as expected"
