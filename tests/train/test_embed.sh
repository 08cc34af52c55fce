#!/usr/bin/env bash
# `ftengine embed`: vectors equal to sentence-transformers' (tests/vectors/sentences), the same in .npy and JSON lines, in the order of the
# texts, with the same bits for any batch, pieces of a file and threads; 16 bits near fp32; runs and adapters; nothing half-written; refusals.
# Catches: a pooling that counts special tokens or the prompt wrongly, modules in another order, a transposed dense layer, a length or a case
# that the files say and nobody follows, vectors in the order of batches, a header of .npy that numpy does not read, a file that is there after Ctrl-C.
# ctest: cost=15
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
vectors=$SOURCE_DIR/tests/vectors/sentences
cat >near.py <<'E2'
import ast, json, math, struct, sys
def read(path):
    data = open(path, "rb").read()
    if path.endswith(".jsonl"):
        return [[struct.unpack("f", struct.pack("f", x))[0] for x in json.loads(line)["embedding"]] for line in data.decode().splitlines()]
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n", length
    head = ast.literal_eval(data[10:10 + length].decode())
    assert head["descr"] == "<f4" and head["fortran_order"] is False, head
    rows, width = head["shape"]
    assert len(data) == 10 + length + 4 * rows * width, (len(data), head)
    all = struct.unpack(f"<{rows * width}f", data[10 + length:])
    return [all[i * width:(i + 1) * width] for i in range(rows)]
got, want, tolerance = read(sys.argv[1]), read(sys.argv[2]), float(sys.argv[3])
assert [len(row) for row in got] == [len(row) for row in want], (len(got), len(want))
far = max(abs(a - b) for x, y in zip(got, want) for a, b in zip(x, y))
assert far <= tolerance * max(1, max(abs(b) for y in want for b in y)), far
E2
near() { python3 -S near.py "$@" || fail "vectors are not near: $*"; }

cases=0
while read -r name model inside prompt; do
    mkdir -p "$name" && cp -r "$vectors/$name/." "$name" && mkdir -p "$name/$inside"
    cp "$SOURCE_DIR/tests/vectors/$model/config.json" "$SOURCE_DIR/tests/vectors/$model/model.safetensors" "$vectors/vocab.txt" "$name/$inside"
    echo '{"tokenizer_class": "BertTokenizer", "do_lower_case": false, "model_max_length": 30}' >"$name/$inside/tokenizer_config.json"
    options=()
    [ "$prompt" = - ] || options=(--prompt-name "$prompt")
    expect 0 "$FTENGINE" embed "$name" --data "$vectors/texts.txt" --format text "${options[@]}" --output "$name.npy" device.threads=1
    near "$name.npy" "$name/expect.npy" 1e-5
    expect 0 "$FTENGINE" embed "$name" --data "$vectors/texts.txt" --format text "${options[@]}" --output "$name.jsonl" eval.batch_size=1
    near "$name.jsonl" "$name.npy" 0
    for precision in bf16 fp16; do
        expect 0 "$FTENGINE" embed "$name" --data "$vectors/texts.txt" --format text "${options[@]}" --output half.npy --precision $precision
        near half.npy "$name/expect.npy" 0.1
    done
    cases=$((cases + 1))
done <"$vectors/cases.txt"
[ $cases -ge 7 ] || fail "only $cases cases"
# The prompt as text, and none: another vector, and that of a text that has it in front.
expect 0 "$FTENGINE" embed sqrt_relu --data "$vectors/texts.txt" --format text --prompt 'w5 w6 w7 ' --output prompt.npy
cmp prompt.npy sqrt_relu.npy || fail "--prompt and --prompt-name differ"
expect 0 "$FTENGINE" embed sqrt_relu --data "$vectors/texts.txt" --format text --output none.npy --json
[ "$(json out 'd["output"], d["texts"], d["width"] > 1')" = "('none.npy', $(wc -l <"$vectors/texts.txt"), True)" ] || fail "the document: $(cat out)"
cmp -s none.npy sqrt_relu.npy && fail "a prompt made no difference"
sed 's/^/w5 w6 w7 /' "$vectors/texts.txt" >front.txt
expect 0 "$FTENGINE" embed sqrt_relu --data front.txt --format text --output front.npy
cmp front.npy sqrt_relu.npy || fail "a prompt is not the same as its text in front"

# Many texts of all lengths: every batch, number of threads and kind of file gives the same bits; ids are copied.
python3 -S - <<'E2'
import random
random.seed(4)
rows = [" ".join(f"w{random.randrange(92)}" for _ in range(random.choice((1, 2, 3, 7, 12, 29)))) for _ in range(1500)]
open("many.txt", "w").write("\n".join(rows) + "\n")
open("many.csv", "w").write("name,text\n" + "".join(f"n{i},{t}\n" for i, t in enumerate(rows)))
E2
for model in mean_unit side_by_side; do
    expect 0 "$FTENGINE" embed $model --data many.txt --output many.npy
    expect 0 "$FTENGINE" embed $model --data many.txt --output one.npy eval.batch_size=1 device.threads=1
    cmp many.npy one.npy || fail "$model: a batch of one text gives other bits"
done
expect 0 "$FTENGINE" embed mean_unit --data many.txt --output many.npy
"$FTENGINE" embed mean_unit --data - --format text --output pipe.npy <many.txt 2>err || fail "a pipe"
cmp many.npy pipe.npy || fail "a pipe gives other vectors"
expect 0 "$FTENGINE" embed mean_unit --data many.csv --id name
mv out many.jsonl
near many.jsonl many.npy 0
[ "$(tail -1 many.jsonl | json /dev/stdin 'd["id"]')" = n1499 ] || fail "ids are not copied"

# A run, and a run with an adapter beside its model: no files say how, the command line does.
expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=2 output.dir=run
expect 2 "$FTENGINE" embed run --data "$vectors/texts.txt" --format text
one_error "there is no modules.json"
says "--pooling mean"
expect 0 "$FTENGINE" embed run --data "$vectors/texts.txt" --format text --pooling mean --normalize --output run.npy
expect 0 "$FTENGINE" embed run/model --data "$vectors/texts.txt" --format text --pooling 'mean, max' --output two.npy
expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=2 adapter.type=lora adapter.r=4 train.learning_rate=0.1 output.dir=lora
expect 0 "$FTENGINE" embed lora --data "$vectors/texts.txt" --format text --pooling mean --output lora.npy
expect 0 "$FTENGINE" merge lora --output merged
expect 0 "$FTENGINE" embed merged --data "$vectors/texts.txt" --format text --pooling mean --output merged.npy
near lora.npy merged.npy 1e-5

# What is refused, each in one line with its place; nothing is written.
refused() { # TEXT WORDS...
    local text=$1
    shift
    expect 2 "$FTENGINE" embed "$@" --output refused.npy
    one_error "$text"
    [ ! -e refused.npy ] || fail "a refusal left a file"
}
broken() { # NAME FILE PYTHON: mean_unit with FILE changed
    rm -rf broken && cp -r "${4:-mean_unit}" broken
    python3 -S -c "import json; d = json.load(open('broken/$2')); $3; json.dump(d, open('broken/$2', 'w'))" || fail "$1"
}
refused "unknown pooling middle" mean_unit --data many.txt --pooling middle
refused "unknown pooling" mean_unit --data many.txt --pooling mean,
refused "the model has no prompt other" sqrt_relu --data many.txt --prompt-name other
refused "--prompt says already" sqrt_relu --data many.txt --prompt-name query --prompt x
refused "leave nothing of a text" cls_prompt --data many.txt data.max_length=4
refused "data.truncation" mean_unit --data many.txt data.truncation=windows
refused "absent.txt" mean_unit --data absent.txt
refused "no such run or model" absent --data many.txt
refused "is not supported there" "$(broken 1 modules.json 'd[1]["type"] = "sentence_transformers.models.LSTM"'; echo broken)" --data many.txt
refused "there is no Pooling" "$(broken 2 modules.json 'del d[1:]'; echo broken)" --data many.txt
refused "modules.json" "$(broken 3 modules.json 'd = {}'; echo broken)" --data many.txt
refused "unknown pooling sum" "$(broken 4 1_Pooling/config.json 'd["pooling_mode"] = "sum"'; echo broken)" --data many.txt
refused "1_Pooling/config.json" "$(broken 5 modules.json 'd[1]["path"] = "9_Pooling/../1_Pooling/config.json"'; echo broken)" --data many.txt
refused "rows of 5 numbers" "$(broken 6 1_Pooling/config.json 'd["word_embedding_dimension"] = 5'; echo broken)" --data many.txt
refused "max_seq_length" "$(broken 7 sentence_bert_config.json 'd["max_seq_length"] = "long"'; echo broken)" --data many.txt
refused "activation_function" "$(broken 8 2_Dense/config.json 'd["activation_function"] = "mine.Cube"' cls_dense; echo broken)" --data many.txt
refused "residual" "$(broken 9 2_Dense/config.json 'd["use_residual"] = True' cls_dense; echo broken)" --data many.txt
refused "in_features is 7" "$(broken 10 2_Dense/config.json 'd["in_features"] = 7' cls_dense; echo broken)" --data many.txt
refused "its shape is not that of config.json" "$(broken 11 2_Dense/config.json 'd["out_features"] = 23' cls_dense; echo broken)" --data many.txt
refused "is none of the prompts" "$(broken 12 config_sentence_transformers.json 'd["default_prompt_name"] = "no"' cls_prompt; echo broken)" --data many.txt
refused "a text is expected" "$(broken 13 config_sentence_transformers.json 'd["prompts"] = {"a": 1}' cls_prompt; echo broken)" --data many.txt
expect 2 "$FTENGINE" embed mean_unit --data many.txt --output many.bin
one_error "the name says what is written"
expect 2 "$FTENGINE" embed mean_unit --output a.npy
one_error "--data is missing"
cp many.txt same.jsonl
expect 2 "$FTENGINE" embed mean_unit --data same.jsonl --format text --output same.jsonl
one_error "vectors would take their place"
cmp -s many.txt same.jsonl || fail "the texts are gone"

# Ctrl-C: nothing new is there, neither the file nor a temporary beside it; what stood there stays.
mkdir stop && echo old >stop/v.npy
mkfifo texts
"$FTENGINE" embed mean_unit --data - --format text --output stop/v.npy <texts 2>err &
pid=$!
exec 3>texts
cat many.txt >&3
for _ in $(seq 1200); do # until it has begun
    [ "$(find stop -name '.*' -type f | wc -l)" = 1 ] && break
    sleep 0.1
done
kill -INT $pid
(while kill -0 $pid 2>/dev/null; do cat many.txt; sleep 0.1; done) >&3 2>/dev/null
exec 3>&-
wait $pid
[ $? = 130 ] || fail "Ctrl-C ends with another exit code"
[ "$(cat stop/v.npy)" = old ] || fail "Ctrl-C left another file"
[ "$(find stop -type f | wc -l)" = 1 ] || fail "Ctrl-C left something: $(ls -A stop)"
