#!/usr/bin/env bash
# bench_plan.sh [FTENGINE] - how long plans take and what they hold, as a Markdown table (results/plan.md).
# Wall time is the median of 11 runs of the whole program, CPU time that of the same runs, memory the largest resident set.
set -euo pipefail
ftengine=$(realpath "${1:-build/ftengine}")
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

middle() { sort -n "$1" | sed -n 6p; }
# row NAME BUDGET ARGUMENTS...: BUDGET is the wall time that the planner promises
row() {
    local name=$1 budget=$2 code
    shift 2
    rm -f "$work/wall" "$work/cpu" "$work/kib"
    for _ in 1 2 3 4 5 6 7 8 9 10 11; do
        code=0
        /usr/bin/time -q -o "$work/time" -f "%e %U %S %M" "$ftengine" plan "$@" >/dev/null 2>"$work/err" || code=$?
        [ $code = 0 ] || [ $code = 3 ] || { cat "$work/err" >&2 && exit 1; }
        awk '{ print $1 * 1000 }' "$work/time" >>"$work/wall"
        awk '{ print ($2 + $3) * 1000 }' "$work/time" >>"$work/cpu"
        awk '{ print $4 }' "$work/time" >>"$work/kib"
    done
    printf '| %s | %s | %s | %s | %.1f |\n' "$name" "$(middle "$work/wall")" "$(middle "$work/cpu")" "$budget" \
        "$(sort -n "$work/kib" | tail -1 | awk '{ print $1 / 1024 }')"
}
printf '| plan | wall ms | CPU ms | promised ms | largest resident MiB |\n|---|---:|---:|---:|---:|\n'
row "bert-base-uncased" 50 model.path=bert-base-uncased
row "bert-base-uncased, batch 32, a 4090" 50 model.path=bert-base-uncased train.batch_size=32 --gpu 4090
row "bert-large-uncased (the largest that trains)" 2000 model.path=bert-large-uncased
row "bert-large-uncased, does not fit, with advice" 2000 model.path=bert-large-uncased train.batch_size=128 --memory 24GiB
row "a table of bert-base-uncased, 16 cells" "" model.path=bert-base-uncased --memory 24GiB --table
row "a table of bert-large-uncased, 16 cells" "" model.path=bert-large-uncased --memory 24GiB --table
row "a sweep of bert-base-uncased, 24 plans" "" model.path=bert-base-uncased --sweep train.batch_size=4,8,16,32,64,128 \
    --sweep train.gradient_checkpointing=off,on --sweep data.max_length=128,512
minilm=$root/models/all-MiniLM-L6-v2 reviews=$root/data/reviews
if [ -d "$minilm" ] && [ -f "$reviews/train.tsv" ]; then
    run=(model.path="$minilm" data.train="$reviews/train.tsv" data.validation="$reviews/dev.tsv" train.batch_size=32 train.epochs=100)
    "$ftengine" plan "${run[@]}" >/dev/null # tokenises; the following read the cache
    row "100 epochs of MiniLM on reviews ($(($(wc -l <"$reviews/train.tsv") - 1)) texts, tokens cached)" 200 "${run[@]}"
fi
