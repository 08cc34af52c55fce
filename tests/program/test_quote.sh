#!/usr/bin/env bash
# ftengine quote: the bytes of the plan, seconds with an interval from steps that are really made, the counts of the run that follows, and nothing left
# behind. What does not fit, and what is no configuration, is told without measuring. How good the seconds are is no test's business: machines differ.
. "${SOURCE_DIR:?is set by ctest}/tests/fixtures/shell_test.sh" || exit 1
run="$here/follow.ini data.validation=$here/validation.tsv data.test=$here/validation.tsv eval.strategy=steps eval.steps=7 train.max_steps=30 output.save_steps=10 data.cache_dir=none"

# shellcheck disable=SC2086
expect 0 "$FTENGINE" quote $run --seconds 0.2 --json
grep -v '^warning: ' err && fail "a run's lines are shown"
cp out quote.json
[ -z "$(find . -name '.ftengine-quote*' -o -name runs)" ] || fail "left behind: $(find .)"
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run --json
[ "$(json out 'd["memory"]["peak_reserved_bytes"]')" = "$(json quote.json 'd["peak_reserved_bytes"]')" ] || fail "other bytes than the plan's"
# Outside of the allocator bytes are measured, each time anew.
[ "$(json out '{k: v for k, v in d["memory"].items() if k != "outside_allocator_bytes"}')" = "$(json quote.json '{k: v for k, v in d["plan"]["memory"].items() if k != "outside_allocator_bytes"}')" ] ||
    fail "another plan"
python3 - quote.json <<'PYTHON' || fail "the quote: $(cat quote.json)"
import json, sys
q = json.load(open(sys.argv[1]))
assert (q["kind"], q["runs"], q["total_steps"], q["evaluations"], q["checkpoints"]) == ("run", 1, 30, 5, 3), q
every = [q["seconds"], *q["parts"].values()]
assert all(0 <= e["low"] < e["estimate"] < e["high"] for e in every), every
assert abs(sum(p["estimate"] for p in q["parts"].values()) - q["seconds"]["estimate"]) < 1e-3 * q["seconds"]["estimate"]
assert 2 <= q["measured"]["steps"] <= 29 and q["measured"]["seconds"] > 0 and q["measured"]["tokens_per_second"] > 0
rate = q["measured"]["seconds"] / q["measured"]["steps"]
assert 0.3 < q["parts"]["train"]["estimate"] / (30 * rate) < 3, "not what was measured"
assert q["parts"]["train"]["high"] - q["parts"]["train"]["estimate"] >= 0.0499 * q["parts"]["train"]["estimate"]
PYTHON
# What it says may be typed next is the run.
next() { mapfile -t words < <(python3 -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))["next_commands"][0][1:]))' "$1"); }
[ "$(json out 'd["next_commands"]')" = "$(json quote.json 'd["next_commands"]')" ] && [ "$(json out 'd["next_commands"][0][0]')" = ftengine ] || fail "after a plan: $(json out 'd["next_commands"]')"
next quote.json
expect 0 "$FTENGINE" "${words[@]}" output.dir=run --json
[ "$(json out 'd["steps"], d["memory"]["peak_reserved_bytes"]')" = "($(json quote.json 'd["total_steps"]'), $(json quote.json 'd["peak_reserved_bytes"]'))" ] || fail "the run had $(json out 'd["steps"], d["memory"]["peak_reserved_bytes"]')"
[ "$(grep -c eval_accuracy run/metrics.jsonl)" = 5 ] || fail "the run was evaluated $(grep -c eval_accuracy run/metrics.jsonl) times"
next out
expect 0 "$FTENGINE" "${words[@]}" && [ "${words[0]}" = report ] && [ -s run/report.html ] || fail "after a run: ${words[*]}"

# For people; for seeds and folds, which are quoted together; where the run directory would be.
mkdir place
# shellcheck disable=SC2086
expect 0 "$FTENGINE" quote $run --seconds 0 train.seeds=1,2 data.validation= data.folds=3 eval.strategy=epoch output.dir=place/run
grep -q '^memory       .* bytes) of the device, .* for the whole process$' out && grep -q '^time         .* from .* to .*; with 95% if' out &&
    grep -q '^runs         6, one after the other' out && grep -q '^measured     [0-9]* steps in .* tokens/s$' out || fail "$(cat out)"
[ -z "$(ls -A place)" ] || fail "left in place: $(ls -A place)"

# shellcheck disable=SC2086
expect 3 "$FTENGINE" quote $run memory.limit=100KiB
one_error "does not fit"
expect 2 "$FTENGINE" quote
one_error "no configuration given (quote)"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" quote $run --seconds soon
one_error "takes a number from 0 to 3600, got 'soon' (--seconds)"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" quote $run data.train=none.tsv
[ -z "$(find . -name '.ftengine-quote*')" ] || fail "left behind: $(find .)"

# ---- a study ---------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
expect 0 "$FTENGINE" quote $run train.max_steps=0 'space.train.epochs=choice(1, 3)' 'space.train.batch_size=choice(4, 16)' study.trials=50 study.parallel=2 --seconds 0.3 --draws 4 --json
python3 - out <<'PYTHON' || fail "the study: $(cat out)"
import json, sys
q = json.load(open(sys.argv[1]))
assert (q["kind"], q["trials"], q["parallel"], len(q["trial_seconds"])) == ("study", 50, 2, 4), q
assert q["next_commands"][0][:2] == ["ftengine", "tune"] and "space.train.epochs=choice(1, 3)" in q["next_commands"][0], q["next_commands"]
mean = sum(q["trial_seconds"]) / 4
assert abs(q["seconds"]["estimate"] - 50 * mean) < 0.01 * 50 * mean and q["seconds"]["low"] <= 0.5 * 50 * mean < 50 * mean < q["seconds"]["high"]
PYTHON
[ ! -e studies ] && [ -z "$(find . -name '.ftengine-quote*')" ] || fail "left behind: $(find .)"
size=$(json out 'd["peak_reserved_bytes"]')
# shellcheck disable=SC2086
expect 0 "$FTENGINE" plan $run train.max_steps=0 'space.train.epochs=choice(1, 3)' 'space.train.batch_size=choice(4, 16)' --json
[ "$(json out 'd["space"]["worst"]["peak_reserved_bytes"]')" = "$size" ] || fail "another worst trial than the plan's"
# shellcheck disable=SC2086
expect 2 "$FTENGINE" quote $run 'space.train.batch_size=choice(4, 16)' study.trials=0
one_error "a study without an end takes as long as you let it (study.trials)"
