"""Problems of recorded trials: fine-tuning of small models with the real program, evenly over a space (curves_NAME.jsonl.gz; README.md says of what). Between recorded places the value is their mean, by Gaussian kernels whose widths tell each trial best from the others (as
recorded_curves.c has it; bench_asha says the widths). What is observed has the luck of a run: normal, with the mean variance of those three settings
that were trained several times with other seeds (luck_NAME.jsonl.gz) whose mean is nearest.

They are too few for two halves: all are reported, and decide nothing.
"""
import gzip
import json
import math
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTHS = (0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 1, 2, 100)  # the last: it does not matter


def complete(name):
    with gzip.open(os.path.join(HERE, name), "rt") as f:
        return [t for t in map(json.loads, f) if t.get("state") == "COMPLETE"]


def luck(trials):
    """[(mean error, variance)] of settings trained again."""
    runs = {}
    for t in trials:
        runs.setdefault(json.dumps(t["params"], sort_keys=True), []).append(1 - t["values"][0])
    return [(statistics.mean(r), statistics.variance(r)) for r in runs.values()]


class Table:
    def __init__(self, name):
        trials = complete(f"curves_{name}.jsonl.gz")
        self.luck = luck(complete(f"luck_{name}.jsonl.gz"))
        self.space = {name: d for name, d in trials[0]["distributions"].items()}
        self.names = list(self.space)
        self.points = [[self.unit(n, t["params"][n]) for n in self.names] for t in trials]
        self.errors = [1 - t["values"][0] for t in trials]
        self.fit()

    def unit(self, name, value):
        a = self.space[name]["attributes"]
        if "choices" in a:
            return a["choices"].index(value)
        if a["log"]:
            return math.log(value / a["low"]) / math.log(a["high"] / a["low"])
        return (value - a["low"]) / (a["high"] - a["low"])

    def apart(self, k, x, y):
        d = float(x != y) if "choices" in self.space[self.names[k]]["attributes"] else x - y
        return 0.5 * d * d / self.width[k] ** 2

    def fit(self):
        """One width after the other, as long as that makes the error of each trial from the others less."""
        n, names = len(self.points), range(len(self.names))
        self.width = [0.4] * len(self.names)
        own = [[[self.apart(k, p[k], q[k]) for q in self.points] for p in self.points] for k in names]

        def error(parts):
            total = 0
            for i in range(n):
                w = [math.exp(-sum(part[i][j] for part in parts)) + 1e-12 for j in range(n)]
                w[i] = 0
                total += (self.errors[i] - sum(a * e for a, e in zip(w, self.errors)) / sum(w)) ** 2
            return total
        least, before = error(own), math.inf
        while least < before:
            before = least
            for k in names:
                kept = self.width[k]
                for width in WIDTHS:
                    self.width[k] = width
                    tried = [[self.apart(k, p[k], q[k]) for q in self.points] for p in self.points]
                    e = error([tried if i == k else own[i] for i in names])
                    if e < least:
                        least, kept, own[k] = e, width, tried
                self.width[k] = kept

    def weights(self, point):
        return [math.exp(-sum(self.apart(k, a, b) for k, (a, b) in enumerate(zip(point, p)))) + 1e-12 for p in self.points]

    def mean(self, point):
        w = self.weights(point)
        return sum(a * e for a, e in zip(w, self.errors)) / sum(w)

    def value(self, trial, rng):
        """(error observed, error expected): a problem as search_unseen_problems.py has them."""
        point = []
        for name in self.names:
            a = self.space[name]["attributes"]
            if "choices" in a:
                point.append(self.unit(name, trial.suggest_categorical(name, a["choices"])))
            else:
                point.append(self.unit(name, trial.suggest_float(name, a["low"], a["high"], log=a["log"])))
        true = self.mean(point)
        near = sorted(self.luck, key=lambda setting: abs(setting[0] - true))[:3]
        return true + rng.gauss(0, math.sqrt(statistics.mean(variance for _, variance in near))), true


def table_problems():
    """{name: (family, function)}, read when first asked for."""
    def problem(name):
        table = []

        def value(trial, rng):
            if not table:
                table.append(Table(name))
            return table[0].value(trial, rng)
        return value
    names = sorted(f[len("curves_"):-len(".jsonl.gz")] for f in os.listdir(HERE) if f.startswith("curves_") and f.endswith(".jsonl.gz"))
    return {f"tuned {name}": ("tuned", problem(name)) for name in names}
