#!/usr/bin/env bash
# The real transformers Trainer, followed for 100 steps (tests/vectors/make_trainer_vectors.py): the same batches in the
# same order, the loss of every step within 1e-4, the final logits within 1e-3; and the same for small micro-batches.
# shellcheck source-path=SCRIPTDIR/../.. source=tests/fixtures/shell_test.sh disable=SC2154
# ctest: tsan=run
. "$SOURCE_DIR/tests/fixtures/shell_test.sh"

follow() { # follow NAME [section.key=value]...
    local run=$1
    shift
    expect 0 "$FTENGINE" train "$here/follow.ini" output.dir="$run" data.cache_dir=none "$@"
    expect 0 "$FTENGINE" predict "$run" --data "$here/validation.tsv" --json --logits
    python3 - "$here" "$run" out >verdict 2>&1 <<'PYTHON' || fail "$run: $(cat verdict)"
import json
import sys

here, run, predictions = sys.argv[1:]
expect = json.load(open(f"{here}/expect.json", encoding="utf-8"))
lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl", encoding="utf-8")]
steps = [line for line in lines if "learning_rate" in line]
assert [line["step"] for line in steps] == list(range(1, 101)), "not one logged line for each of 100 steps"


def worst(name, got, want, tolerance):
    assert len(got) == len(want), f"{name}: {len(got)} values instead of {len(want)}"
    errors = [abs(a - b) for a, b in zip(got, want)]
    at = max(range(len(errors)), key=lambda i: errors[i])
    assert all(e <= tolerance for e in errors), f"{name} {at}: {got[at]} instead of {want[at]}"
    return errors[at]


loss = worst("loss of step", [s["loss"] for s in steps], [s["loss"] for s in expect["steps"]], 1e-4)
# The rate of the first steps tells an off-by-one in the warm-up from a wrong gradient.
worst("learning rate of step", [s["learning_rate"] for s in steps], [s["learning_rate"] for s in expect["steps"]], 1e-9)
worst("gradient norm of step", [s["grad_norm"] / e["grad_norm"] for s, e in zip(steps, expect["steps"])], [1] * 100, 1e-3)
rows = [json.loads(line)["logits"] for line in open(predictions, encoding="utf-8")]
logits = worst("logit", [row[label] for row in rows for label in expect["labels"]],
               [x for row in expect["validation"]["logits"] for x in row], 1e-3)
print(f"largest distance from the Trainer: loss {loss:.2g}, logits {logits:.2g}")
PYTHON
    echo "$run: $(cat verdict)"
}

follow whole
follow split train.micro_batch=3
