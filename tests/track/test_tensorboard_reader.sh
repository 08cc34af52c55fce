#!/usr/bin/env bash
# TensorBoard's own reader shows what our files say, value by value: of a run that was stopped and goes on, and of trials. It is taken from
# FT_TENSORBOARD_PYTHON, or from python3 if that has it; with FT_TRACKERS_FROM_PYPI=1 from a virtual environment that is made for it.
# shellcheck disable=SC2086,SC2015
# ctest: sanitize=leave timeout=900
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
export PYTHONPATH=$SOURCE_DIR/tests/track
python=${FT_TENSORBOARD_PYTHON:-python3}
if [ "${FT_TRACKERS_FROM_PYPI:-0}" = 1 ] && ! "$python" -c 'import tensorboard' 2>/dev/null; then
    python3 -m venv venv && venv/bin/pip -q install tensorboard && python=venv/bin/python
fi
"$python" -c 'import tensorboard' 2>/dev/null || { echo "skipped: no TensorBoard (FT_TENSORBOARD_PYTHON)" && exit 77; }
cat >study.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 20
logging_steps = 5
[track]
tensorboard = true
[study]
trials = 2
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.lr_scheduler = choice(linear, cosine)
INI
expect 0 "$FTENGINE" tune study.ini --study s
"$FTENGINE" train study.ini train.max_steps=400 eval.strategy=no output.save_steps=10 output.dir=run >out 2>err &
pid=$!
for _ in $(seq 24000); do ls run/checkpoints/step-* >/dev/null 2>&1 && break; sleep 0.005; done
kill -9 $pid
wait $pid 2>/dev/null
expect 0 "$FTENGINE" train study.ini train.max_steps=400 eval.strategy=no output.save_steps=10 output.dir=run output.exists=resume
"$python" - <<'PYTHON' || fail "TensorBoard's reader shows something else"
from event_files import Board
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

for directory in ("run", "studies/s/trials/00000", "studies/s/trials/00001"):
    directory += "/tensorboard"
    ours, theirs = Board(directory), EventAccumulator(directory, size_guidance={"scalars": 0, "tensors": 0})
    theirs.Reload()
    tags = theirs.Tags()
    # What it keeps of scalars are tensors of the plugin "scalars", or plain values, by its release.
    have = {tag: [(e.step, e.value) for e in theirs.Scalars(tag)] for tag in tags["scalars"]}
    for tag in set(tags["tensors"]) & set(ours.scalars):
        have[tag] = [(e.step, e.tensor_proto.float_val[0]) for e in theirs.Tensors(tag)]
    assert have == ours.scalars, (directory, {t for t in set(have) | set(ours.scalars) if have.get(t) != ours.scalars.get(t)})
    text, = theirs.Tensors("config/text_summary")
    assert text.tensor_proto.string_val[0].decode() == ours.texts["config/text_summary"][0][1]
    assert theirs.SummaryMetadata("config/text_summary").plugin_data.plugin_name == "text"
    if directory.startswith("run"):
        continue
    contents = theirs.PluginTagToContent("hparams")
    start = metadata.parse_session_start_info_plugin_data(contents["_hparams_/session_start_info"])
    assert set(start.hparams) == {"train.learning_rate", "train.lr_scheduler"} and start.group_name.startswith("trial ")
    assert start.hparams["train.lr_scheduler"].string_value in ("linear", "cosine")
    assert metadata.parse_session_end_info_plugin_data(contents["_hparams_/session_end_info"]).status == 1
    metric, = metadata.parse_experiment_plugin_data(contents["_hparams_/experiment"]).metric_infos
    assert metric.name.tag in ours.scalars
PYTHON
