#!/usr/bin/env bash
# What ran out of memory elsewhere (configs/oom), judged by the planner: each fits, in the precision that it states, as it was
# asked for or, where it is left open how, at most 1.35 times slower than with unlimited memory. And the largest of the space
# of seven models on 24 GiB; benchmarks/memory/peak_memory.py plans all 546 points of it.
# ctest: asan_part=4
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
most_slowdown=1.35
slowdown='(d["autofit"]["choice"]["step_seconds"] / d["autofit"]["ideal"]["step_seconds"] if d["autofit"] else 1)'

# fits NAME: the plan in `out`
fits() {
    [ "$(json out 'd["fits"] and d["memory"]["peak_reserved_bytes"] <= d["budget_bytes"]')" = True ] || fail "$1 does not fit"
    [ "$(json out "$slowdown <= $most_slowdown")" = True ] || fail "$1 is $(json out "$slowdown") times slower than with unlimited memory"
}

# The card's memory that a file of configs/oom states, its own or that of the file it includes. It is asked of `plan` as --memory:
# the process of this machine, which may be smaller or hold a sanitizer, is not what is judged.
card_of() {
    sed -n 's/^limit = //p' "$1" | grep . || card_of "$(dirname "$1")/$(sed -n 's/^include = //p' "$1")"
}

# ---- the configurations ------------------------------------------------------------------------------------------------
planned=0
for file in "$SOURCE_DIR"/configs/oom/*.ini; do
    name=$(basename "$file" .ini)
    grep -q '^precision = ' "$file" || grep -q '^include = bert_large_23gib_fp32.ini' "$file" || fail "$name states no precision"
    expect 0 "$FTENGINE" plan "$file" --memory "$(card_of "$file")" --labels 2 device.threads=2 --json
    [ "$(json out 'd["with_data"]')" = False ] || fail "$name is planned with the texts of this machine"
    fits "$name"
    planned=$((planned + 1))
    cp out "$name.json"
done
[ $planned -ge 7 ] || fail "only $planned configurations were planned"

# As they were: the whole batch at once, no layer recomputed.
whole() { # NAME SEQUENCES
    [ "$(json "$1.json" '(d["resolved"]["micro_batch"], d["resolved"]["gradient_checkpointing"])')" = "($2, 0)" ] ||
        fail "$1: $(json "$1.json" 'd["resolved"]')"
}
whole bert_large_23gib 48
for name in deberta_base_32gib deberta_base_32gib_bf16 deberta_v3_base_32gib deberta_v3_base_32gib_bf16; do
    whole "$name" 128
    [ "$(json "$name.json" 'd["resolved"]["eval"]["sequences"]')" = 256 ] || fail "$name: evaluation is not in batches twice as large"
done
[ "$(json bert_large_23gib_fp32.json 'd["resolved"]["gradient_checkpointing"]')" = 0 ] || fail "layers of BERT large are recomputed"

# The planner does not say yes to everything: what fits only in bf16, and four trials on three quarters of their memory.
expect 3 "$FTENGINE" plan "$SOURCE_DIR/configs/oom/bert_large_23gib.ini" --labels 2 train.precision=fp32
one_error "does not fit"
expect 3 "$FTENGINE" plan "$SOURCE_DIR/configs/oom/bert_large_4_trials_23gib.ini" --labels 2 memory.limit=4073MiB
one_error "does not fit"

# ---- the space of seven models -----------------------------------------------------------------------------------------
python3 - "$SOURCE_DIR" <<'PYTHON' || fail "benchmarks/memory/peak_memory_plans.py plans another space than configs/spaces/seven_models.ini"
import re, sys
sys.path.insert(0, sys.argv[1] + "/benchmarks/memory")
import peak_memory_plans as p
space = open(sys.argv[1] + "/configs/spaces/seven_models.ini").read()
def choices(option):
    return [int(n) for n in re.search(rf"^{re.escape(option)} = choice\(([^)]*)\)", space, re.M)[1].split(",")]
low, high, step = map(int, re.search(r"^data.max_length = int\((\d+), (\d+), step=(\d+)\)", space, re.M).groups())
assert choices("train.batch_size") == p.BATCHES and choices("train.gradient_accumulation_steps") == p.ACCUMULATIONS
assert list(range(low, high + 1, step)) == p.LENGTHS and len(p.BATCHES) * len(p.ACCUMULATIONS) * len(p.LENGTHS) == 546
models = re.search(r"^model.path = choice\((.*)\)$", space, re.M)[1].split(", ")
assert [m.split("/")[-1] for m in models] == [m.split("/")[-1] for m in p.SEVEN]
PYTHON
card=$((24 * 1024 - 600))MiB
for model in bert-base-uncased bert-large-uncased roberta-base roberta-large microsoft/deberta-v3-base microsoft/deberta-v3-large xlm-roberta-base; do
    for precision in fp32 bf16; do
        expect 0 "$FTENGINE" plan model.path=$model train.precision=$precision --memory $card train.batch_size=64 data.max_length=512 \
            train.gradient_accumulation_steps=8 train.gradient_checkpointing=auto model.head.hidden=512,704,448 device.threads=2 --labels 2 --json
        fits "$model in $precision, 64 x 512"
    done
done
echo "all good: $planned configurations, and seven models"
