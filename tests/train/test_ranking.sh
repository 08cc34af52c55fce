#!/usr/bin/env bash
# Ranking from end to end: queries by a column and by the first text, TSV, CSV and JSON lines, folds and shares that keep queries whole, ranks in
# predictions, eval beside the run and beside plain loops, intervals, early stopping, resume, tune, adapters, planned bytes; what is refused.
# Catches: a query on both sides of a fold, groups of one split used for another, ranks by file order, a group column that eval forgets,
# figures over pairs in place of queries, targets that no plan counts, relevances beyond 1 in a cross-entropy.
# ctest: cost=20
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
words=$here/model/vocab.txt
cat >make.py <<'E2'
import csv, json, random, sys
random.seed(2)
words = [w for w in open(sys.argv[1], encoding="utf-8").read().split() if w.isalpha() and w.islower()][:60]
for name, queries in (("train", 20), ("dev", 9)):
    rows = []
    for q in range(queries):
        query = " ".join(random.sample(words, 2)) + f" {words[q]} {name}"
        for d in range(random.choice((1, 3, 6))):
            relevant = random.choice((0, 0, 0.5, 1)) if q != 4 else 0
            rows.append((f"q{q}", query, " ".join(random.sample(words, 4)) + (" " + query if relevant else ""), relevant))
    random.shuffle(rows)
    with open(name + ".csv", "w", newline="") as c, open(name + ".tsv", "w") as t, open(name + ".jsonl", "w") as j:
        w = csv.writer(c)
        w.writerow(["qid", "query", "passage", "relevance"])
        print("qid", "query", "passage", "relevance", sep="\t", file=t)
        for r in rows:
            w.writerow(r)
            print(*r, sep="\t", file=t)
            print(json.dumps(dict(zip(["qid", "query", "passage", "relevance"], r))), file=j)
E2
python3 -S make.py "$words"
task="train.task=ranking data.text_column=query data.text_pair=passage data.label_column=relevance eval.metric=ndcg_10 model.ignore_mismatched_sizes=true"
follow="$here/follow.ini $task train.max_steps=8 train.batch_size=4 eval.strategy=steps eval.steps=4 data.validation=dev.tsv"
# shellcheck disable=SC2086
train() { expect 0 "$FTENGINE" train $follow "$@"; }
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$3"; }

train data.train=train.tsv output.dir=run
[ "$(json run/model/ftengine.json 'd["task"], d["labels"]')" = "('ranking', ['relevance'])" ] || fail "ftengine.json: $(cat run/model/ftengine.json)"
[ "$(json run/model/config.json 'len(d["id2label"])')" = 1 ] || fail "not one output"
[ "$(json run/run.json 'd["memory"]["peak_requested_bytes"] == d["planned"]["peak_requested_bytes"]')" = True ] || fail "planned and metered differ"
train data.train=train.csv data.validation=dev.csv data.group=qid output.dir=column
same run column "groups by a column, from CSV, give another model"
train data.train=train.jsonl data.validation=dev.jsonl data.group=qid output.dir=lines
same run lines "JSON lines give another model"
train data.train=train.tsv output.dir=cut train.micro_batch=1 device.threads=1
same run cut "micro-batches of one pair give another model"

# Figures: those of run.json, of eval, and of plain loops over predictions.jsonl.
expect 0 "$FTENGINE" eval run --data dev.tsv --json --ci
cp out eval.json
expect 0 "$FTENGINE" eval column --data dev.csv --json
cp out column.json
expect 0 "$FTENGINE" eval run --data dev.csv --json data.group=relevance
cp out other.json
python3 -S - <<'E2' || fail "figures"
import json, math
said, column, other = (json.load(open(name)) for name in ("eval.json", "column.json", "other.json"))
run = json.load(open("run/run.json"))
assert said["examples"] == 9 and column["metrics"] == said["metrics"] and other["metrics"] != said["metrics"], (said, column)
assert other["examples"] == len({line.split("\t")[3] for line in open("dev.tsv").read().splitlines()[1:]}), other
for key in ("ndcg_10", "map", "mrr", "recall_1", "loss"):
    low, high = said["intervals"][key]
    assert low <= said["metrics"][key] <= high, key
queries, lines = {}, [json.loads(line) for line in open("run/predictions.jsonl")]
names = [line.split("\t")[0] for line in open("dev.tsv").read().splitlines()[1:]]
assert [line["id"] for line in lines] == list(range(len(names)))
order = list(dict.fromkeys(names))
for line, name in zip(lines, names):
    assert order[line["query"]] == name, line
    queries.setdefault(name, []).append((line["values"]["relevance"], line["targets"]["relevance"], line["rank"]))
mrr = total = loss = 0
for documents in queries.values():
    assert sorted(d[2] for d in documents) == list(range(1, len(documents) + 1))
    assert [d[0] for d in sorted(documents, key=lambda d: d[2])] == sorted((d[0] for d in documents), reverse=True)
    ranks = [d[2] for d in documents if d[1] > 0]
    mrr += 1 / min(ranks) if ranks else 0
    loss += sum(math.log1p(math.exp(-abs(x))) + max(x, 0) - x * t for x, t, _ in documents)
best = run["best"]["metric"], run["best"]["value"]
assert best[0].endswith("ndcg_10") and abs(best[1] - said["metrics"]["ndcg_10"]) < 1e-12, (best, said["metrics"])
assert abs(mrr / len(queries) - said["metrics"]["mrr"]) < 1e-9 and abs(loss / len(names) - said["metrics"]["loss"]) < 1e-6, (mrr, loss, said["metrics"])
E2
expect 0 "$FTENGINE" predict run --data dev.tsv --id qid
[ "$(head -1 out)" = "$(printf 'qid\trelevance\ttext\tpair')" ] || fail "predict: $(head -1 out)"

# No query is in two folds, or on both sides of a share.
for way in data.folds=3 data.validation_split=0.3; do
    for group in "" qid; do
        expect 0 "$FTENGINE" train $here/follow.ini $task data.validation= data.train=train.tsv data.group=$group $way eval.strategy=epoch train.max_steps=2 train.batch_size=4 output.dir=parts
        rm -rf check && mkdir check && mv parts check
        python3 -S - $way <<'E2' || fail "$way $group: a query is in two parts"
import glob, json, sys
names = [line.split("\t")[0] for line in open("train.tsv").read().splitlines()[1:]]
files = sorted(glob.glob("check/**/fold-*/predictions.jsonl", recursive=True)) or glob.glob("check/*/predictions.jsonl")
assert len(files) == (3 if "folds" in sys.argv[1] else 1), files
seen = []
for file in files:
    rows = {json.loads(line)["id"] for line in open(file)}
    held = {names[row] for row in rows}
    assert rows == {i for i, name in enumerate(names) if name in held}, held
    seen += sorted(held)
assert len(seen) == len(set(seen)) and (len(files) == 1 or set(seen) == set(names))
E2
    done
done

# Joined: every document once, queries numbered as they come in the file, ranks by the mean scores of the seeds.
expect 0 "$FTENGINE" train $here/follow.ini $task data.validation= data.test=dev.tsv data.train=train.tsv data.group=qid data.folds=3 train.seeds=1,2 train.max_steps=3 train.batch_size=4 eval.strategy=epoch output.dir=both
python3 -S - <<'E2' || fail "joined rankings"
import json
whole = [json.loads(line) for line in open("both/predictions.jsonl")]
runs = [[json.loads(line) for line in open(f"both/fold-{f}-seed-{s}/predictions.jsonl")] for f in (1, 2, 3) for s in (1, 2)]
for split, file, judges in (("validation", "train.tsv", 2), ("test", "dev.tsv", 6)):
    names = [line.split("\t")[0] for line in open(file).read().splitlines()[1:]]
    order, lines, queries = list(dict.fromkeys(names)), [w for w in whole if w["split"] == split], {}
    assert [w["id"] for w in lines] == list(range(len(names)))
    for w in lines:
        own = [line for run in runs for line in run if line["split"] == split and line["id"] == w["id"]]
        mean = sum(o["values"]["relevance"] for o in own) / judges
        assert len(own) == judges and abs(w["values"]["relevance"] - mean) < 1e-8 and w["targets"] == own[0]["targets"], (w, own)
        assert order[w["query"]] == names[w["id"]], w
        queries.setdefault(w["query"], []).append((mean, w["rank"]))
    for documents in queries.values():
        assert [rank for _, rank in sorted(documents, reverse=True)] == list(range(1, len(documents) + 1)), documents
E2

# Early stopping; on with a run that was stopped; adapters, heads on features; a study.
train data.train=train.tsv train.max_steps=40 eval.steps=1 train.patience=2 train.learning_rate=1e-12 output.dir=early
[ "$(json early/run.json 'd["steps"] < 40')" = True ] || fail "no early stopping"
train data.train=train.tsv train.max_steps=120 train.logging_steps=1 output.dir=whole
# shellcheck disable=SC2086
"$FTENGINE" train $follow data.train=train.tsv train.max_steps=120 train.logging_steps=1 output.dir=stopped >out 2>err &
pid=$!
for _ in $(seq 2400); do
    [ -s stopped/metrics.jsonl ] && break
    sleep 0.05
done
kill -INT $pid 2>/dev/null
wait $pid
case $? in 0 | 130) ;; *) fail "stopped with another exit code" ;; esac
train data.train=train.tsv train.max_steps=120 train.logging_steps=1 output.dir=stopped output.exists=resume
same whole stopped "a run that was stopped goes on to another model"
train data.train=train.tsv adapter.type=lora adapter.r=2 output.dir=lora
expect 0 "$FTENGINE" eval lora --data dev.tsv --json
[ "$(json out 'd["examples"]')" = 9 ] || fail "eval of an adapter"
train data.train=train.tsv train.parameters=classifier output.dir=head
expect 0 "$FTENGINE" plan $follow data.train=train.tsv --json
[ "$(json out 'd["memory"]["peak_requested_bytes"]')" = "$(json run/run.json 'd["memory"]["peak_requested_bytes"]')" ] || fail "plan and run differ"
expect 0 "$FTENGINE" plan $here/follow.ini $task model.path="$here/model" data.train= data.validation= --json
expect 0 "$FTENGINE" tune $follow data.train=train.tsv --study s --trials 2 'space.train.learning_rate=float(1e-5, 1e-3, log)' 'study.objective=maximize eval.ndcg_10'
[ "$(json studies/s/trials/00000/run.json 'd["best"]["metric"].endswith("ndcg_10")')" = True ] || fail "the objective of a study"

refused() { # TEXT OPTIONS...: one line, no run
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $follow data.train=train.tsv output.dir=refused "$@"
    one_error "$text"
    [ ! -d refused/model ] || fail "a refusal left a model"
}
change() { awk -F'\t' -v OFS='\t' -v v="$2" 'NR == 4 { $4 = v } 1' train.tsv >"$1"; }
change high.tsv 3
change low.tsv -1
change text.tsv good
change none.tsv ''
change nan.tsv nan
refused "the relevance is 3, a number from 0 to 1 is needed" data.train=high.tsv
says "high.tsv:4)"
says "divided by the largest"
refused "low.tsv:4" data.train=low.tsv
refused "text.tsv:4" data.train=text.tsv
refused "none.tsv:4" data.train=none.tsv
refused "nan.tsv:4" data.train=nan.tsv
refused "high.tsv:4" data.validation=high.tsv
refused "data.text_pair" data.text_pair=
refused "no column \"topic\"" data.group=topic
refused "the relevance" data.label_column=qid,relevance
refused "eval.metric" eval.metric=accuracy
refused "train.loss" train.loss=mse
refused "train.class_weights" train.class_weights=balanced
refused "eval.threshold" eval.threshold=tuned
refused "data.folds" data.validation= data.folds=30
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $here/follow.ini eval.metric=ndcg_10
one_error "does not exist for single-label tasks"
