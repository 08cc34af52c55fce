#!/usr/bin/env bash
# data.truncation: windows are what is trained on, texts are what is counted, judged and predicted; a saved model does the same.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
# Every word is one token. Texts of 5 words; those about food have 30. The windows of such a text at 12 tokens, 2 shared, are
# its words 0-9, 8-17, 16-25 and 24-29.
python3 -S - <<'PYTHON'
words = {"food": "apple bake bread butter cheese cook cream dinner flour garlic grill honey kitchen lemon lunch".split(),
         "music": "album ballad band bass cello choir chord drum flute guitar".split(),
         "travel": "airport bus coast ferry flight hotel island lake map museum".split()}
known = set(open(__import__("os").environ["SOURCE_DIR"] + "/tests/vectors/trainer/model/vocab.txt", encoding="utf-8").read().split("\n"))
def text(label, i):
    own = [w for w in words[label] if w in known]
    return " ".join(own[(i * 7 + k * (1 + i % 3)) % len(own)] for k in range(30 if label == "food" else 5))
def write(name, header, first, count, cell):
    with open(name, "w", encoding="utf-8") as f:
        f.write(header + "\n")
        for i in range(first, first + count):
            label = sorted(words)[i % 3]
            f.write(text(label, i) + "\t" + cell(label, i) + "\n")
for name, first, count in (("train", 0, 60), ("dev", 60, 24), ("test", 84, 24)):
    write(name + ".tsv", "text\tlabel", first, count, lambda l, i: l)
    write(name + ".tags", "text\tlabel", first, count, lambda l, i: l + (",odd" if i % 2 else ""))
    write(name + ".numbers", "text\tlabel", first, count, lambda l, i: f"{i % 7 - len(l)}.5")
with open("pieces.txt", "w", encoding="utf-8") as f: # the windows of every long text of the dev set, as texts of their own
    for line in open("dev.tsv", encoding="utf-8").read().split("\n")[1:-1]:
        own = line.split("\t")[0].split()
        for a, b in ((0, 10), (8, 18), (16, 26), (24, 30)) if len(own) == 30 else ((0, 5),):
            f.write(" ".join(own[a:b]) + "\n")
PYTHON
common="$here/follow.ini data.max_length=12 train.epochs=1 train.max_steps=0 train.batch_size=8 train.learning_rate=1e-3 train.warmup_steps=0 model.ignore_mismatched_sizes=true eval.strategy=epoch"
train() { # train DIR FORM OPTION...
    local dir=$1 form=$2
    shift 2
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common data.train="train.$form" data.validation="dev.$form" output.dir="$dir" "$@"
}
same_as_run() { # same_as_run DIR DATA PREFIX: eval says of DATA what the run said
    expect 0 "$FTENGINE" eval "$1" --data "$2" --json
    [ "$(json out 'all(abs(v - '"$(json "$1/run.json" 'd["metrics"]')"'["'"$3"'_" + k]) < 1e-5 for k, v in d["metrics"].items())')" = True ] || fail "eval of $2 disagrees with the run: $(cat out)"
}
is() { # is FILE EXPRESSION VALUE
    [ "$(json "$1" "$2")" = "$3" ] || fail "$1: $2 is $(json "$1" "$2"), not $3"
}

# ---- what is counted -------------------------------------------------------------------------------------------------
train run tsv "data.truncation=windows(2)" data.test=test.tsv train.class_weights=balanced
says "60 examples in 120 windows"
train_data='[d["data"]["train"][k] for k in ("examples", "sequences", "tokens", "truncated", "longest")]'
is run/run.json "$train_data" "[60, 120, 1160, 20, 12]" # 20 * (12 + 12 + 12 + 8) + 40 * 7
is run/run.json 'd["steps"], d["data"]["train"]["classes"]' "(15, {'food': 20, 'music': 20, 'travel': 20})"
is run/run.json 'd["data"]["validation"]["examples"], d["data"]["validation"]["sequences"]' "(24, 48)"
[ "$(wc -l <run/predictions.jsonl)" = 48 ] || fail "predictions.jsonl has $(wc -l <run/predictions.jsonl) lines for 24 + 24 texts"
[ "$(sed -n 's/.*"id":\([0-9]*\),.*/\1/p' run/predictions.jsonl | tr '\n' ' ')" = "$(echo "$(seq 0 23)" "$(seq 0 23)" | tr '\n' ' ')" ] ||
    fail "predictions.jsonl has other ids than the rows of the files"
# The classes have as many texts each, though not as many windows: balanced weights are all 1.
train again tsv "data.truncation=windows(2)" data.test=test.tsv train.class_weights=1,1,1
says "from cache"
cmp run/model/model.safetensors again/model/model.safetensors || fail "balanced weights count windows"

# ---- a saved model does the same -------------------------------------------------------------------------------------
is run/model/ftengine.json 'd["truncation"], d["window_pooling"], d["max_length"]' "('windows(2)', 'mean', 12)"
same_as_run run dev.tsv eval
same_as_run run test.tsv test
probabilities() { # probabilities DIR DATA [OPTION...]: of each text, rounded, in `out`
    local dir=$1 data=$2
    shift 2
    expect 0 "$FTENGINE" predict "$dir" --data "$data" --json "$@"
}
probabilities run dev.tsv
[ "$(wc -l <out)" = 24 ] || fail "predict gives $(wc -l <out) lines for 24 texts"
cp out windows.json
# Every window is predicted as a text of its own; pooled by hand they are the text's probabilities.
probabilities run pieces.txt --format text data.truncation=head
cp out pieces.json
probabilities run dev.tsv eval.window_pooling=max
cp out largest.json
python3 -S - <<'PYTHON' || fail "the probabilities of a text are not those of its windows"
import json
pieces = iter([json.loads(l)["probabilities"] for l in open("pieces.json")])
mean, largest = ([json.loads(l)["probabilities"] for l in open(f)] for f in ("windows.json", "largest.json"))
texts = [l.split("\t")[0].split() for l in open("dev.tsv").read().split("\n")[1:-1]]
differ = 0
for text, m, x in zip(texts, mean, largest):
    own = [next(pieces) for _ in range(4 if len(text) == 30 else 1)]
    top = {k: max(p[k] for p in own) for k in m}
    for k in m:
        assert abs(m[k] - sum(p[k] for p in own) / len(own)) < 1e-6, (text, m, own)
        assert abs(x[k] - top[k] / sum(top.values())) < 1e-6, (text, x, own)
        differ += abs(m[k] - x[k]) > 1e-4
assert differ > 0 and next(pieces, None) is None
PYTHON
train top tsv "data.truncation=windows(2)" train.class_weights=balanced eval.window_pooling=max data.test=test.tsv
is top/model/ftengine.json 'd["window_pooling"]' max
same_as_run top dev.tsv eval
same_as_run top test.tsv test
cmp run/model/model.safetensors top/model/model.safetensors || fail "pooling changed the training"

# ---- the other rules -------------------------------------------------------------------------------------------------
for rule in head tail head_tail; do
    train $rule tsv data.truncation=$rule
    is $rule/run.json "$train_data" "[60, 60, 520, 20, 12]" # 20 * 12 + 40 * 7
    is $rule/model/ftengine.json 'd["truncation"]' $rule
    says "data.truncation=windows reads them whole"
    same_as_run $rule dev.tsv eval
    probabilities $rule dev.tsv
    mv out $rule.json
done
train auto tsv
cmp head/model/model.safetensors auto/model/model.safetensors || fail "the default is not head"
cmp -s head/model/model.safetensors tail/model/model.safetensors && fail "head and tail train alike"
cmp -s tail/model/model.safetensors head_tail/model/model.safetensors && fail "tail and head_tail train alike"
train quarter tsv data.truncation=windows train.class_weights=balanced # 2 of a room for 10 are shared
cmp run/model/model.safetensors quarter/model/model.safetensors || fail "windows are not windows(2) at 12 tokens"

# ---- other tasks, decisions and folds ----------------------------------------------------------------------------------
train tags tags "data.truncation=windows(3)" train.task=multi_label eval.threshold=tuned eval.calibrate=true data.test=test.tags
same_as_run tags dev.tags eval
same_as_run tags test.tags test
train numbers numbers "data.truncation=windows(3)" train.task=regression data.test=test.numbers
same_as_run numbers dev.numbers eval
same_as_run numbers test.numbers test
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common data.train=train.tsv data.folds=2 "data.truncation=windows(2)" eval.calibrate=true output.dir=folds
[ "$(wc -l <folds/predictions.jsonl)" = 60 ] || fail "out-of-fold predictions of $(wc -l <folds/predictions.jsonl) texts, not 60"
is folds/fold-1/run.json 'd["data"]["train"]["examples"], d["data"]["validation"]["examples"]' "(30, 30)"
expect 0 "$FTENGINE" predict folds --data dev.tsv
[ "$(wc -l <out)" = 25 ] || fail "predict with the models of all folds"

# ---- interrupted, planned, refused --------------------------------------------------------------------------------------
train stopped tsv "data.truncation=windows(2)" data.test=test.tsv train.class_weights=balanced output.save_steps=7 output.save_total_limit=9
[ -d stopped/checkpoints/step-00000007 ] || fail "no checkpoint at step 7"
find stopped/checkpoints -mindepth 1 -maxdepth 1 ! -name step-00000007 -exec rm -rf {} +
train stopped tsv "data.truncation=windows(2)" data.test=test.tsv train.class_weights=balanced output.save_steps=7 output.save_total_limit=9 output.exists=resume
cmp run/model/model.safetensors stopped/model/model.safetensors || fail "a resumed run differs"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common data.train=train.tsv data.validation=dev.tsv "data.truncation=windows(3)" data.test=test.tsv train.class_weights=balanced output.dir=stopped output.exists=resume
one_error "data.truncation"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $common data.train=train.tsv data.validation=dev.tsv data.test=test.tsv train.class_weights=balanced "data.truncation=windows(2)" --json
is out 'd["memory"]["peak_allocated_bytes"]' "$(json run/run.json 'd["planned"]["peak_allocated_bytes"]')"
refused() { # refused OPTION MESSAGE
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $common data.train=train.tsv "$1" output.dir=no
    one_error "$2 (data.truncation)"
    [ ! -e no ] || fail "a refused run left a directory"
}
refused "data.truncation=window" "takes head, tail, head_tail, windows or windows(OVERLAP); got 'window'"
refused "data.truncation=windows(10)" "windows of 12 tokens, of which 2 are special, cannot overlap by 10: at most 9 tokens"
sed -i 's/"windows(2)"/"windows(x)"/' again/model/ftengine.json
expect 2 "$FTENGINE" predict again --data dev.tsv
one_error "(again/model/ftengine.json)"
echo "long texts: all as expected"
