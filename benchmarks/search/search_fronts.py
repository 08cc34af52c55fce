"""Several objectives: ftengine's TPE beside Optuna's TPESampler, NSGAIISampler and random search on ZDT and DTLZ (Zitzler, Deb, Thiele 2000; Deb et al. 2002), whose
optima are moved to a place of their own in each instance.

    python search_fronts.py run --program BUILD/benchmarks/search_quality --sampler NAME [--seeds 5] [--trials 200]
    python search_fronts.py report

A comparison is of one problem, number of trials and pair of seeds: which set of trials has the larger hypervolume below the reference point, the 60 %
quantile of each objective of random points. Nothing was chosen by these problems. run leaves out what is in --work already.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("OMP_NUM_THREADS", "1")
import common  # noqa: E402
from search_unseen import Served, interval, load  # noqa: E402

MARKS = (50, 100, 200)
OURS = "ftengine tpe"
OPTUNA = ("optuna tpe", "optuna nsga2", "optuna random")


def zdt(number, n):
    """Two objectives of x in [0,1]^n; distance to the front grows with all but the first."""
    def value(x):
        f, rest = x[0], x[1:]
        if number == 4:
            y = [10 * v - 5 for v in rest]
            g = 1 + 10 * (n - 1) + sum(v * v - 10 * math.cos(4 * math.pi * v) for v in y)
        elif number == 6:
            f = 1 - math.exp(-4 * x[0]) * math.sin(6 * math.pi * x[0]) ** 6
            g = 1 + 9 * (sum(rest) / (n - 1)) ** 0.25
        else:
            g = 1 + 9 * sum(rest) / (n - 1)
        h = {2: 1 - (f / g) ** 2, 3: 1 - math.sqrt(f / g) - f / g * math.sin(10 * math.pi * f), 6: 1 - (f / g) ** 2}.get(number, 1 - math.sqrt(f / g))
        return f, g * h
    return value


def dtlz(number, n, objectives):
    def value(x):
        front, rest = x[:objectives - 1], x[objectives - 1:]
        if number == 7:
            g = 1 + 9 * sum(rest) / len(rest)
            return (*front, (1 + g) * (objectives - sum(f / (1 + g) * (1 + math.sin(3 * math.pi * f)) for f in front)))
        g = sum((v - 0.5) ** 2 for v in rest)
        if number in (1, 3):
            g = 100 * (len(rest) + sum((v - 0.5) ** 2 - math.cos(20 * math.pi * (v - 0.5)) for v in rest))
        out = []
        for m in range(objectives):
            f = 0.5 * (1 + g) if number == 1 else 1 + g
            for v in front[:objectives - 1 - m]:
                f *= v if number == 1 else math.cos(v * math.pi / 2)
            if m > 0:
                v = front[objectives - 1 - m]
                f *= 1 - v if number == 1 else math.sin(v * math.pi / 2)
            out.append(f)
        return tuple(out)
    return value


def all_problems():
    """{name: (function, dimensions, first of those that are moved, objectives)}"""
    out = {}
    for number in (1, 2, 3, 4, 6):
        for n in (4, 10):
            out[f"zdt{number}.{n}"] = (zdt(number, n), n, 1, 2)
    for number in (1, 2, 3, 7):
        for objectives in (2, 3):
            out[f"dtlz{number}.{objectives}"] = (dtlz(number, objectives + 4, objectives), objectives + 4, objectives - 1, objectives)
    return out


PROBLEMS = all_problems()


def moved(name, x, first):
    """Distances from a place of this problem's in place of those from 0, or from 1/2."""
    r = random.Random("front " + name)
    half = name.startswith("dtlz") and not name.startswith("dtlz7")
    out = list(x[:first])
    for v in x[first:]:
        place = r.uniform(0.1, 0.9)
        d = (v - place) / max(place, 1 - place)
        out.append(0.5 + 0.5 * d if half else abs(d))
    return out


def evaluate(name, trial):
    function, n, first, _ = PROBLEMS[name]
    return function(moved(name, [trial.suggest_float(f"x{i}", 0, 1) for i in range(n)], first))


def reference(name):
    """The 60 % quantile of each objective of random points."""
    r, function, (n, first, objectives) = random.Random("reference " + name), PROBLEMS[name][0], PROBLEMS[name][1:]
    values = [function(moved(name, [r.random() for _ in range(n)], first)) for _ in range(2000)]
    return [sorted(v[m] for v in values)[1200] for m in range(objectives)]


def hypervolume(points, top):
    points = sorted(p for p in points if all(v < t for v, t in zip(p, top)))
    if len(top) == 1:
        return top[0] - points[0][0] if points else 0.0
    volume = 0.0  # slices along the first objective
    for i, p in enumerate(points):
        end = points[i + 1][0] if i + 1 < len(points) else top[0]
        if end > p[0]:
            volume += (end - p[0]) * hypervolume([q[1:] for q in points[:i + 1]], top[1:])
    return volume


def one_study(name, sampler, program, seed, trials):
    objectives, start, top, points, marks = PROBLEMS[name][3], time.process_time(), reference(name), [], {}
    if sampler == OURS:
        pipe = subprocess.Popen([program, "serve", "branch_split=1,branch_joint=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pipe.stdin.write(f"study {seed} {objectives}\n")
    else:
        import optuna
        warnings.simplefilter("ignore")
        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        kinds = {"optuna tpe": optuna.samplers.TPESampler, "optuna nsga2": optuna.samplers.NSGAIISampler, "optuna random": optuna.samplers.RandomSampler}
        study = optuna.create_study(directions=["minimize"] * objectives, sampler=kinds[sampler](seed=seed))
    for k in range(1, trials + 1):
        if sampler == OURS:
            pipe.stdin.write("trial\n")
            points.append(evaluate(name, Served(pipe)))
            pipe.stdin.write("complete " + " ".join(map(repr, points[-1])) + "\n")
        else:
            trial = study.ask()
            points.append(evaluate(name, trial))
            study.tell(trial, points[-1])
        if k in MARKS:
            marks[str(k)] = hypervolume(points, top)
    if sampler == OURS:
        pipe.stdin.close()
        pipe.wait()
    return {"problem": name, "sampler": sampler, "seed": seed, "volume": marks, "python_seconds": round(time.process_time() - start, 2)}


def run(a):
    done = {(s["problem"], s["sampler"], s["seed"]) for s in load(a.work)}
    for seed in range(a.seeds):
        for name in PROBLEMS:
            if (name, a.sampler, seed) not in done:
                line = json.dumps(one_study(name, a.sampler, a.program, seed, a.trials))
                with open(a.work, "a") as out:
                    print(line, file=out)


def report(a):
    studies, rows = {}, []
    for s in load(a.work):
        studies.setdefault((s["sampler"], s["problem"]), []).append(s["volume"])
    for second in OPTUNA:
        for mark in map(str, MARKS):
            families = {}
            for name in PROBLEMS:
                mine, theirs = ([v[mark] for v in studies.get((s, name), []) if mark in v] for s in (OURS, second))
                if mine and theirs:
                    families.setdefault(name[:3] if name[0] == "z" else "dtlz", []).append(
                        common.mean([(x > y) + 0.5 * (x == y) for x in mine for y in theirs]))
            shares = [v for some in families.values() for v in some]
            if shares:
                low, high = interval(shares)
                rows.append({"second": second, "trials": int(mark), "problems": len(shares), "better": common.mean(shares), "low": low, "high": high,
                             "families": {f: [common.mean(v), len(v)] for f, v in sorted(families.items())}})
    seeds = {s: min(len(v) for (of, _), v in studies.items() if of == s) for s in {k[0] for k in studies}}
    document = dict(common.provenance(), first=OURS, seeds=seeds, rows=rows, studies=load(a.work))
    text = common.title_lines(document, "Several objectives: ZDT and DTLZ")
    text += ["How often a study of ftengine's TPE (what `study.sampler` = auto is for several objectives) has a larger hypervolume than one of the second sampler, mean over",
             "problems, with a 95 % interval of a bootstrap over problems. Seeds: " + ", ".join(f"{k} {v}" for k, v in sorted(seeds.items())) + ".", "",
             "| second | trials | problems | better | interval | families |", "|---|---|---|---|---|---|"]
    for r in rows:
        families = ", ".join(f"{f} {100 * v:.0f} % ({n})" for f, (v, n) in r["families"].items())
        text.append(f"| {r['second']} | {r['trials']} | {r['problems']} | {100 * r['better']:.0f} % | {100 * r['low']:.0f} to {100 * r['high']:.0f} % | {families} |")
    common.write_results(os.path.join(common.RESULTS, "search_fronts"), document, "\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("--program")
    parser.add_argument("--work", default="search_fronts.jsonl")
    parser.add_argument("--sampler", help="|".join([OURS, *OPTUNA]))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=200)
    a = parser.parse_args()
    {"run": run, "report": report}[a.what](a)


if __name__ == "__main__":
    main()
