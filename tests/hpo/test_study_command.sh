#!/usr/bin/env bash
# `ftengine study` from outside: studies of ours and of Optuna are listed, shown, queued, moved and deleted; bad input
# gets one clear error with the nearest valid choice and leaves nothing behind.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
study() { "$FTENGINE" study "$@"; }
vectors=$SOURCE_DIR/tests/vectors/optuna_study
cp "$vectors/study.db" optuna.db
optuna="ein Näme 😀"

# A study of 6 trials, as another program could have written it: 2 is infeasible, 4 pruned, 5 waits.
python3 - >six.jsonl <<'PYTHON'
import json
rate = {"name": "FloatDistribution", "attributes": {"step": None, "low": 1e-6, "high": 1e-2, "log": True}}
layers = {"name": "IntDistribution", "attributes": {"log": False, "step": 4, "low": 4, "high": 16}}
head = {"name": "CategoricalDistribution", "attributes": {"choices": ["none", "wide", True]}}
print(json.dumps({"format_version": 1, "study": "six", "directions": ["maximize"], "user_attributes": {"who": "me"},
                  "system_attributes": {"study:metric_names": ["eval.accuracy"]}}))
for n, value in enumerate([0.5, 0.75, 0.9, 0.75, None, None]):
    t = {"number": n, "state": "COMPLETE" if value else "PRUNED" if n == 4 else "WAITING", "values": [value] if value else [],
         "datetime_start": None if n == 5 else f"2026-01-02 03:04:0{n}.250000",
         "datetime_complete": None if n == 5 else f"2026-01-02 03:05:0{n}.500000", "intermediate_values": {"1": 0.25, "2": "NaN"} if n == 4 else {},
         "user_attributes": {"note": f"a, \"b\" {n}"} if n < 2 else {}, "system_attributes": {}}
    if n == 2: t["system_attributes"]["constraints"] = [0.5, -1.0]
    if n == 5: t["system_attributes"]["fixed_params"] = {"train.learning_rate": 1e-4, "layers": 8}
    if n < 5:
        t["params"] = {"train.learning_rate": 10.0 ** (-2 - n / 2), "layers": 4 * (n % 4 + 1), "head": ["none", "wide", True][n % 3]}
        t["distributions"] = {"train.learning_rate": rate, "layers": layers, "head": head}
    print(json.dumps(t))
PYTHON

# ---- import, list, show, best, trials ------------------------------------------------------------------------------------
expect 0 study list
[ ! -s out ] || fail "no studies, but: $(cat out)"
says "no studies here"
expect 0 study import six.jsonl
grep -q "study 'six': 6 trials, in studies/six/study.db" out || fail "import: $(cat out)"
[ -f studies/six/study.db ] && [ ! -e studies/six/study.db-wal ] || fail "not one plain file: $(ls studies/six)"
expect 0 study import optuna.db --from two --json
[ "$(json out 'd["study"], d["trials"], d["storage"]')" = "('two', 5, 'sqlite:///studies/two/study.db')" ] || fail "import --json: $(cat out)"
expect 0 study list
[ "$(awk 'NR > 1 { print $1, $2, $3, $4, $5, $6, $7, $8 }' out)" = "$(printf 'six 6 4 1 0 0 1 0.75\ntwo 5 3 0 1 1 0 2')" ] || fail "list: $(cat out)"
expect 0 study list --json
[ "$(json out '[(s["study"], s["trials"]["complete"], s.get("best_value")) for s in d["studies"]]')" = "[('six', 4, 0.75), ('two', 3, None)]" ] ||
    fail "list --json: $(cat out)"
# Of equal values the first is the best; the infeasible 0.9 is not.
expect 0 study best six --json
[ "$(json out '[(t["number"], t["values"], t["params"]) for t in d["trials"]]')" = "[(1, [0.75], {'train.learning_rate': 0.0031622776601683794, 'layers': 8, 'head': 'wide'})]" ] ||
    fail "best --json: $(cat out)"
expect 0 study best --study six
[ "$(tr -s ' ' <out)" = "$(printf 'trial 1\neval.accuracy 0.75\ntrain.learning_rate 0.0031622776601683794\nlayers 8\nhead wide')" ] || fail "best: $(cat out)"
mkdir -p studies/six/trials/00001
expect 0 study best studies/six/
grep -q '^run  *studies/six/trials/00001$' out || fail "best does not name the run: $(cat out)"
expect 0 study show six
for line in 'objective  maximize eval.accuracy' 'trials     6: 4 complete, 1 pruned, 0 failed, 0 running, 1 waiting' 'best       0.75 (trial 1)' \
    'began      2026-01-02 03:04:00 UTC' 'int(4, 16, step=4)' 'choice(none, wide, true)' 'float(1e-06, 0.01, log)'; do
    grep -qF "$line" out || fail "show lacks '$line': $(cat out)"
done
expect 0 study show six --json
[ "$(json out 'd["objectives"], d["trials"]["pruned"], d["best"][0]["number"], sum(p["importance"] for p in d["parameters"]) - 1 < 1e-9, d["user_attributes"]')" = \
    "(['eval.accuracy'], 1, 1, True, {'who': 'me'})" ] || fail "show --json: $(cat out)"
expect 0 study trials six --top 2
[ "$(awk '{ print $1, $2, $3 }' out)" = "$(printf 'trial state eval.accuracy\n1 COMPLETE 0.75\n3 COMPLETE 0.75')" ] || fail "trials --top: $(cat out)"
expect 0 study trials six --state pruned --json
[ "$(json out '[(t["number"], t["intermediate_values"]) for t in d["trials"]]')" = "[(4, {'1': 0.25, '2': 'NaN'})]" ] || fail "trials --state: $(cat out)"
expect 0 study trials six
[ "$(awk '$1 == 2 { print $2 }' out)" = INFEASIBLE ] || fail "trials: $(cat out)"
# Why a trial failed, without what would move a terminal's cursor.
python3 - <<'PYTHON'
import json
lines = [json.loads(line) for line in open("six.jsonl")]
lines[0]["study"] = "why"
lines[1].update(state="FAIL", values=None, user_attributes={"error": "no space \u001b[31m left"})
open("why.jsonl", "w").write("".join(json.dumps(line) + "\n" for line in lines))
PYTHON
expect 0 study import why.jsonl
expect 0 study trials why --state failed
grep -qF 'no space' out && ! grep -q "$(printf '\033')" out || fail "trials: $(cat out)"
expect 0 study delete why --yes --json
[ "$(json out 'd')" = "{'format_version': 1, 'study': 'why', 'deleted_trials': 6}" ] || fail "a deleted study as JSON: $(cat out)"
# Importances for all objectives at once and for each alone.
expect 0 study show two
grep -q 'importance for all *for value_0 *for value_1' out || fail "show two: $(cat out)"
expect 0 study show two --json
[ "$(json out '[(sorted(p["importance_of"]), p["importance"] is None) for p in d["parameters"]][0]')" = "(['value_0', 'value_1'], False)" ] || fail "show two --json: $(cat out)"
# A file that Optuna wrote, by storage; several objectives have a front.
expect 0 study best two --storage sqlite:///optuna.db
[ "$(wc -l <out)" = 3 ] || fail "the front of two: $(cat out)"
expect 0 study show "$optuna" --storage "$scratch/optuna.db"
grep -qF "study      $optuna" out || fail "show of Optuna's study: $(cat out)"

# Numbers as people read them.
python3 - >bytes.jsonl <<'PYTHON'
import json
norm = {"name": "CategoricalDistribution", "attributes": {"choices": [1.0, 100.0]}}
print(json.dumps({"format_version": 1, "study": "bytes", "directions": ["minimize"], "user_attributes": {},
                  "system_attributes": {"study:metric_names": ["memory.peak_reserved_bytes"]}}))
for n, value in enumerate([6291456.0, 1234567890.0]):
    print(json.dumps({"number": n, "state": "COMPLETE", "values": [value], "datetime_start": "2026-01-02 03:04:00.000000",
                      "datetime_complete": "2026-01-02 03:05:00.000000", "intermediate_values": {}, "user_attributes": {},
                      "system_attributes": {}, "params": {"norm": 100.0 if n == 0 else 1.0}, "distributions": {"norm": norm}}))
PYTHON
expect 0 study import bytes.jsonl
expect 0 study trials bytes
[ "$(awk 'NR > 1 { print $3, $5 }' out)" = "$(printf '6.0MiB 100\n1.15GiB 1')" ] || fail "trials: $(cat out)"
expect 0 study show bytes
grep -qF 'best       6.0MiB (trial 0)' out && grep -qF 'choice(1, 100)' out || fail "show: $(cat out)"
expect 0 study list
grep -q '^bytes .* 6.0MiB ' out || fail "list: $(cat out)"
expect 0 study delete bytes --yes

# ---- enqueue ---------------------------------------------------------------------------------------------------------------
expect 0 study enqueue six train.learning_rate=3e-5 layers=12 head=true
grep -q '^trial 6 is waiting$' out || fail "enqueue: $(cat out)"
expect 0 study enqueue six layers=12 head=true train.learning_rate=3.00001e-5 --skip-if-exists --json
[ "$(json out 'd["number"], d["enqueued"]')" = "(6, False)" ] || fail "skip: $(cat out)"
expect 0 study enqueue six train.learning_rate=0.01 layers=4 head=none --skip-if-exists
grep -q '^trial 0 has these' out || fail "a finished trial is no twin: $(cat out)"
expect 0 study enqueue six layers=12 --skip-if-exists
grep -q '^trial 7 is waiting$' out || fail "a part of the parameters is another trial: $(cat out)"
expect 0 study trials six --state waiting --json
[ "$(json out '[t["system_attributes"]["fixed_params"] for t in d["trials"]]')" = \
    "[{'train.learning_rate': 0.0001, 'layers': 8}, {'train.learning_rate': 3e-05, 'layers': 12, 'head': True}, {'layers': 12}]" ] || fail "queue: $(cat out)"
expect 0 study trials six --state waiting
grep -q 'asked for, or why it failed' out && grep -q 'train.learning_rate=3e-05 layers=12 head=true' out || fail "waiting trials do not show their values: $(cat out)"
expect 2 study enqueue six layers=13 && one_error "'13' is not in int(4, 16, step=4) (layers)" && says "nearest is 12"
expect 2 study enqueue six layers=12.0 && one_error "is not in int"
expect 2 study enqueue six train.learning_rate=1 && says "nearest is 0.01"
expect 2 study enqueue six train.learning_rate=nan && one_error "is not in float"
expect 2 study enqueue six head=wde && one_error "there is no choice 'wde' (head)" && says "did you mean 'wide'?"
expect 2 study enqueue six laysers=4 && one_error "there is no parameter 'laysers'" && says "did you mean 'layers'?"
expect 2 study enqueue six layers=4 layers=8 && one_error "given twice"
expect 2 study enqueue six && one_error "at least one"
expect 2 study enqueue six =4 && one_error "no name in front"
expect 0 study enqueue six model.depth=3 --force
[ "$(study trials six | wc -l)" = 10 ] || fail "refused trials were enqueued: $(study trials six)"

# ---- export and back -------------------------------------------------------------------------------------------------------
expect 0 study export six --output - && grep -q "^number,state,value," out || fail "no CSV on standard output"
expect 0 study export six --output a.jsonl --json
[ "$(json out 'd')" = "{'format_version': 1, 'study': 'six', 'trials': 9, 'output': 'a.jsonl'}" ] || fail "an export as JSON: $(cat out)"
expect 2 study export six --output - --json
expect 0 study import a.jsonl --study again
expect 0 study export again --format jsonl
cmp <(tail -n +2 out) <(tail -n +2 a.jsonl) || fail "a study came back changed"
expect 0 study export "$optuna" --storage optuna.db --output b.jsonl
expect 0 study import b.jsonl --study copy --storage all.db
gzip -c six.jsonl >packed.jsonl.gz
mkdir packed && cd packed
expect 0 study import ../packed.jsonl.gz
grep -q "study 'six': 6 trials" out || fail "import of a packed file: $(cat out)"
cd ..
says "RUNNING when it was exported"
expect 0 study export copy --storage all.db --format jsonl
cmp <(tail -n +2 out) <(tail -n +2 b.jsonl) || fail "Optuna's study came back changed"
expect 0 study export six --output six.db
[ "$(od -An -tu1 -j18 -N2 six.db | tr -d ' ')" = 11 ] || fail "the exported database is in WAL mode"
expect 0 study export --storage six.db --format jsonl
cmp out a.jsonl || fail "the exported database holds another study"
expect 0 study export six
python3 - out <<'PYTHON' || fail "CSV: $(cat out)"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
assert len(rows) == 9 and rows[1]["user_note"] == 'a, "b" 1' and rows[1]["param_head"] == "wide" and rows[1]["param_layers"] == "8"
assert float(rows[0]["param_train.learning_rate"]) == 0.01 and rows[0]["seconds"] == "60.250000" and rows[4]["value"] == ""
assert rows[2]["constraint_0"] == "0.5" and rows[0]["constraint_0"] == "" and rows[3]["state"] == "COMPLETE"
PYTHON
expect 2 study export six --output six.db && one_error "the file exists"
expect 2 study export six --output six.txt && one_error "does not tell which format"
expect 2 study export six --format jsnl && says "did you mean 'jsonl'?"
expect 2 study export six --format db && one_error "needs a file"

# ---- imports that fail leave nothing -----------------------------------------------------------------------------------------
bad_line() { # TEXT-OF-THE-ERROR, then a Python expression that breaks the trial t of the line
    python3 -c "
import json, sys
lines = [json.loads(l) for l in open('six.jsonl')]
t = lines[2]
$2
for l in lines: print(json.dumps(l))" >bad.jsonl
    expect 2 study import bad.jsonl --study bad
    one_error "$1"
    grep -qF "bad.jsonl:3" err || fail "the line is not named: $(cat err)"
    [ ! -e studies/bad ] || fail "a failed import left studies/bad"
}
bad_line "numbered from 0" "t['number'] = 7"
bad_line "no distribution" "del t['distributions']['layers']"
bad_line "none of the choices" "t['params']['head'] = 'tall'"
bad_line "must be a number" "t['params']['layers'] = 'x'"
bad_line "another kind" "t['distributions']['layers'] = t['distributions']['head']; t['params']['layers'] = 'none'"
bad_line "must be numbers" "t['values'] = ['x']"
bad_line "one for every objective" "t['values'] = []"
bad_line "a PRUNED trial has one at most" "t['state'] = 'PRUNED'; t['values'] = [1, 2]"
bad_line "a FAIL trial has none" "t['state'] = 'FAIL'"
bad_line "DONE" "t['state'] = 'DONE'"
bad_line "YYYY-MM-DD" "t['datetime_start'] = 'yesterday\\'; DROP TABLE trials; --'"
bad_line "must be an object" "t['params'] = [1]"
printf '{"format_version": 2, "study": "a", "directions": ["minimize"]}\n' >new.jsonl
expect 2 study import new.jsonl && one_error "newer than this program"
printf 'a,b\n1,2\n' >table.csv
expect 2 study import table.csv && says "export with --format jsonl"
[ ! -e studies/study ] || fail "a failed import left a directory"
: >empty.jsonl
expect 2 study import empty.jsonl --study e
expect 2 study import nothing.jsonl && one_error "nothing.jsonl"
expect 2 study import optuna.db && one_error "2 studies" && says "--from NAME"
expect 2 study import optuna.db --from tow && one_error "there is no study 'tow'"
expect 2 study import six.jsonl && one_error "there is a study 'six' already"
head -c 6000 optuna.db >cut.db
expect 2 study import cut.db --study cut
[ ! -e studies/cut ] && [ ! -e studies/e ] || fail "a failed import left a directory"

# ---- names, words ------------------------------------------------------------------------------------------------------------
expect 2 study show sxi && one_error "there is no study 'sxi'" && says "did you mean 'six'?"
expect 2 study show && one_error "there are 3 studies here" && says "again, six, two"
expect 2 study show ./nowhere && one_error "no such study file"
expect 2 study show --storage mysql://host/db && one_error "SQLite files, in PostgreSQL and in journals"
expect 2 study show six two && one_error "one study at a time"
expect 2 study trials six --state prunned && says "did you mean 'pruned'?"
expect 2 study trials six --top 0 && one_error "a number from 1"
expect 2 study trials two --top 1 && one_error "several objectives"
expect 2 study shwo && one_error "no subcommand 'shwo'" && says "did you mean 'show'?"
expect 2 study && one_error "what shall be done"
expect 2 study show six --yes && one_error "unknown option --yes"
expect 2 study show table.csv/ && one_error ""
expect 2 study show --storage table.csv && one_error "table.csv"
printf '{"format_version": 1, "study": "none", "directions": ["minimize"]}\n' >none.jsonl
expect 0 study import none.jsonl
expect 1 study best none && one_error "no trial has completed yet"
expect 0 study show none
expect 0 study enqueue none lr=1e-3 n=4 flag=true text=abc nothing=null
[ "$(study trials none --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["trials"][0]["system_attributes"]["fixed_params"])')" = \
    "{'lr': 0.001, 'n': 4, 'flag': True, 'text': 'abc', 'nothing': None}" ] || fail "values by their look: $(study trials none --json)"
# A broken file does not hide the others.
mkdir -p studies/broken && printf 'not a database' >studies/broken/study.db
expect 0 study list
says "studies/broken/study.db"
[ "$(wc -l <out)" = 5 ] || fail "list beside a broken file: $(cat out)"

# ---- bytes that are no UTF-8 -----------------------------------------------------------------------------------------------
# JSON could not hold them; a database that another program made may.
bad=$(printf 'a\377b') locale=${LC_ALL-}
export LC_ALL=C # or grep takes our message for a binary file
expect 2 study import optuna.db --from two --study "$bad" && one_error "cannot be the name of a study" && says "of UTF-8"
expect 2 study show "$bad" --json && one_error "cannot be the name of a study"
for setting in "$bad=3" "layers=$bad"; do
    expect 2 study enqueue six "$setting" --force --json && one_error "not UTF-8"
done
python3 - <<'PYTHON'
import shutil
import sqlite3
for name, sql in {"study": "UPDATE studies SET study_name = CAST(x'61ff62' AS TEXT) WHERE study_name = 'two'",
                  "param": "UPDATE trial_params SET param_name = CAST(x'61ff62' AS TEXT) WHERE param_id = 1",
                  "key": "UPDATE trial_user_attributes SET key = CAST(x'61ff62' AS TEXT)"}.items():
    shutil.copy("optuna.db", f"bad_{name}.db")
    db = sqlite3.connect(f"bad_{name}.db")
    assert db.execute(sql).rowcount > 0
    db.commit()
PYTHON
expect 2 study list --storage sqlite:///bad_study.db --json && one_error "a study has no name that is UTF-8"
expect 2 study show "$optuna" --storage sqlite:///bad_param.db --json && one_error "no name or no distribution that is UTF-8"
expect 2 study import bad_param.db --from "$optuna" --study bad && one_error "no name or no distribution that is UTF-8"
[ ! -e studies/bad ] || fail "a refused import left $(ls studies/bad)"
export LC_ALL=$locale

# ---- delete ------------------------------------------------------------------------------------------------------------------
expect 2 study delete six && one_error "this would delete the study with its 9 trials and the runs in studies/six" && says "add --yes"
[ -f studies/six/study.db ] || fail "deleted without --yes"
touch studies/six/notes.txt
expect 0 study delete six --yes
[ "$(ls studies/six)" = notes.txt ] || fail "delete left or took too much: $(ls studies/six)"
expect 0 study delete again --yes
[ ! -e studies/again ] || fail "delete left $(ls studies/again)"
expect 2 study delete --yes && one_error ""
expect 0 study delete two --storage optuna.db --yes
expect 0 study list --storage optuna.db
[ "$(wc -l <out)" = 2 ] || fail "the other study of the file: $(cat out)"
# A trial that said a moment ago that it is alive belongs to a running search.
python3 - studies/two/study.db <<'PYTHON'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
trial = db.execute("SELECT trial_id FROM trials WHERE state = 'RUNNING'").fetchone()[0]
db.execute("INSERT OR REPLACE INTO trial_heartbeats (trial_id, heartbeat) VALUES (?, CURRENT_TIMESTAMP)", (trial,))
db.commit()
PYTHON
expect 1 study delete two --yes && one_error "is being run"
expect 1 flock studies/none "$FTENGINE" study delete none --yes && one_error "is at work on this study"
[ -f studies/two/study.db ] && [ -f studies/none/study.db ] || fail "a running study was deleted"
expect 0 study delete none --yes
echo ok
