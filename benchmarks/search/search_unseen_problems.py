"""Problems in families, an instance a number: what search_unseen.py compares samplers on.

A problem is a function of a trial (suggest_float, suggest_int, suggest_categorical, as Optuna has them) and of a generator for its noise.
It returns what is observed and what is true (the regret, 0 at best as far as that is known), or None: the trial diverged. Names are split by
a hash into a half to choose settings by and a half to report.
"""
import hashlib
import math
import random

import search_unseen_bbob as bbob
from search_unseen_tables import table_problems

DIMENSIONS = (2, 3, 5, 10)


def half(name):
    if name.startswith("tuned "):
        return "report"
    return "report" if hashlib.sha256(("ftengine unseen " + name).encode()).digest()[0] % 2 else "choose"


def bbob_problem(number, n, instance, noise):
    f = bbob.function(number, n, instance)

    def value(t, rng):
        true = f([t.suggest_float(f"x{i}", -5, 5) for i in range(n)])
        return (true * math.exp(noise * rng.gauss(0, 1)) if noise else true), true
    return value


# ---- mixed: choices, whole numbers, steps and floats that act on each other -----------------------------------------


def table_problem(instance):
    r = random.Random(f"table {instance}")
    choices, whole, floats = r.randint(1, 4), r.randint(1, 3), r.randint(1, 4)
    sizes = [r.randint(2, 7) for _ in range(choices)]
    single = [[r.expovariate(1) for _ in range(s)] for s in sizes]
    pair = [[[r.gauss(0, 0.5) for _ in range(b)] for _ in range(a)] for a, b in zip(sizes, sizes[1:])]
    tops = [r.choice([5, 12, 30, 200]) for _ in range(whole)]
    centers = [[r.random() for _ in range(sizes[0])] for _ in range(whole + floats)]  # the first choice moves all optima
    weight = [math.exp(r.gauss(0, 1)) for _ in range(whole + floats)]
    logs = [r.random() < 0.5 for _ in range(floats)]
    tilt = r.gauss(0, 1)

    def value(t, rng):
        k = [t.suggest_categorical(f"c{i}", list(range(s))) for i, s in enumerate(sizes)]
        u = [(t.suggest_int(f"k{i}", 1, top) - 0.5) / top for i, top in enumerate(tops)]
        for i, log in enumerate(logs):
            u.append((math.log10(t.suggest_float(f"x{i}", 1e-5, 1e-1, log=True)) + 5) / 4 if log else t.suggest_float(f"x{i}", 0, 1))
        total = sum(s[v] for s, v in zip(single, k)) + sum(p[a][b] for p, a, b in zip(pair, k, k[1:]))
        d = [v - c[k[0]] for v, c in zip(u, centers)]
        total += sum(w * abs(v) ** 1.5 for w, v in zip(weight, d)) + abs(tilt * d[0] * d[-1])
        return total, total
    return value


# ---- branches: models, optimizers and layers with parameters of their own -------------------------------------------


def branch_problem(instance):
    r = random.Random(f"branch {instance}")
    kinds = r.randint(2, 6)
    floor = sorted(r.random() * 0.5 for _ in range(kinds))
    own = [r.randint(0, 4) for _ in range(kinds)]
    center = [[r.uniform(0.1, 0.9) for _ in range(o)] for o in own]
    weight = [[math.exp(r.gauss(0.5, 0.8)) for _ in range(o)] for o in own]
    shared = [r.uniform(0.1, 0.9) for _ in range(kinds)]
    order = list(range(kinds))
    r.shuffle(order)
    deep = r.random() < 0.5

    def value(t, rng):
        k = order[t.suggest_categorical("kind", list(range(kinds)))]
        total = floor[k] + 2 * (t.suggest_float("shared", 0, 1) - shared[k]) ** 2
        for i, (c, w) in enumerate(zip(center[k], weight[k])):
            u = t.suggest_int(f"own{k}.{i}", 0, 20) / 20 if i == 1 else t.suggest_float(f"own{k}.{i}", 0, 1)
            total += w * (u - c) ** 2
        if deep:
            layers = t.suggest_int("layers", 1, 4)
            total += 0.1 * abs(layers - 1 - k % 4)
            for i in range(layers):
                total += 0.1 * (t.suggest_float(f"width{i}", 0, 1) - 0.2 * (i + 1)) ** 2
        return total, total
    return value


# ---- fine-tuning: a learning rate with a cliff, an optimum near it, budgets that pay off slowly, noise of seeds ------


def tuning_problem(instance):
    r = random.Random(f"tuning {instance}")
    optimizers = ["adamw", "sgd", "lamb"][:r.randint(1, 3)]
    best = [r.uniform(-5, -4), r.uniform(-2.5, -1.5), r.uniform(-3.5, -2.8)]
    margin, slope = r.uniform(0.2, 1.2), r.uniform(0.1, 0.5)
    curve, layers_at, decay_at = r.uniform(0.02, 0.1), r.randint(2, 12), r.uniform(-4, -1)
    warmup_at, dropout_at, noise = r.uniform(0, 0.2), r.uniform(0, 0.3), r.choice([0, 0, 0.003])
    handicap = [0, r.uniform(0, 0.03), r.uniform(0, 0.03)]

    def value(t, rng):
        o = optimizers.index(t.suggest_categorical("optimizer", optimizers)) if len(optimizers) > 1 else 0
        rate = math.log10(t.suggest_float("rate", 1e-6, 1e-1, log=True))
        batch = t.suggest_categorical("batch", [8, 16, 32, 64])
        warmup, dropout = t.suggest_float("warmup", 0, 0.3, step=0.02), t.suggest_float("dropout", 0, 0.5)
        decay, layers = math.log10(t.suggest_float("decay", 1e-6, 1, log=True)), t.suggest_int("layers", 1, 12)
        off = rate - best[o] - slope * math.log2(batch / 16)
        if off > margin + 2 * warmup:  # diverges
            return None
        true = handicap[o] + curve * off * off * (1 if off < 0 else 2) + 0.002 * (decay - decay_at) ** 2 + 0.2 * (warmup - warmup_at) ** 2
        true += 0.15 * (dropout - dropout_at) ** 2 + 0.0008 * abs(layers - layers_at) + 0.002 * abs(math.log2(batch / 16))
        return true + noise * rng.gauss(0, 1), true
    return value


def all_problems():
    """{name: (family, function)}"""
    out = {}
    for number in range(1, 25):
        for n in (DIMENSIONS[number % 4], DIMENSIONS[(number + 2) % 4]):
            instance = 100 + 7 * number + n
            out[f"bbob{number}.{n}"] = ("bbob", bbob_problem(number, n, instance, 0))
    for number in (1, 3, 6, 8, 10, 14, 15, 17, 19, 20, 22, 24):
        n = DIMENSIONS[(number + 1) % 4]
        out[f"noisy{number}.{n}"] = ("noisy", bbob_problem(number, n, 500 + number, 0.2))
    for i in range(12):
        out[f"table{i}"] = ("mixed", table_problem(i))
        out[f"branch{i}"] = ("conditional", branch_problem(i))
        out[f"tuning{i}"] = ("tuning", tuning_problem(i))
    out.update(table_problems())
    return out


PROBLEMS = all_problems()
