#!/usr/bin/env bash
# Multi-label and regression tasks, losses and weights, seen from outside: a run's loss of its first step is the formula's
# on the predictions of the model it starts from; what is saved serves eval and predict; what does not fit is refused.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
cat >make.py <<'PYTHON'
import json, random, sys
random.seed(4)
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")][1:41]
names = ["rude", "loud", "wrong"]
with open("tags.tsv", "w") as a, open("tags.csv", "w") as b, open("tags.jsonl", "w") as c, open("single.tsv", "w") as d, open("numbers.tsv", "w") as e:
    a.write("text\tlabel\n"), b.write("text,rude,loud,wrong\n"), d.write("text\tlabel\n"), e.write("text\tstars\tprice\n")
    for i, (text, label) in enumerate(rows):
        tags = [n for n in names if random.random() < 0.4] if i else names
        a.write(f"{text}\t{', '.join(tags)}\n")
        b.write('"' + text.replace('"', '""') + '",' + ",".join(str(int(n in tags)) for n in names) + "\n")
        c.write(json.dumps({"text": text, "labels": tags}) + "\n")
        d.write(f"{text}\t{label}\n")
        e.write(f"{text}\t{random.randint(1, 5)}.0\t{random.random():.3f}\n")
PYTHON
python3 make.py "$here/train.tsv"
cat >loss.py <<'PYTHON'
"""loss.py KIND PREDICTIONS DATA SMOOTHING GAMMA WEIGHTS: the loss of all rows, as the formulas have it."""
import json, math, sys
kind, predictions, data, smoothing, gamma, weights = sys.argv[1:7]
smoothing, gamma = float(smoothing), float(gamma)
rows = [json.loads(line) for line in open(predictions)]
lines = [line.rstrip("\n").split("\t") for line in open(data, encoding="utf-8")][1:]
total = divisor = 0
if kind == "regression":
    for r, line in zip(rows, lines):
        x = list(r["values"].values())
        total += sum((v - float(t)) ** 2 for v, t in zip(x, line[1:1 + len(x)])) / len(x)
    print(total / len(rows))
    sys.exit()
names = list(rows[0]["logits"])
truths = [[n in [t.strip() for t in line[1].split(",")] for n in names] for line in lines]
counts = [sum(t[k] for t in truths) for k in range(len(names))]
if weights == "balanced":
    w = [len(rows) / (len(names) * c) if kind == "single" else (len(rows) - c) / c for c in counts]
else:
    w = [1.0] * len(names) if weights == "none" else [float(v) for v in weights.split(",")]
for r, truth in zip(rows, truths):
    x = [r["logits"][n] for n in names]
    if kind == "single":
        log_sum = math.log(sum(math.exp(v) for v in x))
        log_p = [v - log_sum for v in x]
        y = truth.index(True)
        nll = w[y] * -log_p[y] * (1 - math.exp(log_p[y])) ** gamma
        total += (1 - smoothing) * nll + smoothing / len(x) * sum(a * -b for a, b in zip(w, log_p))
        divisor += w[y]
    else:
        for v, t, a in zip(x, truth, w):
            p = 1 / (1 + math.exp(-v))
            total += (a * (1 - p) ** gamma * -math.log(p) if t else p ** gamma * -math.log(1 - p)) / len(x)
        divisor += 1
print(total / divisor)
PYTHON
common="$here/follow.ini data.max_length=24 output.save_steps=100 model.ignore_mismatched_sizes=true"
whole="train.batch_size=40 train.max_steps=1 train.warmup_steps=0 train.logging_steps=1"
# first KIND DATA SMOOTHING GAMMA WEIGHTS OPTION...: the loss of a first step over all rows, in two micro-batch cuts.
runs=0
first() {
    local kind=$1 data=$2 smoothing=$3 gamma=$4 weights=$5 cut
    shift 5
    runs=$((runs + 1))
    # Without a step the model of the start is saved: a rate of 0 changes nothing.
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common $whole train.learning_rate=0 data.train="$data" output.dir="start$runs" "$@"
    "$FTENGINE" predict "start$runs" --data "$data" --json --logits >p.jsonl 2>err || fail "predict: $*"
    for cut in 40 3; do
        # shellcheck disable=SC2086
        expect 0 "$FTENGINE" train $common $whole data.train="$data" train.micro_batch=$cut output.dir="first$runs.$cut" "$@"
        python3 - "first$runs.$cut/metrics.jsonl" "$(python3 loss.py "$kind" p.jsonl "$data" "$smoothing" "$gamma" "$weights")" <<'PYTHON' || fail "the loss is another one: $*"
import json, sys
got, want = json.loads(open(sys.argv[1]).readline())["loss"], float(sys.argv[2])
sys.exit(0 if abs(got - want) < 2e-5 * max(1, abs(want)) else f"loss {got}, the formula says {want}")
PYTHON
    done
    cmp "first$runs.40/model/model.safetensors" "first$runs.3/model/model.safetensors" || fail "the cut into micro-batches changed the model: $*"
}
first single single.tsv 0 0 none
first single single.tsv 0.1 0 none train.label_smoothing=0.1
first single single.tsv 0 0 balanced train.class_weights=balanced
first single single.tsv 0.2 0 "0.5,2,1" train.label_smoothing=0.2 "train.class_weights=0.5, 2, 1"
first single single.tsv 0 2 none train.loss=focal
first single single.tsv 0 1.5 balanced train.loss=focal train.focal_gamma=1.5 train.class_weights=balanced
first multi tags.tsv 0 0 none train.task=multi_label
first multi tags.tsv 0 0 balanced train.task=multi_label train.class_weights=balanced
first multi tags.tsv 0 2 none train.task=multi_label train.loss=focal
first regression numbers.tsv 0 0 none train.task=regression data.label_column=stars
first regression numbers.tsv 0 0 none train.task=regression "data.label_column=stars, price" train.loss=mse
cmp -s first1.40/model/model.safetensors first3.40/model/model.safetensors && fail "class weights made no difference"

# ---- multi label ---------------------------------------------------------------------------------------------------------
long="train.max_steps=12 data.validation=tags.tsv eval.strategy=epoch eval.metric=average_precision"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $long train.task=multi_label data.train=tags.tsv output.dir=multi
says "average_precision"
[ "$(json multi/model/config.json 'd["problem_type"], sorted(d["id2label"].values())')" = "('multi_label_classification', ['loud', 'rude', 'wrong'])" ] || fail "config.json"
[ "$(json multi/model/ftengine.json 'd["task"]')" = multi_label ] || fail "ftengine.json"
expect 0 "$FTENGINE" eval multi --data tags.tsv --json
[ "$(json out 'all(abs(d["metrics"][k] - '"$(json multi/run.json '{k[5:]: v for k, v in d["metrics"].items() if k.startswith("eval_")}')"'[k]) < 1e-6 for k in d["metrics"])')" = True ] || fail "eval disagrees with the run: $(cat out)"
[ "$(json out '"confusion" in d, len(d["classes"])')" = "(False, 3)" ] || fail "classes of eval: $(cat out)"
cp out want
expect 0 "$FTENGINE" eval multi --data tags.jsonl data.label_column=labels --json
[ "$(json out 'd["metrics"]')" = "$(json want 'd["metrics"]')" ] || fail "JSON lists are other labels than a column of names"
# Lists and columns tell by themselves that there are several labels.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common train.max_steps=12 data.train=tags.jsonl data.label_column=labels output.dir=lists
cmp lists/model/model.safetensors multi/model/model.safetensors || [ "$(json multi/run.json 'd["best"]["step"]')" != 12 ] || fail "lists give another model"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common train.max_steps=2 data.train=tags.csv "data.label_column=rude, loud, wrong" data.validation=tags.csv eval.strategy=epoch output.dir=columns
[ "$(json columns/model/config.json 'list(d["id2label"].values())')" = "['rude', 'loud', 'wrong']" ] || fail "columns keep their order"
expect 0 "$FTENGINE" eval columns --data tags.csv
expect 0 "$FTENGINE" predict multi --data tags.tsv
[ "$(head -1 out)" = "$(printf 'labels\tp:loud\tp:rude\tp:wrong\ttext')" ] || fail "predict: $(head -1 out)"
expect 0 "$FTENGINE" predict multi --data tags.tsv --json
[ "$(python3 -S -c 'import json
rows = [json.loads(l) for l in open("out")]
print(all(sorted(n for n, p in r["probabilities"].items() if p >= 0.5) == sorted(r["labels"]) for r in rows), len(rows))')" = "True 40" ] || fail "predict --json"
[ "$(python3 -S -c 'import json
rows = [json.loads(l) for l in open("multi/predictions.jsonl")]
print(len(rows), sorted(rows[0]["labels"]), isinstance(rows[0]["predicted"], list))')" = "40 ['loud', 'rude', 'wrong'] True" ] || fail "predictions.jsonl: $(head -1 multi/predictions.jsonl)"

# ---- regression ----------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common train.max_steps=12 train.task=regression data.label_column=stars data.train=numbers.tsv data.validation=numbers.tsv \
    eval.strategy=epoch eval.metric=pearson output.dir=number
says "Pearson"
[ "$(json number/model/config.json 'd["problem_type"], d["id2label"]')" = "('regression', {'0': 'stars'})" ] || fail "config.json of a regression"
expect 0 "$FTENGINE" eval number --data numbers.tsv --ci --json
[ "$(json out 'sorted(d["metrics"]), d["metrics"]["loss"] - d["metrics"]["mse"] < 1e-6, "classes" in d')" = "(['loss', 'mae', 'mse', 'pearson', 'r2', 'rmse', 'spearman'], True, False)" ] || fail "eval: $(cat out)"
[ "$(json out 'all(d["intervals"][k][0] <= d["metrics"][k] <= d["intervals"][k][1] for k in d["metrics"])')" = True ] || fail "intervals: $(cat out)"
expect 0 "$FTENGINE" predict number --data numbers.tsv
[ "$(head -1 out)" = "$(printf 'stars\ttext')" ] || fail "predict: $(head -1 out)"
expect 2 "$FTENGINE" predict number multi --data numbers.tsv && one_error "another task"

# ---- layers learn at their own rate --------------------------------------------------------------------------------------
moved() { # moved DIR: how far embeddings, first layer, last layer and head went from the start
    python3 - "$1" "$here/model" <<'PYTHON'
import json, struct, sys
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f", data[start + v["data_offsets"][0]:start + v["data_offsets"][1]])
            for k, v in header.items() if k != "__metadata__"}
a, b = tensors(sys.argv[1] + "/model"), tensors(sys.argv[2])
def far(*ends):
    keys = [k for k in a if any(k.endswith(e) for e in ends)]
    return max(abs(x - y) for k in keys for x, y in zip(a[k], b[k]))
print([far("word_embeddings.weight"), far("layer.0.output.dense.weight"), far("layer.1.output.dense.weight"), far("pooler.dense.weight")])
PYTHON
}
step="train.max_steps=1 train.warmup_steps=0 train.weight_decay=0 data.train=$here/train.tsv"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $step output.dir=even
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common $step train.layer_lr_decay=0.5 output.dir=uneven
# The first step of Adam moves what has a gradient by the learning rate: 1, 1/2, 1/4, 1/8 of it.
[ "$(python3 -c 'import sys; a, b = eval(sys.argv[1]), eval(sys.argv[2]); print([round(y / x, 3) for x, y in zip(a, b)])' "$(moved even)" "$(moved uneven)")" = "[0.125, 0.25, 0.5, 1.0]" ] ||
    fail "layers moved by $(moved uneven) beside $(moved even)"
for schedule in polynomial cosine_with_restarts; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common data.train=single.tsv train.max_steps=4 train.logging_steps=1 train.warmup_steps=1 train.lr_scheduler=$schedule train.lr_end=0.001 train.lr_power=2 train.lr_cycles=2 output.dir=$schedule
done
[ "$(python3 -S -c 'import json
for k in ("polynomial", "cosine_with_restarts"): print([round(json.loads(l)["learning_rate"], 6) for l in open(k + "/metrics.jsonl")])')" = "[0.0, 0.003, 0.001889, 0.001222]
[0.0, 0.003, 0.00075, 0.00225]" ] || fail "learning rates"

# ---- what does not fit ---------------------------------------------------------------------------------------------------
refused() { # refused TEXT OPTION...
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common output.dir=no "$@"
    one_error "$text"
    [ ! -e no ] || fail "a refused run left a directory: $*"
}
refused "train.loss" data.train=single.tsv train.loss=bce
refused "train.loss" data.train=single.tsv train.task=regression train.loss=focal
refused "train.label_smoothing" data.train=tags.tsv train.task=multi_label train.label_smoothing=0.1
refused "eval.metric" data.train=single.tsv eval.metric=pearson
refused "eval.metric" data.train=numbers.tsv data.label_column=stars train.task=regression eval.metric=accuracy
refused "train.class_weights" data.train=single.tsv "train.class_weights=1, 2"
refused "train.class_weights" data.train=single.tsv "train.class_weights=1, 2, -1"
refused "train.class_weights" data.train=single.tsv train.class_weights=balance
refused "train.class_weights" data.train=numbers.tsv data.label_column=stars train.task=regression train.class_weights=balanced
refused "single.tsv:2" data.train=single.tsv train.task=regression
refused "train.task = single_label" data.train=tags.jsonl data.label_column=labels train.task=single_label && says "multi_label"
refused "does not name classes" data.train=numbers.tsv data.label_column=price && says "train.task = regression"
refused "train.lr_end" data.train=single.tsv train.lr_scheduler=polynomial train.lr_end=1
expect 0 "$FTENGINE" plan $common data.train= train.task=multi_label train.class_weights=balanced --labels 7
echo "tasks: all as expected"
