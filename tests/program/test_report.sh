#!/usr/bin/env bash
# `ftengine report`: the page says what the run's files say, whatever the labels look like; it needs nothing from elsewhere;
# and where there is a browser, it is looked at: nothing runs, nothing overflows, no two labels of an axis overlap.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1

# Labels as nobody should write them: markup, quotes, right-to-left with an override, one that is 320 characters long.
python3 - "$here" <<'PYTHON' || exit 1
import json
import sys
labels = {"food": "<script>document.title='owned'</script>", "music": "\u05e9\u05dc\u05d5\u05dd \"q\" & 'r' \u202e</b>", "travel": "long" * 80}
json.dump(list(labels.values()), open("labels.json", "w"))
for split in ("train", "validation"):
    lines = open(f"{sys.argv[1]}/{split}.tsv", encoding="utf-8").read().splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    with open(f"{split}.tsv", "w", encoding="utf-8") as out:
        print(lines[0], *(f"{text}\t{labels[label]}" for text, label in rows), sep="\n", file=out)
PYTHON
dir="r<b>&'x"
expect 0 "$FTENGINE" train "$here/follow.ini" data.train=train.tsv data.validation=validation.tsv data.test=validation.tsv train.max_steps=80 \
    train.logging_steps=1 eval.strategy=steps eval.steps=10 eval.metric=accuracy memory.timeline=true output.dir="$dir"
expect 0 "$FTENGINE" report "$dir"
[ "$(cat out)" = "$dir/report.html" ] && cp "$dir/report.html" page.html || fail "where the page is: $(cat out)"
# Elsewhere it links to nothing.
expect 0 "$FTENGINE" report "$dir" --output - && sed 's|<a href="predictions.jsonl">\(predictions.jsonl\)</a>|\1|' page.html | cmp - out || fail "the page on standard output is another"

expect 0 "$FTENGINE" report "$dir" --output again.html --json && cmp <(sed 's|<a href="predictions.jsonl">\(predictions.jsonl\)</a>|\1|' page.html) again.html &&
    [ "$(json out 'd')" = "{'format_version': 1, 'report': 'again.html'}" ] || fail "the document about the page: $(cat out)"
expect 2 "$FTENGINE" report "$dir" --output - --json && one_error "the page and the document"
# What run.json and predictions.jsonl say is on the page; every tag is closed; nothing is fetched, nothing can run.
python3 - "$dir" <<'PYTHON' || fail "the page is not what the run's files say"
import collections
import json
import sys
from read import Page, points
page, run = Page("page.html"), json.load(open(sys.argv[1] + "/run.json"))
assert not page.tags & {"script", "img", "link", "iframe", "object"} and "url(" not in page.source and "//" not in page.source.split("</style>")[0]
assert "default-src 'none'" in page.source and "prefers-color-scheme:dark" in page.source
for label in json.load(open("labels.json")):
    assert label in page.text, label
assert sys.argv[1] in page.text
assert set(page.charts) == {"Loss", "Validation metrics", "Learning rate", "Gradient norm", "Speed", "Memory by category", "Reliability"}, set(page.charts)
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
losses = [line["loss"] for line in lines if "loss" in line]
train, validation = points(page.charts["Loss"])
assert len(train) == len(losses) == 80 and len(validation) == 8
assert max(range(80), key=losses.__getitem__) == min(range(80), key=lambda i: train[i][1]) # downwards is up
row = {r[0]: r[1:] for r in page.rows if r}
assert row["matthews"] == ["%.4f" % run["metrics"][f"{split}_matthews"] for split in ("eval", "test")], row["matthews"]
assert row["train.max_steps"] == ["80", "0"] and row["train.batch_size"] == ["8", "8"]
assert row["activations"][0].endswith("iB") and row["validation"][0] == "60", (row["activations"], row["validation"])
# Confusion and the figures of a class, counted again.
pairs = [(p["label"], p["predicted"]) for p in map(json.loads, open(sys.argv[1] + "/predictions.jsonl")) if p["split"] == "validation"]
count = collections.Counter(pairs)
names = list(json.loads(open(sys.argv[1] + "/predictions.jsonl").readline())["probabilities"])
for name in names:
    cells = [r[1:] for r in page.rows if r and r[0] == name]
    assert [str(count[name, other]) for other in names] in cells, (name, cells)
    hit, support, predicted = count[name, name], sum(l == name for l, _ in pairs), sum(p == name for _, p in pairs)
    figures = [hit / predicted if predicted else 0, hit / support if support else 0, 2 * hit / (support + predicted), support]
    assert ["%.4f" % f for f in figures[:3]] + [str(support)] in cells, (figures, cells)
PYTHON

# The texts of the surest mistakes are those of the file, unless it was changed since, or nobody wants them.
mistakes() { # mistakes PAGE: how many texts of validation.tsv stand on it, of how many rows of mistakes
    python3 - "$1" <<'PYTHON'
import sys
from read import Page
page = Page(sys.argv[1])
texts = [line.split("\t")[0] for line in open("validation.tsv", encoding="utf-8").read().splitlines()[1:]]
rows = [r for r in page.rows if r and r[0].isdigit() and len(r) in (4, 5)]
print(sum(len(r) == 5 and r[4] == texts[int(r[0])] for r in rows), len(rows), "changed since" in page.text)
PYTHON
}
read -r found rows changed <<<"$(mistakes page.html)"
[ "$found" -gt 0 ] && [ "$found" = "$rows" ] && [ "$changed" = False ] || fail "texts of mistakes: $found of $rows, $changed"
expect 0 "$FTENGINE" report "$dir" --no-texts --output without.html
[ "$(mistakes without.html | cut -d' ' -f1)" = 0 ] || fail "texts with --no-texts"
cp validation.tsv kept.tsv && sed -i '2s/^/x/' validation.tsv
expect 0 "$FTENGINE" report "$dir" --output changed.html
read -r found rows changed <<<"$(mistakes changed.html)"
[ "$found" = 0 ] && [ "$changed" = True ] || fail "texts of another file: $found of $rows, $changed"
mv kept.tsv validation.tsv
# Of two classes what each threshold gives, counted again.
awk -F '\t' 'NR == 1 || $2 !~ /long/' train.tsv >two.tsv
expect 0 "$FTENGINE" train "$here/follow.ini" data.train=two.tsv data.validation_split=0.4 eval.strategy=epoch eval.threshold=tuned train.max_steps=30 \
    model.ignore_mismatched_sizes=true output.dir=two
expect 0 "$FTENGINE" report two
python3 - <<'PYTHON' || fail "thresholds are not what predictions.jsonl gives"
import json
from read import Page, points
page = Page("two/report.html")
rows = [json.loads(line) for line in open("two/predictions.jsonl")]
second = list(rows[0]["probabilities"])[1]
precision, recall, f1 = points(page.charts["Thresholds"])
for title in ("Thresholds", "Reliability"): # the last point is nothing special
    caption = page.source.split(f"<figcaption><b>{title}</b>")[1].split("</figcaption>")[0]
    assert "<em>" not in caption, caption
positive = sum(r["label"] == second for r in rows)
top = max(r["probabilities"][second] for r in rows)
lowest = min(int(r["probabilities"][second] * 200) for r in rows if r["label"] == second)
assert len(recall) >= 2 and len(recall) <= 200 and positive > 0
best = min(y for _, y in recall) # downwards is up: at the lowest threshold all positives are found
assert best == recall[0][1] and recall[-1][1] > best or top < 0.02, (recall[0], recall[-1])
assert all(a[1] <= b[1] + 1e-9 for a, b in zip(recall, recall[1:])), "recall falls as the threshold rises"
PYTHON

# ---- long runs, many classes, what is missing ----------------------------------------------------------------------------
python3 - "$dir" <<'PYTHON'
import json
import os
import random
import shutil
import sys
random.seed(1)
shutil.copytree(sys.argv[1], "long")
with open("long/metrics.jsonl", "w") as out: # a spike of one step in 50,000
    for step in range(1, 50001):
        print(json.dumps({"step": step, "loss": 9.0 if step == 31234 else 0.5, "grad_norm": None, "learning_rate": 1e-5}), file=out)
with open("long/predictions.jsonl", "w") as out:
    for i in range(3000):
        label = random.randrange(150)
        predicted = (label + 1) % 150 if label == 7 else label
        print(json.dumps({"split": "test", "id": i, "label": f"c{label}", "predicted": f"c{predicted}", "probabilities": {f"c{predicted}": 0.9}}), file=out)
os.remove("long/memory_timeline.json")
shutil.copytree(sys.argv[1], "going")
os.remove("going/run.json")
open("going/metrics.jsonl", "a").write('{"step": 81, "lo')
shutil.copytree(sys.argv[1], "bare")
for name in ("metrics.jsonl", "predictions.jsonl", "memory_timeline.json", "config.ini"):
    os.remove("bare/" + name)
PYTHON
for run in long going bare; do expect 0 "$FTENGINE" report $run; done
python3 - <<'PYTHON' || fail "pages of long, unfinished and bare runs"
from read import Page, points
long, going, bare = (Page(f"{d}/report.html") for d in ("long", "going", "bare"))
(loss,) = points(long.charts["Loss"])
assert len(loss) <= 2 * 560 and min(y for _, y in loss) < 30 and sum(y < 100 for _, y in loss) == 1, "the spike"
assert "Gradient norm" not in long.charts and "Memory by category" not in long.charts
assert any(r[:2] == ["c7", "c8"] for r in long.rows) and "Confused most often" in long.text
assert "unfinished" in going.text and len(points(going.charts["Loss"])[0]) == 80
assert "Metrics of the best model" in bare.text and not bare.charts
PYTHON
# Numbers beside their targets; several labels a text.
python3 - <<'PYTHON'
import json
import random
import shutil
random.seed(2)
for name in ("numbers", "several"):
    shutil.copytree("bare", name)
with open("numbers/predictions.jsonl", "w") as out:
    for i in range(3000):
        x = random.gauss(0, 3)
        row = {"<stars>": x, "price": 1000 + 50 * x}
        value = {k: v + (25 if (i, k) == (77, "<stars>") else random.gauss(0, 0.5)) for k, v in row.items()}
        print(json.dumps({"split": "validation", "id": i, "targets": row, "values": value}), file=out)
rows = [(["a", "b"], ["a"]), (["b"], ["b", "c"]), ([], []), (["c", "a"], ["c", "a"]), (["a"], [])]
with open("several/predictions.jsonl", "w") as out:
    for i, (labels, predicted) in enumerate(rows):
        print(json.dumps({"split": "test", "id": i, "labels": labels, "predicted": predicted, "probabilities": {"c": 0.5, "b": 0.1, "a": 0.9}}), file=out)
PYTHON
for run in numbers several; do expect 0 "$FTENGINE" report $run; done
python3 - <<'PYTHON' || fail "pages of numbers and of several labels"
from read import Page
numbers, several = Page("numbers/report.html"), Page("several/report.html")
assert [c for c in numbers.charts] == ["&lt;stars&gt;", "price"], numbers.charts
points = list(numbers.charts["price"].iter("circle"))
assert 100 < len(points) < 3000 and len({(p.get("cx"), p.get("cy")) for p in points}) == len(points)
assert next(r for r in numbers.rows if r and r[0] == "77") and "<stars>" in numbers.text
assert "2 of 5 right" in several.text and not several.charts
assert [r for r in several.rows if r and r[0] in ("a", "b", "c")] == [
    ["c", "0.5000", "1.0000", "0.6667", "1"], ["b", "1.0000", "0.5000", "0.6667", "2"], ["a", "1.0000", "0.6667", "0.8000", "3"]], several.rows
PYTHON
# A run that diverged says so on its page.
expect 5 "$FTENGINE" train "$here/follow.ini" output.dir=diverged train.learning_rate=100 train.weight_decay=1 train.warmup_steps=3 train.max_steps=60 train.lr_scheduler=constant_with_warmup
expect 0 "$FTENGINE" report diverged && grep -q 'training diverged at step' diverged/report.html || fail "a diverged run"

# ---- mistakes ------------------------------------------------------------------------------------------------------------
refuses() { # refuses CODE TEXT WORD...
    expect "$1" "$FTENGINE" report "${@:3}"
    one_error "$2"
}
refuses 2 "give one run directory"
refuses 2 "give one run directory" long bare
refuses 2 "nowhere" nowhere
refuses 2 "long/model" long/model
refuses 1 "no/where" long --output no/where.html
cp -r bare broken && rm broken/report.html && echo '{"traceEvents": [' >broken/memory_timeline.json && refuses 2 "memory_timeline.json:" broken
[ ! -e broken/report.html ] && [ -z "$(find broken -name '*.ft-*')" ] || fail "half a page was left"
"$FTENGINE" report long --output - >/dev/full 2>err
[ $? = 1 ] && says "standard output" || fail "a full standard output is not an error"

# ---- in a browser --------------------------------------------------------------------------------------------------------
[ -n "$browser" ] || { echo "no browser: the page was not looked at"; exit 0; }
look page.html 1200
grep -q "<title>r&lt;b&gt;&amp;'x - ftengine</title>" dom || fail "something in the page ran: $(grep -o '<title>.*</title>' dom)"
for width in 1400 760 500; do
    measure page.html $width 8 light $light
    measure long/report.html $width 3 light $light
done
measure page.html 1400 8 dark $dark
measure going/report.html 1000 8 dark $dark
measure bare/report.html 1000 0 light $light
measure numbers/report.html 900 2 light $light
