#!/usr/bin/env bash
# data.shares: a run on each share of the texts, with its whole schedule; each is the run that has it alone, the last one the run without
# shares; the plan is that of the one that takes most; stopped, it goes on.
# ctest: asan_part=2
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
options="train.max_steps=40 train.warmup_steps=5 train.logging_steps=10 eval.strategy=steps eval.steps=20 eval.metric=accuracy data.validation=$here/validation.tsv"
train() { # train DIR [OPTION...]
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train "$here/follow.ini" $options output.dir="$1" "${@:2}"
}
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2: another model than $1's"; }

train shares data.shares=9,3,1
says "share-3, 2 of 3"
grep -q "nothing to resume" err && fail "a new run says that there is nothing to resume"
train whole
same whole shares/share-1
cmp whole/predictions.jsonl shares/predictions.jsonl || fail "other predictions than those of all texts"
train ninth data.share=9 train.max_steps=5 train.warmup_steps=1 eval.steps=3
same ninth shares/share-9
expect 0 "$FTENGINE" train shares/share-3/config.ini output.dir=third && same third shares/share-3
python3 - "$here" <<'PYTHON' || fail "the figures of three shares: $(cat shares/run.json)"
import json
whole, alone = json.load(open("shares/run.json")), json.load(open("whole/run.json"))
runs = [json.load(open(f"shares/share-{s}/run.json")) for s in (9, 3, 1)]
assert [r["name"] for r in whole["runs"]] == ["share-9", "share-3", "share-1"] and [r["share"] for r in whole["runs"]] == [9, 3, 1]
assert [r["steps"] for r in runs] == [5, 14, 40] and whole["steps"] == 59
assert [r["data"]["train"]["examples"] for r in runs] == [34, 100, 300] and whole["data"] == alone["data"]
stable = lambda metrics: {k: v for k, v in metrics.items() if "second" not in k}
assert stable(whole["metrics"]) == stable(alone["metrics"]) and whole["best"] == {"metric": "accuracy", "value": whole["metrics"]["eval_accuracy"]}
assert whole["metrics_sd"] == {}
lines = [json.loads(line) for line in open("shares/metrics.jsonl")]
assert [line["step"] for line in lines] == [1, 3, 9]
for line, run in zip(lines, runs): # what a study's pruner sees
    assert abs(line["eval_accuracy"] - run["metrics"]["eval_accuracy"]) < 1e-8
assert len({line["eval_loss"] for line in lines}) == 3, "or the lines could be of one run"
assert whole["memory"]["peak_allocated_bytes"] == max(r["memory"]["peak_allocated_bytes"] for r in runs)
PYTHON
expect 0 "$FTENGINE" report shares && grep -q "those of the last one, on all texts" shares/report.html && grep -q "texts, in smallest shares" shares/report.html && ! grep -q "plusmn" shares/report.html || fail "the page of shares tells of means"
# The model of all texts stands for the directory.
for directory in shares whole; do
    expect 0 "$FTENGINE" predict $directory --data "$here/validation.tsv" --json && cp out $directory.jsonl
    expect 0 "$FTENGINE" eval $directory --data "$here/validation.tsv" --json && json out '{k: v for k, v in d["metrics"].items() if "second" not in k}' >$directory.eval
done
cmp shares.jsonl whole.jsonl || fail "predict takes another model than that of all texts"
cmp shares.eval whole.eval || fail "eval takes another model"
# With a part held out the shares are of the rest, which is the same for all; train.seed does not move them, train.data_seed does.
texts() { json "$1/run.json" '(d["data"]["train"]["examples"], d["data"]["train"]["tokens"])'; }
held="data.validation= data.validation_split=0.2 train.max_steps=2 train.warmup_steps=0"
# shellcheck disable=SC2086
{
    train held data.shares=4,1 $held
    train held-seed data.share=4 train.seed=99 $held
    train held-data-seed data.share=4 train.data_seed=99 $held
}
[ "$(json held/run.json '[r["eval_loss"] != 0 for r in [x["metrics"] for x in d["runs"]]], d["data"]["validation"]["examples"]')" = "([True, True], 60)" ] || fail "what is held out: $(cat held/run.json)"
[ "$(texts held/share-4)" = "$(texts held-seed)" ] || fail "train.seed moves the share"
[ "$(texts held/share-4)" != "$(texts held-data-seed)" ] || fail "train.data_seed does not move the share"
# A class that a share lacks is one all the same.
awk -F '\t' -v OFS='\t' 'NR == 5 { print $1, "rare"; next } { print }' "$here/train.tsv" >rare.tsv
train rare data.train=rare.tsv data.shares=100,1 train.max_steps=2 train.warmup_steps=0 model.ignore_mismatched_sizes=true
grep -q rare rare/share-100/model/config.json || fail "the share knows fewer classes"

# ---- the plan ------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
plan() { expect 0 "$FTENGINE" plan "$here/follow.ini" $options data.train="$1" train.max_steps=0 train.epochs=1 train.warmup_steps=0 "${@:2}" --json; }
peak() { json out '"%d %s" % (d["memory"]["peak_allocated_bytes"], d.get("share", ""))'; }
most=0
for share in 9 3 1; do
    plan "$here/train.tsv" data.share=$share
    bytes=$(json out 'd["memory"]["peak_allocated_bytes"]')
    [ "$bytes" -le "$most" ] || { most=$bytes which=$share; }
done
# Which texts come together in a batch is another matter in each: here it is not all texts that take most.
[ $which != 1 ] || fail "all texts take most: the plan of these alone would do"
plan "$here/train.tsv" data.shares=9,3,1 && is_document plan
[ "$(peak)" = "$most $which" ] || fail "the plan of shares is $(peak), that of share $which $most"
train metered data.shares=9,3,1 train.max_steps=0 train.epochs=1 train.warmup_steps=0
[ "$(json metered/run.json 'd["memory"]["peak_allocated_bytes"]')" = "$most" ] || fail "planned $most, metered $(json metered/run.json 'd["memory"]')"
# shellcheck disable=SC2086
expect 3 "$FTENGINE" train "$here/follow.ini" $options data.shares=9,3,1 output.dir=tight memory.limit=200KiB && one_error "out of memory"
[ ! -e tight ] || fail "a directory is left of runs that were refused"

# ---- stopped, it goes on -------------------------------------------------------------------------------------------------
cp -r shares stopped && rm -r stopped/share-3 stopped/share-1 stopped/run.json stopped/metrics.jsonl stopped/predictions.jsonl && mkdir stopped/share-3
for command in predict eval; do # no model of a share stands for that of all texts
    mkdir -p stopped/share-3/model
    expect 2 "$FTENGINE" $command stopped --data "$here/validation.tsv" && one_error "the run on all texts (share-1) has not begun" && says "stopped/share-3 is"
    rmdir stopped/share-3/model
    expect 2 "$FTENGINE" $command stopped --data "$here/validation.tsv" && one_error "has not begun" && says "output.exists=resume"
    mkdir stopped/share-1
    expect 2 "$FTENGINE" $command stopped --data "$here/validation.tsv" && one_error "the run on all texts (share-1) has no model yet"
    rmdir stopped/share-1
done
expect 0 "$FTENGINE" predict stopped/share-9 --data "$here/validation.tsv"
# A share that has ended is of this configuration, too: one with another is refused, and leaves all as it is.
cp -r stopped refused
expect 2 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume train.learning_rate=0.0001
one_error "cannot be resumed with another train.learning_rate" && rm -f stopped/train.log refused/train.log
diff -r stopped refused || fail "a refused resume changes the runs"
rm -r refused
expect 0 "$FTENGINE" train stopped/config.ini output.dir=stopped output.exists=resume
says "resumed    at step 5"
for share in 3 1; do same shares/share-$share stopped/share-$share; done
for file in metrics.jsonl predictions.jsonl; do cmp shares/$file stopped/$file || fail "$file after going on"; done

# ---- mistakes ------------------------------------------------------------------------------------------------------------
refuses() { # refuses TEXT OPTION...: one error, and nothing left behind
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train "$here/follow.ini" $options output.dir=refused "${@:2}"
    one_error "$1"
    [ ! -e refused ] || fail "a refused run left $(find refused)"
}
refuses "must be 1" data.shares=1,3,9 && says "9, 3, 1"
refuses "each must be a multiple" data.shares=9,4,1 && says "9, 3, 1"
refuses "each must be a multiple" data.shares=3,9,1
refuses "each must be a multiple" data.shares=3,3,1
refuses "not with train.seeds" data.shares=3,1 train.seeds=1,2
refuses "not with data.folds" data.shares=3,1 data.folds=3 data.validation=
refuses "one of them alone" data.shares=3,1 data.share=3
refuses "eval.strategy is no" data.shares=3,1 eval.strategy=no
refuses "standard input" data.shares=3,1 data.train=-
refuses "train.deadline" data.shares=3,1 train.deadline=1h
