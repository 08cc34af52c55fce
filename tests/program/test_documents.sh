#!/usr/bin/env bash
# What the commands print with --json is what docs/reference/documents.json says: every command, every task, seeds and folds, a run that fails, one on two
# ranks. A member that the schema does not have fails, as one that it has and that is not there. `track`, `pull` and `tune-gemm` need others; theirs are
# checked where those are (track/, hub/, emulator/). Catches: a member without a word in the documentation, a number that is written as text, NaN.
# What only a GPU, NCCL or a server makes a command print is read in the sources: every name that they put into a document is in the schema.
# ctest: sanitize=leave cost=20
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
mkdir documents
count=0
# document NAME COMMAND...: it does its work and prints a document of that definition. CODE=3: with another exit code
document() {
    local name=$1
    shift
    expect "${CODE:-0}" "$FTENGINE" "$@"
    count=$((count + 1))
    cp out "documents/$name.$count"
}

# ---- data and models ----------------------------------------------------------------------------------------------------------
python3 -S - "$here" <<'PYTHON'
import json, os, sys
rows = [line.rstrip("\n").split("\t") for line in open(f"{sys.argv[1]}/train.tsv", encoding="utf-8")][1:41]
def table(path, header, lines): open(path, "w", encoding="utf-8").write("\t".join(header) + "\n" + "".join("\t".join(map(str, line)) + "\n" for line in lines))
table("few.tsv", ("text", "label"), rows)
table("tags.tsv", ("text", "label"), [(text, "loud, wrong" if i % 3 == 0 else "rude" if i % 2 else "") for i, (text, _) in enumerate(rows)])
table("numbers.tsv", ("text", "stars"), [(text, f"{i % 5}.5") for i, (text, _) in enumerate(rows)])
table("ranks.tsv", ("query", "passage", "relevance"), [(rows[i // 4][0], text, i % 2) for i, (text, _) in enumerate(rows)])
with open("words.jsonl", "w") as words, open("questions.jsonl", "w") as questions, open("prompts.jsonl", "w") as prompts:
    for i in range(20):
        print(json.dumps({"tokens": ["Ada", "left", "New", "York", "."], "ner_tags": ["B-PER", "O", "B-LOC", "I-LOC", "O"]}), file=words)
        print(json.dumps({"id": f"q{i}", "question": "Who left?", "context": "Ada left New York.", "answers": {"text": ["Ada"] * (i % 3 > 0), "answer_start": [0] * (i % 3 > 0)}}), file=questions)
    for text, _ in rows[:20]: print(json.dumps({"prompt": text[:20], "completion": text[20:] + "."}), file=prompts)
os.mkdir("decoder")
vectors = f"{os.environ['SOURCE_DIR']}/tests/vectors"
for name in ("tokenizer.json", "tokenizer_config.json"): open(f"decoder/{name}", "w").write(open(f"{vectors}/decoder_tokenizers/qwen/{name}").read())
json.dump(json.load(open(f"{vectors}/causal_lm/qwen2/config.json")) | {"vocab_size": 1500, "max_position_embeddings": 128}, open("decoder/config.json", "w"))
PYTHON
base="$here/follow.ini train.max_steps=4 train.warmup_steps=1 data.train=few.tsv data.validation=few.tsv data.cache_dir=none device.threads=1 model.ignore_mismatched_sizes=true
      eval.strategy=steps eval.steps=2"
# shellcheck disable=SC2206 # words
base=($base)

# ---- runs ---------------------------------------------------------------------------------------------------------------------
document train train "${base[@]}" output.dir=run data.test=few.tsv --json
document train train "${base[@]}" output.dir=seeds train.seeds=1,2 --json
document train train "${base[@]}" output.dir=folds data.validation= data.folds=2 --json
document train train "${base[@]}" output.dir=ranks --devices cpu,cpu --json
document train train "${base[@]}" output.dir=early train.max_steps=1000000 --deadline 0.01s --json
document train train "${base[@]}" output.dir=probe train.parameters=classifier "data.feature_cache=$scratch/features" --json
document train train "${base[@]}" output.dir=adapter adapter.type=lora adapter.r=2 --json
document train train "${base[@]}" output.dir=half train.precision=fp16 memory.offload=optimizer --json
CODE=5 document train train "${base[@]}" output.dir=diverged train.learning_rate=100 train.weight_decay=1 train.max_steps=60 train.lr_scheduler=constant_with_warmup --json
document train train "${base[@]}" output.dir=tags data.train=tags.tsv data.validation=tags.tsv train.task=multi_label --json
document train train "${base[@]}" output.dir=numbers data.train=numbers.tsv data.validation=numbers.tsv train.task=regression data.label_column=stars --json
document train train "${base[@]}" output.dir=ranking data.train=ranks.tsv data.validation=ranks.tsv train.task=ranking data.text_column=query data.text_pair=passage data.label_column=relevance --json
document train train "${base[@]}" output.dir=words data.train=words.jsonl data.validation=words.jsonl --json
document train train "${base[@]}" output.dir=questions data.train=questions.jsonl data.validation=questions.jsonl --json
document train train "${base[@]}" output.dir=language model.path=decoder model.init=random data.train=prompts.jsonl data.validation=prompts.jsonl data.max_length=64 train.task=causal_lm eval.metric=perplexity --json
document train train "${base[@]}" output.dir=seeds output.exists=resume train.seeds=1,2 --json

document eval eval run --data few.tsv --ci --json
document eval eval tags --data tags.tsv --json
document eval eval numbers --data numbers.tsv --json
document eval eval ranking --data ranks.tsv --json
document eval eval words --data words.jsonl --json
document eval eval questions --data questions.jsonl --json
document eval eval language --data prompts.jsonl --completions --max-new-tokens 2 --command 'echo 1' --json

document predict predict run --data few.tsv --logits --id label --json
document predict predict seeds --data few.tsv --json
document predict predict tags --data tags.tsv --json
document predict predict numbers --data numbers.tsv --json
document predict predict ranking --data ranks.tsv --json
document predict predict words --data words.jsonl --json
document predict predict questions --data questions.jsonl --json
document predict predict language --text "the" --max-new-tokens 2 --json
document embed embed run --data few.tsv --pooling mean --output vectors.npy --json
document embed_line embed run --data few.tsv --pooling mean
document tokenize tokenize run --data few.tsv --json
document tokenize tokenize language --data prompts.jsonl --json
document tokenize tokenize ranking --data ranks.tsv data.text_column=query data.text_pair=passage --json
document compare compare run seeds probe --all --json
document report report run --json
document merge merge adapter --output merged --json

# ---- before a run ---------------------------------------------------------------------------------------------------------------
document plan plan "${base[@]}" --json
CODE=3 document plan plan "${base[@]}" memory.limit=100KiB --json
document plan plan "${base[@]}" train.parameters=classifier "data.feature_cache=$scratch/features" --json
document plan plan "${base[@]}" memory.limit=1GiB train.micro_batch=auto train.gradient_checkpointing=auto --json
document plan plan "${base[@]}" 'space.train.batch_size=choice(4, 8)' 'space.train.learning_rate=float(1e-4, 1e-2, log)' --json
document plan plan model.path=bert-base-uncased --gpu 4090 --devices 2 --json
document plan_table plan model.path=bert-base-uncased --gpu 4090 --table --json
document plan_sweep plan "${base[@]}" --sweep train.batch_size=4,8 --sweep train.precision=fp32,bf16 --json
document quote quote "${base[@]}" --seconds 0.1 --json
document quote quote "${base[@]}" 'space.train.batch_size=choice(4, 8)' --seconds 0.1 --draws 2 --json
document devices devices --json
document devices_pick devices --pick --json

# ---- studies --------------------------------------------------------------------------------------------------------------------
document study_show tune "${base[@]}" train.max_steps=2 'space.train.learning_rate=float(1e-4, 1e-2, log)' --study search --trials 2 --parallel 1 --json
document study_show study show search --json
document study_trials study trials search --json
document study_trials study best search --json
document study_enqueue study enqueue search train.learning_rate=0.001 --json
document study_enqueue study enqueue search train.learning_rate=0.001 --skip-if-exists --json
document study_ask study ask search --json
document study_tell study tell search 2 0.5 --step 1 --json
document study_tell study tell search 2 0.5 --json
document study_export study export search --output search.jsonl --json
document study_report study report search --output search.html --json
document study_create study import search.jsonl --study twin --json
document study_create study create --study other --direction minimize --json
document study_list study list --json
document study_delete study delete other --yes --json

# ---- words ----------------------------------------------------------------------------------------------------------------------
document config config --json
document config_values config "${base[@]}" --json
document help help --json
for shell in bash zsh fish; do
    document completion completion $shell --json
    [ "$("$FTENGINE" completion $shell)" = "$(json out 'd["script"].rstrip("\n")')" ] || fail "completion $shell: another script"
done

python3 -S "$SOURCE_DIR/tests/fixtures/documents.py" documents >said || fail "$(cat said)"
# Every definition of a document is among them or checked elsewhere, and docs/reference/documents.md has each, with its command.
python3 -S - said <<'PYTHON' || fail "docs/reference/documents.md and what was checked"
import json, os, re, sys
root = os.environ["SOURCE_DIR"]
defs = json.load(open(f"{root}/docs/reference/documents.json"))["$defs"]
page = open(f"{root}/docs/reference/documents.md", encoding="utf-8").read()
listed = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", page, re.M))
elsewhere = {"track", "pull", "tune_gemm", "devices_watch", "study_thaw", "model_info"}
checked = set(open(sys.argv[1]).read().split())
assert set(listed) == checked | elsewhere, set(listed) ^ (checked | elsewhere)
assert set(listed) <= set(defs), set(listed) - set(defs)
refs = set(re.findall(r'"#/\$defs/([a-z_]+)"', json.dumps(defs)))
assert set(defs) == set(listed) | refs, set(defs) ^ (set(listed) | refs)
commands = {c["name"] for c in json.load(open(sorted(os.path.join("documents", f) for f in os.listdir("documents") if f.startswith("help."))[0]))["commands"]}
assert not [c for c in commands if not any(f"ftengine {c}" in text for text in listed.values())], [c for c in commands if not any(f"ftengine {c}" in text for text in listed.values())]
PYTHON

# Names in the sources of what prints documents. Not seen: one that the schema has elsewhere.
python3 -S - <<'PYTHON' || fail "a name in the sources that docs/reference/documents.json does not know"
import json, os, re
from pathlib import Path
root = Path(os.environ["SOURCE_DIR"])
known = {"earlier", "reference", "run_metrics"}  # of checkpoints, of completions.jsonl, of metrics.jsonl
def learn(schema):
    if isinstance(schema, list): return [learn(one) for one in schema]
    if not isinstance(schema, dict): return
    known.update(schema.get("properties", ()), (one for one in schema.get("enum", ()) if isinstance(one, str)))
    if "additionalProperties" in schema: known.update(re.findall(r"\w+", schema.get("description", "")))  # where these are named
    for one in schema.values(): learn(one)
learn(json.loads((root / "docs/reference/documents.json").read_text(encoding="utf-8")))
printers = [path for pattern in ("engine/commands/**/*.c", "engine/plan/*.c", "hpo/commands/*.c", "library/*.c") for path in sorted(root.glob(pattern))]
printers += [root / path for path in ("engine/train/run_json.c", "engine/train/repeat/files.c", "engine/train/device_history.c", "engine/train/job/data_report.c",
                                      "engine/memory/json.c", "engine/config/reference_json.c", "hpo/exchange/json.c")]
strings, found, unknown = r'"(?:[^"\\]|\\.)*"', 0, []
for path in printers:
    if path.name.startswith("worker"): continue  # lines between a worker and its ranks
    text = path.read_text(encoding="utf-8")
    names = re.findall(r'(?:ft_json_put|json_object_set\w*)\(\s*[^,"]+,\s*"(\w+)"', text)
    for call in re.finditer(r"json_pack\(\s*((?:%s\s*)+)," % strings, text):
        depth, at = 1, call.end()
        while depth > 0:  # to the end of the call
            quoted = re.compile(strings).match(text, at)
            if quoted:
                names += re.findall(r'^"([a-z]\w*)"$', quoted[0])
                at = quoted.end()
            else:
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
    found += len(names)
    unknown += [f"{path.relative_to(root)}: {name}" for name in names if name not in known]
assert found > 300, found
assert not unknown, unknown
PYTHON
