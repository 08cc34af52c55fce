"""precision_gap.py VECTORS PRECISION METRICS PREDICTIONS: is a run in mixed precision within twice PyTorch's gap from fp32?

VECTORS holds expect.json (the Trainer in fp32) and precision.json (make_precision_vectors.py: what autocast's runs are from it).
Judged: the losses' distances, root mean square and maximum of the first 50 steps, the former of all hundred, and that of the
logits after the last step. (The largest of a hundred losses is one batch's, that of the logits one text's, and chance.)
"""

import json
import sys

vectors, precision, metrics, predictions = sys.argv[1:]
expect = json.load(open(f"{vectors}/expect.json", encoding="utf-8"))
torch = json.load(open(f"{vectors}/precision.json", encoding="utf-8"))[precision]
lines = [json.loads(line) for line in open(metrics, encoding="utf-8")]
losses = [line["loss"] for line in lines if "learning_rate" in line]
want = [step["loss"] for step in expect["steps"]]
assert len(losses) == len(want) == 100, f"{len(losses)} logged steps"
logits = [json.loads(line)["logits"] for line in open(predictions, encoding="utf-8")]
got = [row[label] for row in logits for label in expect["labels"]]
final = [x for row in expect["validation"]["logits"] for x in row]


def distance(a, b):
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return {"rms": (sum(d * d for d in differences) / len(differences)) ** 0.5, "max": max(differences)}


def judge(what, ours, gap, figures):
    for figure in figures:
        ratio = ours[figure] / gap[figure]
        print(f"{precision} {what}: {figure} {ours[figure]:.2g}, {ratio:.2f} of PyTorch's gap")
        assert 0 < ratio <= 2, "more than twice"


gap = torch["gap"]
judge("losses of 50 steps", distance(losses[:50], want[:50]), gap["first_50"], ["rms", "max"])
judge("losses of 100 steps", distance(losses, want), gap["losses"], ["rms"])
judge("logits after 100 steps", distance(got, final), gap["logits"], ["rms"])
