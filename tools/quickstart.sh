#!/usr/bin/env bash
# quickstart.sh [section.key=value]... - the last part of `make quickstart`: train, evaluate, predict, say where all is.
#
# A finished run is not repeated, an interrupted one is resumed. FTENGINE names the program, QUICKSTART_RUN the run
# directory.
set -euo pipefail
cd "$(dirname "$0")/.."

ftengine=${FTENGINE:-build/ftengine}
run=${QUICKSTART_RUN:-runs/quickstart}
config=configs/minilm_quickstart.ini

completed() { grep -Eqs '"status": *"completed"' "$run/run.json"; }
title() { printf '\n== %s\n' "$*"; }

title "Fine-tuning all-MiniLM-L6-v2 on movie reviews ($config)"
if completed; then
    echo "$run is finished; remove it to train again"
elif [ -d "$run/checkpoints" ]; then
    "$ftengine" train "$config" output.dir="$run" output.exists=resume "$@"
else
    rm -rf "$run" # stopped before its first checkpoint: nothing to go on from
    "$ftengine" train "$config" output.dir="$run" "$@"
fi

title "Evaluating on data/reviews/dev.tsv, which it has not trained on"
"$ftengine" eval "$run" --data data/reviews/dev.tsv

title "Predicting"
sentences=(
    "A warm, funny film with two wonderful leads."
    "Two hours of my life that I will never get back."
    "The plot is thin, but the music alone is worth the ticket."
    "It looks expensive and says nothing."
    "Not bad at all."
)
printf '%s\n' "${sentences[@]}" | "$ftengine" predict "$run" --data - --format text |
    awk -F '\t' 'NR > 1 { printf "  %-9s %5.1f%%   %s\n", $1, 100 * $2, $NF }'

title "Where everything is"
cat <<TEXT
  $run/model             the fine-tuned model; transformers' from_pretrained opens it
  $run/run.json          what happened: metrics, time, memory
  $run/metrics.jsonl     loss and learning rate by step
  $run/predictions.jsonl the dev set with probabilities
  $run/config.ini        the configuration, runnable as it is
  $config    where to start from for your own data (TSV with a header: text, label)
More:  $ftengine predict $run --data FILE --format text      $ftengine config      $ftengine --help
TEXT
