#!/usr/bin/env bash
# Stopped and killed runs go on with the same bits: SIGINT, SIGTERM, and kill -9 at random moments.
. "${SOURCE_DIR:?is set by ctest}/tests/engine/shell_test.sh" || exit 1
run="$here/follow.ini data.validation=$here/validation.tsv eval.strategy=steps eval.steps=15 train.max_steps=60 train.logging_steps=7
     model.hidden_dropout=0.1 model.attention_dropout=0.1 train.gradient_accumulation_steps=2 output.save_steps=5"
without_rates() { sed 's/,"tokens_per_second":[^,}]*//' "$1"; }
same() {
    cmp whole/model/model.safetensors "$1/model/model.safetensors" || fail "$1: another best model"
    last=$(ls whole/checkpoints)
    cmp "whole/checkpoints/$last/state.safetensors" "$1/checkpoints/$last/state.safetensors" || fail "$1: another state at the end"
    cmp <(without_rates whole/metrics.jsonl) <(without_rates "$1/metrics.jsonl") || fail "$1: another metrics.jsonl"
    cmp whole/predictions.jsonl "$1/predictions.jsonl" || fail "$1: other predictions"
}
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=whole
[ "$(ls whole/checkpoints)" = step-00000060 ] || fail "checkpoints kept: $(ls whole/checkpoints)"

# Another micro-batch, recomputation and thread count: the same bits.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=other train.micro_batch=3 train.gradient_checkpointing=on device.threads=1
same other

for signal in INT TERM; do
    # shellcheck disable=SC2086
    "$FTENGINE" train $run output.dir=stopped-$signal train.max_steps=60 >out 2>err &
    pid=$!
    for _ in $(seq 500); do [ -d stopped-$signal/checkpoints/step-00000010 ] || [ -d stopped-$signal/checkpoints/step-00000015 ] && break; sleep 0.01; done
    kill -$signal $pid 2>/dev/null
    wait $pid
    code=$?
    if [ $code != 0 ]; then # the run may have been faster than the signal
        [ $code = $([ $signal = INT ] && echo 130 || echo 143) ] || fail "exit code $code after SIG$signal"
        [ "$(json stopped-$signal/run.json 'd["status"]')" = interrupted ] || fail "status after SIG$signal"
        says "the state is saved"
    fi
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir=stopped-$signal output.exists=resume
    same stopped-$signal
done

# kill -9 at random moments, until it gets through. The seed is printed, so that a failure can be repeated.
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
kills=0
for _ in $(seq 40); do
    # shellcheck disable=SC2086
    "$FTENGINE" train $run output.dir=killed output.exists=resume >out 2>err &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 300 + 20)))"
    if kill -9 $pid 2>/dev/null; then kills=$((kills + 1)); fi
    wait $pid 2>/dev/null && break
done
echo "killed $kills times"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=killed output.exists=resume
same killed
[ "$(find killed -name '*.tmp*' | wc -l)" = 0 ] || fail "temporaries are left: $(find killed -name '*.tmp*')"

# A finished run resumes to itself; another configuration is refused with the difference.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=killed output.exists=resume
same killed
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=killed output.exists=resume train.learning_rate=1e-3
one_error "train.learning_rate"
same killed
