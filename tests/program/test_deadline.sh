#!/usr/bin/env bash
# train.deadline: a run ends before it, evaluated and saved, says so, and goes on later with the bits of one that was never ended; a study ends in
# time too. Deadlines are seconds from now, or what the clock shows; what is past or means nothing is refused before anything is begun.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
# Steps of 2,000 texts: none is over in a millisecond, and millions would not be in seconds.
head -n 1 "$here/train.tsv" >many.tsv
for _ in $(seq 40); do tail -n +2 "$here/train.tsv"; done >>many.tsv
run="$here/follow.ini data.train=many.tsv data.validation=$here/validation.tsv data.test=$here/validation.tsv eval.strategy=epoch train.max_steps=1000000
     train.warmup_steps=2 output.save_steps=1000000 device.threads=1 data.cache_dir=none"

# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run --deadline 4s --json output.dir=early
says "deadline   train.deadline = 4s is near: ending at step"
says "  deadline     4s: ended at step"
cp out early.json
[ "$(json early.json 'd["status"], d["deadline"]["asked"], d["deadline"]["reached"], d["deadline"]["planned_steps"]')" = "('completed', '4s', True, 1000000)" ] ||
    fail "run.json says $(json early.json 'd.get("deadline")')"
[ "$(json early.json '0 < d["steps"] < 1000000 and d["deadline"]["step"] == d["steps"]')" = True ] || fail "steps: $(json early.json 'd["steps"]')"
# A machine that stands still for seconds may be late; it is not by more than one that does the work after the deadline.
[ "$(json early.json 'd["seconds"]["total"] < 300')" = True ] || fail "it took $(json early.json 'd["seconds"]')"
[ "$(json early.json '"eval_accuracy" in d["metrics"] and "test_accuracy" in d["metrics"] and d["best"]["step"] <= d["steps"]')" = True ] || fail "not judged: $(json early.json 'd["metrics"]')"
[ -s early/model/model.safetensors ] && [ -s early/predictions.jsonl ] || fail "nothing is saved: $(ls early)"
steps=$(json early.json 'd["steps"]')

# It goes on, two steps more than it had: the weights of a run that was never ended.
more=$((steps + 2))
run="${run/max_steps=1000000/max_steps=$more} train.lr_scheduler=constant eval.strategy=no data.test="
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=whole
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=parts --deadline 0.000001s
[ "$(json parts/run.json 'd["steps"], d["deadline"]["reached"]')" = "(1, True)" ] || fail "one step is made in any case: $(json parts/run.json 'd["steps"]')"
[ -s parts/model/model.safetensors ] || fail "the model of one step is not saved"
expect 0 "$FTENGINE" train parts --deadline ''
[ "$(json parts/run.json 'd["steps"], d.get("deadline")')" = "($more, None)" ] || fail "it went on to $(json parts/run.json 'd["steps"], d.get("deadline")')"
cmp whole/model/model.safetensors parts/model/model.safetensors || fail "another model than in one go"

# One that is far away changes nothing, whatever it is written like.
for far in 9h "$(date -d '+2 days' +%Y-%m-%dT%H:%M)" "$(date -d '+3 hours' +%H:%M:%S)"; do
    # shellcheck disable=SC2086
    expect 0 "$FTENGINE" train $run output.dir=far output.exists=new "train.deadline=$far" --json
    [ "$(json out 'd["steps"], d["deadline"]["reached"], d["deadline"]["seconds_left"] > 3600')" = "($more, False, True)" ] || fail "$far: $(json out 'd["deadline"]')"
done
cmp whole/model/model.safetensors far/model/model.safetensors || fail "a deadline changes the bits"

# refused CODE TEXT WORD...
refused() {
    local text=$1
    shift
    # shellcheck disable=SC2086
    expect 2 "$FTENGINE" train $run output.dir=refused "$@"
    one_error "$text"
    [ ! -e refused ] || fail "something was begun"
}
refused "is past (train.deadline)" --deadline 2020-01-01T10:00
for wrong in soon 10 5x 25:00 2026-13-01T10:00 -5m 1h30m; do
    refused "this is no deadline: '$wrong' (train.deadline)" "train.deadline=$wrong"
    says "hint: how long from now, as 90s, 10m, 2h or 1d; or until when, as 18:30 or 2026-11-26T18:30"
done
refused "is one run's, and train.seeds has several" train.seeds=1,2 --deadline 1h

# ---- a study ---------------------------------------------------------------------------------------------------------------
study=(train.max_steps=1 train.warmup_steps=0 eval.strategy=epoch 'space.train.learning_rate=float(1e-4, 1e-2, log)' --study s)
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $run "${study[@]}" study.trials=1
# shellcheck disable=SC2086
expect 0 "$FTENGINE" tune $run "${study[@]}" study.trials=0 --deadline 5s --json
says "the time is up"
[ "$(json out 'd["trials"]["complete"] > 0 and d["best"][0]["values"][0] > 0')" = True ] || fail "the study: $(cat out)"
[ -s studies/s/best.ini ] && [ "$(json out 'd["next_commands"]')" = "[['ftengine', 'train', 'studies/s/best.ini']]" ] || fail "no best.ini, or nothing says so: $(json out 'd.get("next_commands")')"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" tune $run eval.strategy=epoch 'space.train.learning_rate=float(1e-4, 1e-2, log)' --study s2 --deadline yesterday
one_error "this is no deadline: 'yesterday' (--deadline)"
