#!/usr/bin/env bash
# `ftengine plan` from outside: documents add up, the exit code is the verdict, a table falls with length, every sweep has
# its rows, wrong words are named, and the figures are those that a real run measures.
# ctest: asan_part=3 cost=998
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
base=(plan model.path=bert-base-uncased)
# holds FILE EXPRESSION: the expression over the document d is true
holds() { [ "$(json "$1" "$2")" = True ] || fail "not so in $1: $2"; }
field() { awk -F, -v want="$1,$2" '$1 "," $2 == want { print $3 }' out; } # of a plan as CSV

# ---- no file needed, none written -----------------------------------------------------------------------------------------
mkdir bare && cd bare || exit 1
HOME=$PWD/nowhere expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --json train.batch_size=16 data.max_length=128
mv out ../base.json && rm err
[ -z "$(ls -A)" ] || fail "a plan left files behind: $(ls -A)"
cd .. || exit 1
holds base.json 'd["format_version"] == 1 and d["fits"] and d["budget_bytes"] == 24 * 2**30'
holds base.json 'd["model"]["parameters"] == d["model"]["trained"] == d["model"]["trained_parameters"] == 109482240 + 2 * 768 + 2'
holds base.json 'd["resolved"]["micro_batch_tokens"] == 16 * 128 and d["resolved"]["micro_batch"] == 16'
holds base.json 'sum(d["memory"]["at_peak"].values()) == d["memory"]["peak_allocated_bytes"]'
holds base.json 'd["memory"]["peak_requested_bytes"] <= d["memory"]["peak_allocated_bytes"] <= d["memory"]["peak_reserved_bytes"] <= d["budget_bytes"]'
holds base.json 'max(d["memory"]["phases"].values()) == d["memory"]["peak_allocated_bytes"]'
holds base.json 'd["memory"]["at_peak"]["weights"] >= 4 * d["model"]["parameters"]'
holds base.json '[s["bytes"] for s in d["sites"]] == sorted((s["bytes"] for s in d["sites"]), reverse=True)'
holds base.json '0 < sum(s["bytes"] for s in d["sites"]) <= d["memory"]["peak_allocated_bytes"]'
# The same figures as CSV and for people.
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --csv train.batch_size=16 data.max_length=128
[ "$(field peak reserved)" = "$(json base.json 'd["memory"]["peak_reserved_bytes"]')" ] || fail "CSV and JSON disagree: $(cat out)"
[ "$(field at_peak activations)" = "$(json base.json 'd["memory"]["at_peak"]["activations"]')" ] || fail "CSV and JSON disagree: $(cat out)"
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB train.batch_size=16 data.max_length=128
head -1 out | grep -q '^fits: .*GiB of 24.00GiB, [0-9]*% left$' || fail "the verdict is not the first line: $(head -1 out)"
grep -q 'CPU back end' out || fail "it does not say whose scratch is planned"
grep -q '^model  *bert-base-uncased: 109.5M parameters' out || fail "the model is not named: $(cat out)"

# ---- what is left at auto is fitted ----------------------------------------------------------------------------------------
expect 0 "$FTENGINE" "${base[@]}" --memory 2500MiB --json
mv out fitted.json
holds fitted.json 'd["autofit"]["ideal"]["peak_reserved_bytes"] > d["budget_bytes"] >= d["memory"]["peak_reserved_bytes"]'
holds fitted.json 'd["autofit"]["choice"]["micro_batch_tokens"] >= d["resolved"]["micro_batch_tokens"] > 0 == d["resolved"]["gradient_checkpointing"]'
holds fitted.json 'd["autofit"]["next"]["gradient_checkpointing"] > 0 or d["autofit"]["next"]["recompute_layernorm"] != d["autofit"]["choice"]["recompute_layernorm"]'
holds fitted.json 'd["autofit"]["next"]["step_seconds"] > d["autofit"]["choice"]["step_seconds"]'
norms=memory.recompute_layernorm=$(json fitted.json 'str(d["autofit"]["choice"]["recompute_layernorm"]).lower()')
tokens=$(json fitted.json 'd["autofit"]["choice"]["micro_batch_tokens"]')
expect 0 "$FTENGINE" "${base[@]}" --memory 2500MiB "train.micro_batch_tokens=$tokens" train.gradient_checkpointing=off "$norms" --json
[ "$(json out 'd["memory"]')" = "$(json fitted.json 'd["memory"]')" ] || [ "$(json out 'd["memory"]["phases"]')" = "$(json fitted.json 'd["memory"]["phases"]')" ] ||
    fail "the choice asked for by name is another plan"
expect 3 "$FTENGINE" "${base[@]}" --memory 2500MiB "train.micro_batch_tokens=$((tokens + 16))" train.gradient_checkpointing=off "$norms"
expect 0 "$FTENGINE" "${base[@]}" --memory 2500MiB
grep -q '^autofit  *the whole batch at once, no recomputation would need ' out || fail "people are not told: $(cat out)"
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --json train.batch_size=16 data.max_length=128
holds out 'd["autofit"] is None and d["predicted_step_seconds"] > 0'

# ---- the verdict on what was asked for by name, and advice that holds ------------------------------------------------------
free=("${base[@]}")
base+=(train.micro_batch=8 train.gradient_checkpointing=off)
expect 3 "$FTENGINE" "${base[@]}" --memory 2500MiB --json
one_error "does not fit"
says "train.micro_batch="
cp out tight.json
holds tight.json 'not d["fits"] and d["memory"]["peak_reserved_bytes"] > d["budget_bytes"] == 2500 * 2**20'
best=$(json tight.json 'd["advice"]["micro_batch"]')
expect 0 "$FTENGINE" "${base[@]}" --memory 2500MiB "train.micro_batch=$best" train.gradient_checkpointing="$(json tight.json 'd["advice"]["gradient_checkpointing"]')"
expect 3 "$FTENGINE" "${base[@]}" --memory 2500MiB "train.micro_batch=$((best + 1))"
head -1 out | grep -q '^does not fit: ' || fail "the verdict is not the first line: $(head -1 out)"
# Only with recomputation.
expect 3 "$FTENGINE" "${base[@]}" --memory 1800MiB
says "train.gradient_checkpointing=on"
expect 3 "$FTENGINE" "${free[@]}" --memory 1GiB
says "not even one sequence"
# Where evaluation is what does not fit.
expect 3 "$FTENGINE" "${base[@]}" --memory 4GiB eval.batch_size=512
says "eval.batch_size=auto"
# The largest micro-batch is the largest.
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --json data.max_length=128
best=$(json out 'd["largest_micro_batch"]')
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --json data.max_length=128 "train.batch_size=$best" "train.micro_batch=$best"
expect 3 "$FTENGINE" "${base[@]}" --memory 24GiB --json data.max_length=128 "train.batch_size=$((best + 1))" "train.micro_batch=$((best + 1))"
# memory.limit is the same as --memory.
expect 3 "$FTENGINE" "${base[@]}" memory.limit=2500MiB

base=("${free[@]}")

# ---- cards -----------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" "${base[@]}" --gpu "NVIDIA GeForce RTX 4090" --json
holds out 'd["gpu"]["name"] == "RTX 4090" and d["gpu"]["total_is"] == "reported" and not d["calibrated"]'
holds out 'd["budget_bytes"] == d["gpu"]["total_bytes"] - d["gpu"]["outside_assumed_bytes"] and d["memory"]["outside_allocator_bytes"] == d["gpu"]["outside_assumed_bytes"]'
for name in 4090 rtx4090 rtx-4090 A100-SXM4-80GB a100-40 L4 H200 "A30"; do
        expect 0 "$FTENGINE" "${base[@]}" --gpu "$name"
done
grep -q nominally out || fail "a nominal size is not marked"
grep -q assumed out || fail "what lies outside the allocator is not marked as assumed"
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 memory.limit=50% --json
holds out 'd["budget_bytes"] * 2 <= d["gpu"]["total_bytes"]'
# It is a GPU that is planned, whatever this machine has: CUDA's scratch, a host beside it, graphs that are left their share.
holds out 'd["target"] == "cuda" and d["memory"]["host_pinned_bytes"] > 0 and "graphs_bytes" not in d'
without=$(json out 'd["memory"]["peak_reserved_bytes"]') budget=$(json out 'd["budget_bytes"]')
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 memory.limit=50% --json memory.offload=optimizer device.graphs=on
holds out 'd["resolved"]["offload"] == "optimizer" and d["memory"]["host_pinned_bytes"] > 8 * d["model"]["trained_parameters"] * 0.9'
holds out 'd["memory"]["peak_reserved_bytes"] < '"$without"
holds out 'd["graphs_bytes"] == 64 << 20 and d["budget_bytes"] == '"$budget" # there is room beside the limit
# Frozen layers on the host; where none is frozen it is refused.
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 --json adapter.type=lora
holds out 'd["resolved"]["offload"] == "none"'
lora=$(json out 'd["memory"]["peak_reserved_bytes"]') model=$(json out '4 * (d["model"]["parameters"] - d["model"]["trained_parameters"])')
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 --json adapter.type=lora memory.offload=trunk
holds out 'd["resolved"]["offload"] == "trunk" and 0.9 * '"$model"' < d["memory"]["host_pinned_bytes"] < 1.01 * '"$model"
holds out 'd["memory"]["peak_reserved_bytes"] < '"$lora - 0.7 * $model"
expect 2 "$FTENGINE" "${base[@]}" --gpu 4090 memory.offload=trunk && one_error "no layer of this run has frozen weights"
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 --json device.graphs=on
holds out 'd["budget_bytes"] == d["gpu"]["total_bytes"] - d["gpu"]["outside_assumed_bytes"] - d["graphs_bytes"]'
expect 0 "$FTENGINE" "${base[@]}" --gpu 4090 --json device.name=cpu
holds out 'd["target"] == "cpu" and d["memory"]["host_pinned_bytes"] == 0'
expect 2 "$FTENGINE" "${base[@]}" --gpu 4090 device.name=cpu memory.offload=optimizer && one_error "memory.offload"
expect 2 "$FTENGINE" "${base[@]}" device.name=cpu device.graphs=on && one_error "device.graphs" # as of a run
# Cards that the kernels do not run on: a verdict of its own, wherever there is one, however much memory there would be.
for name in t4 "V100 32GB" p100 "2080 ti"; do
    expect 4 "$FTENGINE" "${base[@]}" --gpu "$name" --json && one_error "not supported: the kernels need compute capability 8.0"
    holds out 'd["verdict"] == "not_supported" and not d["fits"] and "advice" not in d and "largest_micro_batch" not in d and d["memory"]["peak_reserved_bytes"] < d["budget_bytes"]'
done
expect 4 "$FTENGINE" "${base[@]}" --gpu t4
head -1 out | grep -q '^not supported: compute capability 7.5, and the kernels need 8.0' || fail "the verdict is not the first line: $(head -1 out)"
expect 4 "$FTENGINE" "${base[@]}" --gpu t4 --csv && grep -q '^budget,not supported,' out || fail "the verdict as CSV: $(cat out)"
expect 4 "$FTENGINE" "${base[@]}" --gpu t4 --table && [ ! -s out ] || fail "a table for a card that runs nothing: $(cat out)"
expect 4 "$FTENGINE" "${base[@]}" --gpu t4 --table --json
holds out 'd["verdict"] == "not_supported" and d["rows"] == []'
expect 4 "$FTENGINE" "${base[@]}" --gpu t4 --sweep train.batch_size=4,8 --json
holds out '[r["verdict"] for r in d["rows"]] == ["not_supported"] * 2'
expect 0 "$FTENGINE" "${base[@]}" --gpu t4 --sweep device.name=cuda,cpu --json # beside it there is a CPU
holds out '[r["verdict"] for r in d["rows"]] == ["not_supported", "fits"]'
expect 0 "$FTENGINE" "${base[@]}" --gpu t4 device.name=cpu
holds fitted.json 'd["verdict"] == "fits"'
holds tight.json 'd["verdict"] == "does_not_fit"'

# ---- a table ---------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" "${base[@]}" --memory 24GiB --table --json
cp out table.json
holds table.json 'len({r["length"] for r in d["rows"]}) == 8 and min(r["length"] for r in d["rows"]) == 32 and max(r["length"] for r in d["rows"]) == 512'
holds table.json 'all(a["micro_batch"] > b["micro_batch"] > 0 for a in d["rows"] for b in d["rows"]
    if a["length"] < b["length"] and a["precision"] == b["precision"] and a["gradient_checkpointing"] == b["gradient_checkpointing"])'
holds table.json 'all(a["micro_batch"] > b["micro_batch"] for a in d["rows"] for b in d["rows"]
    if a["length"] == b["length"] and a["precision"] == b["precision"] and a["gradient_checkpointing"] == "on" and b["gradient_checkpointing"] == "off")'
[ "$best" = "$(json table.json '[r["micro_batch"] for r in d["rows"] if r["length"] == 128 and r["precision"] == "fp32" and r["gradient_checkpointing"] == "off"][0]')" ] ||
    fail "the table has another micro-batch for 128 tokens than the plan: $best"
small=(plan model.path=distilbert-base-uncased --memory 24GiB --table) # the other forms of a table: with room, which is quicker
expect 0 "$FTENGINE" "${small[@]}" --json
mv out small.json
least=$(json small.json '[r["micro_batch"] for r in d["rows"] if r["length"] == 128 and r["precision"] == "fp32" and r["gradient_checkpointing"] == "off"][0]')
expect 0 "$FTENGINE" "${small[@]}" --csv
[ "$(wc -l <out)" = "$(($(json small.json 'len(d["rows"])') + 1))" ] || fail "CSV has another number of rows than JSON: $(cat out)"
grep -q "^128,fp32,off,$least$" out || fail "CSV has other cells than JSON: $(cat out)"
expect 0 "$FTENGINE" "${small[@]}"
[ "$(grep -Ec '^ +[0-9]+ +[0-9]+ +[0-9]+' out)" = 8 ] || fail "the table for people has not eight rows: $(cat out)"
expect 3 "$FTENGINE" "${base[@]}" --memory 1GiB --table
one_error "not even one sequence"
# A model that ends between two of the lengths.
expect 0 "$FTENGINE" plan "model.path=$here/model" --memory 24GiB --table --csv
[ "$(tail -1 out | cut -d, -f1)" = "$(json "$here/model/config.json" 'd["max_position_embeddings"]')" ] || fail "the model's own length is missing: $(cat out)"

# ---- sweeps ----------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2054
sweep=(train.micro_batch=16 --sweep train.batch_size=4,8,16 --sweep=train.gradient_checkpointing=off,on --memory 4GiB)
expect 0 "$FTENGINE" "${base[@]}" "${sweep[@]}" --json
holds out 'len(d["rows"]) == 6 and len({str(r["options"]) for r in d["rows"]}) == 6'
holds out '[r["options"]["train.batch_size"] for r in d["rows"]] == [4, 4, 8, 8, 16, 16]'
holds out 'all(r["fits"] == (r["peak_reserved_bytes"] <= 4 * 2**30) for r in d["rows"]) and {r["fits"] for r in d["rows"]} == {True, False}'
holds out 'all(r["predicted_step_seconds"] > 0 and r["autofit"] is None for r in d["rows"])' # nothing is at auto
expect 0 "$FTENGINE" "${base[@]}" train.batch_size=16 --sweep memory.limit=1GiB,24GiB --json
holds out 'all((r["autofit"] is None) == (r["options"]["memory.limit"] == "24GiB") for r in d["rows"] if r["fits"]) and d["rows"][-1]["fits"]'
expect 0 "$FTENGINE" "${base[@]}" "${sweep[@]}" --csv
[ "$(wc -l <out)" = 7 ] && [ "$(head -1 out)" = "train.batch_size,train.gradient_checkpointing,peak_allocated_bytes,peak_reserved_bytes,budget_bytes,fits" ] ||
    fail "the sweep as CSV: $(cat out)"
one=$(awk -F, '$1 == 8 && $2 == "on" { print $4 }' out)
expect 0 "$FTENGINE" "${base[@]}" train.batch_size=8 train.gradient_checkpointing=on --memory 4GiB --csv
[ "$(field peak reserved)" = "$one" ] || fail "a sweep's row differs from the plan: $one"
expect 0 "$FTENGINE" "${base[@]}" "${sweep[@]}"
[ "$(grep -Ec ' (yes|no)$' out)" = 6 ] || fail "the sweep for people has not six rows: $(cat out)"
expect 0 "$FTENGINE" "${base[@]}" --sweep "model.head.hidden=;512,100" --csv
[ "$(wc -l <out)" = 3 ] && grep -q '^"512,100",' out || fail "lists in a sweep: $(cat out)"
expect 0 "$FTENGINE" "${base[@]}" --sweep memory.limit=1GiB,24GiB --csv
[ "$(cut -d, -f5 out | tr '\n' ' ')" = "fits false true " ] || fail "memory.limit in a sweep: $(cat out)"
expect 3 "$FTENGINE" "${base[@]}" --sweep train.batch_size=8,16 --memory 1GiB
one_error "none of 2"

# ---- pictures --------------------------------------------------------------------------------------------------------------
# picture FILE EXPRESSION: a well-formed SVG of which the expression over its texts t and its elements e is true
picture() {
    python3 - "$1" "$2" <<'PY' || fail "the picture $1: $2"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
e = [x.tag.split("}")[1] for x in root.iter()]
t = ["".join(x.itertext()) for x in root.iter() if x.tag.endswith("}text")]
titles = ["".join(x.itertext()) for x in root.iter() if x.tag.endswith("}title")]
sys.exit(not (root.tag.endswith("}svg") and eval(sys.argv[2], {"t": t, "e": e, "titles": titles})))
PY
}
expect 0 "$FTENGINE" "${small[@]}" --csv --svg table.svg
picture table.svg '"Largest micro-batch that fits: distilbert-base-uncased" in t and "tokens of every text" in t and "sequences at once" in t'
picture table.svg 'e.count("circle") - e.count("polyline") == len(titles) == '"$(($(wc -l <out) - 1))"
picture table.svg 'e.count("polyline") == 6 and "fp32, recompute" in t and "bf16, no recompute" in t and "fp16, recompute" in t and "fp32, no recompute: '"$least"' at 128" in titles'
expect 0 "$FTENGINE" "${base[@]}" "${sweep[@]}" --svg sweep.svg
cp out with.txt
expect 0 "$FTENGINE" "${base[@]}" "${sweep[@]}"
cmp out with.txt || fail "a picture changes the text"
picture sweep.svg 'e.count("polyline") == 2 and "gradient_checkpointing=on" in t and "train.batch_size" in t and "budget" in t and "GiB reserved at the peak" in t'
[ "$(grep -c '<circle.*fill="white"' sweep.svg)" = "$(grep -c ' no$' out)" ] || fail "empty circles are not what does not fit"
# Of one axis, of lists, and with words that XML has to have escaped.
expect 0 "$FTENGINE" "${base[@]}" --sweep "model.head.hidden=;512,100" --svg lists.svg
picture lists.svg '"(empty)" in t and "512,100" in t and e.count("polyline") == 1'
expect 0 "$FTENGINE" "${base[@]}" --sweep 'data.text_column=a<b,"&' --svg words.svg
picture words.svg "'a<b' in t and '\"&' in t"
# Written also when nothing fits; and not at all when it cannot be read or the words are wrong.
expect 3 "$FTENGINE" "${base[@]}" --sweep train.batch_size=8,16 --memory 1GiB train.micro_batch=8 train.gradient_checkpointing=off --svg none.svg
picture none.svg '"empty circles do not fit; what is at auto is fitted to the budget" in t'
expect 2 "$FTENGINE" "${base[@]}" --sweep train.batch_size=1,2,3,4,5 --sweep data.max_length=8,9,10,11,12 --sweep train.micro_batch=1,2,3,4,5 --svg many.svg
one_error "25 lines"
[ -e many.svg ] && fail "a refused picture was written"
expect 2 "$FTENGINE" "${base[@]}" --svg plain.svg
one_error "--svg is the picture of a --table, a --sweep or a [space]"
expect 1 "$FTENGINE" "${base[@]}" --sweep train.batch_size=1,2 --svg nowhere/a.svg
one_error nowhere

# ---- the same bytes as a run -----------------------------------------------------------------------------------------------
# same NAME OVERRIDE...: a run and its plan agree on everything that the allocator counts
same() {
    local name=$1
    shift
    expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=4 memory.limit=256MiB output.dir="$name" "$@"
    expect 0 "$FTENGINE" plan "$here/follow.ini" train.max_steps=4 memory.limit=256MiB "$@" --json
    cp out "$name.json"
    python3 - "$name/run.json" "$name.json" <<'PY' || fail "the plan of $name differs from its run"
import json, sys
run, plan = (json.load(open(p))["memory"] for p in sys.argv[1:])
run.pop("outside_allocator_bytes"), plan.pop("outside_allocator_bytes")
for key in sorted(run.keys() | plan.keys()):
    if run.get(key) != plan.get(key): print(key, "run:", run.get(key), "plan:", plan.get(key), file=sys.stderr)
sys.exit(run != plan)
PY
}
same plain
same evaluated eval.strategy=epoch "data.validation=$here/validation.tsv"
same recomputed train.gradient_checkpointing=on train.micro_batch=2
# Neither weights nor their size are looked at.
cp -r "$here/model" light && rm light/model.safetensors
expect 0 "$FTENGINE" plan "$here/follow.ini" train.max_steps=4 memory.limit=256MiB model.path=light --json
[ "$(json out 'd["memory"]["peak_reserved_bytes"], d["memory"]["at_peak"]')" = "$(json plain.json 'd["memory"]["peak_reserved_bytes"], d["memory"]["at_peak"]')" ] ||
    fail "the plan without weights differs"
# Without texts they are as long as possible: never less than with them.
expect 0 "$FTENGINE" plan "$here/follow.ini" memory.limit=256MiB data.train= --labels 3 --json
holds out 'not d["with_data"] and d["memory"]["peak_allocated_bytes"] >= '"$(json plain.json 'd["memory"]["peak_allocated_bytes"]')"

# ---- without texts, or without what makes tokens of them -------------------------------------------------------------------
metered='{k: v for k, v in d["memory"].items() if k != "outside_allocator_bytes"}'
# lacking TEXT ARGUMENTS...: planned for texts of full length by itself, as with data.train=, and it is said why
lacking() {
    local text=$1
    shift
    expect 0 "$FTENGINE" plan "$@" --memory 24GiB
    [ "$(grep -c "$text" out)" = 1 ] && grep -q '^texts  *all have [0-9]* tokens, the most that data.max_length allows: ' out || fail "it is not said that $text: $(cat out)"
    expect 0 "$FTENGINE" plan "$@" --memory 24GiB --json && mv out lacking.json
    expect 0 "$FTENGINE" plan "$@" --memory 24GiB --json data.train=
    [ "$(json out "$metered"', d["resolved"], d["with_data"]')" = "$(json lacking.json "$metered"', d["resolved"], d["with_data"]')" ] || fail "another plan than with data.train=: $*"
}
cp -r "$here/model" mute && rm mute/vocab.txt
lacking "there is no file $scratch/nowhere.tsv (data.train)" "model.path=$here/model" data.train=nowhere.tsv
lacking "there is no file $scratch/nowhere.tsv (data.validation)" "model.path=$here/model" "data.train=$here/train.tsv" data.validation=nowhere.tsv
lacking "of bert-base-uncased only the numbers are here, not the vocabulary (ftengine pull bert-base-uncased)" model.path=bert-base-uncased "data.train=$here/train.tsv"
lacking "there is no vocabulary in $scratch/mute" model.path=mute "data.train=$here/train.tsv"
lacking "there is no vocabulary in $scratch/bare" model.path=bert-base-uncased model.init=random model.stand_in_tokenizer=bare "data.train=$here/train.tsv"
lacking "none are given" "model.path=$here/model" "data.validation=$here/validation.tsv"
expect 0 "$FTENGINE" plan model.path=bert-base-uncased model.init=random "model.stand_in_tokenizer=$here/model" "data.train=$here/train.tsv" data.max_length=24 --memory 24GiB --json
holds out 'd["with_data"] and "texts_missing" not in d'
expect 0 "$FTENGINE" plan "data.train=$here/train.tsv" --sweep "model.path=bert-base-uncased,$here/model" data.max_length=24 --memory 24GiB --json
holds out 'd["texts_missing"].startswith("of bert-base-uncased")'
expect 0 "$FTENGINE" plan "model.path=$here/model" data.train=nowhere.tsv --labels 7 --memory 24GiB

# ---- seeds and folds: the plan of all of them is that of the one that takes most -------------------------------------------
python3 - "$here" <<'PY' >uneven.tsv # few long texts: which of them come together is the order's business
import sys
labels = sorted({line.rsplit("\t")[-1] for line in open(sys.argv[1] + "/train.tsv").read().splitlines()[1:]})
print("text\tlabel")
for i in range(400): print("w " * (120 if i % 7 == 0 else 1) + "\t" + labels[i % len(labels)])
PY
many=(plan "$here/follow.ini" data.train=uneven.tsv train.max_steps=1 train.batch_size=64 data.max_length=48 eval.strategy=epoch eval.batch_size=1 memory.limit=256MiB --json)
# most FILE...: of these plans the largest peak
most() { python3 -c "import json,sys; print(max((json.load(open(p))['memory']['peak_allocated_bytes'], p) for p in sys.argv[1:])[0])" "$@"; }
for fold in 0 1 2 3; do
    for seed in 1 2 3 4; do
        expect 0 "$FTENGINE" "${many[@]}" data.folds=$((fold > 0 ? 3 : 0)) data.fold=$fold train.seed=$seed && mv out "one-$fold-$seed.json"
    done
done
[ "$(json one-0-1.json 'd["memory"]["peak_allocated_bytes"]')" != "$(json one-0-4.json 'd["memory"]["peak_allocated_bytes"]')" ] || fail "the orders of these texts take the same"
# together FILES OVERRIDES...: one plan for what these files are the plans of
together() {
    local files=$1
    shift
    expect 0 "$FTENGINE" "${many[@]}" "$@" && mv out all.json
    # shellcheck disable=SC2086
    [ "$(json all.json 'd["memory"]["peak_allocated_bytes"]')" = "$(most $files)" ] || fail "not the largest of $files: $(json all.json 'd["memory"]')"
    [ "$(json all.json "$metered")" = "$(json "one-$(json all.json 'd.get("fold", 0)')-$(json all.json 'd.get("seed", 1)').json" "$metered")" ] ||
        fail "not the plan of the fold and seed that it names: $*"
}
together "$(echo one-0-?.json)" train.seeds=1,2,3,4
together "one-0-1.json one-0-2.json" train.seeds=1,2
together "$(echo one-[123]-1.json)" data.folds=3 train.seed=1
together "$(echo one-[123]-?.json)" data.folds=3 train.seeds=1,2,3,4
expect 0 "$FTENGINE" "${many[@]}" data.folds=3 data.fold=2 train.seeds=4,3,2,1
[ "$(json out "$metered")" = "$(json "one-2-$(json out 'd["seed"]').json" "$metered")" ] || fail "not the plan of the seed that it names in one fold"
expect 0 "$FTENGINE" "${many[@]}" train.seeds=1,2,3,4 train.data_seed=2 && holds out '"seed" not in d' # one order for all
[ "$(json out "$metered")" = "$(json one-0-2.json "$metered")" ] || fail "train.data_seed is not the order's"
expect 0 "$FTENGINE" "${many[@]::9}" train.seeds=4,2
grep -q '^seed  *4 of 4, 2, which takes most (train.seeds)$' out || fail "people are not told which seed: $(cat out)"

# ---- wrong words: bad TEXT ARGUMENTS...: exit code 2, one error with TEXT, nothing on standard output ---------------------
bad() {
    local text=$1
    shift
    expect 2 "$FTENGINE" plan "$@"
    one_error "$text"
    [ ! -s out ] || fail "output beside an error: $*"
}
bad "no configuration"
bad "no model given" train.epochs=2
bad "no model given" train.epochs=2 --table
bad "not both" model.path=bert-base-uncased --memory 1GiB --gpu t4
bad "not both" model.path=bert-base-uncased --json --csv
bad "not both" model.path=bert-base-uncased --table --sweep train.batch_size=1
bad "unknown option --gpus" model.path=bert-base-uncased --gpus 4090 && says "did you mean --gpu?"
bad "unknown card" model.path=bert-base-uncased --gpu "RTX 4900" && says 'did you mean "RTX 4090"?'
bad "several cards" model.path=bert-base-uncased --gpu a100 && says "A100 40GB, A100 80GB"
bad "--memory" model.path=bert-base-uncased --memory plenty
bad "--memory" model.path=bert-base-uncased --memory 100
bad "--labels" model.path=bert-base-uncased --labels 1
bad "--labels" "$here/follow.ini" --labels 3
bad "--sweep needs a value" model.path=bert-base-uncased --sweep
bad "section.key=value" model.path=bert-base-uncased --sweep train.batch_size
bad "train.batch_sise" model.path=bert-base-uncased --sweep train.batch_sise=1,2 && says "did you mean train.batch_size?"
bad "train.batch_size" model.path=bert-base-uncased --sweep train.batch_size=8,many
bad "swept already" model.path=bert-base-uncased --sweep train.batch_size=8 --sweep train.batch_size=9
bad "study" model.path=bert-base-uncased --sweep study.trials=8
bad "1024 tokens" model.path=bert-base-uncased --sweep data.max_length=1024 && says "in the combination data.max_length=1024"
bad "no such model directory" model.path=bert-base-uncaesd && says "did you mean bert-base-uncased?"
expect 0 "$FTENGINE" plan model.path=microsoft/deberta-v2-xlarge --memory 80GiB # with a convolution
bad "give a file" model.path=bert-base-uncased data.train=-
bad "absent.ini" absent.ini
expect 0 "$FTENGINE" help plan && grep -q -- '--table' out || fail "help plan"
