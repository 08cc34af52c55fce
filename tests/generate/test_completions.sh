#!/usr/bin/env bash
# What a language model writes, from outside: predict of runs, models and adapters on prompts, texts and chats, a line of JSON each in the order of rows, the
# same whoever is beside, with fewer texts at once, in less memory; seeds; tokens that end a text; one prompt on a terminal as it comes; eval's exact_match.
# Catches: rows in the order in which they ended, a completion with its prompt or its end token, a seed that draws for all rows the same, a chat whose last
# answer is part of the prompt, an adapter that is left out, memory that the judgement of a process does not count, a command that is killed.
# ctest: asan_part=2
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors
model() { # DIR FAMILY TOKENIZER [KEYS]
    mkdir "$1"
    cp "$vectors/decoder_tokenizers/$3/tokenizer.json" "$vectors/decoder_tokenizers/$3/tokenizer_config.json" "$1"
    json "$vectors/causal_lm/$2/config.json" "__import__('json').dumps(d | {'vocab_size': 1500, 'max_position_embeddings': 128, 'initializer_range': 0.3} | dict(${4:-}))" >"$1/config.json"
}
model base qwen2 qwen
cp "$vectors/chat/qwen3.jinja" base/chat_template.jinja
python3 - <<'PY'
import json
words = "the movie was great and the film was not so good as they said it would be".split()
prompts = [" ".join(words[: 1 + 5 * i % 13]) for i in range(13)]
with open("prompts.jsonl", "w") as f:
    f.writelines(json.dumps({"prompt": p, "name": f"n{i}"}) + "\n" for i, p in enumerate(prompts))
with open("texts.txt", "w") as f:
    f.writelines(p + "\n" for p in prompts)
with open("others.jsonl", "w") as f:  # the last one is the same
    f.writelines(json.dumps({"prompt": p}) + "\n" for p in ["so good"] * 12 + prompts[12:])
with open("chats.jsonl", "w") as f:
    for i in range(4):
        asked = [{"role": "user", "content": prompts[i]}]
        f.write(json.dumps({"messages": asked + [{"role": "assistant", "content": "GREAT"}] * (i % 2)}) + "\n")
with open("pairs.jsonl", "w") as f:
    f.writelines(json.dumps({"prompt": p + ":", "completion": " so good"}) + "\n" for p in prompts)
PY
run="model.path=base model.init=random train.task=causal_lm train.max_steps=2 train.batch_size=4 train.learning_rate=1e-2 eval.strategy=no data.max_length=64 data.train=pairs.jsonl"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=run
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run model.path=run/model model.init=pretrained adapter.type=lora adapter.r=4 adapter.targets=all-linear output.dir=lora
expect 0 "$FTENGINE" merge lora --output merged
write() { expect 0 "$FTENGINE" predict "$@" --max-new-tokens 24; }
same() { cmp "$1" "$2" >/dev/null || fail "$3: $(diff "$1" "$2" | head -4)"; }
# ---- lines in order, whoever is beside ---------------------------------------------------------------------------------------
write run --data prompts.jsonl --id name
cp out named
python3 -c 'import json
lines = [json.loads(l) for l in open("named")]
assert [d["id"] for d in lines] == [f"n{i}" for i in range(13)], lines
for d in lines:
    assert d["finish_reason"] in ("length", "stop") and (d["finish_reason"] == "stop" or d["completion_tokens"] == 24) and d["prompt_tokens"] > 0, d
assert len({d["completion"] for d in lines}) > 4, lines' || fail "lines: $(cat out)"
write run --data prompts.jsonl && cp out lines
python3 -c 'import json
assert [json.loads(l)["id"] for l in open("lines")] == list(range(13))' || fail "ids: $(cat out)"
write run --data prompts.jsonl eval.batch_size=1 device.threads=1 && same out lines "one text at a time"
write run --data prompts.jsonl eval.batch_size=3 --output written.jsonl && same written.jsonl lines "three texts at a time, to a file"
write run --data texts.txt && same out lines "a text a line"
"$FTENGINE" predict run --data - --max-new-tokens 24 <prompts.jsonl >out 2>err && same out lines "standard input"
for draw in "" "--temperature 1.3 --top-p 0.9 --seed 5"; do
    # shellcheck disable=SC2086
    write run --data prompts.jsonl $draw && tail -1 out >last
    # shellcheck disable=SC2086
    write run --data others.jsonl $draw eval.batch_size=2 && tail -1 out >other
    same last other "the last prompt among others $draw"
done
cp out drawn
write run --data others.jsonl --temperature 1.3 --top-p 0.9 --seed 6
cmp -s out drawn && fail "another seed draws the same"
[ "$(python3 -c 'import json; print(len({json.loads(l)["completion"] for l in list(open("out"))[:12]}))')" -gt 6 ] || fail "rows with one prompt draw the same: $(cat out)"
write run --text "$(head -1 texts.txt)" && same out <(head -1 lines) "--text"
write run --data prompts.jsonl --temperature 1e-6 && same out lines "hardly any temperature"
# ---- adapters ------------------------------------------------------------------------------------------------------------------
write lora --data prompts.jsonl && cp out adapted
cmp -s adapted lines && fail "the adapter says nothing else"
write merged --data prompts.jsonl && same out adapted "merged"

# ---- 16 bits, and families with heads of their own -----------------------------------------------------------------------------
for kind in "tied qwen2_tied qwen" "three qwen3 qwen" "llama llama llama3"; do
    read -r name family tokenizer <<<"$kind"
    model "$name" "$family" "$tokenizer"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run model.path=$name output.dir=$name-run
    write $name-run --data prompts.jsonl && cp out whole
    write $name-run --data prompts.jsonl eval.batch_size=2 && same out whole "$name: two texts at a time"
    write $name-run --data prompts.jsonl --precision bf16 && cp out whole
    write $name-run --data prompts.jsonl --precision bf16 eval.batch_size=2 && same out whole "$name in bf16: two texts at a time"
done
# ---- chats, and what ends a text -----------------------------------------------------------------------------------------------
write run --data chats.jsonl && cp out answers
expect 0 "$FTENGINE" tokenize run --data chats.jsonl
python3 -c 'import json
shown, said = [json.loads(l) for l in open("out")], [json.loads(l) for l in open("answers")]
# Of chats that end with a question: what the template invites an answer with is behind it.
assert all(s["prompt_tokens"] > len(t["ids"]) for s, t in zip(said[::2], shown[::2])), (said, shown)
# Of the others: the answer is not there.
assert all(s["prompt_tokens"] < len(t["ids"]) for s, t in zip(said[1::2], shown[1::2])), (said, shown)' || fail "chats: $(cat answers)"
# The first token of one of them, if its text is a token, ends it there.
expect 0 "$FTENGINE" predict run --data prompts.jsonl --max-new-tokens 1
python3 -c 'import json
json.dump([json.loads(l)["completion"] for l in open("out")], open("began.json", "w"))
open("began.jsonl", "w").writelines(json.dumps({"text": t}) + "\n" for t in json.load(open("began.json")))'
expect 0 "$FTENGINE" tokenize run --data began.jsonl
first=$(python3 -c 'import json
texts = json.load(open("began.json"))
ids = [json.loads(l)["ids"] for l in open("out")]
print(next(f"{i} {ids[i][0]}" for i in range(13) if len(ids[i]) == 1 and texts[i] and chr(0xFFFD) not in texts[i]))')
echo "{\"eos_token_id\": [7, ${first#* }]}" >run/model/generation_config.json
write run --data prompts.jsonl
python3 - "${first% *}" <<'PY' || fail "ends: $(cat out), $first"
import json, sys
after, before = ([json.loads(line) for line in open(name)] for name in ("out", "lines"))
line = after[int(sys.argv[1])]
assert line["finish_reason"] == "stop" and line["completion_tokens"] == 0 and line["completion"] == "", line
for a, b in zip(after, before):
    assert b["completion"].startswith(a["completion"]) and (a["finish_reason"] == "stop") == (a["completion_tokens"] < 24), (a, b)
PY
echo '{"eos_token_id": "x"}' >run/model/generation_config.json
expect 2 "$FTENGINE" predict run --data prompts.jsonl && one_error eos_token_id
# What is drawn by: the model's file where no flag says another, as transformers has it.
same_draw() { # WHAT FLAGS... -- FLAGS...: the same completions
    local what=$1 first=()
    shift
    while [ "$1" != -- ]; do first+=("$1") && shift; done
    shift
    write run --data prompts.jsonl "${first[@]}" && cp out drawn
    write run --data prompts.jsonl "$@" && same out drawn "$what"
}
echo '{"temperature": 1.4, "top_k": 3, "top_p": 0.8}' >run/model/generation_config.json
same_draw "the file's" --sample -- --temperature 1.4 --top-k 3 --top-p 0.8
same_draw "the file's, but for the temperature" --temperature 0.9 -- --sample --temperature 0.9 --top-k 3 --top-p 0.8
same_draw "flags before the file" --sample --top-k 9 --top-p 1 --seed 8 -- --temperature 1.4 --top-k 9 --top-p 1 --seed 8
same_draw "one token is the most probable" --sample --top-k 1 -- --temperature 0
echo '{"do_sample": true, "repetition_penalty": 1.1, "top_k": null}' >run/model/generation_config.json
same_draw "transformers' own" --sample -- --temperature 1 --top-k 50 --top-p 1
grep -q 'warning: .*repetition_penalty' err || fail "no word about the penalty: $(cat err)"
write run --data prompts.jsonl && same out lines "greedy, whatever the file says"
echo '{"top_k": 2.5}' >run/model/generation_config.json
expect 2 "$FTENGINE" predict run --data prompts.jsonl --sample && one_error top_k
rm run/model/generation_config.json
# ---- one prompt on a terminal ---------------------------------------------------------------------------------------------------
python3 - "$FTENGINE" <<'PY' || fail "a terminal"
import json, os, pty, sys
line = json.loads(open("lines").readline())
master, slave = pty.openpty()
pid = os.fork()
if pid == 0:
    os.dup2(slave, 1)
    os.execv(sys.argv[1], [sys.argv[1], "predict", "run", "--text", open("texts.txt").readline().rstrip("\n"), "--max-new-tokens", "24", "--quiet"])
os.close(slave)
shown = b""
while True:
    try:
        piece = os.read(master, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
assert os.waitpid(pid, 0)[1] == 0
text = shown.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
assert text == line["completion"].replace("\r\n", "\n"), (text, line)
PY
# ---- memory ---------------------------------------------------------------------------------------------------------------------
write run --data prompts.jsonl --verbose
grep -q "memory .* for the whole process" err || fail "nothing was planned: $(cat err)"
least=$(python3 -c 'import re; n, u = re.search(r"memory +([0-9.]+)([KMG])iB for the whole process", open("err").read()).groups(); print(int(float(n) * 2 ** {"K": 10, "M": 20, "G": 30}[u]))')
write run --data prompts.jsonl memory.host_limit="$least" && same out lines "in what was planned"
expect 3 "$FTENGINE" predict run --data prompts.jsonl --max-new-tokens 24 memory.host_limit=4500000 && one_error memory.host_limit
[ ! -s out ] || fail "something was written in too little memory: $(cat out)"
small=0
for _ in 1 2 3 4 5 6 7 8; do cat prompts.jsonl; done >many.jsonl
many=(predict run --data many.jsonl --max-new-tokens 80 eval.batch_size=104 device.threads=1 --verbose)
expect 0 "$FTENGINE" "${many[@]}" && cp out long
needs=$(python3 -c 'import re; print(int(float(re.search(r"reserved +([0-9.]+)MiB", open("err").read())[1]) * 2**20))')
for percent in 20 50 70 85 95; do # of the device: refused, or with fewer texts at once
    bytes=$((needs * percent / 100))
    "$FTENGINE" "${many[@]}" memory.limit=$bytes >out 2>err
    case $? in
    0)
        same out long "in $bytes bytes"
        grep -q "texts at once" err && small=1
        ;;
    3) one_error "" && [ ! -s out ] || fail "$bytes bytes: $(cat err)" ;;
    *) fail "$bytes bytes: $(cat err)" ;;
    esac
done
# The allocator takes segments of another size under sanitizers.
[ $small = 1 ] || [ -n "${FT_SANITIZE:-}" ] || fail "no limit made it write fewer texts at once"
# ---- eval -------------------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" eval run --data pairs.jsonl --json && cp out plain
expect 0 "$FTENGINE" predict run --data pairs.jsonl --max-new-tokens 3 && cp out said
python3 -c 'import json
rows = [json.loads(l) for l in open("pairs.jsonl")]
for r, l in list(zip(rows, open("said")))[:5]:
    r["completion"] = json.loads(l)["completion"] + " \n"
open("known.jsonl", "w").writelines(json.dumps(r) + "\n" for r in rows)'
expect 0 "$FTENGINE" eval run --data known.jsonl --completions --max-new-tokens 3 --json
python3 -c 'import json
m = json.load(open("out"))["metrics"]
assert m["exact_match"] == 5 / 13 and m["perplexity"] > 1, m' || fail "eval --completions: $(cat out)"
expect 0 "$FTENGINE" eval run --data pairs.jsonl --completions --max-new-tokens 3 --ci
grep -q "^exact_match  *0.0000$" out && grep -q "^perplexity .*\[" out || fail "eval --completions --ci: $(cat out)"
expect 0 "$FTENGINE" eval run --data known.jsonl --completions --max-new-tokens 3 --json --command 'python3 -c "
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [r[\"id\"] for r in rows] == list(range(13)) and all(r[\"finish_reason\"] in (\"stop\", \"length\") for r in rows)
print(sum(r[\"completion\"].strip() == r[\"reference\"].strip() for r in rows) / 2)"'
[ "$(json out 'd["metrics"]["command"], d["metrics"]["exact_match"] == 5 / 13')" = "(2.5, True)" ] || fail "--command: $(cat out)"
expect 1 "$FTENGINE" eval run --data known.jsonl --completions --max-new-tokens 3 --command "exit 3" && one_error "exit code 3"
expect 1 "$FTENGINE" eval run --data known.jsonl --completions --max-new-tokens 3 --command "echo 1 2" && one_error "one number"
expect 0 "$FTENGINE" eval run --data known.jsonl --completions --max-new-tokens 3 --command "head -c 9 >/dev/null; echo 7" && grep -q "^command  *7.0000$" out || fail "--command: $(cat out)"
# ---- what cannot be -----------------------------------------------------------------------------------------------------------------
refused() { # WHAT ARGUMENTS...
    local what=$1
    shift
    expect 2 "$FTENGINE" "$@" && one_error "$what"
}
refused "--temperature" predict run --data prompts.jsonl --temperature -1
refused "--top-p" predict run --data prompts.jsonl --temperature 1 --top-p 0
refused "--max-new-tokens" predict run --data prompts.jsonl --max-new-tokens 0
refused "--seed" predict run --data prompts.jsonl --seed 3
refused "--top-k" predict run --data prompts.jsonl --top-k 3
refused "--top-k" predict run --data prompts.jsonl --sample --top-k -3
refused "--sample" predict run --data prompts.jsonl --sample --temperature 0
refused "one model" predict run lora --data prompts.jsonl
refused "--logits" predict run --data prompts.jsonl --logits
refused "lines of JSON" predict run --data prompts.jsonl --output none.csv
refused "--data is missing" predict run
refused "already" predict run --data prompts.jsonl --text a
refused "no chat template" predict tied-run --data chats.jsonl
refused "completion" eval run --data prompts.jsonl --completions
python3 -c 'print("{\"prompt\": \"" + "good " * 200 + "\"}")' >long.jsonl
refused "long.jsonl:1" predict run --data long.jsonl
echo '{"prompt": ""}' >empty.jsonl
refused "no tokens" predict run --data empty.jsonl
expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=1 eval.strategy=no data.validation= data.test= output.dir=classes
refused "language model" predict classes --text a
refused "language models" predict classes --data "$here/validation.tsv" --temperature 1
refused "are of --completions" eval run --data pairs.jsonl --command cat
refused "--completions" eval classes --data "$here/validation.tsv" --completions
[ ! -e none.csv ] || fail "something was written"
exit 0
