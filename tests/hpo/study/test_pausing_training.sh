#!/usr/bin/env bash
# Trials that are paused and go on, with the real trainer on a tiny model: every complete one comes to the bits of the same
# configuration trained alone without a stop; after a stop by a signal the study goes on.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
tiny_model >tiny.ini
cat >>tiny.ini <<INI
[train]
max_steps = 60
batch_size = 8
[eval]
strategy = steps
steps = 10
metric = accuracy
[study]
trials = 10
sampler = auto
pruner = freeze_thaw
keep = all
[space]
train.learning_rate = float(1e-5, 3e-3, log)
train.lr_scheduler = choice(linear, cosine)
INI

"$FTENGINE" tune tiny.ini --study paused >first.txt 2>&1 &
pid=$!
for _ in $(seq 600); do [ -d studies/paused/trials/00004 ] && break; sleep 0.2; done
kill -TERM $pid
wait $pid
code=$?
[ $code = 143 ] || [ $code = 0 ] || fail "exit code $code after SIGTERM: $(tail -3 first.txt)"
expect 0 "$FTENGINE" tune tiny.ini --study paused
says "pruner freeze_thaw"
expect 0 "$FTENGINE" study show paused --json
complete=$(json out 'd["trials"]["complete"]') pruned=$(json out 'd["trials"]["pruned"]')
[ $((complete + pruned)) = 10 ] || fail "$complete complete and $pruned pruned of 10 trials"
[ "$complete" -ge 3 ] || fail "only $complete are complete"
stopped=0
for run in studies/paused/trials/*; do
    [ "$(grep -c eval_accuracy "$run/metrics.jsonl")" -lt 6 ] && stopped=$((stopped + 1)) && continue
    [ "$(json "$run/run.json" 'd["status"]')" = completed ] || continue
    [ -f "$run/model/model.safetensors" ] || continue
    name=alone-$(basename "$run")
    expect 0 "$FTENGINE" train "$run/config.ini" output.dir="$name" output.exists=new
    [ "$(json "$name/run.json" 'd["metrics"]')" = "$(json "$run/run.json" 'd["metrics"]')" ] || fail "$run came to another result"
    cmp "$name/model/model.safetensors" "$run/model/model.safetensors" || fail "$run has another model"
done
[ "$stopped" -ge 1 ] || fail "no trial was stopped before its end"
exit 0
