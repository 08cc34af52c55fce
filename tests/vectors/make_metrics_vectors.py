"""Writes metrics.txt: scikit-learn's metrics of small random and degenerate predictions.

    /opt/ref/bin/python tests/vectors/make_metrics_vectors.py

A case is a line "case NAME n classes", n lines "label loss logit...", then lines "accuracy X", "f1_macro X", "f1_micro X",
"f1_binary X" (nan beyond two classes), "matthews X", "loss X", and one line "class precision recall f1 support" a class.
"""
import pathlib
import warnings

import numpy as np
import sklearn
from sklearn import metrics

warnings.simplefilter("ignore")


def case(name, classes, labels, logits, losses):
    predictions = logits.argmax(axis=1)
    f1 = lambda average: metrics.f1_score(labels, predictions, average=average, zero_division=0)
    per_class = metrics.precision_recall_fscore_support(labels, predictions, labels=range(classes), zero_division=0)
    lines = [f"case {name} {len(labels)} {classes}"]
    for label, loss, row in zip(labels, losses, logits):
        lines.append(" ".join([str(label), repr(float(loss))] + [repr(float(x)) for x in row]))
    values = {
        "accuracy": metrics.accuracy_score(labels, predictions),
        "f1_macro": f1("macro"),
        "f1_micro": f1("micro"),
        "f1_binary": f1("binary") if classes == 2 else float("nan"),
        "matthews": metrics.matthews_corrcoef(labels, predictions),
        "loss": losses.astype(np.float64).mean(),
    }
    lines += [f"{key} {float(value)!r}" for key, value in values.items()]
    lines += [f"class {p!r} {r!r} {f!r} {int(s)}" for p, r, f, s in zip(*(column.tolist() for column in per_class))]
    return "\n".join(lines) + "\n"


def drawn(rng, name, n, classes, labels=None, signal=0.0, bias=None):
    labels = rng.integers(0, classes, n) if labels is None else np.asarray(labels)
    logits = np.round(rng.normal(0, 1, (n, classes)), 1) + (0 if bias is None else np.asarray(bias))
    logits[np.arange(n), labels] += signal
    losses = np.round(rng.gamma(2, 0.5, n), 3).astype(np.float32)  # any numbers: the mean is tested, not the loss
    return case(name, classes, labels, np.round(logits, 1).astype(np.float32), losses)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    cases = [
        drawn(rng, "two", 40, 2, signal=1.0),
        drawn(rng, "two_wrong", 25, 2, signal=-2.0),
        drawn(rng, "two_always_0", 12, 2, bias=[9, 0]),
        drawn(rng, "two_always_1", 12, 2, bias=[0, 9]),
        drawn(rng, "two_labels_0_only", 12, 2, labels=[0] * 12),
        drawn(rng, "two_all_0", 6, 2, labels=[0] * 6, bias=[9, 0]),
        drawn(rng, "two_all_1", 6, 2, labels=[1] * 6, bias=[0, 9]),
        drawn(rng, "one_example", 1, 3),
        drawn(rng, "six", 60, 6, signal=1.5),
        drawn(rng, "seven_with_gaps", 30, 7, labels=rng.choice([0, 2, 6], 30), signal=2.0, bias=[0, -9, 0, -9, -9, 0, 0]),
        drawn(rng, "rare", 50, 3, labels=[0] * 47 + [1, 2, 2], signal=0.5),
        drawn(rng, "ties", 20, 4, bias=[0, 0, 0, 0]),
        case("all_tied", 3, np.array([0, 1, 2, 0]), np.zeros((4, 3), np.float32), np.ones(4, np.float32)),
        case("one_class", 1, np.zeros(5, int), np.ones((5, 1), np.float32), np.arange(5, dtype=np.float32)),
    ]
    target = pathlib.Path(__file__).with_name("metrics.txt")
    target.write_text("".join(cases))
    print(f"{target}: {len(cases)} cases, scikit-learn {sklearn.__version__}")
