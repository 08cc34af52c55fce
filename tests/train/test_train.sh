#!/usr/bin/env bash
# What the options of a run do, seen from its run directory: early stopping, the best model, heads, steps and epochs,
# batches, freezing, checkpoints, run directories, learning rates.
# Runs are many and small here, and a flush to disk is most of one; how they survive a crash is test_resume.sh's.
# ctest: asan_part=3 cost=993
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >look.py <<'PYTHON'
"""look.py EXPRESSION DIR...: the value of a Python expression over runs a, b, ... (run.json, lines, evals, rates, tensors)."""
import json
import math
import struct
import sys

METRICS = ["loss", "accuracy", "f1_macro", "f1_micro", "matthews"]


def tensors(path):
    data = open(path, "rb").read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {k: (v["shape"], data[start + v["data_offsets"][0]:start + v["data_offsets"][1]]) for k, v in header.items()}


class Run:
    def __init__(self, path):
        self.json = json.load(open(path + "/run.json", encoding="utf-8"))
        self.lines = [json.loads(line) for line in open(path + "/metrics.jsonl", encoding="utf-8")]
        self.evals = [line for line in self.lines if "eval_loss" in line]
        self.logged = [line for line in self.lines if "loss" in line]
        self.rates = [line["learning_rate"] for line in self.logged]
        self.steps, self.best = self.json["steps"], self.json["best"]
        self.tensors = tensors(path + "/model/model.safetensors")
        self.total = self.json["resolved"]["total_steps"]
        self.predictions = []
        if self.evals:
            self.predictions = [json.loads(line) for line in open(path + "/predictions.jsonl", encoding="utf-8")]

    def loss_of_predictions(self, split="validation"):
        rows = [r for r in self.predictions if r["split"] == split]
        return -sum(math.log(r["probabilities"][r["label"]]) for r in rows) / len(rows)


def watch(evals, metric, patience=0, min_delta=0):
    """(step of the best, step of the end, stopped early): any gain is a new best, patience asks for more than min_delta."""
    best = at = None
    bad = 0
    for line in evals:
        value = line["eval_" + metric] * (-1 if metric == "loss" else 1)
        gain = math.inf if best is None else value - best
        bad = 0 if gain > min_delta else bad + 1
        if gain > 0:
            best, at = value, line["step"]
        if patience and bad >= patience:
            return at, line["step"], True
    return at, evals[-1]["step"], False


def near(a, b, tolerance=1e-6):
    return len(a) == len(b) and all(abs(x - y) <= tolerance for x, y in zip(a, b))


names = dict(zip("abcdef", map(Run, sys.argv[2:])))
print(eval(sys.argv[1], {**globals(), **names})) # one scope: comprehensions see no other
PYTHON
# train DIR [OPTION...]
train() {
    local dir=$1
    shift
    expect 0 "$FTENGINE" train "$here/follow.ini" output.dir="$dir" "$@"
}
# holds EXPRESSION DIR...: a Python expression over the runs a, b, ... is true
holds() {
    local got
    got=$(python3 -S look.py "$@" 2>look.err) || fail "$*: $(cat look.err)"
    rm -f err
    [ "$got" = True ] || fail "$* is $got"
}
# is VALUE EXPRESSION DIR...
is() {
    local want=$1 got
    shift
    got=$(python3 -S look.py "$@" 2>look.err) || fail "$*: $(cat look.err)"
    rm -f err
    [ "$got" = "$want" ] || fail "$* is $got instead of $want"
}
same_model() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2: another model than $1's"; }
other_model() { ! cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$2: the same model as $1's"; }
validation="data.validation=$here/validation.tsv"
# A rate at which the loss goes up and down: the best step is none of the last ones, and differs from metric to metric.
restless="$validation eval.strategy=steps eval.steps=10 train.max_steps=200 train.learning_rate=0.01 train.lr_scheduler=constant
          train.logging_steps=100 output.save_steps=1000"

# ---- the best step, early stopping ---------------------------------------------------------------------------------------
(head -1 "$here/train.tsv" && tail -40 "$here/train.tsv") >test.tsv
# shellcheck disable=SC2086
train whole $restless data.test=test.tsv
holds 'a.steps == 200 and len(a.evals) == 20 and 20 <= a.best["step"] < 200 and not a.json["stopped_early"]' whole
holds 'watch(a.evals, "loss")[0] != watch(a.evals, "accuracy")[0]' whole # or the next ones could not tell metrics apart
for metric in loss accuracy f1_macro f1_micro matthews; do
    # shellcheck disable=SC2086
    [ $metric = loss ] || train whole-$metric $restless data.test=test.tsv eval.metric=$metric
    [ $metric = loss ] && dir=whole || dir=whole-$metric
    holds 'b.evals == a.evals' whole "$dir"
    holds "a.best['step'] == watch(a.evals, '$metric')[0] and a.best['metric'] == '$metric'" "$dir"
    holds "abs(a.best['value'] - [e for e in a.evals if e['step'] == a.best['step']][0]['eval_$metric']) < 1e-8" "$dir"
    holds 'all(abs(a.json["metrics"][k] - v) < 1e-8 for e in a.evals if e["step"] == a.best["step"] for k, v in e.items() if "eval_" in k)' "$dir"
    holds 'abs(a.loss_of_predictions() - a.json["metrics"]["eval_loss"]) < 1e-6' "$dir"
done
other_model whole whole-accuracy
# model/ is the best one: eval says of the test file what the run said, and the last model would say something else.
for dir in whole whole-accuracy; do
    expect 0 "$FTENGINE" eval $dir --data test.tsv --json
    for metric in loss accuracy f1_macro f1_micro matthews; do
        holds "abs($(json out "d['metrics']['$metric']") - a.json['metrics']['test_$metric']) < 1e-6" "$dir"
    done
    holds 'abs(a.loss_of_predictions("test") - a.json["metrics"]["test_loss"]) < 1e-6' "$dir"
done
# shellcheck disable=SC2086
train last $restless data.test=test.tsv eval.strategy=no
holds 'a.best is None and not a.evals and abs(a.json["metrics"]["test_loss"] - b.json["metrics"]["test_loss"]) > 1e-3' last whole
other_model last whole

stops() { # stops METRIC PATIENCE MIN_DELTA: where the evaluations of the whole run say
    local dir=stops-$1-$2-$3 from=whole
    [ "$1" = loss ] || from=whole-$1
    # shellcheck disable=SC2086
    train "$dir" $restless eval.metric="$1" train.patience="$2" train.min_delta="$3"
    holds "(b.best['step'], b.steps, b.json['stopped_early']) == watch(a.evals, '$1', $2, $3)" "$from" "$dir"
    holds 'b.evals == a.evals[:len(b.evals)] and b.json["status"] == "completed"' "$from" "$dir"
}
stops loss 1 0
holds 'a.json["stopped_early"] and a.steps < 100' stops-loss-1-0
stops loss 2 0
holds 'a.steps < b.steps < 200' stops-loss-1-0 stops-loss-2-0
stops loss 2 0.1
holds 'a.steps < b.steps and a.best["step"] < b.best["step"]' stops-loss-2-0.1 stops-loss-2-0
stops accuracy 3 0.02
stops loss 20 0
holds 'not a.json["stopped_early"] and a.steps == 200' stops-loss-20-0
# A finished early stop resumes to itself.
# shellcheck disable=SC2086
train stops-loss-1-0 $restless train.patience=1 output.exists=resume
holds '(b.best["step"], b.steps, b.json["stopped_early"]) == watch(a.evals, "loss", 1)' whole stops-loss-1-0

# ---- heads ---------------------------------------------------------------------------------------------------------------
head="$validation eval.strategy=epoch train.max_steps=20 model.ignore_mismatched_sizes=true model.head.hidden=7,5"
works() { # works DIR: eval and predict agree with the run
    expect 0 "$FTENGINE" eval "$1" --data "$here/validation.tsv" --json
    holds "abs($(json out 'd["metrics"]["loss"]') - a.json['metrics']['eval_loss']) < 1e-6" "$1"
    expect 0 "$FTENGINE" predict "$1" --data "$here/validation.tsv" --json
    python3 - out "$1/predictions.jsonl" <<'PYTHON' || fail "$1: predict disagrees with predictions.jsonl"
import json
import sys
a, b = ([json.loads(line)["probabilities"] for line in open(path, encoding="utf-8")] for path in sys.argv[1:])
assert len(a) == len(b) > 0 and all(abs(x[k] - y[k]) < 1e-5 for x, y in zip(a, b) for k in y)
PYTHON
}
# shellcheck disable=SC2086
train head $head
is '[[7, 32], [7], [5, 7], [5], [3, 5], [3]]' '[a.tensors[k][0] for k in ("head.hidden.0.weight", "head.hidden.0.bias", "head.hidden.1.weight", "head.hidden.1.bias", "classifier.weight", "classifier.bias")]' head
[ "$(json head/model/ftengine.json 'd["head"]["hidden"], d["head"]["activation"]')" = "([7, 5], 'relu')" ] || fail "ftengine.json: $(cat head/model/ftengine.json)"
works head
# shellcheck disable=SC2086
train head-tanh $head model.head.activation=tanh
other_model head head-tanh
works head-tanh
# The trained head is where another run starts from.
# shellcheck disable=SC2086
train head-on $head model.path=head/model train.learning_rate=0 model.ignore_mismatched_sizes=false
holds 'a.tensors == b.tensors' head head-on
# Its dropout: the classifier's by default, none in an evaluation.
# shellcheck disable=SC2086
train head-dropped $head model.head.dropout=0.5
other_model head head-dropped
works head-dropped
# shellcheck disable=SC2086
train head-own $head model.classifier_dropout=0.3 model.head.dropout=0.3
# shellcheck disable=SC2086
train head-auto $head model.classifier_dropout=0.3
same_model head-own head-auto
other_model head-dropped head-own

# ---- another number of labels --------------------------------------------------------------------------------------------
grep -v travel "$here/train.tsv" >two.tsv
grep -v travel "$here/validation.tsv" >two-validation.tsv
two="data.train=two.tsv data.validation=two-validation.tsv eval.strategy=steps eval.steps=10 train.max_steps=40 eval.metric=f1_binary train.learning_rate=0.01"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train "$here/follow.ini" $two output.dir=two
one_error "classifier.weight"
# shellcheck disable=SC2086
train two $two model.ignore_mismatched_sizes=true
says "newly drawn: classifier.weight, classifier.bias"
is "([2, 32], [2])" 'a.tensors["classifier.weight"][0], a.tensors["classifier.bias"][0]' two
[ "$(json two/model/config.json 'd["id2label"]')" = "{'0': 'food', '1': 'music'}" ] || fail "labels of two classes: $(cat two/model/config.json)"
holds 'a.best["step"] == watch(a.evals, "f1_binary")[0] and a.best["metric"] == "f1_binary"' two
expect 0 "$FTENGINE" eval two --data two-validation.tsv --json
holds "abs($(json out 'd["metrics"]["f1_binary"]') - a.json['metrics']['eval_f1_binary']) < 1e-9" two

# ---- random weights ------------------------------------------------------------------------------------------------------
for seed in 1 2; do train random-$seed model.init=random train.seed=$seed train.max_steps=2 train.learning_rate=0; done
train random-again model.init=random train.seed=1 train.max_steps=2 train.learning_rate=0
same_model random-1 random-again
other_model random-1 random-2
train pretrained train.max_steps=2 train.learning_rate=0
holds 'a.tensors == tensors("'"$here"'/model/model.safetensors")' pretrained
holds 'a.tensors.keys() == b.tensors.keys() and all(a.tensors[k][1] != v for k, (_, v) in b.tensors.items() if k.endswith("dense.weight") or k.endswith("embeddings.weight"))' random-1 pretrained

# ---- steps and epochs: 300 examples --------------------------------------------------------------------------------------
plan() { # plan STEPS OPTION...
    local want=$1
    shift
    train plan train.max_steps=0 train.logging_steps=1000 output.save_steps=1000 "$@"
    is "($want, $want)" 'a.steps, a.total' plan
    mv plan "plan-$((++plans))"
    plan=plan-$plans
}
plans=0
plan 38 train.epochs=1
holds 'a.json["tokens"] == a.json["data"]["train"]["tokens"] == 4358' $plan
plan 37 train.epochs=1 train.drop_last=true
holds '0 < 4358 - a.json["tokens"] <= 4 * 24' $plan # the four examples behind 37 batches of 8
plan 74 train.epochs=2 train.drop_last=true
plan 19 train.epochs=0.5
plan 50 train.epochs=1.3
plan 1 train.epochs=0.001
plan 13 train.epochs=1 train.gradient_accumulation_steps=3
holds 'a.json["tokens"] == 4358' $plan
plan 45 train.epochs=1 train.max_steps=45
holds 'a.json["tokens"] > 4358' $plan
plan 5 train.epochs=3 train.max_steps=5
expect 2 "$FTENGINE" train "$here/follow.ini" output.dir=none train.batch_size=301 train.drop_last=true
one_error "train.drop_last"

# ---- the same batches in other pieces: the same bits ---------------------------------------------------------------------
pieces="train.epochs=1.5 train.max_steps=0 train.logging_steps=20 model.hidden_dropout=0.1 model.attention_dropout=0.1 model.classifier_dropout=0.1"
# shellcheck disable=SC2086
train eight $pieces
# shellcheck disable=SC2086
train twice-four $pieces train.batch_size=4 train.gradient_accumulation_steps=2
same_model eight twice-four
holds 'b.json["resolved"]["micro_batch"] == 4 and a.json["resolved"]["micro_batch"] == 8 and [x["loss"] for x in a.logged] == [x["loss"] for x in b.logged]' eight twice-four
# shellcheck disable=SC2086
train few-tokens $pieces train.micro_batch_tokens=50
same_model eight few-tokens
holds 'b.json["resolved"]["micro_batch_tokens"] <= 50 < a.json["resolved"]["micro_batch_tokens"] and a.json["memory"]["peak_allocated_bytes"] > b.json["memory"]["peak_allocated_bytes"]' eight few-tokens
# shellcheck disable=SC2086
train four $pieces train.batch_size=4
other_model eight four
# shellcheck disable=SC2086
train judged $pieces $validation eval.strategy=epoch
# shellcheck disable=SC2086
train judged-more $pieces $validation eval.strategy=epoch eval.batch_multiplier=6
holds 'a.evals == b.evals and a.json["metrics"] == b.json["metrics"] and b.json["memory"]["phases"]["eval"] > a.json["memory"]["phases"]["eval"]' judged judged-more
same_model judged judged-more

# DeBERTa, whose positions are projected once a step for all its pieces: also recomputed, on another number of threads, and
# continued in the middle.
for family in deberta_v1 deberta_v3; do
    mkdir "$family" && cp "$here/model/vocab.txt" "$family" && echo '{"tokenizer_class": "BertTokenizer"}' >"$family/tokenizer_config.json"
    python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])) | {"vocab_size": len(open(sys.argv[2]).readlines())}, open(sys.argv[3], "w"))' \
        "$SOURCE_DIR/tests/vectors/$family/config.json" "$here/model/vocab.txt" "$family/config.json" || fail "no config.json for $family"
    positions="model.path=$family model.init=random data.max_length=20 $validation eval.strategy=steps eval.steps=5 train.max_steps=10
               output.save_steps=5 model.hidden_dropout=0.1 model.attention_dropout=0.1 device.threads=2"
    # shellcheck disable=SC2086
    train "$family-whole" $positions
    # shellcheck disable=SC2086
    train "$family-pieces" $positions train.micro_batch=3 train.gradient_checkpointing=on device.threads=1
    same_model "$family-whole" "$family-pieces"
    holds 'a.evals == b.evals' "$family-whole" "$family-pieces"
    cp -r "$family-pieces" "$family-cut" && rm -rf "$family-cut/checkpoints/step-00000010"
    # shellcheck disable=SC2086
    train "$family-cut" $positions train.micro_batch=3 train.gradient_checkpointing=on device.threads=1 output.exists=resume
    says "at step 5"
    same_model "$family-whole" "$family-cut"
done

# ---- checkpoints, frozen weights -----------------------------------------------------------------------------------------
kept() { # kept DIR STEP...: exactly these checkpoints
    local dir=$1
    shift
    [ "$(ls "$dir/checkpoints")" = "$(printf 'step-%08d\n' "$@")" ] || fail "$dir: checkpoints kept: $(ls "$dir/checkpoints")"
}
train epochs output.save_steps=0 output.save_total_limit=5 train.max_steps=90
kept epochs 38 76 90
train limited output.save_steps=10 output.save_total_limit=2 train.max_steps=35
kept limited 30 35
train one output.save_steps=10 train.max_steps=35
kept one 35
frozen="$validation eval.strategy=steps eval.steps=15 model.freeze=encoder train.max_steps=40 output.save_steps=10 output.save_total_limit=9 train.logging_steps=7"
# shellcheck disable=SC2086
train frozen $frozen
kept frozen 10 20 30 40
is "['bert.pooler.dense.bias', 'bert.pooler.dense.weight', 'classifier.bias', 'classifier.weight']" \
    'sorted(k for k in a.tensors if a.tensors[k] != tensors("'"$here"'/model/model.safetensors")[k])' frozen
# As if killed behind step 20: goes on, and becomes the same.
cp -r frozen cut && rm -r cut/checkpoints/step-00000030 cut/checkpoints/step-00000040
# shellcheck disable=SC2086
train cut $frozen output.exists=resume
says "at step 20"
same_model frozen cut
kept cut 10 20 30 40
cmp frozen/checkpoints/step-00000040/state.safetensors cut/checkpoints/step-00000040/state.safetensors || fail "another state after resuming with frozen weights"
holds '[{k: v for k, v in x.items() if k != "tokens_per_second"} for x in a.lines] == [{k: v for k, v in x.items() if k != "tokens_per_second"} for x in b.lines]' frozen cut

# ---- run directories without output.dir ----------------------------------------------------------------------------------
mkdir work && cd work || exit 1
for _ in 1 2; do expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=2; done
[ "$(ls runs)" = "$(printf 'follow-001\nfollow-002')" ] || fail "run directories: $(ls runs)"
cp runs/follow-001/run.json first.json
expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=2 output.exists=resume
says "follow-002"
[ "$(ls runs)" = "$(printf 'follow-001\nfollow-002')" ] || fail "resuming made another directory: $(ls runs)"
cmp first.json runs/follow-001/run.json || fail "output.exists=resume did not take the newest run"
cd ..

# ---- learning rates ------------------------------------------------------------------------------------------------------
rates() { # rates EXPRESSION OPTION...: the rate of each of 20 steps, s counted from 0, as a share of the highest
    local want=$1
    shift
    train rates train.max_steps=20 train.warmup_steps=0 "$@"
    holds "near(a.rates, [0.003 * ($want) for s in range(20)], 1e-10)" rates
    rm -r rates
}
rates '1 - s / 20' train.lr_scheduler=linear
rates 's / 5 if s < 5 else (20 - s) / 15' train.lr_scheduler=linear train.warmup_steps=5
rates 's / 5 if s < 5 else (1 + math.cos(math.pi * (s - 5) / 15)) / 2' train.lr_scheduler=cosine train.warmup_steps=5
rates 's / 5 if s < 5 else 1' train.lr_scheduler=constant_with_warmup train.warmup_ratio=0.21
rates 's / 3 if s < 3 else 1' train.lr_scheduler=constant_with_warmup train.warmup_ratio=0.21 train.warmup_steps=3
rates '1' train.lr_scheduler=constant train.warmup_steps=5
