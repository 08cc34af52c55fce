#!/usr/bin/env bash
# track.tensorboard: event files with right checksums, every figure of metrics.jsonl under the Trainer's name, once, also when a run was
# killed and goes on; the configuration as a text; trials with parameters and objectives; what cannot be written costs a warning.
# shellcheck disable=SC2086,SC2015
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
export PYTHONPATH=$SOURCE_DIR/tests/track
run="$here/follow.ini data.validation=$here/validation.tsv data.test=$here/validation.tsv eval.strategy=steps eval.steps=30 train.max_steps=120
     train.logging_steps=7 output.save_steps=10 track.tensorboard=true"
# same RUN SESSIONS: what a reader shows is what metrics.jsonl and run.json have, and nothing twice.
cat >same.py <<'PYTHON'
import json
import sys
from event_files import Board, single

run, sessions = sys.argv[1], int(sys.argv[2])
board = Board(run + "/tensorboard")
assert len(board.files) == sessions, board.files
want = {}
for line in map(json.loads, open(run + "/metrics.jsonl")):
    for key, value in line.items():
        if key in ("step", "format_version") or not isinstance(value, (int, float)):
            continue
        tag = "eval/" + key[5:] if key.startswith("eval_") else "train/" + key
        want.setdefault(tag, {})[line["step"]] = single(value)
assert {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "eval/loss", "eval/accuracy"} <= set(want)
for tag, points in want.items():
    have = board.scalars[tag]
    assert len(have) == len(dict(have)), (tag, "a step is there twice", have)
    if "tokens_per_second" not in tag: # of the killed session, which measured other ones
        assert dict(have) == points, (tag, have, points)
    assert set(dict(have)) == set(points), tag
told = json.load(open(run + "/run.json"))
last = {tag: points[-1] for tag, points in board.scalars.items()}
for key, value in told["metrics"].items():
    if key.startswith("test_"):
        assert last["test/" + key[5:]] == (told["steps"], single(value)), key
assert last["memory/peak_reserved_bytes"][1] == single(told["memory"]["peak_reserved_bytes"])
for category, value in told["memory"]["at_peak"].items():
    assert last["memory/at_peak/" + category][1] == single(value), category
assert last["train/train_runtime"][0] == told["steps"] and 0 < last["train/train_runtime"][1] <= told["seconds"]["total"] + 1
(step, text), = board.texts["config/text_summary"]
assert step == 0 and text == "```ini\n" + open(run + "/config.ini").read() + "```\n"
PYTHON
same() { python3 -S same.py "$@" || fail "$1: TensorBoard shows something else"; }

# ---- a run, killed or not ---------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" train $run output.dir=whole
same whole 1
expect 0 "$FTENGINE" train $run output.dir=whole output.exists=resume # it is at its end, and has nothing to add but its end
same whole 2
"$FTENGINE" train $run output.dir=killed >out 2>err &
pid=$!
for _ in $(seq 24000); do [ -e killed/checkpoints/step-00000020 ] || [ -e killed/checkpoints/step-00000030 ] && break; sleep 0.005; done
kill -9 $pid
wait $pid 2>/dev/null
[ ! -e killed/run.json ] || fail "it was at its end before it was killed"
printf 'half a rec' >>"$(ls killed/tensorboard/*)" # as a write that was cut off
expect 0 "$FTENGINE" train $run output.dir=killed output.exists=resume
says "resumed    at step"
same killed 2
# Stopped, it saves: the next session begins where this one ended.
for signal in INT TERM; do
    "$FTENGINE" train $run output.dir=stopped output.exists=resume >out 2>err &
    pid=$!
    for _ in $(seq 24000); do [ -s stopped/metrics.jsonl ] && break; sleep 0.005; done
    kill -$signal $pid
    wait $pid
done
expect 0 "$FTENGINE" train $run output.dir=stopped output.exists=resume
same stopped "$(find stopped/tensorboard -type f | wc -l)"

# ---- what cannot be written -------------------------------------------------------------------------------------------
cp -r whole blocked && rm -r blocked/tensorboard && touch blocked/tensorboard
expect 0 "$FTENGINE" train $run output.dir=blocked output.exists=resume
says "warning: no more figures for TensorBoard: "
[ "$(grep -c "for TensorBoard" err)" = 1 ] || fail "it was said more than once"
cmp whole/model/model.safetensors blocked/model/model.safetensors || fail "another model"
expect 0 "$FTENGINE" train $run output.dir=without track.tensorboard=false
[ ! -e without/tensorboard ] || fail "nobody asked for it"

# ---- a study ------------------------------------------------------------------------------------------------------------
cat >study.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 20
[track]
tensorboard = true
[study]
trials = 3
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine)
train.batch_size = int(4, 8)
INI
expect 0 "$FTENGINE" tune study.ini --study s
expect 0 "$FTENGINE" study export s --format jsonl --output trials.jsonl
python3 -S - <<'PYTHON' || fail "the HPARAMS page"
import json
import sqlite3
from event_files import Board, message, single

db = sqlite3.connect("file:studies/s/study.db?mode=ro", uri=True)
for number in range(3):
    board = Board(f"studies/s/trials/{number:05d}/tensorboard")
    value, = db.execute("SELECT value FROM trials JOIN trial_values USING (trial_id) WHERE number = ?", (number,)).fetchone()
    want = {}
    for name, internal, distribution in db.execute(
        "SELECT param_name, param_value, distribution_json FROM trials JOIN trial_params USING (trial_id) WHERE number = ?", (number,)):
        choices = json.loads(distribution)["attributes"].get("choices")
        want[name] = {3: [choices[int(internal)].encode()]} if choices else {2: [internal]}
    assert len(want) == 3
    experiment = message(board.hparams["_hparams_/experiment"][2][0])
    start = message(board.hparams["_hparams_/session_start_info"][3][0])
    end = message(board.hparams["_hparams_/session_end_info"][4][0])
    have = {message(e)[1][0].decode(): message(message(e)[2][0]) for e in start[1]}
    assert have == want, (have, want)
    assert {message(h)[1][0].decode(): message(h)[4][0] for h in experiment[4]} == {n: 1 if 3 in v else 3 for n, v in want.items()}
    tag, = (message(message(m)[1][0])[2][0].decode() for m in experiment[5])
    assert board.scalars[tag][-1][1] == single(value) and tag.startswith("objective/eval."), tag
    assert start[4] == [b"trial %d" % number] and end[1] == [1] and 0 < start[5][0] <= end[2][0]
    assert board.scalars["train/loss"] and board.scalars["eval/loss"]
PYTHON
