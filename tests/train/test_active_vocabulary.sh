#!/usr/bin/env bash
# memory.active_vocabulary with pretrained models: every form of their files, seeds, folds, runs that are killed and resumed,
# files that change - and always the bits of a run that has the whole table on the device.
# ctest: part=3 asan_part=2 cost=994
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
head -40 "$here/train.tsv" >few.tsv # evaluations read rows that training does not
run="$here/follow.ini data.train=$scratch/few.tsv data.validation=$here/validation.tsv data.test=$here/train.tsv eval.strategy=steps
     eval.steps=20 train.max_steps=60 train.weight_decay=0.1 train.max_grad_norm=0.5 train.layer_lr_decay=0.9
     train.gradient_accumulation_steps=2 model.hidden_dropout=0.1 output.save_steps=10"
[ -z "${FT_SANITIZE:-}" ] || run="$run train.max_steps=20 eval.steps=10"
without_rates() { sed 's/,"tokens_per_second":[^,}]*//' "$1"; }
# train DIR [OPTION...]
train() {
    local dir=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir="$dir" "$@"
}
some() { train "$@" && { says "rows of the word table are trained" || fail "$1: all rows are on the device"; }; }
all() { train "$@" memory.active_vocabulary=off; }
same() {
    cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "$1 and $2: other weights"
    cmp <(without_rates "$1/metrics.jsonl") <(without_rates "$2/metrics.jsonl") || fail "$1 and $2: other metrics.jsonl"
    cmp "$1/predictions.jsonl" "$2/predictions.jsonl" || fail "$1 and $2: other predictions"
}

# ---- the same bits -------------------------------------------------------------------------------------------------------
some whole
all ordinary
same whole ordinary
[ "$(json whole/run.json 'all(d["memory"][k] == d["planned"][k] for k in d["planned"] if k != "outside_allocator_bytes")')" = True ] || fail "planned and metered differ"
[ "$(json whole/run.json 'd["memory"]["peak_allocated_bytes"]')" -lt "$(json ordinary/run.json 'd["memory"]["peak_allocated_bytes"]')" ] ||
    fail "nothing was saved"
# The saved table is the whole one: other texts get what they get from the ordinary run.
expect 0 "$FTENGINE" predict whole --data "$here/train.tsv" --json --logits
cp out of_some
expect 0 "$FTENGINE" predict ordinary --data "$here/train.tsv" --json --logits
cmp out of_some || fail "new texts get other logits"
# A small micro-batch and one thread change nothing.
some cut train.micro_batch=3 device.threads=1
same cut ordinary
# Frozen embeddings stay as the file has them.
some frozen model.freeze=embeddings
all frozen-ordinary model.freeze=embeddings
same frozen frozen-ordinary

# ---- forms of files ------------------------------------------------------------------------------------------------------
python3 - "$here/model" <<'PYTHON' || fail "could not write the shards"
import json, os, shutil, struct, sys
source = sys.argv[1]
data = open(source + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
os.mkdir("shards")
for name in os.listdir(source):
    if name != "model.safetensors": shutil.copy(source + "/" + name, "shards")
names = [n for n in header if n != "__metadata__"]
where = {}
for part in range(3):
    file, at, body, head = f"model-{part}.safetensors", 0, b"", {}
    for name in names[part::3]:
        begin, end = header[name]["data_offsets"]
        head[name] = {**header[name], "data_offsets": [at, at + end - begin]}
        at += end - begin
        body += data[8 + size + begin:8 + size + end]
        where[name] = file
    text = json.dumps(head).encode()
    open("shards/" + file, "wb").write(struct.pack("<Q", len(text)) + text + body)
json.dump({"weight_map": where}, open("shards/model.safetensors.index.json", "w"))
PYTHON
some sharded model.path=shards
same sharded ordinary
some drawn model.init=random
all drawn-ordinary model.init=random
same drawn drawn-ordinary

# ---- seeds and folds -----------------------------------------------------------------------------------------------------
run_of_folds="data.train=$here/train.tsv data.validation= data.test= data.folds=2 train.seeds=1,2 train.max_steps=12 eval.steps=6"
# shellcheck disable=SC2086
train several $run_of_folds
# shellcheck disable=SC2086
train several-ordinary $run_of_folds memory.active_vocabulary=off
count=0
while IFS= read -r file; do
    cmp "$file" "several-ordinary/${file#several/}" || fail "$file: other weights"
    count=$((count + 1))
done < <(find several -name model.safetensors)
[ $count -ge 4 ] || fail "$count models of four runs"

# ---- killed and resumed --------------------------------------------------------------------------------------------------
# The seed is printed, so that a failure can be repeated.
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
long="train.max_steps=160 output.save_steps=5 eval.steps=40"
[ -z "${FT_SANITIZE:-}" ] || long="train.max_steps=60 output.save_steps=5 eval.steps=20"
# shellcheck disable=SC2086
all long $long
resumed=0
for attempt in $(seq 40); do
    # shellcheck disable=SC2086
    "$FTENGINE" train $run $long output.dir=killed output.exists=resume >out 2>err &
    pid=$!
    ms=$((RANDOM % (300 + 50 * attempt) + 20))
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    code=$?
    grep -q '^resumed ' err && resumed=$((resumed + 1))
    [ $code = 137 ] || break
done
echo "resumed $resumed times"
# shellcheck disable=SC2086
train killed $long output.exists=resume
same killed long
[ -z "$(find killed -name '*.ft-*')" ] || fail "temporaries are left: $(find killed -name '*.ft-*')"

# ---- what cannot be resumed ----------------------------------------------------------------------------------------------
# refused OPTION...: a resume of `begun` that changes nothing in it
refused() {
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $run output.dir=begun output.exists=resume "$@"
    diff -r before begun || fail "a refused resume changed the run directory"
}
cp -r "$here/model" source
some begun model.path=source
cp -r begun before
refused model.path=source memory.active_vocabulary=off
one_error "memory.active_vocabulary"
cp "$here/train.tsv" "$scratch/other.tsv"
refused model.path=source data.train=other.tsv
one_error "another train"
# One number of a row that no text reads: the checkpoint knows.
python3 - source/model.safetensors <<'PYTHON' || fail "could not change the weights"
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
words = next(t for n, t in json.loads(data[8:8 + size]).items() if n.endswith("word_embeddings.weight"))
at = 8 + size + words["data_offsets"][0] + 4 * words["shape"][1] * 0 # [PAD]
data[at:at + 4] = struct.pack("<f", struct.unpack("<f", data[at:at + 4])[0] + 1)
open(sys.argv[1], "wb").write(data)
PYTHON
refused model.path=source
one_error "word embeddings in model.path"
# A number that is not finite is found before the first step, also where no text reads it.
first_number() { # first_number VALUE: of the table in source/, in place
    python3 - source/model.safetensors "$1" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    words = next(t for n, t in json.loads(f.read(size)).items() if n.endswith("word_embeddings.weight"))
    f.seek(8 + size + words["data_offsets"][0])
    f.write(struct.pack("<f", float(sys.argv[2])))
PYTHON
}
first_number nan
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=none model.path=source
one_error "not finite at element 0"

# ---- a file that goes away or changes while a run uses it --------------------------------------------------------------------
cp "$here/model/model.safetensors" source/model.safetensors
lasting=train.max_steps=3000 # long enough to be changed under
[ -z "${FT_SANITIZE:-}" ] || lasting=train.max_steps=500
for change in remove touch overwrite; do
    rm -rf "gone-$change"
    # shellcheck disable=SC2086
    "$FTENGINE" train $run model.path=source output.dir="gone-$change" $lasting eval.strategy=no data.test= data.validation= >out 2>err &
    pid=$!
    for _ in $(seq 12000); do [ -s "gone-$change/metrics.jsonl" ] && break; sleep 0.01; done
    case $change in
    remove) rm source/model.safetensors ;;
    touch) touch source/model.safetensors ;;
    overwrite) first_number 0.5 ;;
    esac
    wait $pid
    code=$?
    cp "$here/model/model.safetensors" source/model.safetensors
    if [ $change != overwrite ]; then
        [ $code = 0 ] || fail "exit code $code after $change of the model's file: $(cat err)"
    else
        [ $code = 1 ] || fail "exit code $code after the model's file was written over"
        one_error "written over while a run used it"
    fi
done

# ---- where it does not apply, and what a plan says ---------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run
grep -q '^vocabulary .* of 264 rows of the word table are trained, .* more are read: .* less (memory.active_vocabulary)$' out || fail "plan: $(cat out)"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run --json
python3 - <<'PYTHON' || fail "plan --json: $(cat out)"
import json
rows = json.load(open("out"))["active_vocabulary"]
assert rows["rows"] == 264 > rows["held_rows"] > rows["trained_rows"] > 0 and rows["saved_bytes"] > 0, rows
PYTHON
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run data.train= data.validation= data.test= --json
[ "$(json out 'd["active_vocabulary"]["saved_bytes"]')" = 0 ] || fail "a plan without texts cannot know the rows"
exit 0
