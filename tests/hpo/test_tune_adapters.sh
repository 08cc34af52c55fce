#!/usr/bin/env bash
# A study of adapters: every option that makes one stands in [space] and is what the trial trained with. (Wrong: an option that the space
# takes and the trial does not, a trial that fails by a value, one that adapter_config.json does not name.)
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1

cat >study.ini <<INI
include = $here/follow.ini
[adapter]
type = lora
[data]
validation = $here/validation.tsv
cache_dir = none
[eval]
strategy = steps
steps = 3
[device]
threads = 1
[train]
max_steps = 3
warmup_steps = 0
[space]
adapter.type = choice(lora, dora)
adapter.r = int(1, 8)
adapter.alpha = float(1, 32, log)
adapter.targets = choice(auto, all-linear, output.dense)
adapter.dropout = choice(0, 0.2)
adapter.rslora = choice(true, false)
adapter.bias = choice(none, lora_only, all)
adapter.init = choice(true, gaussian)
model.storage = choice(precision, int8, nf4, nf4_double)
train.learning_rate = float(1e-4, 1e-2, log)
[study]
trials = 10
seed = 5
INI
expect 0 "$FTENGINE" tune study.ini --study adapters
python3 - <<'PY' || fail "the trials are not what the study says"
import glob, json, os, sqlite3
db = sqlite3.connect("studies/adapters/study.db")
assert db.execute("select count(*) from trials where state = 'COMPLETE'").fetchall() == [(10,)], db.execute("select number, state from trials").fetchall()
seen = {}
for number, trial in db.execute("select number, trial_id from trials"):
    values = {}
    for name, value, distribution in db.execute("select param_name, param_value, distribution_json from trial_params where trial_id = ?", (trial,)):
        choices = json.loads(distribution)["attributes"].get("choices")
        values[name] = choices[int(value)] if choices else value
        seen.setdefault(name, set()).add(values[name])
    run = f"studies/adapters/trials/{number:05d}"
    made = json.load(open(run + "/run.json"))["config"]
    def told(option): return made[option]
    for name, value in values.items():
        text = str(told(name)).lower()
        assert text == str(value).lower() or abs(float(text) - float(value)) <= 1e-6 * abs(float(value)), (name, value, text)
assert len(seen) == 10 and all(len(v) > 1 for v in seen.values()), seen
PY
expect 0 "$FTENGINE" train studies/adapters/best.ini output.dir=best
python3 - <<'PY' || fail "the best trial's adapter is not as it was tried"
import json
config = json.load(open("best/run.json"))["config"]
adapter = json.load(open("best/adapter/adapter_config.json"))
settings = json.load(open("best/adapter/ftengine.json"))
get = lambda key: config[key]
assert adapter["r"] == int(get("adapter.r")) and abs(adapter["lora_alpha"] - float(get("adapter.alpha"))) < 1e-6 * adapter["lora_alpha"], adapter
assert adapter["use_dora"] == (get("adapter.type") == "dora") and adapter["use_rslora"] == (str(get("adapter.rslora")).lower() == "true") and adapter["bias"] == get("adapter.bias"), adapter
assert abs(adapter["lora_dropout"] - float(get("adapter.dropout"))) < 1e-6 and settings["base"]["storage"] == get("model.storage"), (adapter, settings)
PY
