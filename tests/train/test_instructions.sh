#!/usr/bin/env bash
# Instructions from end to end, with a small random Qwen2 and its own tokenizer: chats, prompts with completions and texts are learned from JSON lines,
# eval agrees with the run, the saved model has the template, and the tokens are what `ftengine tokenize` shows.
# Catches: columns of chats that are lost between training and eval, a template or an option that the saved model forgets, and a prompt that is learned.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors
mkdir m
cp "$vectors/decoder_tokenizers/qwen/tokenizer.json" "$vectors/decoder_tokenizers/qwen/tokenizer_config.json" m
json "$vectors/causal_lm/qwen2/config.json" "__import__('json').dumps(d | {'vocab_size': 1500, 'max_position_embeddings': 256, 'initializer_range': 0.1})" >m/config.json
python3 - <<'PY'
import json
words = "the movie was great and the film was not so good as they said it would be".split()
chats, pairs, texts = [], [], []
for i in range(24):
    ask, say = " ".join(words[i % 7 :][:5]), " ".join(words[i % 5 :][:4]).upper()
    chats.append({"messages": [{"role": "user", "content": ask}, {"role": "assistant", "content": say}] * (1 + i % 2)})
    pairs.append({"prompt": ask + ":", "completion": " " + say})
    texts.append({"text": ask + "\n" + say})
for name, rows in (("chats", chats), ("pairs", pairs), ("texts", texts)):
    with open(name + ".jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
PY
common="model.path=m model.init=random train.task=causal_lm train.max_steps=4 train.batch_size=4 train.learning_rate=1e-2 train.logging_steps=1 eval.strategy=steps eval.steps=4
    eval.metric=loss data.max_length=128 device.threads=1"
agrees() { # RUN DATA: eval says what the run said
    expect 0 "$FTENGINE" eval "$1" --data "$2" --json
    python3 - "$1" <<'PY' || fail "$1: eval says $(cat out), the run $(cat "$1/metrics.jsonl")"
import json, sys
run = [d["eval_loss"] for d in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "eval_loss" in d][-1]
said = json.load(open("out"))["metrics"]["loss"]
sys.exit(not abs(run - said) <= 1e-6 * run)
PY
}
reads() { python3 -c 'import json, sys; print(sum(len(json.loads(l)["learned"]) for l in sys.stdin))' <out; }
# ---- chats: the model's own template, then another one ----------------------------------------------------------------------
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common data.train=chats.jsonl output.dir=none
one_error "the model has no chat template" && says "data.chat_template"
for kind in chats pairs texts; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common data.train=$kind.jsonl data.validation=$kind.jsonl data.chat_template="$vectors/chat/qwen3.jinja" output.dir=$kind
    cp err log
    agrees $kind $kind.jsonl
    [ "$(json $kind/run.json 'd["memory"]["peak_requested_bytes"] == d["planned"]["peak_requested_bytes"]')" = True ] || fail "$kind: planned and metered differ"
    expect 0 "$FTENGINE" tokenize $kind --data $kind.jsonl # by the template that the saved model has
    [ $kind = texts ] || grep -q "train  *$(reads) tokens have a loss" log || fail "$kind: tokenize learns $(reads), training $(grep 'have a loss' log)"
done
# ---- columns of other names --------------------------------------------------------------------------------------------------
sed 's/"messages"/"turns"/' chats.jsonl >other_chats.jsonl
sed 's/"prompt"/"ask"/; s/"completion"/"say"/' pairs.jsonl >other_pairs.jsonl
for named in "chats data.messages=turns" "pairs data.prompt=ask data.completion=say"; do
    kind=${named%% *}
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $common data.train=other_$kind.jsonl data.validation=other_$kind.jsonl data.chat_template="$vectors/chat/qwen3.jinja" ${named#* } output.dir=other_$kind
    cmp $kind/model/model.safetensors other_$kind/model/model.safetensors || fail "$named: another model"
    agrees other_$kind other_$kind.jsonl
done
cmp chats/model/chat_template.jinja "$vectors/chat/qwen3.jinja" || fail "the saved model has another template"
expect 0 "$FTENGINE" tokenize chats --data chats.jsonl
[ "$(head -1 out | python3 -c 'import json, sys; d = json.loads(sys.stdin.read()); print(d["text"] == d["decoded"] and "".join(d["pieces"][i] for i in d["learned"]))')" = \
    "<think>ĊĊ</think>ĊĊTHEĠMOVIEĠWASĠGREAT<|im_end|>" ] || fail "what is learned of a chat: $(head -1 out)"
# ---- every token, and what the template is told, are remembered --------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $common data.train=chats.jsonl data.validation=chats.jsonl data.chat_template="$vectors/chat/qwen3.jinja" data.learn=all \
    'data.chat_variables={"enable_thinking": false}' output.dir=all
agrees all chats.jsonl
[ "$(json all/model/ftengine.json 'd["learn"], d["chat_variables"]')" = "('all', '{\"enable_thinking\": false}')" ] || fail "ftengine.json: $(cat all/model/ftengine.json)"
# ---- what cannot be learned --------------------------------------------------------------------------------------------------
head -c 40 chats.jsonl >cut.jsonl
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common data.train=cut.jsonl output.dir=none && one_error "cut.jsonl:1"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $common data.train=pairs.jsonl data.truncation=windows output.dir=none && one_error "the head or the tail"
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}], "tools": 5}' >odd.jsonl
expect 2 "$FTENGINE" tokenize chats --data odd.jsonl && one_error "\"tools\""
expect 0 "$FTENGINE" tokenize chats --data odd.jsonl --keep-going && grep -q '"error"' out || fail "--keep-going: $(cat out)"
[ ! -e none ] || fail "a refused run left a directory"
exit 0
