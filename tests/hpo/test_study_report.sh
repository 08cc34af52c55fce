#!/usr/bin/env bash
# `ftengine study report`: the page says what the study holds, whatever its names look like; it needs nothing from elsewhere, stays
# small for thousands of trials, and says what it left out. Every picture is there as a file too. What a browser makes of the
# pages: test_study_report_browser.sh.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
study() { "$FTENGINE" study "$@"; }
for made in plain:120:plain big:5000:plain two:300:two odd:60:odd one:1:plain none:0:plain same:9:same; do
    IFS=: read -r name count kind <<<"$made"
    python3 "$SOURCE_DIR/tests/hpo/make_report_studies.py" $name $count $kind >$name.jsonl || fail "$name is not made"
    expect 0 study import $name.jsonl
    expect 0 study report $name --svg svg-$name
    [ "$(cat out)" = studies/$name/report.html ] || fail "where the page is: $(cat out)"
    [ "$(stat -c %s studies/$name/report.html)" -lt 3000000 ] || fail "$name: $(stat -c %s studies/$name/report.html) bytes"
done
expect 0 study report plain --output - && cmp out studies/plain/report.html || fail "the page on standard output is another"
expect 0 study report plain --output elsewhere.html && cmp elsewhere.html studies/plain/report.html || fail "--output"
expect 0 study export plain --output plain.csv

python3 - <<'PYTHON' || fail "the pages are not what the studies hold"
import csv
import glob
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from read import Page

SVG = "{http://www.w3.org/2000/svg}"
pages = {name: Page(f"studies/{name}/report.html") for name in ("plain", "big", "two", "odd", "one", "none", "same")}
for name, page in pages.items():
    assert not page.tags & {"script", "img", "link", "iframe", "object"} and "url(" not in page.source, name
    assert "default-src 'none'" in page.source and "//" not in page.source.split("</style>")[0]
    assert not re.search(r"\b(nan|inf|-nan|-inf)\b", re.sub(r"<(title|td|text|h1|p)[^>]*>[^<]*", "", page.source)), name
    # Each picture as a file, whole and with colours that need no page.
    files = sorted(glob.glob(f"svg-{name}/*.svg"))
    assert len(files) == len(page.pictures) == page.source.count("<svg "), (name, len(files), len(page.pictures))
    for path in files:
        text = open(path, encoding="utf-8").read()
        assert ElementTree.fromstring(text).tag == SVG + "svg" and "var(" not in text and "#0072b2" in text, path

plain = pages["plain"]
trials = list(csv.DictReader(open("plain.csv", newline="")))
fates = {"complete": 0, "infeasible": 0, "pruned": 0, "out of memory": 0, "failed": 0}
for t in trials:
    broken = float(t["constraint_0"]) > 0
    fates["out of memory" if t["user_oom"] == "true" else {"PRUNED": "pruned", "FAIL": "failed"}.get(t["state"], "infeasible" if broken else "complete")] += 1
for fate, count in fates.items():
    assert re.search(f"{fate}\\s*{count}\\s*{100 * count / len(trials):.1f} %", plain.text), (fate, count)
complete = [t for t in trials if t["state"] == "COMPLETE"]
best = max((t for t in complete if float(t["constraint_0"]) <= 0), key=lambda t: float(t["value"]))
assert f"Best trial: {best['number']}" in plain.text
row = next(r for r in plain.rows if r[0] == "train.learning_rate")
assert float(row[1]) == float(best["param_train.learning_rate"]) and row[2] == "float(1e-06, 0.001, log)" and row[3].endswith(" %"), row
# All trials are in the table, the best first.
rows = [r for r in plain.rows if len(r) > 8 and r[0].isdigit()]
assert len(rows) == 120 and {int(r[0]) for r in rows} == set(range(120))
order = [float(r[2]) for r in rows if r[1] in ("complete", "infeasible")]
assert order == sorted(order, reverse=True) and len(order) == len(complete)
assert "worker was killed by signal 9" in plain.text
assert set(plain.pictures) >= {"eval.accuracy over the trials", "Importance of parameters", "Trials through the most important parameters",
                               "train.learning_rate", "model.head.hidden", "eval.accuracy over the steps of each trial",
                               "Memory, planned and measured", "Peak of memory over the trials", "Trials on their devices"}, set(plain.pictures)
# Three pairs: what is believed (study/test_study_belief.sh), or where nothing is, how the trials are, and why.
def pairs(name, beginning):
    return sum(re.fullmatch(beginning + r"\S.* and .*", title) is not None for title in pages[name].pictures)
for name, believed, contours, since in (("plain", 3, 0, None), ("odd", 3, 0, None), ("big", 0, 3, "more than 250 trials"), ("two", 0, 3, "several objectives")):
    found = pairs(name, "Expected: "), pairs(name, "Deviation: "), pages[name].source.count("<h2>Contours</h2>") * 3
    assert found == (believed, believed, contours), (name, found)
    assert since is None or f"believes is not shown, since there are {since}" in pages[name].text, name

def points(picture, style):
    return [tuple(map(float, re.match(r"M(-?[\d.]+) (-?[\d.]+)", p.get("d")).groups())) for p in picture.iter("path") if (p.get("class") or "").split()[:1] == [style] and p.find("title") is not None]

# A point for each trial, higher where the value is; the line of the best ends at the best.
history = plain.pictures["eval.accuracy over the trials"]
dots = sorted(points(history, "dot"))
feasible = [t for t in complete if float(t["constraint_0"]) <= 0]
assert len(dots) == len(feasible)
top = min(range(len(dots)), key=lambda i: dots[i][1])
assert feasible[top]["number"] == best["number"]
line = next(p.get("d") for p in history.iter("path") if p.get("class") == "best" and "V" in p.get("d"))
assert abs(float(re.findall(r"V([\d.]+)", line)[-1]) - dots[top][1]) < 0.11
# On logarithmic axes equal factors are equal distances; ticks are powers of ten.
labels = {t.text: float(t.get("x")) for t in plain.pictures["train.learning_rate"].iter("text")}
powers = [labels[p] for p in ("1e-06", "1e-05", "0.0001", "0.001") if p in labels]
assert len(powers) >= 2 and max(abs((b - a) - (powers[1] - powers[0])) for a, b in zip(powers, powers[1:])) < 3, labels
assert {"bert-base", "roberta-large", "MiniLM"} <= {t.text for t in plain.pictures["model.path"].iter("text")}
# A point among those of a choice says which one, though it stands beside its middle.
held = {int(t["number"]): t["param_model.path"] for t in complete}
said = dict(re.match(r"trial (\d+): (.*), [^,]*$", p.find("title").text).groups() for p in plain.pictures["model.path"].iter("path") if p.find("title") is not None)
assert {int(k): v for k, v in said.items()} == held
# Importances are those of `study show`, and bars are as long as they are.
show = json.loads(os.popen('"$FTENGINE" study show plain --json').read())
important = sorted((p for p in show["parameters"]), key=lambda p: -p["importance"])
bars = [float(re.search(r"h([\d.]+)v", p.get("d")).group(1)) for p in plain.pictures["Importance of parameters"].iter("path")]
assert len(bars) == len(important) == 6
assert all(abs(b / bars[0] - p["importance"] / important[0]["importance"]) < 0.02 for b, p in zip(bars, important)), (bars, important)
# Of several objectives for all of them, and for each by itself.
show = json.loads(os.popen('"$FTENGINE" study show two --json').read())
for named in [None] + show["objectives"]:
    title = "Importance of parameters for " + (named or "all objectives")
    shares = [float(t.text.split()[0]) for t in pages["two"].pictures[title].iter("text") if (t.text or "").endswith(" %")]
    important = [100 * (p["importance_of"][named] if named else p["importance"]) for p in sorted(show["parameters"], key=lambda p: -p["importance"])]
    assert len(shares) > 3 and all(abs(s - i) < 0.06 for s, i in zip(shares, important)), (title, shares, important)
# Memory beside its plan: none above the line. The timeline has a bar for every trial, and both devices.
assert f"0 of {sum(t['user_oom'] != 'true' for t in trials)} trials are" in plain.text
timeline = plain.pictures["Trials on their devices"]
assert sum(p.find("title") is not None for p in timeline.iter("path")) == 120 and {"cuda:0", "cuda:1"} <= {t.text for t in timeline.iter("text")}

# Thousands: thinned, and said.
big_complete = sum(json.loads(line).get("state") == "COMPLETE" for line in open("big.jsonl"))
for said in ("300 of 5000.", f"300 of {big_complete} trials", "160 of "):
    assert said in pages["big"].text, said
assert len([r for r in pages["big"].rows if len(r) > 8 and r[0].isdigit()]) == 300
# Several objectives: the front is that of `study best`, and no trial is the best.
front = {t["number"] for t in json.loads(os.popen('"$FTENGINE" study best two --json').read())["trials"]}
two = pages["two"].pictures["eval.accuracy and seconds.total"]
marked = [p for p in two.iter("path") if p.get("class") == "diamond" and p.find("title") is not None]
assert {int(re.match(r"trial (\d+)", p.find("title").text).group(1)) for p in marked} == front and "Best trial" not in pages["two"].text
# Odd names are texts, whole somewhere; values that are not finite are nowhere, those far off at the edge.
odd = pages["odd"]
for part in ("<script>document.title=\"owned\"</script>", "\u05e9\u05dc\u05d5\u05dd", "running"):
    assert part in odd.text, part
assert "far worse" in odd.text
# One trial and none: what there is.
assert "Best trial: 0" in pages["one"].text or "No trial is complete" in pages["one"].text
assert "no trials yet" in pages["none"].text and not pages["none"].pictures
assert "Importance of parameters" not in pages["same"].pictures and "eval.accuracy over the trials" in pages["same"].pictures
PYTHON

# ---- the list of study.report_memory_over; studies of Optuna ---------------------------------------------------------------
printf '[model]\npath = %s/model\n[data]\ntrain = %s/train.tsv\n[study]\nreport_memory_over = 1500MiB\n' "$here" "$here" >studies/plain/config.ini
expect 0 study report plain
python3 - <<'PYTHON' || fail "trials above study.report_memory_over"
import csv
import re
from read import Page
page = Page("studies/plain/report.html")
over = [t["number"] for t in csv.DictReader(open("plain.csv", newline="")) if t["user_peak_memory_bytes"] and int(t["user_peak_memory_bytes"]) > 1500 << 20]
assert over and f"{len(over)} trials took more than 1.46GiB" in page.text, re.findall(r"\d+ trials took[^<]*", page.text)
assert [r[0] for r in page.rows if len(r) > 8 and r[0].isdigit()][:len(over)] == over
PYTHON
cp "$SOURCE_DIR/tests/vectors/optuna_study/study.db" optuna.db
for name in two "ein Näme 😀"; do
    expect 0 study report "$name" --storage optuna.db --output optuna.html --svg "svg of Optuna's"
    python3 -c "from read import Page; assert Page('optuna.html').pictures" || fail "a study of Optuna: $name"
done

# ---- a study of our own: memory beside its plan, and the device ----------------------------------------------------------
cat >tiny.ini <<INI
[model]
path = $here/model
[data]
train = $here/train.tsv
validation = $here/validation.tsv
max_length = 24
[train]
max_steps = 20
batch_size = 8
[eval]
strategy = steps
steps = 5
metric = accuracy
[output]
save_steps = 0
[study]
trials = 4
pruner = none
[space]
train.learning_rate = float(1e-4, 3e-2, log)
INI
expect 0 "$FTENGINE" tune tiny.ini --study real
expect 0 study report real
python3 - <<'PYTHON' || fail "the page of a study of our own"
from read import Page
page = Page("studies/real/report.html")
memory, timeline = page.pictures["Memory, planned and measured"], page.pictures["Trials on their devices"]
assert "0 of 4 trials are" in page.text and sum(p.find("title") is not None for p in memory.iter("path")) == 4
assert "cpu" in {t.text for t in timeline.iter("text")} and "eval.accuracy over the steps of each trial" in page.pictures
PYTHON

# ---- mistakes --------------------------------------------------------------------------------------------------------------
expect 2 study report nowhere && one_error "nowhere"
expect 2 study report plain --xml && one_error "--xml"
expect 1 study report plain --output no/where.html && one_error "no/where.html"
touch file && expect 1 study report plain --svg file/pictures && one_error "file"
[ -z "$(find . -name '*.ft-*')" ] || fail "half a file was left: $(find . -name '*.ft-*')"
"$FTENGINE" study report plain --output - >/dev/full 2>err
[ $? = 1 ] && says "standard output" || fail "a full standard output is not an error"
expect 0 study delete plain --yes
[ ! -e studies/plain ] || fail "delete left $(ls studies/plain)"
