#!/usr/bin/env bash
# Tasks on two texts: trained, saved with their columns, evaluated and predicted; and what is refused.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
awk -F '\t' -v OFS='\t' 'NR == 1 { print "premise", "hypothesis", "label"; next } { print $1, before, (NR % 3 ? "same" : "other"); before = $1 }' \
    "$here/train.tsv" | head -80 >pairs.tsv
options="$here/follow.ini train.max_steps=4 data.text_column=premise model.ignore_mismatched_sizes=true data.train=pairs.tsv"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.text_pair=hypothesis data.validation=pairs.tsv eval.strategy=epoch output.dir=run
[ "$(json run/model/ftengine.json 'd["columns"]')" = "{'text': 'premise', 'pair': 'hypothesis', 'label': 'label'}" ] || fail "ftengine.json: $(cat run/model/ftengine.json)"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.text_pair=hypothesis data.validation=pairs.tsv eval.strategy=epoch output.dir=again
says "from cache"
cmp run/model/model.safetensors again/model/model.safetensors || fail "the cached pairs give another model"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $options data.validation=pairs.tsv output.dir=single
cmp -s run/model/model.safetensors single/model/model.safetensors && fail "the second texts made no difference"
[ "$(json run/run.json 'd["data"]["train"]["tokens"]')" -gt "$(json single/run.json 'd["data"]["train"]["tokens"]')" ] || fail "pairs have no more tokens than their first texts"

# The columns are known to eval and predict.
expect 0 "$FTENGINE" eval run --data pairs.tsv --json
[ "$(json out 'abs(d["metrics"]["loss"] - '"$(json run/run.json 'd["metrics"]["eval_loss"]')"') < 1e-6')" = True ] || fail "eval disagrees with the run"
python3 -S -c 'import json
rows = [l.rstrip("\n").split("\t") for l in open("pairs.tsv", encoding="utf-8")]
with open("pairs.jsonl", "w") as f:
    for r in rows[1:]: f.write(json.dumps(dict(zip(rows[0], r))) + "\n")'
expect 0 "$FTENGINE" predict run --data pairs.tsv
[ "$(head -1 out | cut -f 5-)" = "$(printf 'text\tpair')" ] || fail "predict prints: $(head -1 out)"
[ "$(cut -f 5- out | tail -n +2)" = "$(cut -f 1,2 pairs.tsv | tail -n +2)" ] || fail "predict prints other texts than it read"
cp out want
expect 0 "$FTENGINE" predict run --data pairs.jsonl && cmp out want || fail "JSON lines give other predictions"
expect 0 "$FTENGINE" predict run --data pairs.tsv data.text_column=hypothesis data.text_pair=premise
cut -f 1-4 out >turned
cut -f 1-4 want >straight
cmp -s turned straight && fail "the order of the texts made no difference"

cut -f 1 pairs.tsv >one.tsv
expect 2 "$FTENGINE" predict run --data one.tsv && one_error 'no column "hypothesis"'
expect 2 "$FTENGINE" predict run --data one.tsv --format text && one_error "no second texts"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.text_pair=premise output.dir=no && one_error "both texts"
cp -r "$here/model" m && sed -i 's/"type_vocab_size": *[0-9]*/"type_vocab_size": 1/' m/config.json
grep -q '"type_vocab_size": 1' m/config.json || fail "the model's configuration names no type_vocab_size"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $options data.text_pair=hypothesis model.path=m output.dir=no && one_error "token type 1"
[ ! -e no ] || fail "a refused run left a directory"
echo "pairs: all as expected"
