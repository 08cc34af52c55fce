#!/usr/bin/env bash
# study.share_devices: of two trials with two threads each on two cores the second one waits until the first has ended, for nothing would be gained;
# of two with a thread each it does not; `always` and `never` do as they say. What was predicted of trials that shared, and what was seen, is
# with the trials, in `study show` and on the study's page. Catches: a trial that is begun where it does not pay, one that waits for ever or beside
# nobody, factors of one place that are not those of another.
# ctest: cost=10
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
. "$SOURCE_DIR/tests/fixtures/page_test.sh" || exit 1
export OMP_NUM_THREADS=2 # cores, whatever this machine has
cat >tiny.ini <<INI
include = $here/follow.ini
[data]
validation = $here/validation.tsv
[eval]
strategy = no
[study]
objective = minimize train.loss
sampler = grid
parallel = 2
[device]
name = cpu
[space]
train.max_steps = choice(800, 2400)
INI
# shows STUDY EXPRESSION: of d, what `study show --json` says of sharing, with the trials' attributes in a
shows() {
    expect 0 "$FTENGINE" study show "$1" --json && mv out shown.json
    expect 0 "$FTENGINE" study trials "$1" --json && mv out trials.json
    python3 - "$2" <<'PYTHON' || fail "$1: not $2: $(cat shown.json)"
import json, sys
d = json.load(open("shown.json"))["sharing"]
a = [{k[8:]: v for k, v in t["user_attributes"].items() if k.startswith("sharing.")} for t in json.load(open("trials.json"))["trials"]]
for t in d["trials"]: # the one is what the other says
    of = a[t["trial"]]
    assert (t["beside"], t["share"], t["predicted"], t["seen"], t["seen_against"], t["held_seconds"]) == (
        of["beside"], of.get("share"), of.get("predicted"), of.get("seen"), of["seen_against"], of.get("held_seconds", 0)), (t, of)
assert [i for i, of in enumerate(a) if of] == [t["trial"] for t in d["trials"]], a
sys.exit(not eval(f"({sys.argv[1]})", {"d": d}))
PYTHON
}
waits="waits for one of the 1 on its device to end: by plan, beside it it would add 0.00 of a trial"

# ---- two threads each: the second one waits ---------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study auto device.threads=2
grep -q "$waits" err || fail "no trial waited: $(cat err)"
says "2 trials, 2 complete"
shows auto '(d["shared"], d["held"]) == (0, 1) and d["trials"][0]["held_seconds"] > 0 and d["predicted"] is None and d["seen"] is None'
expect 0 "$FTENGINE" study show auto
grep -q "^sharing    1 trial waited where more trials on a device would not have paid" out || fail "show: $(cat out)"

# ---- the same, always: each is slowed down twice, by plan; what the shorter one is held against may not be known when it ends -------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study always device.threads=2 study.share_devices=always
! grep -q "waits for one" err || fail "always, and a trial waited: $(cat err)"
shows always '(d["shared"], d["held"]) == (2, 0) and {t["beside"] for t in d["trials"]} == {1} and {t["share"] for t in d["trials"]} == {1}
              and all(abs(t["predicted"] - 2) < 1e-6 for t in d["trials"]) and abs(d["predicted"] - 2) < 1e-6
              and all(t["seen_against"] == "unknown" if t["seen"] is None else t["seen"] > 0 for t in d["trials"]) and "itself" in {t["seen_against"] for t in d["trials"]}'

# ---- a thread each: both run ------------------------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study threads
! grep -q "waits for one" err || fail "a core was free, and a trial waited: $(cat err)"
shows threads '(d["shared"], d["held"]) == (2, 0) and all(abs(t["predicted"] - 1) < 1e-6 and t["share"] == 0.5 for t in d["trials"])'

# ---- never: one at a time, whatever there is --------------------------------------------------------------------------------
expect 0 "$FTENGINE" tune tiny.ini --study never study.share_devices=never
shows never '(d["shared"], d["held"]) == (0, 1)'
expect 2 "$FTENGINE" tune tiny.ini --study no study.share_devices=sometimes && one_error "share_devices"

# ---- the page ---------------------------------------------------------------------------------------------------------------
shows always 'True'
expect 0 "$FTENGINE" study show always && mv out shown.txt
expect 0 "$FTENGINE" study report always
expect 0 "$FTENGINE" study report never
python3 - <<'PYTHON' || fail "the page, or what people are shown, is not what the study holds"
import json, re
from read import Page
d = json.load(open("shown.json"))["sharing"]
page = Page("studies/always/report.html")
known = sum(t["seen"] is not None for t in d["trials"])
words = {"itself": "its own steps alone", "prediction": "the predicted step", "unknown": "–"}
rows = [r for r in page.rows if len(r) == 7 and r[0].isdigit() and r[3] == "2.00"]
assert [(r[0], r[1], r[2], r[4], r[5]) for r in rows] == [
    (str(t["trial"]), "1", "100 %", f"{t['seen']:.2f}" if t["seen"] else "unknown", words[t["seen_against"]]) for t in d["trials"]], (rows, d)
assert f"by plan their steps took 2.00 times as long as alone; seen were {d['seen']:.2f}, of {known} trials for which the plan had 2.00" in page.text, page.text
shown = open("shown.txt").read()
assert f"sharing    2 trials had a device together with others: slow-down predicted 2.00, seen {d['seen']:.2f}{'' if known == 2 else ' (of the 1 where both are known; predicted for those 2.00)'}\n" in shown, shown
never = Page("studies/never/report.html")
assert "0 trials had others beside them" in never.text and "1 waited where one more would not have paid" in never.text, never.text
PYTHON
exit 0
