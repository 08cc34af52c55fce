#!/usr/bin/env bash
# Thresholds and calibration: found on validation data alone, saved with the best model, used by eval and predict.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
python3 - "$here/train.tsv" <<'PYTHON'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")][1:]
def write(name, part, label):
    with open(name, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n" + "".join(f"{t}\t{label(t, l)}\n" for t, l in part))
tags = lambda t, l: ",".join(k for k in "aeio" if t.count(k) > (3 if k == "e" else 1))
two = lambda t, l: "yes" if l == "food" else "no"
for name, label in (("tags", tags), ("two", two)):
    write(f"{name}.train", rows[:120], label), write(f"{name}.dev", rows[120:200], label), write(f"{name}.test", rows[200:], label)
    write(f"{name}.other", rows[150:170] * 2, label)
PYTHON
common="$here/follow.ini train.max_steps=20 eval.strategy=steps eval.steps=10 model.ignore_mismatched_sizes=true output.save_steps=100 eval.metric=f1_macro"
train() { # train DIR NAME OPTION...
    local dir=$1 name=$2
    shift 2
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common data.train="$name.train" data.validation="$name.dev" output.dir="$dir" "$@"
}
same_as_run() { # same_as_run DIR DATA PREFIX: eval says of DATA what the run said
    expect 0 "$FTENGINE" eval "$1" --data "$2" --json
    [ "$(json out 'all(abs(v - '"$(json "$1/run.json" 'd["metrics"]')"'["'"$3"'_" + k]) < 1e-5 for k, v in d["metrics"].items())')" = True ] || fail "eval of $2 disagrees with the run: $(cat out)"
}

# ---- several labels ------------------------------------------------------------------------------------------------------
train plain tags train.task=multi_label eval.metric=loss
train tuned tags train.task=multi_label eval.threshold=tuned eval.metric=loss eval.calibrate=true data.test=tags.test
train other tags train.task=multi_label eval.threshold=tuned eval.metric=loss eval.calibrate=true data.test=tags.other
[ "$(json tuned/model/ftengine.json 'len(d["thresholds"]), all(0 < v < 1 for v in d["thresholds"]), d["temperature"] != 1')" = "(4, True, True)" ] || fail "ftengine.json: $(cat tuned/model/ftengine.json)"
cmp tuned/model/ftengine.json other/model/ftengine.json || fail "another test set gave other decisions"
cmp plain/model/model.safetensors tuned/model/model.safetensors || fail "decisions changed the model" # both have their best at the same step
[ "$(json plain/model/ftengine.json 'd["thresholds"], d["temperature"]')" = "([], 1.0)" ] || fail "decisions without being asked for"
better=$(json tuned/run.json 'd["metrics"]["eval_f1_macro"]') && worse=$(json plain/run.json 'd["metrics"]["eval_f1_macro"]')
python3 -S -c "import sys; sys.exit(not $better > $worse)" || fail "tuned thresholds are no better on their own data: $better, $worse"
same_as_run tuned tags.dev eval
same_as_run tuned tags.test test
expect 0 "$FTENGINE" predict tuned --data tags.test --json
python3 -S - <<'PYTHON' || fail "predict does not follow the thresholds"
import json, sys
settings, names = json.load(open("tuned/model/ftengine.json")), json.load(open("tuned/model/config.json"))["id2label"]
limit = {names[str(i)]: v for i, v in enumerate(settings["thresholds"])}
rows = [json.loads(l) for l in open("out")]
run = [json.loads(l) for l in open("tuned/predictions.jsonl") if '"split":"test"' in l]
ok = all(r["labels"] == [n for n, p in r["probabilities"].items() if p >= limit[n]] for r in rows)
sys.exit(not (ok and [r["labels"] for r in rows] == [r["predicted"] for r in run]))
PYTHON
expect 0 "$FTENGINE" predict tuned plain --data tags.test --json # the mean of both

# ---- two classes ---------------------------------------------------------------------------------------------------------
train two two eval.calibrate=true
train raw two
says "best so far"
log_loss() { json "$1/run.json" 'd["metrics"]["eval_log_loss"]'; }
python3 -S -c "import sys; sys.exit(not $(log_loss two) <= $(log_loss raw) + 1e-9)" || fail "calibrated probabilities fit worse"
same_as_run two two.dev eval
train low two eval.threshold=0.05
[ "$(json low/model/ftengine.json 'd["thresholds"]')" = "[0.05]" ] || fail "a given threshold is not saved"
expect 0 "$FTENGINE" predict low --data two.test --json
[ "$(python3 -S -c 'import json; print(all((r["probabilities"]["yes"] >= 0.05) == (r["label"] == "yes") for r in map(json.loads, open("out"))))')" = True ] || fail "predict does not follow a given threshold"
expect 0 "$FTENGINE" predict low --data two.test --json eval.threshold=0.999
grep -q '"label":"yes"' out && fail "eval.threshold on the command line has no effect"
train tuned2 two eval.threshold=tuned eval.metric=accuracy
same_as_run tuned2 two.dev eval

# ---- what does not fit ---------------------------------------------------------------------------------------------------
refused() { # refused TEXT OPTION...
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common output.dir=no "$@"
    one_error "$text"
    [ ! -e no ] || fail "a refused run left a directory: $*"
}
refused "eval.threshold" data.train=two.train eval.threshold=tuned
refused "eval.calibrate" data.train=two.train eval.calibrate=true
refused "eval.threshold" data.train=two.train eval.threshold=1.5
refused "eval.threshold" data.train="$here/train.tsv" data.validation="$here/validation.tsv" eval.threshold=0.4
expect 2 "$FTENGINE" eval two --data two.dev eval.threshold=tuned && one_error "eval.threshold"
echo "decisions: all as expected"
