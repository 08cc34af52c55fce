"""Writes gp.txt: what scikit-learn's Gaussian processes make of random points, with fixed parameters.

    PYTHON_WITH_SCIKIT_LEARN tests/vectors/gaussian/make_gp_vectors.py

One case is, numbers with 17 digits:
    case regression|classification N AXES QUESTIONS
    theta: variance, a length for each axis, noise (0 for classification), what is rough (0: nothing)
    N lines: AXES coordinates and the value, or the label (1 good, 0 not)
    likelihood: ln p(values | theta) and its derivatives by the logarithms of theta (not by the noise of classification, nor by 0)
    QUESTIONS lines: AXES coordinates, mean and variance (of the latent value, without noise)
"""
import pathlib

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel


def line(values):
    return " ".join(f"{v:.17g}" for v in values) + "\n"


def regression(rng, n, axes, variance, noise, out):
    lengths = np.exp(rng.normal(-0.5, 0.7, axes))
    x, q = rng.random((n, axes)), rng.random((4, axes))
    q[0] = x[0]
    y = np.sin(5 * x.sum(1)) + rng.normal(0, 0.1, n)
    kernel = ConstantKernel(variance) * Matern(lengths, nu=2.5) + WhiteKernel(noise)
    model = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(x, y)
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    mean, deviation = model.predict(q, return_std=True)
    write(out, "regression", x, y, q, variance, lengths, noise, value, gradient, mean, deviation**2 - noise)


def rough_regression(rng, n, axes, variance, noise, rough, out):
    """A second kernel, rough times the first, at an eighth of its lengths."""
    lengths = np.exp(rng.normal(-0.5, 0.7, axes))
    x, q = rng.random((n, axes)), rng.random((4, axes))
    x[n // 2:] = x[:n - n // 2] + rng.normal(0, 0.02, (n - n // 2, axes))  # near others, where short lengths matter
    q[0] = x[0]
    y = np.sin(5 * x.sum(1)) + 0.2 * np.sin(60 * x[:, 0]) + rng.normal(0, 0.1, n)
    kernel = ConstantKernel(variance) * Matern(lengths, nu=2.5) + ConstantKernel(variance * rough) * Matern(lengths / 8, nu=2.5) + WhiteKernel(noise)
    model = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(x, y)
    value, g = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    first, second, by_rough = g[1:1 + axes], g[2 + axes:2 + 2 * axes], g[1 + axes]
    gradient = [g[0] + by_rough, *(first + second), g[-1], by_rough]
    mean, deviation = model.predict(q, return_std=True)
    write(out, "regression", x, y, q, variance, lengths, noise, value, gradient, mean, deviation**2 - noise, rough)


def classification(rng, n, axes, variance, out):
    lengths = np.exp(rng.normal(-0.5, 0.5, axes))
    x, q = rng.random((n, axes)), rng.random((4, axes))
    good = (x[:, 0] + 0.2 * rng.normal(size=n) < 0.6).astype(int)
    kernel = ConstantKernel(variance) * Matern(lengths, nu=2.5)
    model = GaussianProcessClassifier(kernel, optimizer=None, max_iter_predict=1000).fit(x, good).base_estimator_
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    mean, square = model.latent_mean_and_variance(q)
    write(out, "classification", x, good, q, variance, lengths, 0, value, gradient, mean, square)


def write(out, kind, x, y, q, variance, lengths, noise, value, gradient, mean, square, rough=0):
    out.write(f"case {kind} {len(x)} {x.shape[1]} {len(q)}\n")
    out.write(line([variance, *lengths, noise, rough]))
    for row, target in zip(x, y):
        out.write(line([*row, target]))
    out.write(line([value, *gradient]))
    for row, m, s in zip(q, mean, square):
        out.write(line([*row, m, s]))


def main():
    rng = np.random.default_rng(35)
    with open(pathlib.Path(__file__).parent / "gp.txt", "w") as out:
        regression(rng, 5, 1, 1.3, 1e-2, out)
        regression(rng, 20, 3, 0.7, 1e-3, out)
        regression(rng, 40, 6, 2.5, 1e-4, out)
        regression(rng, 30, 10, 1.0, 0.3, out)
        classification(rng, 12, 1, 4.0, out)
        classification(rng, 25, 3, 20.0, out)
        rough_regression(rng, 14, 1, 1.3, 1e-2, 0.2, out)
        rough_regression(rng, 30, 3, 0.7, 1e-3, 0.05, out)
        rough_regression(rng, 40, 6, 2.5, 1e-4, 0.6, out)


if __name__ == "__main__":
    main()
