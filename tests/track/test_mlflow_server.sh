#!/usr/bin/env bash
# MLflow's real server takes what track.mlflow tells, and gives it back value by value. Its Python is FT_MLFLOW_PYTHON, or python3 if that has
# it; with FT_TRACKERS_FROM_PYPI=1 a virtual environment is made for it.
# shellcheck disable=SC2086,SC2015
# ctest: sanitize=leave timeout=900
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME
python=${FT_MLFLOW_PYTHON:-python3}
if [ "${FT_TRACKERS_FROM_PYPI:-0}" = 1 ] && ! "$python" -c 'import mlflow' 2>/dev/null; then
    python3 -m venv venv && venv/bin/pip -q install mlflow && python=venv/bin/python
fi
"$python" -c 'import mlflow' 2>/dev/null || { echo "skipped: no MLflow (FT_MLFLOW_PYTHON)" && exit 77; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" -m mlflow server --host 127.0.0.1 --port "$port" --backend-store-uri "sqlite:///$scratch/mlflow.db" --artifacts-destination "$scratch/artifacts" >server.log 2>&1 &
server=$!
trap 'pkill -P $server 2>/dev/null; kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 1200); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.1; done
uri=http://127.0.0.1:$port
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
experiment = with us
[study]
trials = 3
sampler = grid
[space]
train.learning_rate = choice(1e-3, 2e-3, 100)
train.weight_decay = 1
train.lr_scheduler = constant
INI
# All of it is there when this says so, however slow the machine is.
tell() {
    for _ in $(seq 100); do
        "$FTENGINE" track "$1" >out 2>err && return
        grep -q "another process tells" err || fail "MLflow is not told of $1: $(tail -20 server.log)"
        sleep 1
    done
    fail "a process tells of $1 without an end"
}
expect 0 "$FTENGINE" train study.ini train.learning_rate=1e-3 output.dir=run
! grep "MLflow" err | grep -v "it is slow" || fail "something is wrong: $(cat server.log)"
tell run
expect 0 "$FTENGINE" track run --model
expect 2 "$FTENGINE" track s --model
one_error "of a study there is no model"
expect 0 "$FTENGINE" tune study.ini --study s
! grep "MLflow" err | grep -v "it is slow" || fail "something is wrong: $(cat server.log)"
tell s
MLFLOW_TRACKING_URI=$uri "$python" - "$here/validation.tsv" <<'PYTHON' || fail "MLflow gives something else: $(tail -20 server.log)"
import json
import sys
import mlflow

client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("with us")
try:
    import mlflow.transformers
    import transformers
    import torch  # noqa: F401
    pipelines = True
except ImportError:
    pipelines = False
    print("left out: the model as a pipeline, for there are no transformers and no PyTorch here")
runs = client.search_runs([experiment.experiment_id])
run, = [r for r in runs if r.info.run_name == "run"]
told = json.load(open("run/run.json"))
assert run.info.status == "FINISHED" and run.data.params["train.max_steps"] == "60"
want = {}
for line in map(json.loads, open("run/metrics.jsonl")):
    for key, value in line.items():
        if key not in ("step", "format_version") and isinstance(value, (int, float)):
            want.setdefault(key, []).append((line["step"], value))
for key, points in want.items():
    have = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, key)]
    assert sorted(have) == sorted(dict(points).items()), (key, have, points)
assert run.data.metrics["memory/peak_reserved_bytes"] == told["memory"]["peak_reserved_bytes"]
assert {f.path for f in client.list_artifacts(run.info.run_id)} >= {"config.ini", "run.json", "train.log", "model"}
if pipelines:
    import csv
    texts = [row[0][:20] for row in csv.reader(open(sys.argv[1], encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE)][1:6]  # the model has 48 positions
    there = mlflow.transformers.load_model(f"runs:/{run.info.run_id}/model")
    here = transformers.pipeline("text-classification", model="run/model")
    assert there(texts) == here(texts), (there(texts), here(texts))
parent, = [r for r in runs if r.data.tags.get("ftengine.study") == "s"]
children = {r.data.tags["ftengine.trial"]: r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id}
assert sorted(children) == ["0", "1", "2"] and parent.info.status == "FINISHED"
assert [children[str(n)].info.status for n in range(3)].count("FAILED") == 1
assert parent.data.metrics["completed_trials"] == 2 and parent.data.metrics["failed_trials"] == 1 and parent.data.metrics["oom_trials"] == 0
failed, = [r for r in children.values() if r.info.status == "FAILED"]
assert failed.data.tags["error_message"]
PYTHON
