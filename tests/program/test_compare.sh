#!/usr/bin/env bash
# `ftengine compare`: side by side, a line each, CSV, JSON; runs of different kinds, unfinished ones, a study's trials; each
# mistake an error by name.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
train() { # train DIR [OPTION...]
    local dir=$1
    shift
    expect 0 "$FTENGINE" train "$here/follow.ini" train.max_steps=6 train.logging_steps=2 eval.strategy=epoch output.dir="$dir" "$@"
}
train runs/a data.validation="$here/validation.tsv"
train runs/b data.validation="$here/validation.tsv" train.learning_rate=0.02 train.seed=8
train runs/c train.learning_rate=0.001 # never judged: has no eval figures
compare() { expect 0 "$FTENGINE" compare "$@"; }
row() { awk -v name="$1" '$1 == name { $1 = ""; sub(/^ /, ""); print; exit }' out; } # row NAME of the table
is() { [ "$2" = "$1" ] || fail "'$2' instead of '$1': $(cat out)"; }

# ---- side by side --------------------------------------------------------------------------------------------------------
compare runs/a runs/b runs/c
is "a b c" "$(awk 'NR == 1 { print $1, $2, $3 }' out)"
is "0.003 0.02 0.001" "$(row train.learning_rate)"
is "7 8 7" "$(row train.seed)"
is "completed completed completed" "$(row status)"
[ -z "$(row train.batch_size)$(row output.dir)" ] || fail "an option that does not differ is shown"
[ "$(row eval.accuracy | awk '{ print $NF }')" = - ] || fail "a figure that is missing is not a dash: $(row eval.accuracy)"
says_figures() { row eval.loss | grep -q "\*" || fail "no best value is marked: $(row eval.loss)"; }
says_figures
# The mark is at the best one: the least loss.
best=$(python3 - <<'PYTHON'
import json
values = {k: json.load(open(f"runs/{k}/run.json"))["metrics"]["eval_loss"] for k in "ab"}
print(min(values, key=values.get))
PYTHON
)
marked=$(awk '$1 == "eval.loss" { print ($3 == "*") ? "a" : "b" }' out)
is "$best" "$marked"
compare runs/a runs/b --all
is "8 8" "$(row train.batch_size)"

# ---- a line each, CSV, JSON: the same figures ----------------------------------------------------------------------------
for k in d e f; do cp -r runs/a runs/$k; done
compare runs
is "run status train.learning_rate train.seed data.validation" "$(awk 'NR == 1 { n = split("run status train.learning_rate train.seed data.validation", w); for (i = 1; i <= n; i++) printf "%s%s", index($0, w[i]) ? w[i] : "?", i < n ? " " : "\n" }' out)"
is "a b c d e f" "$(awk 'NR > 1 && NF > 2 && $2 == "completed" { print $1 }' out | xargs)"
compare runs --csv && cp out table.csv
compare runs --json && cp out table.json
python3 - <<'PYTHON' || fail "CSV, JSON and run.json disagree"
import csv
import json
table = json.load(open("table.json"))
rows = list(csv.DictReader(open("table.csv", newline="")))
assert table["format_version"] == 1 and len(rows) == len(table["runs"]) == 6
assert set(table["options"]) == {"train.learning_rate", "train.seed", "data.validation"}, table["options"]
for row, run in zip(rows, table["runs"]):
    truth = json.load(open(run["run"] + "/run.json"))
    assert row["run"] == run["run"] and row["status"] == run["status"] == truth["status"]
    for option in table["options"]:
        assert row[option] == run["options"][option] == truth["config"][option]
    figures = run["figures"]
    assert figures["memory.peak_allocated_bytes"] == truth["memory"]["peak_allocated_bytes"]
    assert figures["seconds.total"] == truth["seconds"]["total"] and figures["steps"] == truth["steps"]
    for key, value in truth["metrics"].items():
        assert figures[key.replace("_", ".", 1)] == value
    for name in set(rows[0]) - {"run", "status"} - set(table["options"]):
        assert row[name] == "" if name not in figures else float(row[name]) == figures[name], name
PYTHON
cp -r runs/a 'runs/quote",comma'
compare 'runs/quote",comma' runs/b --csv
is 'runs/quote",comma' "$(python3 -c 'import csv; print(list(csv.reader(open("out", newline="")))[1][0])')"
# The same name twice: the paths tell them apart.
mkdir other && cp -r runs/a other/a
compare runs/a other/a
is "runs/a other/a" "$(awk 'NR == 1 { print $1, $2 }' out)"

# ---- a study -------------------------------------------------------------------------------------------------------------
mkdir -p studies/s/trials && cp runs/a/config.ini studies/s/config.ini
cp -r runs/b studies/s/trials/00000 && cp -r runs/a studies/s/trials/00001
compare studies/s
is "s/00000 s/00001" "$(awk 'NR == 1 { print $1, $2 }' out)"
is "0.02 0.003" "$(row train.learning_rate)"
cp out whole && compare studies/s/trials && cmp out whole || fail "a study and its trials directory differ"

# ---- unfinished, of another version --------------------------------------------------------------------------------------
cp -r runs/b going && rm going/run.json && printf '{"step": 7, "lo' >>going/metrics.jsonl
compare going runs/a
is "unfinished completed" "$(row status)"
is "0.02 0.003" "$(row train.learning_rate)"
is "6 6" "$(row steps)"
is "$(python3 -c 'import json; print("%.4f" % json.load(open("runs/b/run.json"))["metrics"]["eval_loss"])')" "$(row eval.loss | awk '{ print $1 }')"
# An option that one program does not know is no difference; one that only it knows is shown with --all.
cp -r runs/a older && sed -i '/"train.seed"/d; s/"train.batch_size": "8"/"train.batch_size": "8",\n    "train.new_thing": "x"/' older/run.json
compare older runs/b
[ -z "$(row train.seed)$(row train.new_thing)" ] || fail "options of one version only: $(cat out)"
compare older runs/b --all
is "x -" "$(row train.new_thing)"

# ---- mistakes: one error each, nothing printed ---------------------------------------------------------------------------
refuses() { # refuses TEXT WORD...
    local text=$1
    shift
    expect 2 "$FTENGINE" compare "$@"
    one_error "$text"
    [ ! -s out ] || fail "something was printed: $(cat out)"
}
refuses "no runs given"
refuses "nowhere" runs/a nowhere
refuses "runs/a/model" runs/a runs/a/model && says "this is a model"
refuses "runs/a/run.json" runs/a/run.json
refuses "not a run" studies && says "run directories"
mkdir -p studies/empty/trials && refuses "studies/empty" studies/empty && says "this is a study"
refuses "train.seed=1" runs/a train.seed=1
refuses "exclude each other" runs/a --json --csv
refuses "unknown option --jsn" runs/a --jsn && says "did you mean --json"
cp -r runs/a broken && echo '{' >broken/run.json && refuses "broken/run.json:" runs/a broken
cp -r runs/a torn && sed -i '2s/.*/not json/' torn/metrics.jsonl && refuses "torn/metrics.jsonl:2" runs/a torn
"$FTENGINE" compare runs/a >/dev/full 2>err
[ $? = 1 ] && says "standard output" || fail "a full standard output is not an error"
expect 0 "$FTENGINE" help compare && grep -q "ftengine compare" out || fail "help compare"
