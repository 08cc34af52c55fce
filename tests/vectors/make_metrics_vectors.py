"""Writes metrics.json: scikit-learn's (and SciPy's) metrics of small random and degenerate predictions.

    /opt/ref/bin/python tests/vectors/make_metrics_vectors.py

A case has name, task, outputs, logits, labels (single label) or targets, losses, thresholds (some), expect {metric: value;
null where the library has nan or an error} and classes [[precision, recall, f1, support], ...].
"""
import json
import math
import pathlib
import warnings

import numpy as np
import scipy.stats
import sklearn
from sklearn import metrics

warnings.simplefilter("ignore")


def or_nan(f, *args, **more):
    try:
        return float(f(*args, **more))
    except ValueError:
        return math.nan


def averages(labels, predictions, of, **more):
    out = {}
    for k, f in (("precision", metrics.precision_score), ("recall", metrics.recall_score), ("f1", metrics.f1_score)):
        for average in of:
            out[f"{k}_{average}"] = float(f(labels, predictions, average=average, zero_division=0, **more))
    return out


def calibration_error(confidence, right, bins=15):
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    return sum(abs(right[which == b].sum() - confidence[which == b].sum()) for b in range(bins)) / len(right)


def single(labels, logits, classes, threshold):
    x = logits.astype(np.float64)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    predictions = logits.argmax(axis=1) if threshold is None else (p[:, 1] >= threshold[0]).astype(int)
    expect = averages(labels, predictions, ["macro", "micro", "weighted"])
    if classes == 2:
        expect |= averages(labels, predictions, ["binary"])
    positive = p[:, 1] if classes == 2 else p
    some = {"labels": range(classes)}
    expect |= {
        "accuracy": metrics.accuracy_score(labels, predictions),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, predictions),
        "matthews": metrics.matthews_corrcoef(labels, predictions),
        "cohen_kappa": or_nan(metrics.cohen_kappa_score, labels, predictions),
        "auroc": or_nan(metrics.roc_auc_score, labels, positive, multi_class="ovr", **(some if classes > 2 else {})),
        "average_precision": or_nan(metrics.average_precision_score, labels, positive) if classes > 1 else math.nan,
        "log_loss": or_nan(metrics.log_loss, labels, p, **some) if classes > 1 else 0.0,
        "brier": or_nan(metrics.brier_score_loss, labels, positive, **some) if classes > 1 else 0.0,
        "ece": calibration_error(p[np.arange(len(p)), predictions], (predictions == labels).astype(float)),
    }
    table = metrics.precision_recall_fscore_support(labels, predictions, labels=range(classes), zero_division=0)
    return expect, table


def multi(targets, logits, threshold):
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    predictions = (p >= (0.5 if threshold is None else np.asarray(threshold))).astype(int)
    expect = averages(targets, predictions, ["macro", "micro", "weighted", "samples"])
    expect |= {
        "accuracy": metrics.accuracy_score(targets, predictions),
        "hamming_loss": metrics.hamming_loss(targets, predictions),
        "auroc": or_nan(metrics.roc_auc_score, targets, p, average="macro"),
        "average_precision": or_nan(metrics.average_precision_score, targets, p, average="macro"),
    }
    return expect, metrics.precision_recall_fscore_support(targets, predictions, zero_division=0)


def regression(targets, logits):
    y, x = targets.astype(np.float64), logits.astype(np.float64)
    columns = range(y.shape[1])
    correlation = lambda f: float(np.mean([f(x[:, k], y[:, k])[0] if len(y) > 1 else math.nan for k in columns]))
    return {
        "pearson": correlation(scipy.stats.pearsonr),
        "spearman": correlation(scipy.stats.spearmanr),
        "mse": metrics.mean_squared_error(y, x),
        "rmse": metrics.root_mean_squared_error(y, x),
        "mae": metrics.mean_absolute_error(y, x),
        "r2": metrics.r2_score(y, x),
    }


def case(name, task, logits, truth, rng, threshold=None):
    logits = np.asarray(logits, np.float32)
    losses = np.round(rng.gamma(2, 0.5, len(logits)), 3).astype(np.float32)  # any numbers: the mean is tested, not the loss
    table = None
    if task == "single_label":
        expect, table = single(truth, logits, logits.shape[1], threshold)
    elif task == "multi_label":
        expect, table = multi(truth, logits, threshold)
    else:
        truth = np.asarray(truth, np.float32)
        expect = regression(truth, logits)
    expect["loss"] = losses.astype(np.float64).mean()
    out = {"name": name, "task": task, "outputs": logits.shape[1], "logits": logits.astype(float).ravel().tolist()}
    out["labels" if task == "single_label" else "targets"] = np.asarray(truth).astype(float if task == "regression" else int).ravel().tolist()
    out["losses"] = losses.astype(float).tolist()
    if threshold is not None:
        out["threshold"] = threshold
    out["expect"] = {k: None if math.isnan(v) else float(v) for k, v in sorted(expect.items())}
    if table is not None:
        out["classes"] = [[float(p), float(r), float(f), int(s)] for p, r, f, s in zip(*table)]
    return out


def drawn(rng, name, n, classes, labels=None, signal=0.0, bias=None, eighths=False, threshold=None):
    labels = rng.integers(0, classes, n) if labels is None else np.asarray(labels)
    logits = rng.normal(0, 1, (n, classes)) + (0 if bias is None else np.asarray(bias))
    logits[np.arange(n), labels] += signal
    # Ties: of numbers that are exact in binary, or another exp would break them.
    return case(name, "single_label", np.round(logits) if eighths else logits, labels, rng, threshold)


def drawn_multi(rng, name, n, labels, share=0.3, signal=1.0, threshold=None, empty=()):
    targets = (rng.random((n, labels)) < share).astype(int)
    targets[:, list(empty)] = 0
    return case(name, "multi_label", rng.normal(0, 1, (n, labels)) + signal * (targets - 0.5), targets, rng, threshold)


def drawn_numbers(rng, name, n, targets, noise=0.5):
    y = rng.normal(0, 2, (n, targets))
    return case(name, "regression", y + rng.normal(0, noise, y.shape), y, rng)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    ones = np.ones((6, 1))
    cases = [
        drawn(rng, "two", 40, 2, signal=1.0),
        drawn(rng, "two_wrong", 25, 2, signal=-2.0),
        drawn(rng, "two_with_ties", 40, 2, signal=1.0, eighths=True),
        drawn(rng, "two_threshold", 40, 2, signal=1.0, threshold=[0.2]),
        drawn(rng, "two_always_0", 12, 2, bias=[9, 0]),
        drawn(rng, "two_always_1", 12, 2, bias=[0, 9]),
        drawn(rng, "two_labels_0_only", 12, 2, labels=[0] * 12),
        drawn(rng, "two_labels_1_only", 12, 2, labels=[1] * 12),
        drawn(rng, "two_all_0", 6, 2, labels=[0] * 6, bias=[9, 0]),
        drawn(rng, "two_all_1", 6, 2, labels=[1] * 6, bias=[0, 9]),
        drawn(rng, "one_example", 1, 3),
        drawn(rng, "six", 60, 6, signal=1.5),
        drawn(rng, "seven_with_gaps", 30, 7, labels=rng.choice([0, 2, 6], 30), signal=2.0, bias=[0, -9, 0, -9, -9, 0, 0]),
        drawn(rng, "rare", 50, 3, labels=[0] * 47 + [1, 2, 2], signal=0.5),
        drawn(rng, "certain", 20, 3, signal=60.0, eighths=True),
        case("all_tied", "single_label", np.zeros((4, 3)), np.array([0, 1, 2, 0]), rng),
        case("one_class", "single_label", ones[:5], np.zeros(5, int), rng),
        drawn_multi(rng, "labels", 50, 4),
        drawn_multi(rng, "labels_thresholds", 50, 3, threshold=[0.2, 0.5, 0.9]),
        drawn_multi(rng, "labels_one_never", 40, 4, empty=[2]),
        drawn_multi(rng, "labels_none", 10, 2, empty=[0, 1]),
        case("labels_constant", "multi_label", np.full((8, 2), -3.0), np.eye(8, 2, dtype=int), rng),
        drawn_numbers(rng, "number", 40, 1),
        drawn_numbers(rng, "numbers", 30, 3),
        case("numbers_with_ties", "regression", np.array([[1], [1], [2], [2], [0.5]]), np.array([[1], [2], [2], [3], [1]]), rng),
        case("number_constant_prediction", "regression", ones * 0.3, np.arange(6).reshape(6, 1), rng),
        case("number_constant_target", "regression", np.arange(6).reshape(6, 1), ones * 0.3, rng),
        case("number_constant_and_met", "regression", ones * 0.25, ones * 0.25, rng),
        case("number_alone", "regression", ones[:1], ones[:1] * 2, rng),
    ]
    target = pathlib.Path(__file__).with_name("metrics.json")
    target.write_text(json.dumps({"scikit-learn": sklearn.__version__, "cases": cases}, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
    print(f"{target}: {len(cases)} cases, scikit-learn {sklearn.__version__}")
