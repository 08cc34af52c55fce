#!/usr/bin/env bash
# notify.command and notify.url: the end of runs and studies, and trouble, as JSON; neither can fail, hold up or betray a run.
# shellcheck disable=SC2086,SC2015
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/track/tracker.sh" || exit 1
run="$here/follow.ini data.validation=$here/validation.tsv eval.strategy=epoch train.max_steps=20"
hook=http://127.0.0.1:$port/hook/s3cr3t
# shellcheck disable=SC2016
keep='notify.command=cat >>told.jsonl; echo "$FTENGINE_EVENT|$FTENGINE_TEXT" >>told.txt; echo noise'
# no_secret DIR: nowhere in what stays, nor in what was said
no_secret() { ! grep -rqF s3cr3t "$1" out err || fail "the address is in $(grep -rlF s3cr3t "$1" out err)"; }

# ---- a run ------------------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" train $run output.dir=well "$keep" notify.url=$hook
[ ! -s out ] || fail "a command's noise is on standard output: $(cat out)"
no_secret well
requests
holds requests.json 'len(d) == 1 and d[0]["method"] == "POST" and d[0]["path"] == "/hook/s3cr3t" and d[0]["headers"]["Content-Type"] == "application/json"'
python3 -S - "$scratch/well" <<'PYTHON' || fail "what was told: $(cat told.jsonl told.txt requests.json)"
import json, socket, sys, time
told, = map(json.loads, open("told.jsonl"))
posted, = (json.loads(r["body"]) for r in json.load(open("requests.json")))
run = json.load(open("well/run.json"))
assert told == posted and told["event"] == "run.finished" and told["run"] == sys.argv[1] and told["status"] == "completed"
assert told["metrics"] == run["metrics"] and told["best"] == run["best"] and told["steps"] == 20 and "error" not in told
assert told["host"] == socket.gethostname() and abs(told["time"] - time.time()) < 600
assert told["text"].startswith("well has finished after 20 steps, best ")
assert open("told.txt").read() == f"run.finished|{told['text']}\n"
PYTHON
[ "$(grep -c '^notify.url =$\|^url =$' well/config.ini)" = 1 ] || fail "config.ini: $(grep -n url well/config.ini)"

rm told.*
expect 5 "$FTENGINE" train $run output.dir=ill train.learning_rate=100 train.weight_decay=1 train.max_steps=60 train.lr_scheduler=constant "$keep" notify.url=$hook
no_secret ill
requests
python3 -S - <<'PYTHON' || fail "what was told: $(cat requests.json)"
import json
posted, = (json.loads(r["body"]) for r in json.load(open("requests.json")))
assert posted["event"] == "run.diverged" and posted["status"] == "diverged" and posted["error"] and posted["error"] in posted["text"]
PYTHON

# Several seeds are one run to tell of; who is refused at once has somebody who sees it.
expect 0 "$FTENGINE" train $run output.dir=seeds train.seeds=1,2 notify.url=$hook
requests
holds requests.json 'len(d) == 1 and __import__("json").loads(d[0]["body"])["run"].endswith("/seeds")'
expect 2 "$FTENGINE" train $run data.train=absent.tsv output.dir=none notify.url=$hook
requests
holds requests.json 'd == []'

# ---- where the address comes from -----------------------------------------------------------------------------------------
echo "$hook" >address && chmod 600 address
for from in "env FTENGINE_NOTIFY_URL=$hook" "env FTENGINE_NOTIFY_URL=file:$scratch/address" "notify.url=file:address"; do
    rm -rf by
    case $from in
    env*) expect 0 $from "$FTENGINE" train $run output.dir="by" ;;
    *) expect 0 "$FTENGINE" train $run output.dir="by" $from ;;
    esac
    requests
    holds requests.json 'len(d) == 1'
done
grep -qx 'url = file:address' by/config.ini || fail "where the address lies is no secret: $(grep url by/config.ini)"
expect 0 env FTENGINE_NOTIFY_URL=$hook "$FTENGINE" train $run output.dir=by-none notify.url=none
requests
holds requests.json 'd == []'
for bad in nonsense ftp://a/b "http://" "http://a b"; do
    expect 2 "$FTENGINE" train $run output.dir=bad "notify.url=$bad"
    one_error "takes an address"
    [ ! -e bad ] || fail "it began"
done
expect 2 "$FTENGINE" train $run output.dir=bad notify.url=file:absent
one_error "absent"

# ---- what goes wrong ------------------------------------------------------------------------------------------------------
# A passing fault is tried again, a lasting one is a warning; what hangs is left.
faults '{"match": "hook", "status": 503, "times": 2}'
expect 0 "$FTENGINE" train $run output.dir=twice notify.url=$hook
requests
holds requests.json 'len(d) == 3'
! grep -q "was not told" err || fail "it was told in the end: $(cat err)"
faults '{"match": "hook", "status": 403, "times": -1}'
expect 0 "$FTENGINE" train $run output.dir=refused notify.url=$hook
says "warning: notify.url was not told of run.finished: it answered 403 (127.0.0.1:$port)"
no_secret refused
requests
holds requests.json 'len(d) == 1'
faults '{"match": "hook", "delay": 30, "times": -1}'
started=$SECONDS
expect 0 "$FTENGINE" train $run output.dir=slow notify.url=$hook notify.timeout=0.5s
says "warning: notify.url was not told of run.finished: "
no_secret slow
[ $((SECONDS - started)) -lt 25 ] || fail "a slow server held the run up"
expect 0 "$FTENGINE" train $run output.dir=nobody notify.url=http://127.0.0.1:1/s3cr3t
says "warning: notify.url was not told of run.finished: "
no_secret nobody
expect 0 "$FTENGINE" train $run output.dir=hangs 'notify.command=sleep 60 & sleep 60' notify.timeout=0.5s
says "it took longer than notify.timeout"
expect 0 "$FTENGINE" train $run output.dir=fails 'notify.command=exit 3'
says "warning: notify.command was not told of run.finished: it ended with exit code 3"
expect 0 "$FTENGINE" train $run output.dir=deaf 'notify.command=exec <&-' # it reads nothing

# ---- a study --------------------------------------------------------------------------------------------------------------
faults '{"match": "nothing", "times": 0}'
cat >study.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 60
[study]
trials = 4
sampler = grid
[space]
train.learning_rate = choice(1e-3, 2e-3, 90, 100)
train.weight_decay = 1
train.lr_scheduler = constant
INI
requests
expect 0 "$FTENGINE" tune study.ini --study s notify.url=$hook
no_secret studies
requests
python3 -S - <<'PYTHON' || fail "what was told: $(cat requests.json)"
import json
trouble, end = (json.loads(r["body"]) for r in json.load(open("requests.json")))
assert trouble["event"] == "trial.failed" and trouble["study"] == "s" and trouble["error"] in trouble["text"] and trouble["params"]["train.learning_rate"]
assert end["event"] == "study.finished" and end["counts"] == {"completed_trials": 2, "pruned_trials": 0, "failed_trials": 2, "oom_trials": 0}, end
assert end["text"].startswith("s: 4 of 4 trials, best eval.") and f"(trial {end['trial']})" in end["text"] and ", 2 failed" in end["text"], end["text"]
assert end["directory"].endswith("/studies/s") and set(end["params"]) == {"train.learning_rate"}
PYTHON
"$FTENGINE" tune study.ini --study stopped train.max_steps=100000 notify.url=$hook >out 2>err &
pid=$!
for _ in $(seq 12000); do [ -s studies/stopped/trials/00000/metrics.jsonl ] && break; sleep 0.01; done
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "the exit code of a stopped study"
requests
holds requests.json '[__import__("json").loads(r["body"])["event"] for r in d] == ["study.stopped"]'
