#!/usr/bin/env bash
# And back: models of every family, fine-tuned and written here, give the same logits when transformers opens them. Skipped
# where the reference Python (FT_REFERENCE_PYTHON, /opt/ref/bin/python) is not.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
python=${FT_REFERENCE_PYTHON:-/opt/ref/bin/python}
if ! "$python" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("torch") and u.find_spec("transformers")))' 2>/dev/null; then
    echo "skipped: no Python with torch and transformers"
    exit 77
fi

# A tokenizer that both sides have at hand: the models' own vocabulary of 97 numbers as words.
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
    seq -f 'w%g' 0 91
} >vocab.txt
echo '{"tokenizer_class": "BertTokenizer"}' >tokenizer_config.json
words() { # NUMBER SEED: so many words
    awk -v n="$1" -v s="$2" 'BEGIN { srand(s); for (i = 0; i < n; i++) printf "%sw%d", i ? " " : "", int(92 * rand()); print "" }'
}
for n in 1 2 5 12 20 33; do words "$n" "$n"; done >texts.txt
arguments=()
for source in "$SOURCE_DIR"/tests/vectors/{bert_gelu,bert_relu,roberta,xlm_roberta,distilbert,electra,electra_even} \
    "$SOURCE_DIR"/tests/vectors/{deberta_*,modernbert*,camembert,data2vec_text,ernie,albert*,nomic_bert,gte*,mpnet,rembert,xlm_roberta_xl,eurobert*}; do
    name=$(basename "$source")
    mkdir -p "in/$name"
    cp "$source/config.json" "$source/model.safetensors" vocab.txt tokenizer_config.json "in/$name"
    # Its labels are the task's.
    "$python" -c 'import json, sys
labels = [name for _, name in sorted(json.load(open(sys.argv[1])).get("id2label", {"0": "no", "1": "yes"}).items())]
print("text\tlabel")
for i, line in enumerate(open("texts.txt")): print(line.rstrip("\n"), labels[i % len(labels)], sep="\t")
' "in/$name/config.json" >"$name.tsv" || fail "$name has no labels"
    expect 0 "$FTENGINE" train model.path="in/$name" data.train="$name.tsv" data.max_length=38 data.cache_dir=none \
        train.max_steps=2 train.batch_size=3 train.learning_rate=1e-3 output.dir="run/$name"
    if cmp -s "in/$name/model.safetensors" "run/$name/model/model.safetensors"; then fail "$name: nothing was trained"; fi
    expect 0 "$FTENGINE" predict "run/$name/model" --data texts.txt --format text --json --logits
    cp out "$name.jsonl"
    arguments+=("$name=run/$name/model=$name.jsonl")
done
[ ${#arguments[@]} -ge 27 ] || fail "only ${#arguments[@]} models"
HF_HUB_OFFLINE=1 "$python" "$SOURCE_DIR/tests/vectors/check_written_models.py" texts.txt "${arguments[@]}" 2>err || fail "see above"
