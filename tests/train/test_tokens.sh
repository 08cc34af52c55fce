#!/usr/bin/env bash
# Token classification from end to end: CoNLL's columns and JSON lines are one data set, any micro-batches give the same bits, eval agrees with
# the run, predictions have the text at their offsets, planned bytes are metered, long texts in windows lose no word; and what is refused.
# Catches: tags that are shifted by a column, a loss that depends on how a step is cut, a figure of another set than the run's, offsets
# of another text, rows of the head that no plan counts, gradients of an earlier step where a step has no tag, a warning that is not
# given, and a saved model that is taken for one of texts.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >make.py <<'E2'
import json, random
random.seed(3)
people, places = ["Ada", "Grace Hopper", "José Müller"], ["New York", "Berlin", "São Paulo"]
for name, n in (("train", 60), ("dev", 20)):
    with open(name + ".conll", "w", encoding="utf-8") as conll, open(name + ".jsonl", "w", encoding="utf-8") as words, open(name + "_spans.jsonl", "w", encoding="utf-8") as spans:
        for _ in range(n):
            w, t, found = [], [], []
            for text, label in ((random.choice(people), "PER"), (random.choice(["left", "loves"]), None), (random.choice(places), "LOC"), (".", None)):
                start = len(" ".join(w)) + (len(w) > 0)
                for i, one in enumerate(text.split()):
                    w.append(one)
                    t.append("O" if label is None else ("B-" if i == 0 else "I-") + label)
                if label:
                    found.append([start, start + len(text), label])
            conll.write("".join(f"{a} X {b}\n" for a, b in zip(w, t)) + "\n")
            words.write(json.dumps({"tokens": w, "ner_tags": t}) + "\n")
            spans.write(json.dumps({"text": " ".join(w), "entities": found}) + "\n")
E2
python3 -S make.py
follow="$here/follow.ini train.task=token_classification model.ignore_mismatched_sizes=true train.max_steps=6 eval.strategy=epoch eval.metric=f1_micro"
# shellcheck disable=SC2086
train() { expect 0 "$FTENGINE" train $follow "$@"; }
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$3"; }

train data.train=train.conll data.validation=dev.conll output.dir=run
says "B-LOC"
[ "$(json run/model/config.json 'd["architectures"][0].endswith("ForTokenClassification") and "problem_type" not in d')" = True ] || fail "config.json: $(cat run/model/config.json)"
[ "$(json run/model/ftengine.json 'd["task"], d["truncation"]')" = "('token_classification', 'windows')" ] || fail "ftengine.json: $(cat run/model/ftengine.json)"
train data.train=train.jsonl data.validation=dev.jsonl output.dir=words
same run words "words and tags in JSON lines give another model"
train data.train=train_spans.jsonl data.validation=dev_spans.jsonl output.dir=spans
same run spans "texts and spans give another model"
# train.task is seen from the file, in each of its forms.
cp train.conll train.txt && cut -d ' ' -f 1,3 train.conll | tr ' ' '\t' >train.tsv
for form in conll jsonl txt tsv; do
    train train.task=auto data.train=train.$form data.validation=dev.conll output.dir=auto-$form && says "train.task=token_classification, by the look of"
    same run auto-$form "train.task = auto, $form: another model"
done
train train.task=auto data.train=train_spans.jsonl data.validation=dev.conll output.dir=auto-spans
same run auto-spans "train.task = auto, spans: another model"
train data.train=train.conll data.validation=dev.conll output.dir=cut train.micro_batch=1 train.gradient_checkpointing=on device.threads=1
same run cut "micro-batches of one text give another model"
train data.train=train.conll data.validation=dev.conll output.dir=all data.label_all_tokens=true
cmp -s run/model/model.safetensors all/model/model.safetensors && fail "data.label_all_tokens made no difference"

# Steps without a tag have a loss and a gradient of 0, however they are cut, in the memory that was planned; a run of nothing else too.
python3 -S -c 'print(12 * "Ada B-PER\nleft O\n\nAda _\nleft _\n\nAda _\nleft _\n\n", end="")' >few.conll
python3 -S -c 'print("Ada B-PER\nleft O\n\n" + 40 * "Ada _\nleft _\n\n", end="")' >one.conll
mkdir deberta && cp "$here/model/vocab.txt" deberta && echo '{"tokenizer_class": "BertTokenizer"}' >deberta/tokenizer_config.json
json "$SOURCE_DIR/tests/vectors/deberta_v3/config.json" '__import__("json").dumps(d | {"vocab_size": len(open("deberta/vocab.txt").readlines())})' >deberta/config.json
for family in bert deberta; do
    path=
    [ $family = deberta ] && path="model.path=deberta model.init=random"
    for batch in 1 2; do
        for micro in auto 1; do
            # shellcheck disable=SC2086
            train $path data.train=few.conll eval.strategy=no train.batch_size=$batch train.micro_batch=$micro output.dir=$family-$batch-$micro
            [ "$(json $family-$batch-$micro/run.json 'd["memory"]["peak_requested_bytes"] == d["planned"]["peak_requested_bytes"]')" = True ] ||
                fail "$family: planned and metered differ where steps have no tag"
        done
        same $family-$batch-auto $family-$batch-1 "$family: steps without a tag give another model by micro-batch"
        [ "$(python3 -S -c 'import json, sys
lines = [d for d in map(json.loads, open(sys.argv[1])) if "grad_norm" in d]
print(any(d["loss"] == 0 for d in lines) and any(d["loss"] > 0 for d in lines) and all((d["loss"] == 0) == (d["grad_norm"] == 0) for d in lines))' \
            $family-$batch-auto/metrics.jsonl)" = True ] || fail "$family: a loss of 0 has a gradient: $(cat $family-$batch-auto/metrics.jsonl)"
    done
    # shellcheck disable=SC2086
    train $path data.train=one.conll eval.strategy=no train.batch_size=1 train.max_steps=2 output.dir=$family-none
    [ "$(python3 -S -c 'import json
print({(d["loss"], d["grad_norm"]) for d in map(json.loads, open("'$family'-none/metrics.jsonl")) if "grad_norm" in d})')" = "{(0.0, 0.0)}" ] ||
        fail "$family: a run without a tag: $(cat $family-none/metrics.jsonl)"
done

# Bytes of the plan are those of the run, and the head's rows are among them.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $follow data.train=train.conll data.validation=dev.conll --json
cp out plan.json
[ "$(json plan.json 'd["memory"]["peak_requested_bytes"], d["memory"]["at_peak"]')" = "$(json run/run.json 'd["memory"]["peak_requested_bytes"], d["memory"]["at_peak"]')" ] ||
    fail "planned $(json plan.json 'd["memory"]'), metered $(json run/run.json 'd["memory"]')"

# The saved model is one of tokens, whatever form the data has.
for data in dev.conll dev.jsonl dev_spans.jsonl; do
    expect 0 "$FTENGINE" eval run --data "$data" --json
    [ "$(json out 'max(abs(d["metrics"][k] - v) for k, v in '"$(json run/run.json '{k[5:]: v for k, v in d["metrics"].items() if k.startswith("eval_")}')"'.items()) < 1e-6')" = True ] ||
        fail "eval of $data disagrees with the run: $(cat out)"
done
expect 0 "$FTENGINE" eval run --data dev.conll --ci
grep -q "^f1_strict" out && grep -q "^PER " out || fail "eval prints $(cat out)"
[ "$(python3 -S -c 'import json
print(all(len(d["labels"]) == len(d["predicted"]) == len(d["scores"]) > 0 for d in map(json.loads, open("run/predictions.jsonl"))))')" = True ] || fail "predictions.jsonl"

# Words that are given and words that are found are the same here; offsets are of the text.
for data in dev.jsonl dev_spans.jsonl; do
    expect 0 "$FTENGINE" predict run --data "$data" --json && cp out "$data.out"
done
cmp dev.jsonl.out dev_spans.jsonl.out || fail "words and texts are predicted otherwise"
python3 -S -c 'import json
seen = 0
for d in map(json.loads, open("dev.jsonl.out", encoding="utf-8")):
    for e in d["entities"]:
        seen += 1
        assert d["text"][e["start"]:e["end"]] == e["text"] and 0 < e["score"] <= 1 and e["label"] in ("PER", "LOC"), e
assert seen > 0' || fail "entities are not where they say: $(head -3 dev.jsonl.out)"
expect 0 "$FTENGINE" predict run words --data dev.jsonl --json && cmp out dev.jsonl.out || fail "the mean of two equal models is another"
# CoNLL's columns by another name, packed and from a pipe; one column of words.
cut -d ' ' -f 1,3 dev.conll >dev.txt && cut -d ' ' -f 1 dev.conll >words.txt && gzip -k dev.txt
for data in dev.conll dev.txt dev.txt.gz; do
    expect 0 "$FTENGINE" predict run --data "$data" --json && cmp out dev.jsonl.out || fail "$data is predicted otherwise"
done
expect 0 "$FTENGINE" predict run --data words.txt --format conll --json && cmp out dev.jsonl.out || fail "words alone are predicted otherwise"
"$FTENGINE" predict run --data - --json <dev.txt >out 2>err && cmp out dev.jsonl.out || fail "a pipe of tags is predicted otherwise: $(cat err)"
printf 'Ada left S\303\243o Paulo.\n' >text.txt
expect 0 "$FTENGINE" predict run --data text.txt && [ "$(head -1 out)" = "$(printf 'id\tlabel\tstart\tend\tscore\ttext')" ] || fail "predict prints $(head -1 out)"

# A text of many windows: each word has one tag, and the figures do not lose any.
python3 -S -c 'import json
rows = [json.loads(l) for l in open("dev.jsonl")]
print(json.dumps({"tokens": sum((r["tokens"] for r in rows), []), "ner_tags": sum((r["ner_tags"] for r in rows), [])}))' >long.jsonl
expect 0 "$FTENGINE" eval run --data long.jsonl --json data.max_length=16 'data.truncation=windows(4)' && cp out windows.json
[ "$(json windows.json 'sum(c["support"] for c in d["classes"])')" = 40 ] || fail "windows lost entities: $(cat windows.json)"
expect 0 "$FTENGINE" eval run --data long.jsonl --json data.max_length=16 data.truncation=head && says "are left out"

# Folds and seeds; a stopped run goes on; an adapter.
train data.train=train.conll data.folds=2 output.dir=folds train.max_steps=2
train data.train=train.conll data.folds=2 train.seeds=1,2,3 output.dir=both train.max_steps=3
python3 -S - <<'E2' || fail "joined tags"
import json
def lines(path): return [json.loads(line) for line in open(path)]
assert lines("folds/predictions.jsonl") == sorted(lines("folds/fold-1/predictions.jsonl") + lines("folds/fold-2/predictions.jsonl"), key=lambda line: line["id"])
runs, whole, differ = [lines(f"both/fold-{f}-seed-{s}/predictions.jsonl") for f in (1, 2) for s in (1, 2, 3)], lines("both/predictions.jsonl"), 0
assert [w["id"] for w in whole] == list(range(60))
for w in whole:
    own = [line for run in runs for line in run if line["id"] == w["id"]]
    assert len(own) == 3 and all(o["labels"] == w["labels"] for o in own)
    for k, (tag, score) in enumerate(zip(w["predicted"], w["scores"], strict=True)):
        sums = {}
        for o in own: sums[o["predicted"][k]] = sums.get(o["predicted"][k], 0) + o["scores"][k] / 3
        assert abs(sums[tag] - max(sums.values())) < 1e-8 and abs(score - sums[tag]) < 1e-8, (w, own)
        differ += len(sums) > 1
assert differ > 0
E2
expect 2 "$FTENGINE" predict run --data dev.conll --nbest x.json && one_error "of question_answering"
train data.train=train.conll data.validation=dev.conll output.dir=lora adapter.type=lora
[ "$(json lora/adapter/adapter_config.json 'd["task_type"]')" = TOKEN_CLS ] || fail "adapter_config.json: $(cat lora/adapter/adapter_config.json)"
expect 0 "$FTENGINE" eval lora --data dev.conll --json

expect 2 "$FTENGINE" predict run --data dev.conll --logits && one_error "which have no logits"
printf '{"tokens": ["Ada", "left"], "ner_tags": [1, 0]}\n' >numbers.jsonl
train data.train=numbers.jsonl eval.strategy=no train.max_steps=1 output.dir=numbers && says "the tags are numbers"
train data.train=train.conll data.validation=dev_spans.jsonl output.dir=mixed train.max_steps=1
[ "$(json mixed/model/config.json 'sorted(d["label2id"])')" = "['B-LOC', 'B-PER', 'I-LOC', 'I-PER', 'O']" ] || fail "tags of two forms: $(cat mixed/model/config.json)"
printf '{"text": "\303\251\303\251 Ada left", "entities": [[5, 8, "PER"]]}\n' >bytes.jsonl
train data.train=bytes.jsonl eval.strategy=no train.max_steps=1 output.dir=bytes && says "bytes.jsonl begin or end inside a word"

# shellcheck disable=SC2086
refused() { expect 2 "$FTENGINE" train $follow data.train=train.conll output.dir=no "$@"; }
printf 'Ada B-PER\nleft\n' >short.conll
refused data.train=short.conll && one_error "short.conll:2"
refused data.validation=dev.conll eval.metric=auroc && one_error "auroc does not exist"
refused data.validation=dev.conll eval.calibrate=true && one_error "not calibrated"
refused model.head.hidden=8 && one_error "model.head.hidden"
refused data.text_pair=2 && one_error ""
expect 2 "$FTENGINE" train "$here/follow.ini" data.label_all_tokens=true output.dir=no && one_error "data.label_all_tokens"
[ ! -e no ] || fail "a refused run left a directory"
echo "tokens: all as expected"
