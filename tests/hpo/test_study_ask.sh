#!/usr/bin/env bash
# `ftengine study ask` and `tell` from outside: another program minimises its own function with our sampler and pruner, beside our
# coordinators and with Optuna's rows; mistakes are named and change nothing.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
study() { "$FTENGINE" study "$@"; }
cat >space.json <<'JSON'
{"x": {"name": "FloatDistribution", "attributes": {"low": -5, "high": 5, "log": false, "step": null}},
 "n": {"name": "IntDistribution", "attributes": {"low": 1, "high": 64, "log": true, "step": 1}},
 "kind": {"name": "CategoricalDistribution", "attributes": {"choices": ["a", true, null, 2.5]}}}
JSON

# ---- a function of another program's ----------------------------------------------------------------------------------------
cat >minimise.py <<'PYTHON'
import json, subprocess, sys
program, name, trials, *settings = sys.argv[1:]
def study(*words): return json.loads(subprocess.run([program, "study", words[0], name, *words[1:], "--json"], check=True, stdout=subprocess.PIPE).stdout)
seen = []
for i in range(int(trials)):
    t = study("ask", "--space", "space.json", *settings)
    p = t["params"]
    assert t["number"] == i and list(p) == ["x", "n", "kind"] and t["options"] == {}, t
    assert -5 <= p["x"] <= 5 and isinstance(p["n"], int) and 1 <= p["n"] <= 64 and p["kind"] in ("a", True, None, 2.5), p
    value = (p["x"] - 2) ** 2 + abs(p["n"] - 8) / 8 + (p["kind"] is not None)
    assert study("tell", str(i), repr(-value))["state"] == "COMPLETE"  # a value may begin with '-'
    seen.append((value, p))
print(json.dumps(seen))
PYTHON
for name in one two chance; do
    expect 0 study create --study $name --direction maximize
done
grep -q "^study 'chance': 0 trials, in studies/chance/study.db$" out || fail "create: $(cat out)"
for name in one two; do
    python3 minimise.py "$FTENGINE" $name 40 study.startup_trials=8 >$name.json 2>err || fail "$name"
done
cmp -s one.json two.json || fail "the same history has another answer"
python3 minimise.py "$FTENGINE" chance 40 study.sampler=random study.seed=7 >chance.json 2>err || fail "at random"
python3 - <<'PYTHON' || fail "TPE learnt nothing: $(cat one.json)"
import json, statistics
def late(name): return statistics.median(value for value, _ in json.load(open(name))[20:])
raise SystemExit(not late("one.json") < 0.6 * late("chance.json"))
PYTHON
expect 0 study best one --json
[ "$(json out 'd["trials"][0]["values"][0]')" = "$(json one.json 'max(-v for v, _ in d)')" ] || fail "best: $(cat out)"

# ---- reports and the pruner --------------------------------------------------------------------------------------------------
expect 0 study create --study pruned --direction minimize
median="study.pruner=median study.pruner_startup_trials=2"
for i in 0 1 2; do
    expect 0 study ask pruned --space space.json
    grep -q "^trial $i$" out && grep -qE '^  n = [0-9]+$' out || fail "ask: $(cat out)"
    # shellcheck disable=SC2086
    [ "$i" = 2 ] || { expect 0 study tell pruned $i --step 1 0.$i $median && [ "$(cat out)" = "go on" ] || fail "step: $(cat out)"; }
    [ "$i" = 2 ] || expect 0 study tell pruned $i 0.$i
done
# shellcheck disable=SC2086
expect 0 study tell pruned 2 --step 1 5.5 --json $median
[ "$(json out 'd["prune"], d["state"]')" = "(True, 'RUNNING')" ] || fail "verdict: $(cat out)"
expect 0 study tell pruned 2 --step 1 5.5 && [ ! -s err ] || fail "told twice: $(cat err)"
expect 0 study tell pruned 2 --step 1 0.5 && says "trial 2: step 1 has the value 5.5 already, which stays; 0.5 is left aside"
expect 0 study tell pruned 2 --state pruned
expect 0 study export pruned --format jsonl
[ "$(tail -1 out >last && json last 'd["state"], d["values"], d["intermediate_values"]')" = "('PRUNED', [5.5], {'1': 5.5})" ] || fail "rows: $(cat out)"

# ---- a study of runs: its own space, what is queued first, and a coordinator beside it -------------------------------------------
cat >runs.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 4
batch_size = 8
[study]
trials = 2
[space]
train.learning_rate = float(1e-4, 3e-2, log)
train.weight_decay = 0.25
INI
expect 0 study create runs.ini --study runs
expect 0 study enqueue runs train.learning_rate=0.001
expect 0 study ask runs --json
[ "$(json out 'd["number"], d["params"], d["options"]')" = "(0, {'train.learning_rate': 0.001}, {'train.learning_rate': '0.001', 'train.weight_decay': '0.25'})" ] ||
    fail "runs: $(cat out)"
expect 0 "$FTENGINE" tune --study runs
expect 0 study trials runs --json
[ "$(json out '[(t["number"], t["state"]) for t in d["trials"]]')" = "[(0, 'RUNNING'), (1, 'COMPLETE'), (2, 'COMPLETE')]" ] || fail "beside a coordinator: $(cat out)"
expect 2 study tell runs 1 0.5 && one_error "trial 1 does not run: it is complete"
expect 0 study tell runs --state fail 0

# ---- constraints: what breaks one is never the best, and the sampler goes where they are kept -----------------------------------
cat >bounded.py <<'PYTHON'
import json, subprocess, sys
def study(*words): return json.loads(subprocess.run([sys.argv[1], "study", *words, "--json"], check=True, stdout=subprocess.PIPE).stdout)
beyond = []
for i in range(30):
    x = study("ask", "bounded", "--space", "line.json")["params"]["x"]
    study("tell", "bounded", str(i), repr(x), "--constraints", f"{1 - x!r},-1")
    beyond.append(x < 1)
best, = study("best", "bounded")["trials"]
print(json.dumps([best["values"][0], sum(beyond[:10]), sum(beyond[15:])]))
PYTHON
echo '{"x": {"name": "FloatDistribution", "attributes": {"low": -5, "high": 5}}}' >line.json
expect 0 study create --study bounded --direction minimize
python3 bounded.py "$FTENGINE" >bounded.json 2>err || fail "bounded"
[ "$(json bounded.json '1 <= d[0] < 1.5 and d[1] >= 3 and d[2] <= 8')" = True ] || fail "limits are not kept: $(cat bounded.json)"
expect 0 study export bounded --format jsonl
[ "$(sed -n 2p out >first && json first 'd["system_attributes"]["constraints"] == [1 - d["params"]["x"], -1.0]')" = True ] || fail "not as Optuna has them: $(cat first)"
expect 0 study ask bounded --space line.json
for bad in "30 1 --constraints x|takes numbers with commas between" "30 1 --constraints 1,|takes numbers" "30 1 --constraints nan|takes numbers" \
    "30 1 --constraints 1 --step 2|with --step go one value and no --constraints" "30 1 study.constraints=seconds.total<=9|--constraints of" \
    "30 1 --step 2 study.pruner=freeze_thaw|freeze_thaw pauses trials of" "30 1 study.fidelity=data|data is of the texts"; do
    # shellcheck disable=SC2086
    expect 2 study tell --study bounded ${bad%%|*} && says "${bad#*|}"
done

# ---- other studies: learnt from at the first question, and from then on --------------------------------------------------------
for name in taught again untaught evenly; do expect 0 study create --study $name --direction minimize; done
expect 2 study ask taught --space line.json study.learn_from=nobody && says "there is no study 'nobody'"
expect 2 study ask taught --space line.json study.learn_from=bounded study.sampler=random && says "this sampler learns from no trials"
expect 0 study export taught --format jsonl # a refusal leaves nothing behind
grep -q lessons out && fail "refused, and yet learnt: $(cat out)"
expect 0 study trials taught --json
[ "$(json out 'd["trials"]')" = "[]" ] || fail "a teacher that is not there, and yet a trial"
teach() { expect 0 study tell "$1" "$2" "$(json out 'd["params"]["x"] ** 2')"; }
for i in 0 1 2 3; do
    expect 0 study ask taught --space line.json --json study.learn_from=bounded
    [ $i != 0 ] || says "learns from study 'bounded': "
    cp out taught$i && teach taught $i
    expect 0 study ask again --space line.json --json "$([ $i = 0 ] && echo study.learn_from=bounded || echo study.seed=42)" # once is enough
    cmp -s <(json out 'd["params"]') <(json taught$i 'd["params"]') || fail "said once, it is another search"
    teach again $i
    expect 0 study ask untaught --space line.json --json && cp out untaught$i && teach untaught $i
done
cmp -s <(cat taught? | grep '"x"') <(cat untaught? | grep '"x"') && fail "nothing was learnt"
expect 2 study ask untaught --space line.json study.learn_from=bounded && says "what a study learns from is fixed when it is made"

for name in quasi_random qmc; do # one sampler by two names
    expect 0 study ask evenly --space line.json --json study.sampler=$name && json out 'd["params"]["x"]' >$name
    expect 0 study tell evenly --state fail "$(json out 'd["number"]')"
done
[ "$(cat quasi_random)" != "$(cat qmc)" ] || fail "one point twice"
expect 0 "$FTENGINE" study create --study alone --direction minimize && expect 0 study ask alone --space line.json --json study.sampler=qmc
[ "$(json out 'd["params"]["x"]')" = "$(cat quasi_random)" ] || fail "qmc is another sampler than quasi_random"

# ---- a parameter that only some trials have -------------------------------------------------------------------------------------
cat >when.json <<'JSON'
{"kind": {"name": "CategoricalDistribution", "attributes": {"choices": ["svm", "forest", true]}},
 "layers": {"name": "IntDistribution", "attributes": {"low": 1, "high": 4, "log": false, "step": 1}, "when": {"kind": ["forest", true]}},
 "c": {"name": "FloatDistribution", "attributes": {"low": 0.01, "high": 100, "log": true}, "when": {"kind": "svm"}},
 "width": {"name": "FloatDistribution", "attributes": {"low": 0, "high": 1}, "when": {"kind": ["forest"], "layers": [3, 4]}}}
JSON
cat >when.py <<'PYTHON'
import json, subprocess, sys
def study(*words): return json.loads(subprocess.run([sys.argv[1], "study", words[0], "when", *words[1:], "--json"], check=True, stdout=subprocess.PIPE).stdout)
seen = []
for i in range(40):
    p = study("ask", "--space", "when.json")["params"]
    assert ("c" in p) == (p["kind"] == "svm") and ("layers" in p) == (p["kind"] != "svm"), p
    assert ("width" in p) == (p["kind"] == "forest" and p["layers"] >= 3), p
    value = 1 if p["kind"] != "forest" else 0.5 if "width" not in p else p["width"] ** 2  # the best are in the rarest branch
    study("tell", str(i), repr(value))
    seen.append((value, sorted(p)))
assert len({tuple(names) for _, names in seen}) == 3, seen
print(json.dumps(min(value for value, _ in seen)))
PYTHON
expect 0 study create --study when --direction minimize
python3 when.py "$FTENGINE" >when.out 2>err || fail "a parameter that only some trials have: $(cat err)"
[ "$(json when.out 'd < 0.01')" = True ] || fail "nothing was learnt in a branch: $(cat when.out)"
expect 0 study ask when --space when.json && grep -q "^  kind = " out || fail "ask: $(cat out)"
float='{"name": "FloatDistribution", "attributes": {"low": 0, "high": 1}'
for bad in "\"y\": $float, \"when\": {\"kinds\": 1}}|no parameter \"kinds\" stands in front of it" "\"y\": $float, \"when\": {\"y\": 1}}|no parameter \"y\" stands" \
    "\"y\": $float, \"when\": {\"kind\": [\"svn\"]}}|is never \"svn\"" "\"y\": $float, \"when\": {\"n\": 9}}|is never 9" "\"y\": $float, \"when\": {\"n\": 1.5}}|is never 1.5" \
    "\"y\": $float, \"when\": {\"z\": 0}}|which no condition can look at" "\"y\": $float, \"when\": {\"kind\": []}}|no values are listed" "\"y\": $float, \"when\": \"kind\"}|names no parameters" \
    "\"y\": $float, \"when\": {}}|names no parameters" "\"y\": $float, \"whne\": {\"kind\": 1}}|has a \"whne\", which is none of name, attributes and when"; do
    cat >bad.json <<JSON
{"kind": {"name": "CategoricalDistribution", "attributes": {"choices": ["svm", 1]}}, "z": $float},
 "n": {"name": "IntDistribution", "attributes": {"low": 2, "high": 8, "step": 2}}, ${bad%%|*}}
JSON
    expect 2 study ask when --space bad.json && one_error 'bad.json' && says '"y"' && says "${bad#*|}"
    case $bad in *svn*) says 'did you mean "svm"?' ;; *whne*) says 'did you mean "when"?' ;; *'never 9') says "a whole number from 2 to 8 in steps of 2" ;; esac
done

# ---- values that are not finite, as Python writes them; a name that looks like one ------------------------------------------------
expect 0 study create --study inf --direction maximize
for value in -inf inf 1; do
    expect 0 study ask inf --space line.json --json
    expect 0 study tell inf "$(json out 'd["number"]')" $value
done
expect 0 study trials inf --json
[ "$(json out '[t["values"] for t in d["trials"]]')" = "[['-Infinity'], ['Infinity'], [1.0]]" ] || fail "values that are not finite: $(cat out)"

# ---- mistakes ----------------------------------------------------------------------------------------------------------------
expect 0 study ask one --space space.json
expect 0 study export one --format jsonl && cp out before
for bad in "40|completed with 0 values, but 1 belongs to it" "40 1 2|completed with 2 values, but 1" "40 1 --state fail|failed with 1 values, but 0" \
    "41 1|there is no trial 41" "-1 1|a trial's number is a whole number from 0 on, got '-1'" "40 x|'x' is no value" "40 nan|nan is no value" \
    "40 1 --state done|there is no end 'done'" "40 1 2 --step 3|with --step go one value" "40 1 --step x|a step is a whole number" "|which trial?"; do
    # shellcheck disable=SC2086
    expect 2 study tell --study one ${bad%%|*} && one_error "${bad#*|}"
done
expect 2 study tell one 40 1 study.samplr=tpe && one_error "study.samplr"
for bad in "ask one --space space.json train.epochs=2" "ask one --space space.json space.train.epochs=float(1,2)" "tell one 40 1 data.max_length=8" "tell one 40 1 space.train.epochs=1"; do
    # shellcheck disable=SC2086
    expect 2 study $bad && one_error "${bad%% *} takes no such setting (${bad##* })"
done
echo '{"x": {"name": "FloatDistribution", "attributes": {"low": 2, "high": 1}}}' >upside.json
echo '[1]' >list.json
echo '{"x": 3}' >bare.json
echo "{\"\": $float}}" >nameless.json
echo '{"x": {"name": "FlaotDistribution", "attributes": {"low": 2, "high": 1}}}' >misspelt.json
echo '{"x": {"name": "FloatDistribution", "attributes": {"low": 0, "high": 1, "stp": 0.5}}}' >attribute.json
echo '{"x": {"name": "CategoricalDistribution", "attributes": {"choices": [1, 2]}}}' >other.json
expect 2 study ask one && one_error "this study has no search space of its own" && says "--space FILE.json gives it"
expect 2 study ask one --space upside.json && one_error 'upside.json: "x"'
expect 2 study ask one --space list.json && one_error "holds no search space"
expect 2 study ask one --space bare.json && one_error '"x" is no distribution'
expect 2 study ask one --space nameless.json && one_error "a parameter has no name"
expect 2 study ask one --space misspelt.json && one_error "unknown distribution" && says 'did you mean "FloatDistribution"?'
expect 2 study ask one --space attribute.json && one_error 'should not have, "stp"' && says 'did you mean "step"?'
expect 2 study ask one --space other.json && one_error "x"
expect 2 study ask one --space none.json && one_error "none.json"
expect 2 study create --study four --direction up && one_error "takes minimize or maximize" && [ ! -e studies/four ] || fail "something was made"
expect 2 study create --study one --direction minimize && one_error "one"
expect 0 study export one --format jsonl && cmp -s out before || fail "a mistake changed the study"
exit 0
