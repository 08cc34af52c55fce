#!/usr/bin/env bash
# train.seeds and data.folds: each run is an ordinary one, folds part the data, groups do not leak, figures are means,
# out-of-fold predictions come from models that did not see the example; stopped, it goes on.
# ctest: asan_part=4
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
options="train.max_steps=30 train.logging_steps=10 eval.strategy=epoch eval.metric=accuracy"
train() { # train DIR [OPTION...]
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train "$here/follow.ini" $options output.dir="$1" "${@:2}"
}
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2: another model than $1's"; }

# ---- seeds ---------------------------------------------------------------------------------------------------------------
train seeds data.validation="$here/validation.tsv" train.seeds=3,1,2
says "seed-1, 2 of 3"
says "standard deviation"
for seed in 3 1 2; do
    train alone-$seed data.validation="$here/validation.tsv" train.seed=$seed
    same alone-$seed seeds/seed-$seed
done
! cmp -s alone-1/model/model.safetensors alone-2/model/model.safetensors || fail "two seeds, one model"
python3 - <<'PYTHON' || fail "the figures of three seeds: $(cat seeds/run.json)"
import json
import statistics
whole = json.load(open("seeds/run.json"))
runs = [json.load(open(f"seeds/seed-{s}/run.json")) for s in (3, 1, 2)]
assert whole["status"] == "completed" and [r["name"] for r in whole["runs"]] == ["seed-3", "seed-1", "seed-2"]
assert set(whole["metrics"]) == set(runs[0]["metrics"]) and len(whole["metrics"]) >= 6
for key, value in whole["metrics"].items():
    values = [r["metrics"][key] for r in runs]
    assert abs(value - statistics.mean(values)) < 1e-12 and abs(whole["metrics_sd"][key] - statistics.stdev(values)) < 1e-12, key
assert whole["best"] == {"metric": "accuracy", "value": whole["metrics"]["eval_accuracy"]}
assert whole["data"] == runs[0]["data"] and whole["steps"] == 90 and whole["tokens"] == sum(r["tokens"] for r in runs)
assert whole["memory"]["peak_allocated_bytes"] == max(r["memory"]["peak_allocated_bytes"] for r in runs)
assert whole["config"]["train.seeds"] == "3, 1, 2" and runs[0]["config"]["train.seeds"] == "" and runs[0]["config"]["train.seed"] == "3"
lines = [json.loads(line) for line in open("seeds/metrics.jsonl")]
assert [line["step"] for line in lines] == [1, 2, 3]
for n, line in enumerate(lines, 1): # what a study's pruner sees
    assert abs(line["eval_accuracy"] - statistics.mean(r["metrics"]["eval_accuracy"] for r in runs[:n])) < 1e-8
means = [json.loads(line) for line in open("seeds/predictions.jsonl")]
own = [[json.loads(line) for line in open(f"seeds/seed-{s}/predictions.jsonl")] for s in (3, 1, 2)]
assert len(means) == 60
for mean, *rows in zip(means, *own):
    assert all(row["id"] == mean["id"] and row["label"] == mean["label"] for row in rows)
    for name, p in mean["probabilities"].items():
        assert abs(p - sum(row["probabilities"][name] for row in rows) / 3) < 1e-8
    assert mean["predicted"] == max(mean["probabilities"], key=mean["probabilities"].get)
PYTHON
# predict takes all models, eval asks for one.
expect 0 "$FTENGINE" predict seeds --data "$here/validation.tsv" --json && cp out all
expect 0 "$FTENGINE" predict alone-1 alone-2 alone-3 --data "$here/validation.tsv" --json && cmp out all || fail "predict takes other models"
expect 2 "$FTENGINE" eval seeds --data "$here/validation.tsv" && one_error "3 runs" && says "seeds/seed-1"
expect 0 "$FTENGINE" eval seeds/seed-2 --data "$here/validation.tsv"
# One seed in the list is a run in a directory of its own too; a run of one is as it ever was.
train one data.validation="$here/validation.tsv" train.seeds=2 && same alone-2 one/seed-2
[ ! -e alone-2/runs ] && [ "$(json one/run.json 'd["metrics_sd"]')" = "{}" ] || fail "one seed: $(cat one/run.json)"

# ---- folds ---------------------------------------------------------------------------------------------------------------
# Texts that name their row, and groups of three neighbours.
awk -F '\t' 'BEGIN { OFS = FS; print "text", "label", "author" } NR > 1 { print "row" NR - 2 " " $1, $2, "g" int((NR - 2) / 3) }' "$here/train.tsv" >rows.tsv
train folds data.train=rows.tsv data.folds=5 data.test="$here/validation.tsv"
python3 - <<'PYTHON' || fail "the figures of five folds"
import collections
import csv
import json
import statistics
whole = json.load(open("folds/run.json"))
runs = [json.load(open(f"folds/fold-{f}/run.json")) for f in range(1, 6)]
rows = list(csv.DictReader(open("rows.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE))
assert [r["fold"] for r in whole["runs"]] == [1, 2, 3, 4, 5]
train, parts = whole["data"]["train"], runs[0]["data"]
assert train["examples"] == 300 and train["tokens"] == parts["train"]["tokens"] + parts["validation"]["tokens"]
assert train["sha256"] == parts["train"]["sha256"] and whole["data"]["test"] == parts["test"] and "validation" not in whole["data"]
for key in ("eval_accuracy", "eval_loss", "test_accuracy", "test_f1_macro"):
    assert abs(whole["metrics"][key] - statistics.mean(r["metrics"][key] for r in runs)) < 1e-12
seen = collections.Counter()
by_fold = {}
for f in range(1, 6):
    ids = [p["id"] for p in map(json.loads, open(f"folds/fold-{f}/predictions.jsonl")) if p["split"] == "validation"]
    seen.update(ids)
    by_fold[f] = set(ids)
    assert len(ids) == runs[f - 1]["data"]["validation"]["examples"] == 60 and runs[f - 1]["data"]["train"]["examples"] == 240
    classes = collections.Counter(rows[i]["label"] for i in ids)
    for name, n in collections.Counter(r["label"] for r in rows).items():
        assert n // 5 <= classes[name] <= n // 5 + 1
assert set(seen) == set(range(300)) and set(seen.values()) == {1}, "folds do not part the data"
means = [json.loads(line) for line in open("folds/predictions.jsonl")]
validation = [p for p in means if p["split"] == "validation"]
assert [p["id"] for p in validation] == list(range(300)) and all(p["label"] == rows[p["id"]]["label"] for p in validation)
assert sum(p["split"] == "test" for p in means) == 60
# Out of fold: what the model of the other folds says, asked with the texts themselves.
for f in (1, 4):
    with open(f"texts-{f}.txt", "w") as out:
        for i in sorted(by_fold[f]):
            print(rows[i]["text"], file=out)
PYTHON
for f in 1 4; do
    expect 0 "$FTENGINE" predict folds/fold-$f --data texts-$f.txt --json
    python3 - out folds/fold-$f/predictions.jsonl folds/predictions.jsonl <<'PYTHON' || fail "out-of-fold predictions of fold $f"
import json
import sys
asked, own, whole = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
own = [p for p in own if p["split"] == "validation"]
whole = {p["id"]: p for p in whole if p["split"] == "validation"}
assert len(asked) == len(own) == 60
for a, o in zip(asked, own):
    assert all(abs(a["probabilities"][k] - v) < 1e-5 and abs(whole[o["id"]]["probabilities"][k] - v) < 1e-8 for k, v in o["probabilities"].items())
PYTHON
done
# A fold by itself, and from its own config.ini: the same bits. train.seed does not move the cuts, train.data_seed does.
train third data.train=rows.tsv data.folds=5 data.fold=3 data.test="$here/validation.tsv" && same folds/fold-3 third
expect 0 "$FTENGINE" train folds/fold-3/config.ini output.dir=again && same folds/fold-3 again
ids() { python3 -c 'import json, sys; print([p["id"] for p in map(json.loads, open(sys.argv[1] + "/predictions.jsonl")) if p["split"] == "validation"])' "$1"; }
train other-seed data.train=rows.tsv data.folds=5 data.fold=3 train.seed=99
[ "$(ids third)" = "$(ids other-seed)" ] || fail "train.seed moves the cuts between folds"
train other-cuts data.train=rows.tsv data.folds=5 data.fold=3 train.data_seed=99
[ "$(ids third)" != "$(ids other-cuts)" ] || fail "train.data_seed does not move the cuts"
# Folds and seeds.
train both data.train=rows.tsv data.folds=2 train.seeds=1,2
[ "$(json both/run.json '[r["name"] for r in d["runs"]]')" = "['fold-1-seed-1', 'fold-1-seed-2', 'fold-2-seed-1', 'fold-2-seed-2']" ] || fail "names of runs"
[ "$(ids both/fold-1-seed-1)" = "$(ids both/fold-1-seed-2)" ] || fail "seeds have other folds"
[ "$(wc -l <both/predictions.jsonl)" = 300 ] || fail "predictions of folds and seeds"

# Groups: authors are never on both sides; without data.group they are.
train grouped data.train=rows.tsv data.folds=4 data.group=author
python3 - <<'PYTHON' || fail "a group is on both sides"
import json
homes = lambda directory, folds: {(p["id"] // 3, f) for f in range(1, folds + 1) for p in map(json.loads, open(f"{directory}/fold-{f}/predictions.jsonl")) if p["split"] == "validation"}
assert len(homes("grouped", 4)) == 100, "each of 100 authors in one fold"
assert len(homes("folds", 5)) > 150, "or the test above could not fail"
PYTHON

# ---- several labels a text, numbers --------------------------------------------------------------------------------------
python3 - "$here/train.tsv" <<'PYTHON'
import random
import sys
random.seed(4)
texts = [line.rstrip("\n").split("\t")[0] for line in open(sys.argv[1], encoding="utf-8")][1:61]
with open("tags.tsv", "w") as tags, open("numbers.tsv", "w") as numbers:
    print("text\tlabel", file=tags), print("text\tstars\tprice", file=numbers)
    for text in texts:
        print(text, ", ".join(n for n in ("loud", "rude", "wrong") if random.random() < 0.5), sep="\t", file=tags)
        print(text, random.randint(1, 5), round(random.random(), 3), sep="\t", file=numbers)
PYTHON
other="train.max_steps=12 eval.metric=loss data.folds=3 train.seeds=1,2 model.ignore_mismatched_sizes=true"
# shellcheck disable=SC2086
train tags data.train=tags.tsv train.task=multi_label $other
# shellcheck disable=SC2086
train numbers data.train=numbers.tsv train.task=regression "data.label_column=stars, price" $other
python3 - <<'PYTHON' || fail "means over folds and seeds of other tasks"
import csv
import json
import statistics
read = lambda path: [json.loads(line) for line in open(path)]
for name, truth, numbers in (("tags", "labels", "probabilities"), ("numbers", "targets", "values")):
    whole = json.load(open(name + "/run.json"))
    runs = [json.load(open(f"{name}/fold-{f}-seed-{s}/run.json")) for f in (1, 2, 3) for s in (1, 2)]
    assert abs(whole["metrics"]["eval_loss"] - statistics.mean(r["metrics"]["eval_loss"] for r in runs)) < 1e-12
    means = read(name + "/predictions.jsonl")
    rows = list(csv.DictReader(open(name + ".tsv"), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [p["id"] for p in means] == list(range(60))
    for f in (1, 2, 3):
        for a, b in zip(*(read(f"{name}/fold-{f}-seed-{s}/predictions.jsonl") for s in (1, 2))):
            mean = means[a["id"]]
            assert mean[truth] == a[truth] == b[truth]
            assert all(abs(v - (a[numbers][k] + b[numbers][k]) / 2) < 1e-6 * max(1, abs(v)) for k, v in mean[numbers].items())
    for mean, row in zip(means, rows):
        if name == "tags":
            assert sorted(mean["labels"]) == sorted(t.strip() for t in row["label"].split(",") if t.strip())
            assert mean["predicted"] == [k for k, v in mean["probabilities"].items() if v >= 0.5]
        else:
            assert all(abs(mean["targets"][k] - float(row[k])) < 1e-6 for k in ("stars", "price")) and "predicted" not in mean
PYTHON
for run in tags numbers; do expect 0 "$FTENGINE" report $run && grep -q "Predictions: validation" $run/report.html || fail "the page of $run"; done
expect 2 "$FTENGINE" predict tags/fold-1-seed-1 numbers/fold-1-seed-1 --data "$here/validation.tsv" data.text_column=text && one_error "another task"

# ---- compare and report see one run --------------------------------------------------------------------------------------
expect 0 "$FTENGINE" compare folds seeds
grep -qE '^eval.accuracy.sd +0\.[0-9]{4} +0\.[0-9]{4}$' out || fail "compare: $(cat out)"
expect 0 "$FTENGINE" report folds && grep -q "&plusmn;" folds/report.html && grep -q "fold-5" folds/report.html || fail "the page of five folds"

# ---- stopped, it goes on -------------------------------------------------------------------------------------------------
cp -r seeds stopped && rm -r stopped/seed-2 stopped/run.json stopped/metrics.jsonl stopped/predictions.jsonl
expect 0 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume
same seeds/seed-2 stopped/seed-2
for file in metrics.jsonl predictions.jsonl; do cmp seeds/$file stopped/$file || fail "$file after going on"; done
# Another configuration is refused by the first run's checkpoint: what stands for all of them is as it was, too.
cp stopped/config.ini before.ini && cp stopped/run.json before.json
expect 2 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume train.learning_rate=0.0001
one_error "cannot be resumed with another train.learning_rate"
cmp stopped/config.ini before.ini && cmp stopped/run.json before.json || fail "a refused resume changed the runs"
# With fewer seeds the others would be counted by whoever reads the directory: refused, and nothing is touched.
cp stopped/config.ini before.ini
for seeds in 1,3 5; do
    expect 2 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume train.seeds=$seeds
    one_error "stopped/seed-" && says "is no run of this configuration" && says "remove it"
    cmp stopped/config.ini before.ini || fail "a refused run changed the configuration"
    [ ! -e stopped/seed-5 ] || fail "a refused run left a directory"
done
rm -r stopped/seed-2
expect 0 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume train.seeds=1,3
[ "$(json stopped/run.json 'len(d["runs"])')" = 2 ] || fail "two seeds after three"
# Ctrl-C in the second of its runs: saved, status interrupted, and then the same as never stopped. How many steps leave the
# time to stop it depends on the machine.
for steps in 800 3200 12800 51200; do
    long="train.max_steps=$steps train.logging_steps=100000 data.validation=$here/validation.tsv train.seeds=1,2 output.save_steps=100000"
    rm -rf killed
    # shellcheck disable=SC2086
    "$FTENGINE" train "$here/follow.ini" $options $long output.dir=killed >out 2>err &
    pid=$!
    until [ -s killed/seed-2/metrics.jsonl ]; do
        kill -0 $pid 2>/dev/null || fail "it ended before its second run"
        sleep 0.02
    done
    kill -INT $pid 2>/dev/null
    wait $pid
    code=$?
    [ $code = 0 ] || break
done
[ $code = 130 ] || fail "exit code $code of a stopped run: $(tail -3 err)"
[ "$(json killed/run.json 'd["status"], [r["status"] for r in d["runs"]]')" = "('interrupted', ['completed', 'interrupted'])" ] || fail "run.json of a stopped run"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train "$here/follow.ini" $options $long output.dir=killed output.exists=resume
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train "$here/follow.ini" $options $long output.dir=straight
for seed in 1 2; do same straight/seed-$seed killed/seed-$seed; done
cmp straight/predictions.jsonl killed/predictions.jsonl || fail "predictions after a stop"

# ---- mistakes ------------------------------------------------------------------------------------------------------------
refuses() { # refuses CODE TEXT OPTION...: one error, and nothing left behind
    # shellcheck disable=SC2086
    expect "$1" "$FTENGINE" train "$here/follow.ini" $options output.dir=refused "${@:3}"
    one_error "$2"
    [ ! -e refused ] || fail "a refused run left $(find refused)"
}
refuses 2 "data.folds" data.folds=1
refuses 2 "data.fold" data.folds=3 data.fold=4
refuses 2 "data.validation is set too" data.folds=3 data.validation="$here/validation.tsv"
refuses 2 "eval.strategy is no" data.folds=3 eval.strategy=no
refuses 2 "neither data.folds" data.group=author
refuses 2 "301 folds" data.folds=301
refuses 2 'no column "autor"' data.train=rows.tsv data.folds=3 data.group=autor
refuses 2 "100 groups cannot make 200 folds" data.train=rows.tsv data.folds=200 data.group=author
refuses 2 "is there twice" train.seeds=1,2,1
refuses 2 "standard input" train.seeds=1,2 data.train=-
refuses 2 "missing.tsv" train.seeds=1,2 data.train=missing.tsv
refuses 3 "out of memory" train.seeds=1,2 memory.limit=200KiB
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train "$here/follow.ini" $options output.dir=alone-1 output.exists=resume train.seeds=1,2 && one_error "holds a single run"
[ ! -e alone-1/seed-1 ] || fail "seeds inside a single run"
# The plan of all folds is that of the one that takes most: here not the first, which alone is judged on the long text and
# so never trains on it.
awk -F '\t' -v OFS='\t' 'NR == 1 { print; next } { print "a b c", $2 }' "$here/train.tsv" >short.tsv
peak() { # peak FILE FOLD: allocated bytes, and of all folds the one they are of
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" plan "$here/follow.ini" $options data.train="$1" data.folds=3 data.fold="$2" data.max_length=48 train.max_steps=0 train.epochs=1 --json
    json out '"%d %s" % (d["memory"]["peak_allocated_bytes"], d.get("fold", ""))'
}
for row in 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do # one of them is in the first fold
    awk -F '\t' -v OFS='\t' -v row=$row 'NR == row { for (i = 0; i < 60; i++) printf "a "; print "", $2; next } { print }' short.tsv >long.tsv
    first=$(peak long.tsv 1) second=$(peak long.tsv 2)
    [ "$first" -ge "$second" ] || break
done
[ "$first" -lt "$second" ] || fail "fold 1 never has the long text"
[ "$(peak long.tsv 3)" -le "$second" ] || fail "fold 3 takes more than fold 2"
[ "$(peak long.tsv 0)" = "${second% } 2" ] || fail "the plan of all folds is $(peak long.tsv 0), that of fold 2 is $second"
# A refusal that planning can foresee comes before the first run, though the first would fit, and what is hinted at instead fits all.
python3 - "$here" <<'PYTHON' >uneven.tsv # few long texts: which of them come together is the order's business
import sys
labels = sorted({line.rsplit("\t")[-1] for line in open(sys.argv[1] + "/train.tsv").read().splitlines()[1:]})
print("text\tlabel")
for i in range(400): print("w " * (120 if i % 7 == 0 else 1) + "\t" + labels[i % len(labels)])
PYTHON
tight="model.path=prajjwal1/bert-tiny model.init=random model.stand_in_tokenizer=$here/model data.train=uneven.tsv train.max_steps=1 train.batch_size=64
    data.max_length=128 train.micro_batch=64 train.gradient_checkpointing=off memory.recompute_layernorm=false"
# needs OVERRIDE...: reserved bytes of one run by its plan
needs() {
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" plan $tight memory.limit=1GiB "$@" --json
    json out 'd["memory"]["peak_reserved_bytes"]'
}
# foreseen NAME LESS MORE RUNS OVERRIDE...: LESS and MORE are what the first run and NAME need
foreseen() {
    local name=$1 less=$2 more=$3 runs=$4 hint
    shift 4
    [ "$less" -lt "$more" ] || fail "$name takes no more than the first run: $less and $more"
    # shellcheck disable=SC2086
    expect 3 "$FTENGINE" train $tight memory.limit=$((more - 1)) output.dir="tight-$name" "$@" && one_error "out of memory"
    says "it is $name, $runs, and none was started"
    [ ! -e "tight-$name" ] || fail "a directory is left of runs that were refused: $(ls "tight-$name")"
    hint=$(sed -n 's/^  hint: \(train[^ ]*\) needs .*/\1/p' err)
    [ -n "$hint" ] && [ "$hint" != train.micro_batch=64 ] || fail "the hint is the setting in use"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $tight memory.limit=$((more - 1)) output.dir="tight-$name" "$@" "$hint"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $tight memory.limit="$more" output.dir="fits-$name" "$@"
    [ "$(json "fits-$name/run.json" 'd["memory"]["peak_reserved_bytes"]')" = "$more" ] || fail "$name took $(json "fits-$name/run.json" 'd["memory"]')"
}
foreseen seed-3 "$(needs train.seed=2)" "$(needs train.seed=3)" "2 of 2" train.seeds=2,3
foreseen fold-2 "$(needs data.folds=3 data.fold=1 train.seed=1)" "$(needs data.folds=3 data.fold=2 train.seed=1)" "2 of 3" data.folds=3 train.seed=1
foreseen fold-2-seed-1 "$(needs data.folds=3 data.fold=1 train.seed=2)" "$(needs data.folds=3 data.fold=2 train.seed=1)" "4 of 6" data.folds=3 train.seeds=2,1
# One that fails ends it, and says so.
expect 5 "$FTENGINE" train "$here/follow.ini" output.dir=diverged train.seeds=1,2 train.learning_rate=100 train.weight_decay=1 train.warmup_steps=3 train.max_steps=60 train.lr_scheduler=constant_with_warmup
one_error "diverged" && [ "$(json diverged/run.json 'd["status"], len(d["runs"])')" = "('diverged', 1)" ] || fail "run.json of a diverged run: $(cat diverged/run.json)"
