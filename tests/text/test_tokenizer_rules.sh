#!/usr/bin/env bash
# model.tokenizer_rules: other rules, other tokens; a saved model remembers them, and eval and predict go by that.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
mkdir m
cp "$SOURCE_DIR/tests/vectors/tokenizer_families/deberta.spm" m/spm.model
echo '{"tokenizer_class": "DebertaV2Tokenizer"}' >m/tokenizer_config.json
sed 's/"vocab_size": *[0-9]*/"vocab_size": 4000/' "$SOURCE_DIR/tests/vectors/deberta_v3/config.json" >m/config.json
# Full-width letters: the model's own rules read them as letters, transformers 5 as unknown.
python3 - <<'PY'
words = "the man who has been there and will be back".split()
wide = lambda w: "".join(chr(ord(c) + 0xFEE0) for c in w)
rows = [(" ".join(wide(w) if (i + k) % 2 else w for k, w in enumerate(words[i % 5 :])), "yes" if i % 3 else "no") for i in range(24)]
open("t.tsv", "w").write("text\tlabel\n" + "".join("%s\t%s\n" % r for r in rows))
PY
small="model.path=m model.init=random data.train=t.tsv data.validation=t.tsv data.max_length=32 train.epochs=1 train.batch_size=8
    train.learning_rate=1e-2 train.seed=3 device.threads=1"
for rules in files transformers; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $small model.tokenizer_rules=$rules output.dir=$rules
    [ "$(json $rules/model/ftengine.json 'd["tokenizer_rules"]')" = $rules ] || fail "ftengine.json does not say $rules"
    expect 0 "$FTENGINE" eval $rules --data t.tsv --json
    [ "$(json out '"%.9g" % d["metrics"]["loss"]')" = "$(json $rules/run.json '"%.9g" % d["metrics"]["eval_loss"]')" ] ||
        fail "$rules: eval is not by the rules of training: $(cat out)"
    expect 0 "$FTENGINE" predict $rules --data t.tsv --json
    python3 - $rules/predictions.jsonl out <<'PY' || fail "$rules: predict is not by the rules of training"
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:])
assert len(a) == len(b) == 24
for x, y in zip(a, b):
    p, q = x["probabilities"], y["probabilities"]
    p, q = (list(v.values()) if isinstance(v, dict) else v for v in (p, q))
    assert max(abs(s - t) for s, t in zip(p, q)) < 1e-6, (x, y)
PY
done
if cmp -s files/model/model.safetensors transformers/model/model.safetensors; then fail "both rules gave the same tokens"; fi
# A model saved before there was a choice is read as files; another word is refused.
cp -r files/model old && sed -i '/tokenizer_rules/d' old/ftengine.json
expect 0 "$FTENGINE" eval old --data t.tsv --json
[ "$(json out '"%.9g" % d["metrics"]["loss"]')" = "$(json files/run.json '"%.9g" % d["metrics"]["eval_loss"]')" ] || fail "an older model is read by other rules"
sed -i 's/"tokenizer_rules": "files"/"tokenizer_rules": "mine"/' files/model/ftengine.json
expect 2 "$FTENGINE" eval files --data t.tsv
one_error '"tokenizer_rules" must be "files" or "transformers", not "mine"'
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $small model.tokenizer_rules=mine output.dir=no
one_error "model.tokenizer_rules takes files or transformers"
# A run is not resumed by other rules than it began with.
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $small model.tokenizer_rules=files output.dir=transformers output.exists=resume train.epochs=2
one_error "cannot be resumed with another tokenizer"
exit 0
