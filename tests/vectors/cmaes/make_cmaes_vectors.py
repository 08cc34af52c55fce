"""Writes cmaes.txt: what the package cmaes (Optuna's) makes of generations of points, with the tutorial's rate of learning.

    pip install cmaes && python tests/vectors/cmaes/make_cmaes_vectors.py

The package leaves 1/4 out of the rate of the rank-mu update (Hansen, arXiv 1604.00772, equation 58: 1/4 + m - 2 + 1/m); it is put back here, and
weights, which depend on it, are computed again. Steps that are too long are shortened before it is told of them (Hansen, arXiv 1110.4181).

One case is:
    case N LAMBDA SIGMA
    mean..
    matrix..                   N * N, or the word unit
    weights..                  LAMBDA
    rates cc c1 cmu cs damping
    generation x..             LAMBDA * N, the best first, as the search is told; after it what becomes of it:
    state sigma mean.. matrix..
    end
"""
import math
import pathlib

import cmaes
import numpy as np


def made(mean, sigma, size, cov=None):
    e = cmaes.CMA(mean=mean.copy(), sigma=sigma, population_size=size, cov=None if cov is None else cov.copy(), seed=len(mean) * 100 + size)
    n, m = e._n_dim, e._mu_eff
    e._cmu = min(1 - e._c1, 2 * (0.25 + m - 2 + 1 / m) / ((n + 2) ** 2 + m))
    raw = np.array([math.log((size + 1) / 2) - math.log(i + 1) for i in range(size)])
    worse = raw[size // 2:]
    least = min(1 + e._c1 / e._cmu, 1 + 2 * (worse.sum() ** 2 / (worse**2).sum()) / (m + 2), (1 - e._c1 - e._cmu) / (n * e._cmu))
    e._weights = np.where(raw >= 0, raw / raw[raw > 0].sum(), least / np.abs(raw[raw < 0]).sum() * raw)
    return e


def shortened(e, x):
    B, D = e._eigen_decomposition()
    y = (x - e._mean) / e._sigma
    longest, length = math.sqrt(e._n_dim) + 2 * e._n_dim / (e._n_dim + 2), np.linalg.norm((B.T @ y) / D)
    return e._mean + e._sigma * y * min(1, longest / length)


def line(*parts):
    return " ".join(p if isinstance(p, str) else " ".join(f"{v:.17g}" for v in np.ravel(p)) for p in parts)


def case(n, size, sigma, cov, generations, foreign):
    rng = np.random.default_rng(n * 10 + size)
    mean, turn = rng.random(n), np.linalg.qr(rng.normal(size=(n, n)))[0]
    e = made(mean, sigma, size, cov)
    out = [f"case {n} {size} {sigma:.17g}", line(mean), "unit" if cov is None else line(cov), line(e._weights),
           line("rates", [e._cc, e._c1, e._cmu, e._c_sigma, e._d_sigma])]
    for g in range(generations):
        points = [e.ask() for _ in range(size)]
        if foreign and g % 2 == 1:
            points[g % size] = rng.random(n) * 4 - 2
        value = {p.tobytes(): float(sum(10 ** (4 * i / max(n - 1, 1)) * v * v for i, v in enumerate(turn @ (p - 0.3)))) for p in points}
        points.sort(key=lambda p: value[p.tobytes()])
        told = [shortened(e, p) for p in points]
        e.tell([(p, float(i)) for i, p in enumerate(told)])
        out += [line("generation", points), line("state", [e._sigma], e._mean, e._C)]
    return [*out, "end"]


lines = case(5, 8, 0.3, None, 30, False) + case(1, 4, 0.2, None, 6, False)
spread = np.array([[1.5, 0.4, 0.0], [0.4, 0.9, -0.2], [0.0, -0.2, 0.6]])
lines += case(3, 7, 0.1, spread, 12, True) + case(4, 16, 0.3, None, 8, True)
(pathlib.Path(__file__).parent / "cmaes.txt").write_text("\n".join(lines) + "\n")
