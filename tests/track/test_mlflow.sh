#!/usr/bin/env bash
# track.mlflow against a server that speaks MLflow's REST API (tracker_server.py): runs and studies arrive once and whole, whatever was
# interrupted: the server away, slow or refusing, the run killed and gone on with, the record of what was told lost half way.
# shellcheck disable=SC2086,SC2015
# ctest: cost=60
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/track/tracker.sh" || exit 1
uri=http://127.0.0.1:$port
run="$here/follow.ini data.validation=$here/validation.tsv data.test=$here/validation.tsv eval.strategy=steps eval.steps=30 train.max_steps=120
     train.logging_steps=7 output.save_steps=10"
# same.py RUN [NAME]: the one run of this name at the server is the run directory.
cat >same.py <<'PYTHON'
import json
import sys

run = sys.argv[1]
store = json.load(open("store.json"))
there, = [r for r in store["runs"].values() if r["name"] == run and r["lifecycle_stage"] == "active"]
told = json.load(open(run + "/run.json"))
assert there["status"] == {"completed": "FINISHED", "interrupted": "KILLED", "oom": "FAILED", "diverged": "FAILED", "failed": "FAILED"}[told["status"]], there["status"]
assert there["end_time"] >= there["start_time"] > 1.7e12
config = {k: v for k, v in told["config"].items() if v != "" and not k.startswith(("output.dir", "output.exists"))}
params = {k: v for k, v in there["params"].items() if k in config}
assert params == config, {k: (params.get(k), v) for k, v in config.items() if params.get(k) != v}
want, have = {}, {}
for line in map(json.loads, open(run + "/metrics.jsonl")):
    for key, value in line.items():
        if key not in ("step", "format_version") and isinstance(value, (int, float)):
            want.setdefault(key, {})[line["step"]] = value
for key, step, time, value in there["metrics"]:
    assert 1.7e12 < time < 4e12
    assert step not in have.setdefault(key, {}), f"{key} at {step} is there twice"
    have[key][step] = value
for key, points in want.items():
    if key == "tokens_per_second":
        assert set(have[key]) == set(points), key
    else:
        assert have[key] == points, (key, have.get(key), points)
last = {key: points[told["steps"]] for key, points in have.items() if told["steps"] in points}
for key, value in told["metrics"].items():
    if key.startswith("test_"):
        assert last[key] == value, key
assert last["memory/peak_reserved_bytes"] == told["memory"]["peak_reserved_bytes"]
assert last["planned/peak_reserved_bytes"] == told["planned"]["peak_reserved_bytes"]
assert {k[15:]: v for k, v in last.items() if k.startswith("memory/at_peak/")} == told["memory"]["at_peak"]
files = {k.split("/artifacts/")[1]: v for k, v in store["artifacts"].items() if f"/{[i for i, r in store['runs'].items() if r is there][0]}/" in k}
for name in ("config.ini", "run.json"):
    assert files[name] == open(f"{run}/{name}").read(), name
assert files["train.log"] and open(run + "/train.log").read().startswith(files["train.log"])  # its last line may be the program's
tags = there["tags"]
assert tags["mlflow.source.name"] == "ftengine train" and tags["mlflow.source.type"] == "LOCAL" and tags["mlflow.user"]
assert tags["ftengine.status"] == told["status"] and tags.get("error_message") == told.get("error")
PYTHON
# A machine that is busy may have a teller go on for a while behind the run.
settle() { for _ in $(seq 2400); do pgrep -f "track --live .*$uri" >/dev/null || break; sleep 0.05; done; }
same() { settle && store && python3 -S same.py "$@" || fail "$1: MLflow has something else"; }
none_left() { settle; [ -z "$(pgrep -f "track --live .*$uri")" ] || fail "a process is left: $(pgrep -af "track --live .*$uri")"; }

# ---- a run --------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" train $run output.dir=plain
expect 0 "$FTENGINE" train $run output.dir=whole track.mlflow=$uri track.experiment="my texts" track.log_model=true
none_left
! grep "MLflow" err | grep -v "it is slow" || fail "something is wrong: $(cat err)"
same whole
holds store.json 'any("/artifacts/model/MLmodel" in k for k in d["artifacts"])'
holds store.json 'sorted(d["experiments"]) == ["Default", "my texts"] and [r["experiment_id"] for r in d["runs"].values()] == [d["experiments"]["my texts"]]'
cmp plain/model/model.safetensors whole/model/model.safetensors || fail "another model"
# Told again: nothing is there twice, and no second run.
expect 0 "$FTENGINE" track whole
same whole
# Batches: never more than MLflow takes, few enough.
requests
holds requests.json 'sum(r["path"].endswith("/runs/create") for r in d) == 1'
# Its model came with its end, once, and with what MLflow makes a pipeline from.
python3 -S - <<'PYTHON' || fail "the model is told otherwise"
import json, os
files = {k.split("/artifacts/")[1]: v for k, v in json.load(open("store.json"))["artifacts"].items() if "/artifacts/model/" in k}
flavor = json.loads(files["model/MLmodel"])["flavors"]["transformers"]
assert flavor["task"] == "text-classification" and flavor["components"] == ["tokenizer"] and flavor["model_binary"] == "model", flavor
assert flavor["pipeline_model_type"] == json.load(open("whole/model/config.json"))["architectures"][0]
small = {n for n in os.listdir("whole/model") if not n.endswith(".safetensors")}
for name in small:
    assert files["model/model/" + name] == files["model/components/tokenizer/" + name] == open("whole/model/" + name, encoding="utf-8").read(), name
assert len(files) == 2 * len(small) + 2 and "model/model/model.safetensors" in files, sorted(files)
PYTHON
expect 0 "$FTENGINE" track whole --model
requests
holds requests.json 'not [r for r in d if "/artifacts/model/" in r["path"]]'
expect 2 "$FTENGINE" track nowhere --model
mkdir bare && cp whole/config.ini bare && expect 2 "$FTENGINE" track bare --model
one_error "neither model/ nor adapter/"
# By MLflow's own variables, of a run that knew nothing of it.
expect 0 env MLFLOW_TRACKING_URI=$uri MLFLOW_EXPERIMENT_NAME=other "$FTENGINE" track plain
same plain
holds store.json 'sum("/artifacts/model/MLmodel" in k for k in d["artifacts"]) == 1'
expect 0 env MLFLOW_TRACKING_URI=$uri MLFLOW_EXPERIMENT_NAME=other "$FTENGINE" track plain --model
same plain
holds store.json 'sum("/artifacts/model/MLmodel" in k for k in d["artifacts"]) == 2'
# An adapter is files that PEFT reads. A server that keeps no files says so, and knows the run all the same.
expect 0 "$FTENGINE" train $run output.dir=lora adapter.type=lora train.max_steps=3 eval.strategy=no
expect 0 "$FTENGINE" track lora --model --json track.mlflow=$uri && is_document track
[ "$(json out 'd')" = "{'format_version': 1, 'told': 'lora'}" ] || fail "the document: $(cat out)"
store
holds store.json 'sorted(k.split("/artifacts/")[1] for k in d["artifacts"] if "/adapter/" in k) == sorted("adapter/" + f for f in __import__("os").listdir("lora/adapter"))'
ask PUT need '{"place": "s3://elsewhere/"}' >/dev/null
expect 0 "$FTENGINE" train $run output.dir=kept train.max_steps=3 eval.strategy=no
expect 2 "$FTENGINE" track kept --model track.mlflow=$uri
one_error "takes no files"
ask PUT need '{}' >/dev/null
store
holds store.json '[r["status"] for r in d["runs"].values() if r["name"] == "kept"] == ["FINISHED"]'
holds store.json '"other" in d["experiments"]'
expect 0 env MLFLOW_TRACKING_URI=$uri "$FTENGINE" train $run output.dir=not-told track.mlflow=none
[ ! -e not-told/mlflow.json ] || fail "nobody was to be told"
expect 5 "$FTENGINE" train $run output.dir=ill train.learning_rate=100 train.weight_decay=1 train.max_steps=60 train.lr_scheduler=constant track.mlflow=$uri
same ill

# ---- killed, stopped, and gone on with -----------------------------------------------------------------------------------
"$FTENGINE" train $run output.dir=killed track.mlflow=$uri >out 2>err &
pid=$!
for _ in $(seq 24000); do [ -e killed/checkpoints/step-00000020 ] || [ -e killed/checkpoints/step-00000030 ] && break; sleep 0.005; done
kill -9 $pid
wait $pid 2>/dev/null
[ ! -e killed/run.json ] || fail "it was at its end before it was killed"
none_left
store
holds store.json '[r["status"] for r in d["runs"].values() if r["name"] == "killed"] == ["KILLED"]'
expect 0 "$FTENGINE" train $run output.dir=killed track.mlflow=$uri output.exists=resume
same killed
# The record of a run whose teller was killed between the server's answer and its file: the run is found again.
python3 -S - <<'PYTHON'
import json
record = json.load(open("killed/mlflow.json"))
json.dump({"id": record["id"]}, open("killed/mlflow.json", "w"))
PYTHON
requests
expect 0 "$FTENGINE" track killed
requests
holds requests.json 'not any(r["path"].endswith("/runs/create") for r in d)'
# A run that somebody deleted there is made anew.
store
deleted=$(json store.json '[i for i, r in d["runs"].items() if r["name"] == "whole"][0]')
python3 -S - "$uri" "$deleted" <<'PYTHON'
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1] + "/api/2.0/mlflow/runs/delete", json.dumps({"run_id": sys.argv[2]}).encode(), method="POST")
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
PYTHON
expect 0 "$FTENGINE" track whole
same whole

# ---- a server that is away, slow, or refuses ---------------------------------------------------------------------------------
faults '{"match": "mlflow", "status": 503, "times": -1}'
expect 0 "$FTENGINE" train $run output.dir=away track.mlflow=$uri
says "warning: MLflow was not told all of"
says "\`ftengine track "
[ "$(grep -c "^warning: MLflow is not told now" err)" = 1 ] || fail "not said once: $(cat err)"
none_left
expect 1 "$FTENGINE" track away
one_error "MLflow answered 503"
faults '{"match": "log-batch", "status": 503, "times": 1}' # once, in the midst
expect 0 "$FTENGINE" track away
same away
faults '{"match": "mlflow", "delay": 300, "times": -1}'
started=$SECONDS
expect 0 "$FTENGINE" train $run output.dir=slow track.mlflow=$uri
says "it is slow"
[ $((SECONDS - started)) -lt 120 ] || fail "a server that hangs held the run up"
teller=$(pgrep -f "track --live $scratch/slow ")
kill "$teller" && sleep 0.2
kill -0 "$teller" || fail "it ended by a SIGTERM that is meant for the run"
kill -9 "$teller"
faults '{"match": "nothing", "times": 0}'
expect 0 "$FTENGINE" train $run output.dir=nobody track.mlflow=http://127.0.0.1:1
says "warning: MLflow was not told all of"
expect 2 "$FTENGINE" track nobody track.mlflow=none
one_error "nobody is to be told"
expect 0 "$FTENGINE" track nobody track.mlflow=$uri
same nobody
for bad in file:./mlruns sqlite:///mlflow.db http://me:s3cr3t@host databricks; do
    expect 2 "$FTENGINE" train $run output.dir=bad track.mlflow=$bad
    one_error "takes the address of a server"
    ! grep -q s3cr3t err || fail "a password is shown"
done
expect 0 env MLFLOW_TRACKING_URI=file:./mlruns "$FTENGINE" train $run output.dir=elsewhere
says "warning: MLFLOW_TRACKING_URI is no address"
ask PUT need '{"authorization": "Basic bWU6czNjcjN0"}' >/dev/null # me:s3cr3t
expect 0 env MLFLOW_TRACKING_USERNAME=me MLFLOW_TRACKING_PASSWORD=s3cr3t "$FTENGINE" train $run output.dir=secret track.mlflow=$uri
same secret
! grep -rqE 's3cr3t|bWU6' secret err out || fail "a password is in $(grep -rlE 's3cr3t|bWU6' secret err out)"
expect 2 env MLFLOW_TRACKING_USERNAME=me MLFLOW_TRACKING_PASSWORD=wr0ng "$FTENGINE" track secret
one_error "MLflow answered 401"
! grep -q wr0ng err || fail "a password is shown"
ask PUT need '{"authorization": "Bearer t0ken"}' >/dev/null
expect 0 env MLFLOW_TRACKING_TOKEN=t0ken "$FTENGINE" track secret
ask PUT need '{}' >/dev/null

# ---- a study ------------------------------------------------------------------------------------------------------------------
cat >study.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 60
logging_steps = 5
[track]
mlflow = $uri
[study]
trials = 4
sampler = grid
[space]
train.learning_rate = choice(1e-3, 2e-3, 90, 100)
train.weight_decay = 1
train.lr_scheduler = constant
INI
cat >study.py <<'PYTHON'
import json
import sqlite3
import sys

name, trials = sys.argv[1], int(sys.argv[2])
store = json.load(open("store.json"))
parent, = [i for i, r in store["runs"].items() if r["tags"].get("ftengine.study") == name]
children = {r["tags"]["ftengine.trial"]: r for r in store["runs"].values() if r["tags"].get("mlflow.parentRunId") == parent}
assert len(children) == len([r for r in store["runs"].values() if r["tags"].get("mlflow.parentRunId") == parent]) == trials, "trials twice, or none"
db = sqlite3.connect(f"file:studies/{name}/study.db?mode=ro", uri=True)
counts = dict.fromkeys(("COMPLETE", "PRUNED", "FAIL"), 0)
for number, state in db.execute("SELECT number, state FROM trials"):
    child = children[str(number)]
    counts[state] += 1
    assert child["name"] == f"trial {number}" and child["status"] == {"COMPLETE": "FINISHED", "PRUNED": "FINISHED", "FAIL": "FAILED"}[state], (number, child)
    have = {(k, s): v for k, s, _, v in child["metrics"]}
    assert len(have) == len(child["metrics"]), "a point is there twice"
    for line in map(json.loads, open(f"studies/{name}/trials/{number:05d}/metrics.jsonl")):
        for key, value in line.items():
            if key not in ("step", "format_version") and isinstance(value, (int, float)):
                assert key == "tokens_per_second" or have[key, line["step"]] == value, key # a killed session had another speed
    drawn = db.execute("SELECT param_name, param_value, distribution_json FROM trials JOIN trial_params USING (trial_id) WHERE number = ?", (number,))
    assert child["params"].keys() == {p for p, _, _ in drawn}, child["params"]
    value = db.execute("SELECT value FROM trials JOIN trial_values USING (trial_id) WHERE number = ?", (number,)).fetchone()
    if state == "COMPLETE":
        assert [v for (k, _), v in have.items() if k == "value"] == [value[0]]
    if state == "FAIL":
        assert child["tags"]["error_message"] and child["tags"]["status"] == "diverged", child["tags"]
whole = store["runs"][parent]
last = {k: v for k, s, _, v in whole["metrics"] if s == trials}
assert whole["status"] == "FINISHED" and whole["name"] == name and "best_value" in last, whole
assert [last[k] for k in ("completed_trials", "pruned_trials", "failed_trials", "oom_trials")] == [*counts.values(), 0], last
assert any(k.endswith(f"/{parent}/artifacts/best.ini") for k in store["artifacts"])
PYTHON
study() { settle && store && python3 -S study.py "$@" || fail "$1: MLflow has something else"; }
expect 0 "$FTENGINE" tune study.ini --study s
none_left
study s 4
expect 0 "$FTENGINE" track s
study s 4
# Killed in the midst, server away, gone on with, told the rest afterwards.
"$FTENGINE" tune study.ini --study k train.max_steps=80 >out 2>err &
pid=$!
for _ in $(seq 24000); do [ -s studies/k/trials/00001/metrics.jsonl ] && break; sleep 0.005; done
kill -9 $pid
wait $pid 2>/dev/null
none_left
faults '{"match": "mlflow", "status": 503, "times": -1}'
expect 0 "$FTENGINE" tune study.ini --study k train.max_steps=80
says "warning: MLflow was not told all of"
faults '{"match": "nothing", "times": 0}'
expect 0 "$FTENGINE" track studies/k
study k 4
