#!/usr/bin/env bash
# The real optuna-dashboard on a study while `ftengine tune` runs it: it opens, shows what is in the file - trials, their values on
# the way, parameters, attributes, importances -, writes a note of its own, and neither disturbs the other.
# OPTUNA_DASHBOARD names the program when it is neither in the path nor where tools/optuna_dashboard.sh puts it; without it the
# test is skipped.
# ctest: sanitize=leave
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
dashboard=${OPTUNA_DASHBOARD:-$(command -v optuna-dashboard || command -v "$SOURCE_DIR/third_party/optuna-dashboard/bin/optuna-dashboard")} || dashboard=
[ -n "$dashboard" ] || { echo "skipped: there is no optuna-dashboard: run tools/optuna_dashboard.sh"; exit 77; }
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 2400
batch_size = 8
[eval]
strategy = steps
steps = 240
metric = accuracy
[output]
save_steps = 0
[study]
trials = 12
startup_trials = 3
pruner = median
pruner_startup_trials = 2
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine, constant)
train.warmup_steps = int(1, 20) if train.lr_scheduler != constant
INI
cleanup() {
    for process in "${tune:-}" "${server:-}"; do
        [ -z "$process" ] || kill "$process" 2>/dev/null
    done
    wait
    rm -rf "$scratch"
}
trap cleanup EXIT
expect 0 "$FTENGINE" study create tiny.ini --study watched
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$dashboard" --server wsgiref --port "$port" "sqlite:///$scratch/studies/watched/study.db" >dashboard.log 2>&1 </dev/null &
server=$!
for _ in $(seq 300); do # its start may take longer than the whole study
    python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/api/studies', timeout=10)" 2>/dev/null && break
    kill -0 "$server" 2>/dev/null || { cp dashboard.log err; fail "$dashboard does not start"; }
    sleep 0.2
done
"$FTENGINE" tune tiny.ini --study watched --parallel 2 >tune.out 2>tune.err </dev/null &
tune=$!

cat >watch.py <<'PYTHON'
"""watch.py PORT PROCESS: what the dashboard tells while the process lives, and afterwards."""
import json
import os
import sys
import time
import urllib.request

address, process = f"http://127.0.0.1:{sys.argv[1]}", int(sys.argv[2])


def ask(path, method="GET", body=None):
    request = urllib.request.Request(address + path, method=method, data=json.dumps(body).encode() if body else None,
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if "json" in answer.headers.get("Content-Type", "") and text else text


def alive():
    try:
        return open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError: # the shell has taken its end
        return False


studies = ask("/api/studies")
(study,) = studies["study_summaries"] if "study_summaries" in studies else studies["studies"]
assert study["study_name"] == "watched" and study["directions"] == ["maximize"], study
path = f"/api/studies/{study['study_id']}"

while_it_ran, most, note = 0, 0, None
while alive():
    detail = ask(path)
    running = alive() # it was, before and after the answer
    trials = detail["trials"]
    assert len(trials) >= most, "trials went away"
    most = len(trials)
    while_it_ran += running and any(t["state"] == "Running" for t in trials)
    if note is None and while_it_ran:
        note = f"{len(trials)} trials when this was written"
        ask(path + "/note", "PUT", {"body": note, "version": detail["note"]["version"] + 1})
    time.sleep(0.5)
assert while_it_ran > 0, "the dashboard never saw a running trial"
time.sleep(2.5) # its cache
detail = ask(path)
json.dump({"detail": detail, "importances": ask(path + "/param_importances"), "note": note, "seen": while_it_ran, "path": path}, open("watched.json", "w"))
assert b"<html" in ask("/dashboard").lower()
PYTHON
python3 watch.py "$port" "$tune" || { cat dashboard.log tune.err >err; fail "the dashboard beside the study"; }
wait "$tune"
code=$?
tune=
cp tune.err err
[ $code = 0 ] || fail "tune ended with $code beside the dashboard"
says "all trials are done: 12 trials"

# What it shows is what the study holds.
expect 0 "$FTENGINE" study export watched --format jsonl --output export.jsonl
python3 - <<'PYTHON' || fail "the dashboard shows another study"
import json
lines = [json.loads(line) for line in open("export.jsonl")]
watched = json.load(open("watched.json"))
detail, study, trials = watched["detail"], lines[0], lines[1:]
assert detail["note"]["body"] == watched["note"] and study["system_attributes"], "the note is in the study"
assert watched["note"] in json.dumps(study["system_attributes"])
assert len(detail["trials"]) == len(trials) == 12
for shown, held in zip(detail["trials"], trials):
    assert shown["number"] == held["number"] and shown["state"].upper() == held["state"]
    if held["state"] == "COMPLETE":
        assert shown["values"] == held["values"], (shown["values"], held["values"])
    assert {p["name"]: p["param_external_value"] for p in shown["params"]} == {k: str(v) for k, v in held["params"].items()}
    assert {str(r["step"]): r["value"] for r in shown["intermediate_values"]} == held["intermediate_values"] and held["intermediate_values"]
    attributes = {a["key"]: a["value"] for a in shown["user_attrs"]}
    assert attributes["directory"] == held["user_attributes"]["directory"] and "status" in attributes
    assert shown["datetime_start"] and shown["datetime_complete"]
(best,) = detail["best_trials"]
assert best["values"] == [max(t["values"][0] for t in trials if t["state"] == "COMPLETE")]
assert {p["name"] for p in detail["union_search_space"]} == {"train.learning_rate", "train.lr_scheduler", "train.warmup_steps"}
assert detail["has_intermediate_values"]
(importances,) = watched["importances"]["param_importances"]
assert importances and all(0 <= i["importance"] <= 1 for i in importances), importances
PYTHON

# Its own page, drawn by its scripts in a browser, names the study.
if [ -n "$browser" ]; then
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$scratch/profile" \
        --virtual-time-budget=20000 --dump-dom "http://127.0.0.1:$port/dashboard" >dom 2>err || fail "$browser failed"
    grep -q "watched" dom || fail "the dashboard's page does not show the study"
fi
kill "$server" && wait "$server" 2>/dev/null
server=
expect 0 "$FTENGINE" tune tiny.ini --study watched --trials 13
says "13 trials"
