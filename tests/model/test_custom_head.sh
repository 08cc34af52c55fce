#!/usr/bin/env bash
# A head with hidden layers, or of the mean of all rows: what is saved of it, and, where transformers is at hand (FT_REFERENCE_PYTHON, else
# /opt/ref/bin/python), that it opens the model with the same logits, saves it, and opens that again.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
python=${FT_REFERENCE_PYTHON:-/opt/ref/bin/python}
vectors=$SOURCE_DIR/tests/vectors
common="data.validation=$here/validation.tsv eval.strategy=epoch train.max_steps=4 train.learning_rate=1e-4 model.ignore_mismatched_sizes=true"
train() { # train DIR [OPTION...]
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train "$here/follow.ini" $common output.dir="$dir" "$@"
}
# A small model with the vocabulary of our own, whose drawn weights are large, so that texts get logits far apart.
family() { # family DIR MODEL_DIR INITIALIZER_RANGE
    mkdir "$1" && cp "$2/config.json" "$2/model.safetensors" "$1" && cp "$here/model/vocab.txt" "$1" || fail "no model in $2"
    python3 - "$1/config.json" "$(wc -l <"$here/model/vocab.txt")" "$3" <<'PYTHON'
import json
import sys
config = json.load(open(sys.argv[1]))
config.update(vocab_size=int(sys.argv[2]), initializer_range=float(sys.argv[3]))
json.dump(config, open(sys.argv[1], "w"))
PYTHON
}
family tiny "$here/model" 0.8
family distilbert "$vectors/distilbert" 0.25
family electra "$vectors/electra" 0.25
family modern "$vectors/modernbert" 0.25
family roberta "$vectors/roberta" 0.25
family deberta "$vectors/deberta_v3" 0.25
for dir in modern roberta deberta; do echo '{"tokenizer_class": "BertTokenizer"}' >$dir/tokenizer_config.json; done
train bert model.path=tiny model.head.hidden=7,5 model.head.dropout=0.3
train same-width model.path=tiny model.head.hidden=32 model.head.activation=gelu
train distil model.path=distilbert model.init=random model.head.hidden=6 model.head.activation=tanh
train electric model.path=electra model.init=random model.head.hidden=9,32 model.head.activation=quick_gelu
train modern-head model.path=modern model.init=random model.head.hidden=6
train means model.path=tiny model.head.pooling=mean
train distil-means model.path=distilbert model.init=random model.head.pooling=mean model.head.hidden=6
train roberta-means model.path=roberta model.init=random model.head.pooling=mean
train deberta-means model.path=deberta model.init=random model.head.pooling=mean
train standard model.path=bert/model model.head.hidden=

# ---- positions of waves: a file's own table, of a new model sines and cosines -----------------------------------------------
cp -r distilbert waves && sed -i 's/"sinusoidal_pos_embds": false/"sinusoidal_pos_embds": true/' waves/config.json
train waved model.path=waves model.init=random train.max_steps=1 train.warmup_steps=10
train read model.path=waved/model train.max_steps=1 train.warmup_steps=10
python3 - <<'PYTHON' || fail "the position table is no table of waves"
import json, math, struct
def table(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    at = json.loads(data[8:8 + length])["distilbert.embeddings.position_embeddings.weight"]
    first, end = (8 + length + n for n in at["data_offsets"])
    return at["shape"], struct.unpack(f"<{(end - first) // 4}f", data[first:end])
(rows, cols), got = table("waved/model/model.safetensors")
for p in range(rows):
    for j in range(cols):
        angle = p / 10000 ** (2 * (j // 2) / cols)
        assert abs(got[p * cols + j] - (math.cos if j % 2 else math.sin)(angle)) < 1e-6, (p, j)
assert table("read/model/model.safetensors")[1] == got
PYTHON

# ---- what is saved -------------------------------------------------------------------------------------------------------
[ "$(json bert/model/config.json 'd["auto_map"], d["architectures"], d["ftengine_head"]')" = \
    "({'AutoModelForSequenceClassification': 'modeling_ftengine.ClassifierWithHead'}, ['ClassifierWithHead'], {'hidden': [7, 5], 'activation': 'relu', 'dropout': 0.3})" ] ||
    fail "config.json: $(cat bert/model/config.json)"
cmp bert/model/modeling_ftengine.py "$SOURCE_DIR/engine/model/spec/modeling_ftengine.py" || fail "the loader is not the one of the source"
for pair in distil:DistilBert electric:Electra modern-head:ModernBert; do
    grep -q "import ${pair#*:}ForSequenceClassification as Family" "${pair%:*}/model/modeling_ftengine.py" || fail "the loader of ${pair%:*}"
done
[ "$(json means/model/config.json 'd["architectures"], d["ftengine_head"]')" = \
    "(['ClassifierOfMeans'], {'hidden': [], 'activation': 'relu', 'dropout': 0.0, 'pooling': 'mean', 'classifier_dropout': 0.0, 'pooler': 'bert.pooler.dense'})" ] ||
    fail "config.json: $(cat means/model/config.json)"
# It is trained further as any model; a model whose file says what the head reads, and one of tokens, have no such choice.
expect 2 "$FTENGINE" train "$here/follow.ini" $common output.dir=none model.path=modern model.init=random model.head.pooling=mean
grep -q "what the head of a modernbert model reads stands in its config.json (model.head.pooling)" err || fail "$(cat err)"
# A standard head on top of a model with another one: nothing of it is left.
[ "$(json standard/model/config.json '"auto_map" in d, "ftengine_head" in d, d["architectures"]')" = "(False, False, ['BertForSequenceClassification'])" ] ||
    fail "config.json: $(cat standard/model/config.json)"
[ ! -e standard/model/modeling_ftengine.py ] || fail "a standard head needs no loader"

# ---- in transformers -----------------------------------------------------------------------------------------------------
"$python" -c 'import torch, transformers' 2>/dev/null || { echo "no transformers: the model was not opened"; exit 0; }
export HF_HOME=$scratch/hf HF_HUB_OFFLINE=1
for run in bert same-width distil electric modern-head means distil-means roberta-means deberta-means standard; do expect 0 "$FTENGINE" predict $run --data "$here/validation.tsv" --logits --output $run.jsonl; done
"$python" - "$here/validation.tsv" bert same-width distil electric modern-head means distil-means roberta-means deberta-means standard >out 2>err <<'PYTHON' || fail "transformers gives other logits: $(cat out)"
import copy
import json
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertTokenizer

texts = [line.split("\t")[0] for line in open(sys.argv[1], encoding="utf-8").read().splitlines()[1:]]


def logits(model, tokenizer):
    model.eval()
    with torch.no_grad():
        batch = tokenizer(texts, truncation=True, max_length=24, padding=True, return_tensors="pt")
        return model(**batch).logits


for run in sys.argv[2:]:
    custom = run != "standard"
    # Families of other tokenizers have our vocabulary here.
    own = run.split("-")[0] not in ("modern", "roberta", "deberta")
    tokenizer = (AutoTokenizer if own else BertTokenizer).from_pretrained(run + "/model")
    model, report = AutoModelForSequenceClassification.from_pretrained(run + "/model", trust_remote_code=custom, dtype=torch.float32, output_loading_info=True)
    assert type(model).__name__ == ("ClassifierOfMeans" if "means" in run else "ClassifierWithHead" if custom else "BertForSequenceClassification"), type(model)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"], report
    rows = [json.loads(line)["logits"] for line in open(run + ".jsonl", encoding="utf-8")]
    ours = torch.tensor([[row[model.config.id2label[k]] for k in range(3)] for row in rows])
    theirs = logits(model, tokenizer)
    distance = (ours - theirs).abs().max().item()
    spread = (ours - ours.mean(0)).abs().max().item()
    print(f"{run}: largest distance of a logit {distance:.2g}, they spread by {spread:.2g}")
    assert distance < 1e-5 and spread > 0.01
    # What people do next: copy it, train it, save it and open that.
    assert torch.equal(logits(copy.deepcopy(model), tokenizer), theirs)
    model.save_pretrained(run + "-again")
    again = AutoModelForSequenceClassification.from_pretrained(run + "-again", trust_remote_code=custom, dtype=torch.float32)
    assert torch.equal(logits(again, tokenizer), theirs)
    model.train()
    model(**tokenizer(texts[:4], padding=True, return_tensors="pt"), labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for n, p in model.named_parameters() if "head" in n or "classifier" in n)
PYTHON
cat out
