#!/usr/bin/env bash
# A study of adapters on an emulated CUDA device whose trials share a process and its copy of the frozen model (study.pack), with pruning and a kill
# -9 of that process, against the same study with two trials at a time and no kill: every trial has the same bits, as far as both trained
# it, in the memory that was planned, and the kill costs each trial that ran one retry. Found by it: a trial whose numbers depend on who is beside
# it, one that is lost with its process, a model for each trial, planned bytes that are not taken.
# ctest: tsan=leave cost=30
steps=4
. "${SOURCE_DIR:?is set by ctest}/tests/emulator/runs/emulated_runs.sh" || exit 1
trap 'for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done; rm -rf "$scratch"' EXIT
unset FAKE_REPORT # of one process
# A base with weights of its own: a run of a step.
# shellcheck disable=SC2086
expect 0 "$FTENGINE" train $run output.dir=base device.name=cpu train.max_steps=1 eval.strategy=no
cat >adapters.ini <<INI
include = $here/follow.ini
[model]
path = $scratch/base/model
init = pretrained
hidden_dropout = 0.1
[data]
validation = $here/validation.tsv
cache_dir = none
max_length = 10
[device]
name = cuda
[train]
max_steps = $steps
warmup_steps = 0
[eval]
strategy = steps
steps = 2
[output]
save_steps = 2
[adapter]
type = lora
dropout = 0.1
[study]
sampler = random
pruner = median
pruner_startup_trials = 1
pruner_warmup_steps = 1
trials = 3
keep = all
[space]
adapter.r = choice(2, 4)
adapter.targets = choice(auto, all-linear)
train.learning_rate = float(1e-4, 3e-2, log)
train.seed = int(0, 1000)
train.batch_size = choice(2, 4)
INI
expect 0 "$FTENGINE" tune adapters.ini --study calm study.pack=2
"$FTENGINE" tune adapters.ini --study killed study.pack=3 >out 2>err </dev/null &
coordinator=$!
until [ "$(grep -ls '"step":2[,}]' studies/killed/trials/*/metrics.jsonl 2>/dev/null | wc -l)" -ge 2 ]; do
    kill -0 $coordinator 2>/dev/null || fail "the study ended before two trials had two steps: $(cat err)"
    sleep 0.02
done
worker=$(pgrep -P $coordinator)
[ "$(wc -w <<<"$worker")" = 1 ] || fail "the study has the processes $worker, and should have one worker"
kill -9 "$worker"
wait $coordinator || fail "the study ended with $?: $(cat err)"
grep -l "which have the frozen model in common" studies/*/trials/*/log.txt | wc -l | grep -qx 6 || fail "not every trial shared the model"
grep -l "^device .*sm_" studies/*/trials/*/log.txt | wc -l | grep -qx 6 || fail "not every trial was on the GPU: $(grep -h "^device" studies/*/trials/*/log.txt)"
grep -qE "pack +beside [12] other" studies/killed/trials/*/log.txt || fail "no trial had others beside it"
python3 -S - <<'PYTHON' || fail "see above"
import json, sqlite3
ended = set()
def lines(path):
    return [{k: v for k, v in json.loads(line).items() if k != "tokens_per_second"} for line in open(f"{path}/metrics.jsonl")]
for number in range(3):
    a, b = (f"studies/{s}/trials/{number:05d}" for s in ("calm", "killed"))
    assert open(f"{a}/config.ini").read().replace("calm", "killed") == open(f"{b}/config.ini").read(), number
    x, y = lines(a), lines(b)
    n = min(len(x), len(y))
    assert n > 0 and x[:n] == y[:n], (number, next((p for p in zip(x, y) if p[0] != p[1]), None))
    runs = [json.load(open(f"{d}/run.json")) for d in (a, b)]
    for run in runs:
        ended.add(run["status"])
        if run["status"] == "completed":
            for peak in "peak_reserved_bytes", "peak_allocated_bytes":
                assert run["memory"][peak] == run["planned"][peak] > 0, (number, peak)
    if all(run["status"] == "completed" for run in runs):
        for name in "adapter/adapter_model.safetensors", "predictions.jsonl":
            assert open(f"{a}/{name}", "rb").read() == open(f"{b}/{name}", "rb").read(), (number, name)
assert "completed" in ended, ended
db = sqlite3.connect("studies/killed/study.db")
retries = [int(v) for v, in db.execute("SELECT value_json FROM trial_user_attributes WHERE key = 'retries'")]
assert 2 <= sum(retries) <= 3 and max(retries) == 1, retries
PYTHON
exit 0
