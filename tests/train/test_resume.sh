#!/usr/bin/env bash
# Stopped and killed runs go on with the same bits: SIGINT, SIGTERM, SIGHUP, each twice, as timeout and a closed terminal send them, and kill -9 at random moments.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
run="$here/follow.ini data.validation=$here/validation.tsv eval.strategy=steps eval.steps=60 train.max_steps=240 train.logging_steps=7
     model.hidden_dropout=0.1 model.attention_dropout=0.1 train.gradient_accumulation_steps=2 output.save_steps=10"
end=step-00000240
without_rates() { sed 's/,"tokens_per_second":[^,}]*//' "$1"; }
same() {
    cmp whole/model/model.safetensors "$1/model/model.safetensors" || fail "$1: another best model"
    [ "$(ls "$1/checkpoints")" = $end ] || fail "$1: checkpoints kept: $(ls "$1/checkpoints")"
    cmp whole/checkpoints/$end/state.safetensors "$1/checkpoints/$end/state.safetensors" || fail "$1: another state at the end"
    cmp <(without_rates whole/metrics.jsonl) <(without_rates "$1/metrics.jsonl") || fail "$1: another metrics.jsonl"
    cmp whole/predictions.jsonl "$1/predictions.jsonl" || fail "$1: other predictions"
    [ -z "$(find "$1" -name '*.ft-*')" ] || fail "$1: temporaries are left: $(find "$1" -name '*.ft-*')"
}
# begin DIR: the run (from where it stopped) in the background, its process id in pid
begin() {
    # shellcheck disable=SC2086
    "$FTENGINE" train $run output.dir="$1" output.exists=resume >out 2>err &
    pid=$!
}
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=whole
same whole
# What a resume is held against are the model's numbers, in the form of old checkpoints too.
python3 - whole/checkpoints/$end/state.json <<'PYTHON' || fail "state.json tells of another model"
import json, sys
model = json.load(open(sys.argv[1]))["run"]["model"]
want = {"type": "bert", "heads": 4, "activation": 1, "epsilon": 1e-12, "padding": 0, "hidden_dropout": 0.1, "attention_dropout": 0.1,
        "classifier_dropout": 0, "head_dropout": 0, "layers": 2, "labels": ["food", "music", "travel"]}
wrong = {k: model.get(k) for k, v in want.items() if not (abs(model[k] - v) <= 1e-6 * abs(v) if isinstance(v, float) else model[k] == v)}
assert not wrong, wrong
PYTHON

# Another micro-batch, recomputation and thread count: the same bits.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=other train.micro_batch=3 train.gradient_checkpointing=on device.threads=1
same other

# A second one that is meant ends it at once: in the middle of a step that takes seconds.
head -n 1 "$here/train.tsv" >many.tsv
for _ in $(seq 300); do tail -n +2 "$here/train.tsv"; done >>many.tsv
# shellcheck disable=SC2086
"$FTENGINE" train $run data.train=many.tsv train.batch_size=300 train.gradient_accumulation_steps=300 train.max_steps=2 output.dir=at-once >out 2>err &
pid=$!
for _ in $(seq 12000); do grep -q "Training Start" err && break; sleep 0.01; done
kill -INT $pid && sleep 1 && kill -INT $pid || fail "a step of 90,000 texts takes no second"
wait $pid
[ $? = 130 ] || fail "exit code $? after a second SIGINT"
grep -q "stopped at step" err && fail "a second SIGINT waits for the step"

# A run that is faster than the signal says nothing: it is tried again.
for signal in INT TERM HUP; do
    dir=stopped-$signal
    code=0
    for _ in $(seq 10); do
        rm -rf $dir
        begin $dir
        for _ in $(seq 12000); do [ -s $dir/metrics.jsonl ] && break; sleep 0.01; done
        kill -$signal $pid 2>/dev/null
        kill -$signal $pid 2>/dev/null
        wait $pid
        code=$?
        [ $code = 0 ] || break
    done
    [ $code = "$([ $signal = INT ] && echo 130 || echo 143)" ] || fail "exit code $code after SIG$signal"
    [ "$(json $dir/run.json 'd["status"], 0 < d["steps"] < 240')" = "('interrupted', True)" ] || fail "run.json after SIG$signal"
    says "the state is saved"
    stopped=$(json $dir/run.json 'd["steps"]')
    [ -s "$dir/checkpoints/step-$(printf %08d "$stopped")/state.json" ] || fail "no checkpoint of step $stopped after SIG$signal"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir=$dir output.exists=resume
    says "at step $stopped"
    same $dir
done

# kill -9 at random moments, until the run gets through; anew when it did so without having been killed and resumed. The
# seed is printed, so that a failure can be repeated.
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
for _ in $(seq 10); do
    rm -rf killed
    kills=0 resumed=0
    for attempt in $(seq 40); do
        begin killed
        ms=$((RANDOM % (300 + 50 * attempt) + 20)) # ever longer, so that a slow build gets to a checkpoint too
        sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        code=$?
        grep -q '^resumed ' err && resumed=$((resumed + 1))
        [ $code = 137 ] || break
        kills=$((kills + 1))
    done
    [ $code = 0 ] || [ $code = 137 ] || fail "exit code $code of a run that was killed before"
    [ $kills -ge 1 ] && [ $resumed -ge 1 ] && break
done
echo "killed $kills times, resumed from a checkpoint $resumed times"
[ $kills -ge 1 ] && [ $resumed -ge 1 ] || fail "no run was killed and resumed: longer runs are needed"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=killed output.exists=resume
same killed

# A finished run resumes to itself; another configuration is refused with the difference, and changes nothing.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=killed output.exists=resume
same killed
cp -r killed before
# shellcheck disable=SC2086
expect 2 "$FTENGINE" train $run output.dir=killed output.exists=resume train.learning_rate=1e-3
one_error "train.learning_rate"
diff -r before killed || fail "a refused resume changed the run directory"
# So is a checkpoint that lacks what decides about the bits, or says more than can be.
for wrong in 'del s["step"]' 'del s["updates"]' 's["step"] = None' 's["skipped_steps"] = 10**18' 's["step"] = 241' 's["tokens"] = "x"' 's["memory"] = 5'; do
    rm -rf wrong && cp -r whole wrong
    python3 - wrong/checkpoints/$end/state.json "$wrong" <<'PYTHON' || fail "no such state.json"
import json, sys
s = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(s, open(sys.argv[1], "w"))
PYTHON
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $run output.dir=wrong output.exists=resume
    one_error "$(sed 's/^[^"]*"//; s/".*//' <<<"$wrong")"
done
# Lines of metrics.jsonl that are gone are told of, and nothing stands in their place.
for left in 0 200; do
    rm -rf fewer && cp -r whole fewer
    head -c $left whole/metrics.jsonl >fewer/metrics.jsonl
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir=fewer output.exists=resume
    says "fewer/metrics.jsonl has $left bytes, and had"
    cmp <(head -c $left whole/metrics.jsonl | sed -n '/}$/p') <(head -n "$(head -c $left whole/metrics.jsonl | grep -c '}$')" fewer/metrics.jsonl) ||
        fail "metrics.jsonl of which $left bytes were left: $(cat fewer/metrics.jsonl)"
    tr -d '\0' <fewer/metrics.jsonl | cmp - fewer/metrics.jsonl || fail "metrics.jsonl has zeros"
done
