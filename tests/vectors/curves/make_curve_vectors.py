"""Learning curves and what is expected of them, computed another way than hpo/search/curves does: regressions by numpy's
least squares over stacked rows, conditioning by the textbook formula on the joint covariance, worth by dense quadrature.

    pip install numpy scipy; python3 tests/vectors/curves/make_curve_vectors.py > tests/vectors/curves/curves.txt
"""
import numpy as np
from scipy import optimize, stats

FENCE, CURVES, MEAN, RISE, NOISE, LAST = 3, 4, 0.1, 1, 0.1, 0.02


def left(power, begin, stage, stages):
    at = (stage + 1) / stages
    if at <= begin:
        return 1.0
    law = lambda x: (1 + 9 * x) ** -power
    return (law((at - begin) / (1 - begin)) - law(1)) / (1 - law(1))


def prior(stages):
    families = [(p, b) for p in (0.5, 1, 2, 4) for b in (0, 0.1, 0.25, 0.4)]
    shapes = np.array([[left(p, b, min(k, stages - 1), stages) for k in range(stages + 1)] for p, b in families])
    return 1 + RISE * shapes.T @ shapes / len(families) + np.diag([NOISE] * stages + [LAST])


def measure(curves, stages):
    middle, scale, low = 0.0, 0.0, np.full(stages + 1, -np.inf)
    for k in range(stages + 1):
        values = sorted(c[k] for c, _ in curves if len(c) > k)
        n = len(values)
        if n == 0:
            break
        a, m, b = values[n // 4], values[n // 2], values[n - 1 - n // 4]
        if n >= 4:
            low[k] = m - FENCE * max(b - m, (b - a) / 2)
        if k == 0 or 4 * n >= len(curves):
            middle = m
            scale = (b - a) / 1.349 if b - a > 1e-9 * (abs(a) + abs(b)) else scale
    return middle, scale if scale > 0 else 1.0, low


def learn(curves, stages):
    """Mean and covariance of (values at the stages, final value)."""
    middle, scale, low = measure(curves, stages)
    n = stages + 1
    factors, constant, spread = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    half = np.linalg.cholesky(prior(stages) * CURVES).T  # half' half = the prior's moments
    for k in range(n):
        rows = [np.r_[0, half[i, : k + 1]] for i in range(k + 1)] + [np.r_[np.sqrt(MEAN), np.zeros(k + 1)]]
        weights = float(CURVES)
        for c, w in curves:
            if len(c) > k:
                z = (np.maximum(c[: k + 1], low[: k + 1]) - middle) / scale
                rows.append(np.sqrt(w) * np.r_[1, z])
                weights += w
        rows = np.array(rows)
        beta, *_ = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)
        spread[k] = ((rows[:, -1] - rows[:, :-1] @ beta) ** 2).sum() / weights * scale**2
        factors[k, :k] = beta[1:]
        constant[k] = beta[0] * scale + middle * (1 - beta[1:].sum())
    through = np.linalg.inv(np.eye(n) - factors)
    return through @ constant, through @ np.diag(spread) @ through.T


def ask(mean, covariance, seen):
    k = len(seen)
    if k == 0:
        return mean[-1], covariance[-1, -1]
    if k == len(mean):
        return seen[-1], 0.0
    pull = np.linalg.solve(covariance[:k, :k], covariance[:k, -1])
    return mean[-1] + pull @ (seen - mean[:k]), covariance[-1, -1] - pull @ covariance[:k, -1]


def index(news, known, ahead):
    """The price of a stage at which going on is worth nothing, by quadrature on a fine grid; in values."""
    stages, unit = len(news) - 1, np.sqrt(news.sum())
    grid = np.linspace(-12, 12, 6001) * unit
    z, share = np.polynomial.hermite_e.hermegauss(60)
    share = share / share.sum()

    def value(price):
        s = np.sqrt(news[-1])
        row = s * (stats.norm.pdf(grid / s) + grid / s * stats.norm.cdf(grid / s))
        for k in range(stages - 1, known - 1, -1):
            there = grid[:, None] + np.sqrt(news[k]) * z
            row = np.interp(there, grid, np.maximum(row, 0)) + np.maximum(there - grid[-1], 0)
            row = row @ share - price
        return np.interp(ahead, grid, row)

    return optimize.brentq(value, 0, 12 * unit, xtol=1e-14)


def curve(rng, stages, bad):
    top, rise, power = rng.normal(0.85, 0.02), rng.uniform(0.2, 0.4), rng.uniform(0.5, 3)
    values = [top - rise * left(power, rng.choice([0, 0.2]), k, stages) + rng.normal(0, 0.01) for k in range(stages)]
    values.append(max(values))
    return np.array([0.5 + rng.normal(0, 0.01) for _ in values]) if bad else np.array(values)


def case(rng, stages, count):
    curves = []
    for i in range(count):
        c = curve(rng, stages, i % 7 == 3)
        known = stages + 1 if i < 2 or rng.random() < 0.2 else rng.integers(1, stages + 1)
        curves.append((c[:known], float(np.exp(-(count - 1 - i) / 40))))
    mean, covariance = learn(curves, stages)
    print("case", stages, count)
    for c, w in curves:
        print(len(c), repr(w), *map(repr, map(float, c)))
    variances = []
    for k in range(stages + 2):
        seen = curve(rng, stages, False)[:k]
        m, v = ask(mean, covariance, seen)
        variances.append(v)
        print(k, *map(repr, map(float, seen)), repr(float(m)), repr(float(max(v, 0))))
    news = -np.diff(variances)
    for known in sorted({0, stages // 2, stages - 1}):
        for ahead in (-2.0, -1.0, -0.3, 0.0, 0.5):
            x = ahead * np.sqrt(news.sum())
            print(known, repr(float(x)), repr(float(index(news, known, x))))


def main():
    rng = np.random.default_rng(35)
    for stages, count in ((10, 60), (1, 12), (3, 0), (6, 5), (30, 100)):
        case(rng, stages, count)


main()
