#!/usr/bin/env bash
# Question answering from end to end: SQuAD's JSON, pretty or on one line, and JSON lines are one data set; any micro-batches give the same bits; planned
# bytes are metered; eval agrees with the run; predictions stand where they say, in every form, and a question of many windows has one; version 2's
# questions without an answer; folds keep contexts together; and what is refused. Catches: starts that are taken for bytes, a loss that is divided by
# tokens, rows of the head that no plan counts, a threshold that is not saved, predictions under another id, a context on both sides of a fold.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >make.py <<'E2'
import json, random
random.seed(3)
people, places = ["Ada", "Grace Hopper", "José Müller"], ["New York", "Berlin", "São Paulo"]
def make(n, impossible):
    data, rows = [], []
    for article in range(n):
        paragraphs = []
        for _ in range(2):
            who, where = random.choice(people), random.choice(places)
            context = f"Später ging {who} nach {where}. " + "It was late. " * random.randint(0, 3)
            qas = []
            for question, answer in (("Who went?", who), ("Where to?", where), ("Who did not?", None)):
                if answer is None and not impossible: continue
                answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}] * 2
                qas.append({"id": f"q{len(rows)}", "question": question, "answers": answers} | ({"is_impossible": answer is None} if impossible else {}))
                rows.append({"id": qas[-1]["id"], "title": f"t{article}", "context": context, "question": question,
                             "answers": {"text": [a["text"] for a in answers], "answer_start": [a["answer_start"] for a in answers]}})
            paragraphs.append({"context": context, "qas": qas})
        data.append({"title": f"t{article}", "paragraphs": paragraphs})
    return {"version": "v2.0" if impossible else "1.1", "data": data}, rows
for version, impossible in (("1", False), ("2", True)):
    for name, n in (("train", 12), ("dev", 5)):
        squad, rows = make(n, impossible)
        json.dump(squad, open(f"{name}{version}.json", "w"))
        json.dump(squad, open(f"{name}{version}_pretty.json", "w"), indent=1, ensure_ascii=False)
        with open(f"{name}{version}.jsonl", "w") as f:
            for r in rows: f.write(json.dumps(r, ensure_ascii=False) + "\n")
E2
python3 -S make.py
follow="$here/follow.ini model.ignore_mismatched_sizes=true train.max_steps=6 eval.strategy=epoch"
# shellcheck disable=SC2086
train() { expect 0 "$FTENGINE" train $follow "$@"; }
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$3"; }

# train.task is seen from the file, in each of its forms.
train data.train=train2.json data.validation=dev2.json output.dir=run && says "questions without an answer (33.3%)"
! grep -q "loss.*exact_match.*loss" err || fail "a figure is shown twice: $(grep exact_match err)"
[ "$(json run/model/config.json 'd["architectures"][0].endswith("ForQuestionAnswering") and "problem_type" not in d')" = True ] || fail "config.json: $(cat run/model/config.json)"
[ "$(json run/model/ftengine.json 'd["task"], d["truncation"], d["thresholds"]')" = "('question_answering', 'windows', [0.0])" ] || fail "ftengine.json: $(cat run/model/ftengine.json)"
for form in train2_pretty.json train2.jsonl; do
    train data.train=$form data.validation=dev2.json output.dir=$form-run
    same run $form-run "$form gives another model"
done
train data.train=train2.json data.validation=dev2.json output.dir=cut train.micro_batch=1 train.gradient_checkpointing=on device.threads=1
same run cut "micro-batches of one window give another model"
train data.train=train2.json data.validation=dev2.json output.dir=half train.precision=bf16
train data.train=train2.json data.validation=dev2.json output.dir=half-cut train.precision=bf16 train.micro_batch=1
same half half-cut "bf16: micro-batches of one window give another model"
cp run/model/model.safetensors before.safetensors
train data.train=train2.json data.validation=dev2.json output.dir=parts train.max_steps=6 output.save_steps=2 eval.strategy=no
train data.train=train2.json data.validation=dev2.json output.dir=parts train.max_steps=6 output.save_steps=2 eval.strategy=no output.exists=resume
same run parts "a run that goes on is another"

# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $follow data.train=train2.json data.validation=dev2.json --json
cp out plan.json
[ "$(json plan.json 'd["memory"]["peak_requested_bytes"], d["memory"]["at_peak"]')" = "$(json run/run.json 'd["memory"]["peak_requested_bytes"], d["memory"]["at_peak"]')" ] ||
    fail "planned $(json plan.json 'd["memory"]'), metered $(json run/run.json 'd["memory"]')"

for data in dev2.json dev2_pretty.json dev2.jsonl; do
    expect 0 "$FTENGINE" eval run --data "$data" --json
    [ "$(json out 'max(abs(d["metrics"][k] - v) for k, v in '"$(json run/run.json '{k[5:]: v for k, v in d["metrics"].items() if k.startswith("eval_")}')"'.items()) < 1e-6')" = True ] ||
        fail "eval of $data disagrees with the run: $(cat out)"
done
expect 0 "$FTENGINE" eval run --data dev2.json --ci
grep -q "^no_answer_exact" out && grep -q "^best_f1_threshold" out || fail "eval prints $(cat out)"

# Predictions: under their ids, where they say, one a question, the same in every form; a threshold that says no to all, and to none.
for data in dev2.json dev2_pretty.json dev2.jsonl; do
    expect 0 "$FTENGINE" predict run --data "$data" --json && cp out "$data.lines"
    "$FTENGINE" predict run --data - --output piped.json <"$data" 2>err || fail "a pipe of $data"
    expect 0 "$FTENGINE" predict run run --data "$data" --output two.json && cmp two.json piped.json || fail "the mean of two equal models is another"
    cp piped.json "$data.object"
done
cmp dev2.json.lines dev2.jsonl.lines && cmp dev2.json.lines dev2_pretty.json.lines || fail "other forms are answered otherwise"
python3 -S -c 'import json
rows = [json.loads(l) for l in open("dev2.jsonl", encoding="utf-8")]
said = [json.loads(l) for l in open("dev2.json.lines", encoding="utf-8")]
assert [r["id"] for r in rows] == [s["id"] for s in said]
for r, s in zip(rows, said):
    for a in s["answers"] + [s]:
        assert a["start"] is None and a["text"] == "" or r["context"][a["start"]:a["end"]] == a["text"] == a["text"].strip() != "", a
        assert 0 < a["score"] <= 1
    assert abs(sum(a["score"] for a in s["answers"]) - 1) < 1e-6 and any(a["text"] == "" for a in s["answers"])
    assert (s["text"] == "") == (s["null_odds"] > 0)
assert json.load(open("dev2.json.object")) == {s["id"]: s["text"] for s in said}' || fail "answers: $(head -3 dev2.json.lines)"
python3 -S -c 'import json
truth = [json.loads(l) for l in open("run/predictions.jsonl")]
assert [t["text"] for t in truth] == [json.loads(l)["text"] for l in open("dev2.json.lines")] and any(t["labels"] == [] for t in truth)' || fail "predictions.jsonl"
expect 0 "$FTENGINE" predict run --data dev2.json eval.threshold=-1000 --output none.json
[ "$(json none.json 'set(d.values())')" = "{''}" ] || fail "a threshold of -1000 lets through: $(cat none.json)"
expect 0 "$FTENGINE" predict run --data dev2.json eval.n_best_size=2 eval.max_answer_length=1 --json
[ "$(head -1 out | python3 -S -c 'import json; print(len(json.loads(input())["answers"]) <= 3)')" = True ] || fail "n_best_size: $(head -1 out)"
expect 0 "$FTENGINE" predict run --data dev2.json && [ "$(head -1 out)" = "$(printf 'id\tstart\tend\tscore\ttext')" ] || fail "predict prints $(head -1 out)"
expect 2 "$FTENGINE" predict run --data dev2.json --logits && one_error "which have no logits"
# The n best as run_qa writes them, whatever the predictions' form, of one model and of several.
expect 0 "$FTENGINE" predict run --data dev2.json --output with.json --nbest nbest.json && cmp with.json dev2.json.object
expect 0 "$FTENGINE" predict run run --data dev2.json --json --nbest two.json && cmp two.json nbest.json || fail "the n best of two equal models are others"
python3 -S -c 'import json, math
said, nbest = {s["id"]: s for s in map(json.loads, open("dev2.json.lines", encoding="utf-8"))}, json.load(open("nbest.json", encoding="utf-8"))
assert list(said) == list(nbest)
for id, answers in nbest.items():
    assert [a["text"] for a in answers] == [a["text"] for a in said[id]["answers"]]
    assert all(abs(a["probability"] - b["score"]) < 1e-8 for a, b in zip(answers, said[id]["answers"]))
    scores = [a["start_logit"] + a["end_logit"] for a in answers]
    assert all(x > y - 1e-6 for x, y in zip(scores, scores[1:]))
    for a, score in zip(answers, scores):
        assert abs(a["probability"] - math.exp(score) / sum(map(math.exp, scores))) < 1e-6, (a, scores)' || fail "n best: $(head -c 600 nbest.json)"
expect 2 "$FTENGINE" predict run --data dev2.json --output x.json --nbest x.json && one_error "--nbest"
expect 2 "$FTENGINE" predict run --data dev2.json --nbest dev2.json && one_error "dev2.json holds the texts"

# Version 1.1: there always is an answer.
train data.train=train1.json data.validation=dev1.jsonl output.dir=one eval.metric=exact_match
[ "$(json one/model/ftengine.json 'd["thresholds"]')" = "[]" ] || fail "version 1.1 has a threshold"
[ "$(json one/run.json '"eval_no_answer_exact" in d["metrics"], "eval_answer_f1" in d["metrics"]')" = "(False, True)" ] || fail "figures of 1.1"
expect 0 "$FTENGINE" eval one --data dev2.json --json && says "10 of 30 questions have no answer"
train data.train=train2.json data.validation=dev2.json output.dir=tuned eval.threshold=tuned
[ "$(json tuned/model/ftengine.json 'd["thresholds"][0]')" != 0.0 ] || fail "no threshold was tuned"

# Folds and adapters.
train data.train=train1.jsonl data.folds=3 output.dir=folds train.max_steps=2
python3 -S -c 'import json, glob
rows, of = [json.loads(l) for l in open("train1.jsonl")], {}
for k, path in enumerate(sorted(glob.glob("folds/fold-*/predictions.jsonl"))):
    for line in map(json.loads, open(path)):
        assert of.setdefault(rows[line["id"]]["context"], k) == k
assert len(set(of.values())) == 3' || fail "a context is on both sides of a fold"
expect 0 "$FTENGINE" predict folds --data dev1.json --output folds.json
# Joined: of folds every question as its run has it; of seeds the means of what is at one place.
train data.train=train2.jsonl data.folds=2 train.seeds=1,2,3 output.dir=both train.max_steps=3 eval.n_best_size=3
python3 -S - <<'E2' || fail "joined answers"
import json
def lines(path): return [json.loads(line) for line in open(path, encoding="utf-8")]
whole, runs = lines("folds/predictions.jsonl"), [lines(f"folds/fold-{f}/predictions.jsonl") for f in (1, 2, 3)]
assert [w["id"] for w in whole] == list(range(len(open("train1.jsonl").readlines())))
assert whole == sorted(sum(runs, []), key=lambda line: line["id"])
whole, differ = lines("both/predictions.jsonl"), 0
runs = [lines(f"both/fold-{f}-seed-{s}/predictions.jsonl") for f in (1, 2) for s in (1, 2, 3)]
assert [w["id"] for w in whole] == list(range(len(open("train2.jsonl").readlines())))
for w in whole:
    own = [line for run in runs for line in run if line["id"] == w["id"]]
    assert len(own) == 3 and all(o["labels"] == w["labels"] for o in own)
    sums = {}
    for a in sum((o["answers"] for o in own), []):
        sums[a["start"], a["end"], a["text"]] = sums.get((a["start"], a["end"], a["text"]), 0) + a["score"] / 3
    ranked = sorted(sums.values(), reverse=True)[:max(len(o["answers"]) for o in own)]
    assert len(ranked) == len(w["answers"]) and all(abs(a["score"] - r) < 1e-8 for a, r in zip(w["answers"], ranked)), w
    assert all(abs(sums[a["start"], a["end"], a["text"]] - a["score"]) < 1e-8 for a in w["answers"])
    assert {k: w[k] for k in ("text", "start", "end", "score")} == w["answers"][0]
    assert abs(w["null_odds"] - sum(o["null_odds"] for o in own) / 3) < 1e-9
    differ += any(o["text"] != w["text"] for o in own)
assert differ > 0
E2
train data.train=train1.json data.validation=dev1.json output.dir=lora adapter.type=lora
[ "$(json lora/adapter/adapter_config.json 'd["task_type"], d["modules_to_save"]')" = "('QUESTION_ANS', ['qa_outputs'])" ] || fail "adapter_config.json: $(cat lora/adapter/adapter_config.json)"
expect 0 "$FTENGINE" eval lora --data dev1.json --json
train data.train=train1.json data.validation=dev1.json output.dir=linear train.parameters=classifier

# What is wrong with a file: file, error, and what it says. {c} is a context, {a} good answers.
python3 -S - <<'E2' || fail "bad files"
import json, os, subprocess
good = '{"id": "good", "question": "Who?", "context": "Ada left.", "answers": {"text": ["Ada"], "answer_start": [0]}}\n'
row = lambda answers: good + '{"id": "bad7", "question": "Who?", "context": "Ada left.", "answers": %s}\n' % answers
cases = [
    ("a.jsonl", row('{"text": ["Ada"], "answer_start": []}'), "a.jsonl:2", "these are no answers"),
    ("b.jsonl", row('{"text": ["Ada"], "answer_start": ["0"]}'), "b.jsonl:2", "these are no answers"),
    ("c.jsonl", row('{"text": ["Ada"], "answer_start": [-1]}'), "c.jsonl:2", "these are no answers"),
    ("d.jsonl", row('"Ada"'), "d.jsonl:2, id bad7", "is no list of answers"),
    ("e.jsonl", '{"question": "Who?", "passages": "Ada left."}\n', "e.jsonl:1", "no context column"),
    ("f.jsonl", '{"question": "Who?", "context": "Ada left."}\n', "f.jsonl:1", "no label column"),
    ("g.jsonl", good.replace("Who?", "Who " * 30), "g.jsonl:1, id good", "which leaves 0 of data.max_length = 24"),
    ("h.json", '{"data": [{"paragraphs": [{"context": "Ada left."}]}]}', "h.json", "without \"context\" and \"qas\""),
    ("i.json", '{"paragraphs": []}', "i.json", "no list \"data\" of articles"),
    ("j.json", '{"data": [{"paragraphs": []}]}', "j.json", "no questions"),
    ("k.json", '{"data": [{"paragraphs": [{"context": "Ada left.",\n"qas": [{"id": "x1", "question": "Who?",\n"answers": [{"text": "Ada"}]}]}]}]}', "k.json:2, question x1", "these are no answers"),
    ("l.json", '{"data": [{"paragraphs": [{"context": "Ada left.", "qas": [{"question": "Who?", "answers": []}]}]}]}', "l.json", "a question without"),
    ("m.jsonl", good.replace('["Ada"]', "[]").replace("[0]", "[]"), "m.jsonl", "no question has an answer"),
]
follow = os.environ["SOURCE_DIR"] + "/tests/vectors/trainer/follow.ini"
for name, text, where, message in cases:
    open(name, "w").write(text)
    r = subprocess.run([os.environ["FTENGINE"], "train", follow, "train.task=question_answering", "data.train=" + name, "output.dir=no"], capture_output=True, text=True)
    lines = [l for l in r.stderr.splitlines() if l.startswith("ftengine: error: ")]
    assert r.returncode == 2 and len(lines) == 1 and where in lines[0] and message in lines[0], (name, r.returncode, r.stderr[-600:])
warnings = [("Ada left.", 1, "1 answer is not in the context"), ("Ada left.", 700, "1 answer is not in the context"), ("éé Ada left.", 5, "code points")]
for context, start, message in warnings:
    open("w.jsonl", "w").write(good + json.dumps({"id": "odd", "question": "Who?", "context": context, "answers": {"text": ["Ada"], "answer_start": [start]}}) + "\n")
    r = subprocess.run([os.environ["FTENGINE"], "train", follow, "model.ignore_mismatched_sizes=true", "data.train=w.jsonl", "train.max_steps=1", "output.exists=new", "output.dir=odd"],
                       capture_output=True, text=True)
    assert r.returncode == 0 and message in r.stderr and "w.jsonl:2, id odd" in r.stderr, r.stderr[-600:]
E2
# shellcheck disable=SC2086
refused() { expect 2 "$FTENGINE" train $follow data.train=train1.json output.dir=no "$@"; }
refused data.validation=dev1.json eval.metric=f1 && one_error "f1_binary does not exist for question-answering"
refused data.truncation=head && one_error "contexts are read in windows"
refused "data.truncation=windows(23)" && one_error "data.max_length"
refused model.head.hidden=8 && one_error "model.head.hidden"
refused train.loss=bce && one_error "no loss of"
refused train.class_weights=balanced && one_error "train.class_weights"
refused train.label_smoothing=0.1 && one_error "train.label_smoothing"
refused data.label_all_tokens=true && one_error "data.label_all_tokens"
[ ! -e no ] || fail "a refused run left a directory"
echo "questions: all as expected"
