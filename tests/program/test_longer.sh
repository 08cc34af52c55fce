#!/usr/bin/env bash
# A run goes on to more steps than it had, and has the bits of one that had so many from the first on: also where it ended in the middle of its
# schedule, with an evaluation there that beats all others, and after kills. A learning rate that ends with the steps is refused.
# ctest: part=2
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
# With evaluations each 12 steps the best one of 29 steps is that of step 12; but the one at step 17, where the run ends first, beats it.
run="$here/follow.ini data.validation=$here/validation.tsv data.test=$here/validation.tsv train.learning_rate=0.01 train.lr_scheduler=constant train.warmup_steps=0
     model.hidden_dropout=0.1 eval.strategy=steps eval.steps=12 eval.metric=loss eval.calibrate=true train.logging_steps=7 output.save_steps=5 device.threads=1"
without_rates() { sed 's/,"tokens_per_second":[^,}]*//' "$1"; }
members() { find "$1" -name metrics.jsonl -printf '%P\n' | sort; }
# same WHOLE DIR: two directories of runs
same() {
    local file dir last result
    for file in $(members "$1"); do
        dir=$(dirname "$file")
        cmp <(without_rates "$1/$file") <(without_rates "$2/$file") || fail "$2: another $file"
        cmp "$1/$dir/predictions.jsonl" "$2/$dir/predictions.jsonl" || fail "$2: other predictions"
        [ -d "$1/$dir/checkpoints" ] || continue # of several runs
        [ "$(ls "$2/$dir/checkpoints")" = "$(ls "$1/$dir/checkpoints")" ] || fail "$2: checkpoints kept: $(ls "$2/$dir/checkpoints")"
        last=$(cd "$1/$dir/checkpoints" && ls -d step-*)
        cmp "$1/$dir/checkpoints/$last/state.safetensors" "$2/$dir/checkpoints/$last/state.safetensors" || fail "$2: another state at the end"
        for result in model/model.safetensors model/ftengine.json adapter/adapter_model.safetensors; do
            [ ! -e "$1/$dir/$result" ] || cmp "$1/$dir/$result" "$2/$dir/$result" || fail "$2: another $dir/$result"
        done
        what='d["status"], d["steps"], d["best"], d["metrics"], d["tokens"], d["stopped_early"], {k: v for k, v in d["config"].items() if k[:7] not in ("output.", "train.d")}'
        [ "$(json "$1/$dir/run.json" "$what")" = "$(json "$2/$dir/run.json" "$what")" ] || fail "$2: run.json: $(json "$2/$dir/run.json" "$what")"
    done
    [ -z "$(find "$2" -name '*.ft-*')" ] || fail "$2: temporaries are left: $(find "$2" -name '*.ft-*')"
}

# name; options of all; of the run that ends first; of the one that goes on; what run.json says of the first ("" for nothing particular)
cases() {
    cat <<'CASES'
unscheduled||train.max_steps=17|train.max_steps=29|d["best"]["step"] == 17
scheduled||train.max_steps=24|train.max_steps=29|d["best"]["step"] == 12
line|eval.strategy=no data.validation= eval.calibrate=false|train.max_steps=17|train.max_steps=29|d["best"] is None
none-yet||train.max_steps=9|train.max_steps=29|d["best"]["step"] == 9
epochs|eval.strategy=epoch|train.epochs=0.3 train.max_steps=0|train.epochs=1.2|d["steps"] == 12
patience|train.patience=2|train.max_steps=26|train.max_steps=40|d["stopped_early"]
impatient|train.patience=1|train.max_steps=30|train.max_steps=40|d["stopped_early"]
warmup|train.lr_scheduler=constant_with_warmup train.warmup_steps=20|train.max_steps=17|train.max_steps=29|
rising|train.lr_scheduler=linear train.warmup_steps=20|train.max_steps=17|train.max_steps=29|
adapter|adapter.type=lora adapter.r=4|train.max_steps=17|train.max_steps=29|
seeds|train.seeds=1,2|train.max_steps=17|train.max_steps=29|
CASES
}
while IFS='|' read -r name all first more holds; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run $all $first $more output.dir="whole-$name"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run $all $first output.dir="$name"
    [ -z "$holds" ] || [ "$(json "$name/run.json" "$holds")" = True ] || fail "$name: not what is to be shown: $(json "$name/run.json" 'd["best"], d["steps"]')"
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train "$name" $more
    same "whole-$name" "$name"
    # It is the longer run now.
    expect 0 "$FTENGINE" train "$name"
    same "whole-$name" "$name"
done < <(cases)
[ "$(json unscheduled/run.json 'd["earlier_total_steps"]')" = "[17]" ] || fail "run.json says $(json unscheduled/run.json 'd.get("earlier_total_steps")')"
[ "$(json whole-unscheduled/run.json '"earlier_total_steps" in d')" = False ] || fail "a run that did not go on says so"
[ "$(json whole-unscheduled/run.json 'd["best"]["step"]')" = 12 ] || fail "the first end could not have decided"

# In two goes, the second time by the configuration and output.exists=resume.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.max_steps=14 output.dir=twice
expect 0 "$FTENGINE" train twice train.max_steps=17
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.max_steps=29 output.dir=twice output.exists=resume
same whole-unscheduled twice
[ "$(json twice/run.json 'd["earlier_total_steps"]')" = "[14, 17]" ] || fail "run.json says $(json twice/run.json 'd.get("earlier_total_steps")')"

# A deadline's end is one that a run without has not; of a schedule that ends with the steps too, for their number stays.
for schedule in constant linear; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run train.lr_scheduler=$schedule train.max_steps=29 output.dir=whole-$schedule
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run train.lr_scheduler=$schedule train.max_steps=29 output.dir=late-$schedule --deadline 0.000001s
    [ "$(json late-$schedule/run.json 'd["best"]["step"]')" = 1 ] || fail "not evaluated at the deadline"
    for _ in $(seq 13); do expect 0 "$FTENGINE" train late-$schedule --deadline 0.000001s; done # a step each
    expect 0 "$FTENGINE" train late-$schedule --deadline ''
    same whole-$schedule late-$schedule
done

# ---- killed at random moments, before and behind the first end
RANDOM=${KILL_SEED:-$(date +%s)}
echo "KILL_SEED=$RANDOM"
kills=0 ends=0
for round in $(seq 6); do
    rm -rf killed
    for steps in 17 29; do
        for attempt in $(seq 30); do
            # shellcheck disable=SC2086
            "$FTENGINE" train $run train.max_steps=$steps output.dir=killed output.exists=resume >out 2>err &
            pid=$!
            ms=$((RANDOM % (250 + 60 * attempt) + 20)) # ever longer, so that a slow build gets through too
            sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
            kill -9 $pid 2>/dev/null
            wait $pid 2>/dev/null
            code=$?
            [ $code = 137 ] || break
            kills=$((kills + 1))
        done
        [ $code = 0 ] || [ $code = 137 ] || fail "exit code $code of a run that was killed before"
        [ $code = 0 ] && ends=$((ends + 1))
    done
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run train.max_steps=29 output.dir=killed output.exists=resume
    cmp <(without_rates whole-unscheduled/metrics.jsonl) <(without_rates killed/metrics.jsonl) || fail "round $round: another metrics.jsonl"
    for file in model/model.safetensors model/ftengine.json predictions.jsonl checkpoints/step-00000029/state.safetensors; do
        cmp whole-unscheduled/$file killed/$file || fail "round $round: another $file"
    done
    [ "$(ls killed/checkpoints)" = step-00000029 ] || fail "round $round: checkpoints kept: $(ls killed/checkpoints)"
done
echo "killed $kills times, $ends ends"
[ $kills -ge 1 ] || fail "nothing was killed"

# ---- refused, and nothing has changed
# refused DIR TEXT HINT WORD...
refused() {
    local dir=$1 text=$2 hint=$3
    shift 3
    rm -rf before && cp -r "$dir" before || fail "copy"
    expect 2 "$FTENGINE" train "$dir" "$@"
    one_error "$text"
    [ -z "$hint" ] || says "$hint"
    diff -r before "$dir" >difference || fail "a refused run changed: $(cat difference)"
}
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.lr_scheduler=linear train.max_steps=17 output.dir=linear
refused linear "cannot go on to 29: with train.lr_scheduler = linear its step 2 had the learning rate 0.009412, in the longer run 0.009655" \
    "hint: a run with train.lr_scheduler=constant, or constant_with_warmup and train.warmup_steps, can go on" train.max_steps=29
says "output.exists=new train.max_steps=29"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.lr_scheduler=constant_with_warmup train.warmup_ratio=0.5 train.max_steps=17 output.dir=share
refused share "with train.lr_scheduler = constant_with_warmup and train.warmup_ratio its step 2 had the learning rate" "hint: a run with train.warmup_steps=9" train.max_steps=29
refused unscheduled "is one of 29 steps, and has made 29: it cannot become one of 20" "it goes on to 29 steps" train.max_steps=20
refused unscheduled "train.epochs was 3 and is 9, but this run has the steps of train.max_steps = 29" "hint: more steps: train.max_steps=N" train.epochs=9
refused unscheduled "another train.learning_rate" "" train.max_steps=40 train.learning_rate=1e-3
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.max_steps=17 output.dir=lost
cp -r lost old && cp -r lost gone || fail "copy"
[ "$(ls -d lost/checkpoints/best-*)" = lost/checkpoints/best-00000012 ] || fail "what the end replaced is not kept: $(ls lost/checkpoints)"
rm -r lost/checkpoints/best-00000012 gone/checkpoints
refused lost "the best model of this run before its end, that of step 12, is gone" "" train.max_steps=29
refused gone "ended at its 17 steps, and its last checkpoint is gone: it cannot go on to 29" "output.exists=new train.max_steps=29" train.max_steps=29
# The same of a run that a deadline ended, whose number of steps stays.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.max_steps=29 output.dir=late-lost --deadline 0.000001s
for _ in $(seq 16); do expect 0 "$FTENGINE" train late-lost --deadline 0.000001s; done
rm -r late-lost/checkpoints/best-00000012 || fail "what the deadline's end replaced is not kept: $(ls late-lost/checkpoints)"
refused late-lost "the best model of this run before its end, that of step 12, is gone" "" --deadline ''
# What a run before it has kept is no other run's.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.max_steps=17 output.dir=stale
rm -r stale/checkpoints/step-*
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.seed=77 train.max_steps=17 output.dir=stale output.exists=resume
expect 0 "$FTENGINE" train stale train.max_steps=29
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run train.seed=77 train.max_steps=29 output.dir=fresh
same fresh stale
python3 - old/checkpoints/step-00000017/state.json <<'PYTHON' || fail "no such state.json"
import json, sys
state = json.load(open(sys.argv[1]))
del state["before_end"]
json.dump(state, open(sys.argv[1], "w"))
PYTHON
refused old "an older version ended this run" "output.exists=new train.max_steps=29" train.max_steps=29
