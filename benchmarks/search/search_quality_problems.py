"""The problems of search_problems.c for Optuna, name for name. search_quality.py compares both before it measures."""
from math import atan2, cos, e, exp, fabs, log2, log10, pi, prod, sin, sqrt

SHIFT = [1.7, -2.3, 0.9, 3.1, -1.2]


def every(t, count, low, high):
    return [t.suggest_float(f"x{i}", low, high) for i in range(count)]


def index(t, name, choices):
    return choices.index(t.suggest_categorical(name, choices))


# ---- standard functions ----------------------------------------------------------------------------------------------


def sphere(t, c):
    return sum((x - s) ** 2 for x, s in zip(every(t, 5, -5.12, 5.12), SHIFT))


def rosenbrock(t, c):
    x = every(t, 4, -5, 10)
    return sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(3))


def rastrigin(t, c):
    z = [x - s for x, s in zip(every(t, 5, -5.12, 5.12), SHIFT)]
    return 50 + sum(v * v - 10 * cos(2 * pi * v) for v in z)


def ackley_of(z):
    n = len(z)
    return 20 + e - 20 * exp(-0.2 * sqrt(sum(v * v for v in z) / n)) - exp(sum(cos(2 * pi * v) for v in z) / n)


def ackley(t, c):
    return ackley_of([x - 5 * s for x, s in zip(every(t, 5, -32.768, 32.768), SHIFT)])


def griewank(t, c):
    z = [x - 100 * s for x, s in zip(every(t, 5, -600, 600), SHIFT)]
    return sum(v * v / 4000 for v in z) - prod(cos(v / sqrt(i + 1)) for i, v in enumerate(z)) + 1


def levy(t, c):
    w = [1 + (x - 1) / 4 for x in every(t, 5, -10, 10)]
    middle = sum((v - 1) ** 2 * (1 + 10 * sin(pi * v + 1) ** 2) for v in w[:4])
    return sin(pi * w[0]) ** 2 + middle + (w[4] - 1) ** 2 * (1 + sin(2 * pi * w[4]) ** 2)


def styblinski(t, c):
    return sum((x**4 - 16 * x * x + 5 * x) / 2 + 39.16616570377142 for x in every(t, 5, -5, 5))


def zakharov(t, c):
    x = every(t, 5, -5, 10)
    s = sum(0.5 * (i + 1) * v for i, v in enumerate(x))
    return sum(v * v for v in x) + s**2 + s**4


def branin(t, c):
    x, y = t.suggest_float("x0", -5, 10), t.suggest_float("x1", 0, 15)
    return (y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10


def camel(t, c):
    x, y = t.suggest_float("x0", -3, 3), t.suggest_float("x1", -2, 2)
    return (4 - 2.1 * x * x + x**4 / 3) * x * x + x * y + (-4 + 4 * y * y) * y * y


def hartmann(x, scale, place):
    rows = zip([1.0, 1.2, 3.0, 3.2], scale, place)
    return -sum(w * exp(-sum(s * (v - 1e-4 * p) ** 2 for v, s, p in zip(x, a, b))) for w, a, b in rows)


def hartmann3(t, c):
    return hartmann(every(t, 3, 0, 1), [[3, 10, 30], [0.1, 10, 35]] * 2,
                    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])


def hartmann6(t, c):
    return hartmann(every(t, 6, 0, 1),
                    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]],
                    [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                     [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])


# ---- mixed spaces ----------------------------------------------------------------------------------------------------


def mixed_ackley(t, c):
    level = {"a": 0.5, "b": -1, "c": 0, "d": 1, "e": -0.5}
    z = [t.suggest_float("x0", -1, 1) - 0.3, t.suggest_float("x1", -1, 1) + 0.2, t.suggest_float("x2", -1, 1) - 0.6]
    z += [(t.suggest_int("k0", -10, 10) - 4) / 10, (t.suggest_int("k1", -10, 10) + 7) / 10]
    return ackley_of(z + [level[t.suggest_categorical("c0", list("abcde"))] - 1,
                          level[t.suggest_categorical("c1", list("abcde"))] + 0.5])


def training(t):
    rate = log10(t.suggest_float("rate", 1e-6, 1e-1, log=True))
    optimizer = index(t, "optimizer", ["adamw", "sgd", "lamb"])
    batch = index(t, "batch", ["8", "16", "32", "64"])
    decay = log10(t.suggest_float("decay", 1e-6, 1, log=True))
    warmup = t.suggest_float("warmup", 0, 0.3, step=0.02)
    dropout = t.suggest_float("dropout", 0, 0.5, step=0.05)
    layers, units = t.suggest_int("layers", 1, 12), log2(t.suggest_int("units", 16, 1024, log=True))
    value = 0.3 + [0, 0.12, 0.05][optimizer] + 0.15 * (rate - [-4.5, -2.2, -3.4][optimizer] - 0.15 * (batch - 1)) ** 2
    value += 0.01 * (decay + 2) ** 2 + 0.4 * (warmup - 0.1) ** 2 + 0.6 * (dropout - 0.02 * layers) ** 2
    value += 0.25 / (1 + 0.4 * layers) + 0.03 * (10 - units) ** 2 / (1 + 0.2 * layers) + 0.01 * (batch - 2) ** 2
    return value, 2 ** (units - 10) * layers / 12 * 2 ** (batch - 3)


def mixed_training(t, c):
    return training(t)[0]


# ---- spaces with conditions ------------------------------------------------------------------------------------------


def jenatton(t, c):
    if t.suggest_categorical("x1", ["0", "1"]) == "0":
        if t.suggest_categorical("x2", ["0", "1"]) == "0":
            return t.suggest_float("x4", -1, 1) ** 2 + 0.1 + t.suggest_float("r8", 0, 1)
        return t.suggest_float("x5", -1, 1) ** 2 + 0.2 + t.suggest_float("r8", 0, 1)
    if t.suggest_categorical("x3", ["0", "1"]) == "0":
        return t.suggest_float("x6", -1, 1) ** 2 + 0.3 + t.suggest_float("r9", 0, 1)
    return t.suggest_float("x7", -1, 1) ** 2 + 0.4 + t.suggest_float("r9", 0, 1)


def cond_models(t, c):
    models = [f"m{i}" for i in range(7)]
    m = index(t, "model", models)
    narrow = [0.05, 0.05, 0.08, 0.06, 0.10, 0.40, 0.10][m]
    best = [-4.0, -4.4, -4.2, -4.8, -4.6, -5.2, -4.5][m]
    value = [0.30, 0.27, 0.25, 0.28, 0.22, 0.16, 0.24][m]
    value += narrow * (log10(t.suggest_float(f"rate.m{m}", 1e-7, 1e-2, log=True)) - best) ** 2
    value += narrow * 4 * (t.suggest_float(f"drop.m{m}", 0, 0.5) - 0.05 * (m + 1)) ** 2
    value += 0.004 * fabs(t.suggest_int(f"freeze.m{m}", 0, 24) - 3 * m)
    return value + 0.3 * (t.suggest_float("warmup", 0, 0.3) - 0.12) ** 2


def cond_optimizer(t, c):
    optimizer = index(t, "optimizer", ["sgd", "adam", "lion"])
    rate = log10(t.suggest_float("rate", 1e-6, 1, log=True))
    decay = log10(t.suggest_float("decay", 1e-6, 1, log=True))
    value = 0.02 * (decay + 3) ** 2
    if optimizer == 0:
        m = t.suggest_float("momentum", 0, 0.999)
        value += 0.22 + 0.1 * (rate - log10(1.0001 - m) + 0.5) ** 2 + 0.3 * (m - 0.95) ** 2
        return value + (0 if t.suggest_categorical("nesterov", ["false", "true"]) == "true" else 0.02)
    if optimizer == 1:
        beta2 = log10(t.suggest_float("1-beta2", 1e-4, 1e-1, log=True))
        value += 0.20 + 0.2 * (rate + 3.5) ** 2 + 0.05 * (beta2 + 2.5) ** 2
        return value + 0.01 * (log10(t.suggest_float("epsilon", 1e-10, 1e-2, log=True)) + 7) ** 2
    beta = t.suggest_float("beta", 0.8, 0.999)
    return value + 0.15 + 0.5 * (rate + 4.3 - 4 * (0.95 - beta)) ** 2 + 4 * (beta - 0.93) ** 2


def cond_depth(t, c):
    layers = t.suggest_int("layers", 1, 5)
    value = 0.1 * (layers - 4) ** 2 + (log10(t.suggest_float("rate", 1e-5, 1e-1, log=True)) + 2 + 0.3 * layers) ** 2
    for i, best in enumerate([9, 8, 6.5, 5.5, 5][:layers]):
        value += 0.1 * (log2(t.suggest_int(f"units{i}", 8, 1024, log=True)) - best) ** 2
    return value


# ---- constraints -----------------------------------------------------------------------------------------------------


def con_gramacy(t, c):
    x, y = every(t, 2, 0, 1)
    c += [1.5 - x - 2 * y - 0.5 * sin(2 * pi * (x * x - 2 * y)), x * x + y * y - 1.5]
    return x + y


def con_townsend(t, c):
    x, y = t.suggest_float("x0", -2.25, 2.25), t.suggest_float("x1", -2.5, 1.75)
    a = atan2(x, y)
    radius = 2 * cos(a) - 0.5 * cos(2 * a) - 0.25 * cos(3 * a) - 0.125 * cos(4 * a)
    c += [x * x + y * y - radius**2 - (2 * sin(a)) ** 2]
    return -cos((x - 0.1) * y) ** 2 - x * sin(3 * x + y)


def con_welded_beam(t, c):
    h, l = t.suggest_float("h", 0.1, 2), t.suggest_float("l", 0.1, 10)
    d, b = t.suggest_float("t", 0.1, 10), t.suggest_float("b", 0.1, 2)
    m, r = 6000 * (14 + l / 2), sqrt(l * l / 4 + ((h + d) / 2) ** 2)
    j = 2 * (sqrt(2) * h * l * (l * l / 12 + ((h + d) / 2) ** 2))
    tau1, tau2 = 6000 / (sqrt(2) * h * l), m * r / j
    tau = sqrt(tau1**2 + tau1 * tau2 * l / r + tau2**2)
    buckling = 4.013 * 30e6 * sqrt(d * d * b**6 / 36) / 196 * (1 - d / 28 * sqrt(30e6 / (4 * 12e6)))
    c += [tau / 13600 - 1, 6 * 6000 * 14 / (b * d * d) / 30000 - 1, h - b, 0.125 - h,
          4 * 6000 * 2744 / (30e6 * d**3 * b) / 0.25 - 1, 1 - buckling / 6000]
    return 1.10471 * h * h * l + 0.04811 * d * b * (14 + l)


def con_pressure_vessel(t, c):
    shell, head = (t.suggest_float(n, 0.0625, 6.1875, step=0.0625) for n in ("shell", "head"))
    r, l = t.suggest_float("r", 10, 200), t.suggest_float("l", 10, 200)
    c += [0.0193 * r - shell, 0.00954 * r - head, 1 - (pi * r * r * l + 4 / 3 * pi * r**3) / 1296000]
    return 0.6224 * shell * r * l + 1.7781 * head * r * r + 3.1661 * shell**2 * l + 19.84 * shell**2 * r


def con_speed_reducer(t, c):
    b, m, z = t.suggest_float("b", 2.6, 3.6), t.suggest_float("m", 0.7, 0.8), t.suggest_int("z", 17, 28)
    l1, l2 = t.suggest_float("l1", 7.3, 8.3), t.suggest_float("l2", 7.3, 8.3)
    d1, d2 = t.suggest_float("d1", 2.9, 3.9), t.suggest_float("d2", 5, 5.5)
    c += [27 / (b * m * m * z) - 1, 397.5 / (b * m * m * z * z) - 1, 1.93 * l1**3 / (m * z * d1**4) - 1,
          1.93 * l2**3 / (m * z * d2**4) - 1, sqrt((745 * l1 / (m * z)) ** 2 + 16.9e6) / (110 * d1**3) - 1,
          sqrt((745 * l2 / (m * z)) ** 2 + 157.5e6) / (85 * d2**3) - 1, m * z / 40 - 1, 5 * m / b - 1,
          b / (12 * m) - 1, (1.5 * d1 + 1.9) / l1 - 1, (1.1 * d2 + 1.9) / l2 - 1]
    return (0.7854 * b * m * m * (3.3333 * z * z + 14.9334 * z - 43.0934) - 1.508 * b * (d1**2 + d2**2)
            + 7.4777 * (d1**3 + d2**3) + 0.7854 * (l1 * d1**2 + l2 * d2**2))


def con_training(t, c):
    value, cost = training(t)
    c += [cost / 0.05 - 1]
    return value


PROBLEMS = {f.__name__: f for f in (
    sphere, rosenbrock, rastrigin, ackley, griewank, levy, styblinski, zakharov, branin, camel, hartmann3, hartmann6,
    mixed_ackley, mixed_training, jenatton, cond_models, cond_optimizer, cond_depth, con_gramacy, con_townsend,
    con_welded_beam, con_pressure_vessel, con_speed_reducer, con_training)}
