#!/usr/bin/env bash
# What the Gaussian process believes, on a study's page and in `ftengine study show`: of two parameters the picture is all of the space,
# so that it has to agree with what `show` says of the best place and of the next one. That the numbers are the model's:
# hpo/search/test_insight.c.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
study() { "$FTENGINE" study "$@"; }
python3 - <<'PYTHON' || fail "the studies are not made"
import json
import math
import random

rate = {"name": "FloatDistribution", "attributes": {"low": 1e-5, "high": 1e-1, "log": True, "step": None}}
layers = {"name": "IntDistribution", "attributes": {"low": 1, "high": 12, "log": False, "step": 1}}
kinds = {"name": "CategoricalDistribution", "attributes": {"choices": ["plain", "wide"]}}
for name, sign, kind in (("pair", 1, False), ("mirror", -1, False), ("tree", 1, True)):
    random.seed(4)
    with open(name + ".jsonl", "w") as out:
        print(json.dumps({"format_version": 1, "study": name, "directions": ["minimize" if sign > 0 else "maximize"], "user_attributes": {},
                          "system_attributes": {"study:metric_names": ["loss"]}}), file=out)
        for i in range(40):
            r, n, wide = 10 ** random.uniform(-5, -1), random.randrange(1, 13), i % 3 == 0
            value = 0.3 + 0.1 * (math.log10(r) + 3) ** 2 + 0.004 * (n - 7) ** 2
            params, spaces = {"rate": r}, {"rate": rate}
            if kind:
                params["kind"], spaces["kind"] = ["plain", "wide"][wide], kinds
            if not kind or wide:
                params["layers"], spaces["layers"] = n, layers
            failed = not kind and r > 3e-2 # diverges
            print(json.dumps({"number": i, "state": "FAIL" if failed else "COMPLETE", "values": None if failed else [sign * value],
                              "datetime_start": "2026-01-02 03:%02d:00.000000" % i, "datetime_complete": "2026-01-02 03:%02d:50.000000" % i,
                              "params": params, "distributions": spaces, "intermediate_values": {}, "user_attributes": {},
                              "system_attributes": {"fixed_params": {"rate": r}} if i == 20 else {}}), file=out)
PYTHON
for name in pair mirror tree; do
    expect 0 study import $name.jsonl
    expect 0 study report $name --svg svg-$name
    cp studies/$name/report.html $name.html
    expect 0 study report $name
    cmp studies/$name/report.html $name.html || fail "the same study has another page"
    expect 0 study show $name --json
    cp out $name.json
done
expect 0 study show pair
cp out pair.text
[ "$(ls svg-pair | grep -c '^belief-1-2-')" = 2 ] && [ "$(ls svg-pair | grep -c contour)" = 0 ] || fail "pictures: $(ls svg-pair)"

mkdir documents
for name in pair mirror tree; do cp $name.json documents/study_show.$name; done
python3 -S "$SOURCE_DIR/tests/fixtures/documents.py" documents >said || fail "$(cat said)"

cat >planes.py <<'PYTHON'
"""Planes of a picture: the class of a place, and where marks are."""
import math
import re
from read import Page


class Plane:
    def __init__(self, page, title):
        picture = Page(page).pictures[title]
        self.cells = []
        self.styles = {p.get("class"): p for p in picture.iter("path")}
        for p in picture.iter("path"):
            name = re.fullmatch(r"a(\d) crisp", p.get("class") or "")
            for x, y, right, top, back in re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)z", p.get("d") if name else ""):
                assert x == back
                self.cells.append((float(x), float(top), float(right), float(y), int(name.group(1))))
        texts = [(t.text, float(t.get("x"))) for t in picture.iter("text")]
        self.legend = [t for t, _ in texts[1:3]]
        self.note = next(t for t, _ in texts if t.startswith("Others as in"))
        self.left, self.right = min(c[0] for c in self.cells), max(c[2] for c in self.cells)
        self.top, self.bottom = min(c[1] for c in self.cells), max(c[3] for c in self.cells)

    def place(self, u, v):
        return self.left + u * (self.right - self.left), self.bottom - v * (self.bottom - self.top)

    def classes(self, u, v):
        x, y = self.place(u, v)
        return [c[4] for c in self.cells if c[0] <= x <= c[2] and c[1] <= y <= c[3]]

    def area(self, class_=None):
        return sum((c[2] - c[0]) * (c[3] - c[1]) for c in self.cells if class_ in (None, c[4])) / ((self.right - self.left) * (self.bottom - self.top))

    def ring(self):
        x, y = map(float, re.match(r"M([\d.]+) ([\d.]+)", self.styles["ring"].get("d")).groups())
        return (x + 5 - self.left) / (self.right - self.left), (self.bottom - y) / (self.bottom - self.top)
PYTHON
python3 - <<'PYTHON' || fail "the pictures are not what is believed"
import json
import math
from planes import Plane

for name, sign in (("pair", 1), ("mirror", -1)):
    shown = json.load(open(name + ".json"))
    best, next_, middle = shown["belief"]["best"], shown["belief"]["next"], shown["belief"]["middle"]
    order = sorted(shown["parameters"], key=lambda p: -p["importance"])
    a, b = (p["name"] for p in order)
    unit = {"rate": lambda p: (math.log10(p["rate"]) + 5) / 4, "layers": lambda p: (p["layers"] - 0.5) / 12}
    expected, deviation = Plane(name + ".html", f"Expected: {a} and {b}"), Plane(name + ".html", f"Deviation: {a} and {b}")
    for plane in (expected, deviation): # every place has one class
        assert abs(plane.area() - 1) < 0.01, plane.area()
        assert plane.note.startswith(f"Others as in trial {shown['best'][0]['number']}."), plane.note
    assert {c[4] for c in expected.cells} >= {0, 1, 5, 9} and {c[4] for c in deviation.cells} >= {0, 9}
    # What it is: the values of the legend are the middle trial's and those of the best place.
    assert expected.legend[0] == f"worse than {middle:.4g}", (expected.legend, middle)
    assert abs(float(expected.legend[1]) - best["expected"]) < 0.02 and abs(best["expected"] - sign * 0.3) < 0.02, (expected.legend, best)
    assert best["trial"] is None and 6 <= best["params"]["layers"] <= 8 and 10 ** -3.4 < best["params"]["rate"] < 10 ** -2.6, best
    assert not best["worse_than_middle"] and 0 < best["deviation"] < 0.05 and best["chance"] > 0.8
    assert 9 in expected.classes(unit[a](best["params"]), unit[b](best["params"]))
    # Where it is known to be bad, it is worse than the middle trial; where half of them diverge, they rather fail.
    far = {"rate": 1e-5, "layers": 12}
    assert expected.classes(unit[a](far), unit[b](far))[0] == 0
    assert "lost" in expected.styles and "Strokes" in expected.note
    # Where most is to be gained is where the next trial would go, to a cell and its neighbour.
    ring = expected.ring()
    assert all(abs(r - unit[n](next_["params"])) < 1.6 / 24 for r, n in zip(ring, (a, b))), (ring, next_)
    low, high = (float(t.strip("\u00b1").split(",")[0]) for t in deviation.legend)
    assert low > high > 0
a, b = json.load(open("pair.json")), json.load(open("mirror.json"))
assert a["belief"]["best"]["params"] == b["belief"]["best"]["params"] and a["belief"]["middle"] == -b["belief"]["middle"]

# Parameters that do not always go together: no place without them, and others as in the best trial of each kind.
tree = json.load(open("tree.json"))
names = [p["name"] for p in sorted(tree["parameters"], key=lambda p: -(p["importance"] or 0))]
def plane(x, y):
    x, y = sorted((x, y), key=names.index)
    return Plane("tree.html", f"Expected: {x} and {y}")
both = plane("rate", "kind")
assert "that goes with both" in both.note and abs(both.area() - 1) < 0.01, both.note

# What more trials may gain: the page has the words of `show`.
import re
from read import Page
said = re.search(r"a gain of (\S+) is to be expected; with (\S+)% no more than (\S+) is left: (stop now|go on)", open("pair.text").read()).groups()
on_page = re.search(r"a gain of (\S+) is to be expected. With (\S+)\s%.*more than (\S+): (stop now|go on)", Page("pair.html").text).groups()
outlook = json.load(open("pair.json"))["outlook"]
assert said == on_page == ("%.3g" % outlook["expected_gain"], "%.1f" % (100 * outlook["probability"]), "%.3g" % outlook["tolerance"],
                           "stop now" if outlook["stop"] else "go on"), (said, on_page, outlook)
PYTHON

# ---- which trials, and why -----------------------------------------------------------------------------------------------------
chosen() { json out "d['chosen']['trial'], d['chosen']['by'], d['chosen']['before'] is not None"; }
expect 0 study show pair --json
[ "$(chosen)" = "(39, None, True)" ] || fail "the newest trial, of a study without a configuration: $(chosen)"
expect 0 study show pair
grep -q '^expects .* best where no trial was: ' out && grep -q '^next .*expected gain' out && grep -q '^trial 39 .*a Gaussian process of the trials before expected' out ||
    fail "show: $(cat out)"
printf '[model]\npath = %s/model\n[data]\ntrain = %s/train.tsv\n' "$here" "$here" >base.ini
for case in auto:39:gp:True auto:20:person:True auto:5:start:False auto:0:start:False gp:15:gp:True random:39:random:True tpe:5:start:False tpe:16:tpe:True cmaes:9:start:False cmaes:15:cmaes:True; do
    IFS=: read -r sampler trial by before <<<"$case"
    { cat base.ini && printf '[study]\nsampler = %s\n' $sampler; } >studies/pair/config.ini
    expect 0 study show pair --trial $trial --json
    [ "$(chosen)" = "($trial, '$by', $before)" ] || fail "$case: $(chosen)"
    expect 0 study show pair --trial $trial
    grep -q "^trial $trial " out || fail "$case: $(cat out)"
done
# What auto is in a study that shall have many trials goes by its space.
for case in 'choice(linear, cosine):tpe' 'linear:cmaes'; do
    { cat base.ini && printf '[study]\ntrials = 1001\n[space]\ntrain.learning_rate = float(1e-6, 1e-4)\ntrain.warmup_ratio = float(0, 0.2)\ntrain.lr_scheduler = %s\n' "${case%:*}"; } >studies/pair/config.ini
    expect 0 study show pair --trial 16 --json
    [ "$(chosen)" = "(16, '${case##*:}', True)" ] || fail "$case: $(chosen)"
done
expect 2 study show pair --trial 40 && one_error "there is no trial 40, only 0 to 39"
expect 2 study show pair --trial x && one_error "there is no trial x"
# Beyond where the search asks it, only a study whose sampler it is has it.
python3 "$SOURCE_DIR/tests/hpo/make_report_studies.py" many 300 plain >many.jsonl || fail "many is not made"
expect 0 study import many.jsonl
expect 0 study show many --json
[ "$(json out "d['belief']['none_since'], d['belief']['best'], d['chosen']['before']")" = "('there are more than 250 trials', None, None)" ] || fail "many: $(cat out)"
{ cat base.ini && printf '[study]\nsampler = gp\n'; } >studies/many/config.ini
expect 0 study show many --json
[ "$(json out "d['belief']['none_since'], d['belief']['best'] is not None, d['chosen']['by']")" = "(None, True, 'gp')" ] || fail "many by gp: $(cat out)"
expect 0 study report many
grep -q 'Expected: ' studies/many/report.html || fail "the page of a long study of gp"
# Of several objectives, and of no trial.
python3 "$SOURCE_DIR/tests/hpo/make_report_studies.py" two 30 two >two.jsonl || fail "two is not made"
python3 "$SOURCE_DIR/tests/hpo/make_report_studies.py" none 0 plain >none.jsonl || fail "none is not made"
expect 0 study import two.jsonl
expect 0 study import none.jsonl
expect 0 study show two --json
[ "$(json out "d['belief']['none_since'], d['chosen']['before']")" = "('there are several objectives', None)" ] || fail "two: $(cat out)"
expect 0 study show none --json
[ "$(json out "d['chosen'], d['belief']['middle']")" = "(None, None)" ] || fail "none: $(cat out)"
expect 2 study show none --trial 0 && one_error "the study has no trials"

# ---- what comes next ------------------------------------------------------------------------------------------------------------
# The next trial of the search is the one that was announced, to the bit; and what was expected of it is told of it.
{ cat base.ini && printf '[study]\nsampler = auto\nseed = 7\n'; } >studies/pair/config.ini
cat >space.json <<'JSON'
{"rate": {"name": "FloatDistribution", "attributes": {"low": 1e-5, "high": 1e-1, "log": true}},
 "layers": {"name": "IntDistribution", "attributes": {"low": 1, "high": 12}}}
JSON
expect 0 study show pair --json
[ "$(json out "d['outlook']['expected_gain']")" != "$(json pair.json "d['outlook']['expected_gain']")" ] || fail "the outlook is not by the study's seed, as it stops by"
announced=$(json out "sorted(d['belief']['next']['params'].items())") expected=$(json out "'%.9g' % d['belief']['next']['expected']")
expect 0 study ask pair --space space.json --json
[ "$(json out "sorted(d['params'].items())")" = "$announced" ] || fail "announced was $announced: $(cat out)"
expect 0 study show pair --json
[ "$(chosen) $(json out "'%.9g' % d['chosen']['before']['expected']")" = "(40, 'gp', True) $expected" ] || fail "the trial that was announced, $expected: $(cat out)"
# A trial that waits has no place yet.
expect 0 study enqueue pair rate=0.001
expect 0 study show pair --trial 41 --json
[ "$(chosen)" = "(41, 'person', False)" ] || fail "a trial that waits: $(chosen)"
