"""Samplers on problems that nobody tuned them for: ftengine's TPE and Gaussian process beside Optuna's TPE, GPSampler, CmaEsSampler and AutoSampler,
SMAC3, HEBO and Ax.

    python search_unseen.py run --program BUILD/benchmarks/search_quality --half choose|report --sampler NAME [--seeds 2] [--trials 100]
    python search_unseen.py report

Needs Optuna for its samplers (torch and scipy for gp, cmaes for cma), smac, HEBO, ax-platform for theirs. AutoSampler (optunahub) is not run: where a parameter is
a choice or some trials lack it, it asks TPESampler, else, up to 250 trials, GPSampler, whose studies stand for its own. run appends a line a study to results/search_unseen.jsonl.gz's
working copy and leaves out what is there, so it can be stopped and started again; report reads all of them and writes
results/search_unseen.{md,json}. Problems (search_unseen_problems.py) are split by a hash of their names: settings were chosen on one half.

A comparison is of one problem, budget and pair of seeds: whose best trial so far (by what was observed) has the smaller true value. Its
share of wins, ties half, is averaged over seeds, then over problems; intervals are of a bootstrap over problems, since seeds and budgets of one are
not independent. A diverged trial is told as failed, which costs its trial. Whether one is significantly worse on a problem is asked with the
Mann-Whitney test and Holm's correction over problems, where there are seeds enough.
"""
import argparse
import gzip
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
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import common  # noqa: E402
from search_quality import holm, mann_whitney  # noqa: E402
from search_unseen_problems import PROBLEMS, half  # noqa: E402
from search_unseen_rivals import RIVALS  # noqa: E402

MARKS = (25, 50, 100, 200, 500, 1000)
# tpe was measured with study.count_failed = false; only problems of the family "tuning" fail.
OURS = {"ftengine gp": "gp=1", "ftengine cmaes": "cmaes=1,branch_split=1,branch_joint=1,fine=1", "ftengine tpe": "branch_split=1,branch_joint=1,fine=1"}
OPTUNA = ("optuna tpe", "optuna gp", "optuna cma", "optuna random")
HISTORIES = os.path.join(common.RESULTS, "search_unseen.jsonl.gz")


class Served:
    """A trial of `search_quality serve`."""

    def __init__(self, pipe):
        self.pipe = pipe

    def ask(self, line):
        self.pipe.stdin.write(line + "\n")
        self.pipe.stdin.flush()
        return float(self.pipe.stdout.readline())

    def suggest_float(self, name, low, high, log=False, step=0):
        return self.ask(f"float {name} {low!r} {high!r} {int(log)} {step!r}")

    def suggest_int(self, name, low, high, log=False):
        return int(self.ask(f"int {name} {low} {high} {int(log)}"))

    def suggest_categorical(self, name, choices):
        return choices[int(self.ask(f"choice {name} {len(choices)}"))]


class Study:
    def __init__(self, sampler, program, seed):
        self.pipe = self.study = None
        if sampler in OURS or "=" in sampler:
            settings = OURS.get(sampler, sampler)
            self.pipe = subprocess.Popen([program, "serve", settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.pipe.stdin.write(f"study {seed}\n")
            return
        import optuna
        warnings.simplefilter("ignore")
        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        kinds = {"optuna tpe": optuna.samplers.TPESampler, "optuna gp": optuna.samplers.GPSampler,
                 "optuna cma": optuna.samplers.CmaEsSampler, "optuna random": optuna.samplers.RandomSampler}
        self.study = optuna.create_study(sampler=kinds[sampler](seed=seed))

    def trial(self):
        if self.pipe is None:
            return self.study.ask()
        self.pipe.stdin.write("trial\n")
        return Served(self.pipe)

    def tell(self, trial, value):
        if self.pipe is not None:
            self.pipe.stdin.write("fail\n" if value is None else f"complete {value!r}\n")
        elif value is None:
            import optuna
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, value)

    def close(self):
        if self.pipe is not None:
            self.pipe.stdin.close()
            self.pipe.wait()


def one_study(problem, sampler, program, seed, trials):
    function, noise = PROBLEMS[problem][1], random.Random(f"{problem} {seed}")
    study = RIVALS[sampler](problem, function, seed, trials) if sampler in RIVALS else Study(sampler, program, seed)
    start, found, observed, marks, failed, path = time.process_time(), None, None, {}, [], []
    for n in range(1, trials + 1):
        trial = study.trial()
        result = function(trial, noise)
        study.tell(trial, None if result is None else result[0])
        if result is None:
            failed.append(n)
        elif observed is None or result[0] < observed:
            observed, found = result
        if n in MARKS:
            marks[str(n)] = found
        path.append(found)
    study.close()
    line = {"problem": problem, "sampler": sampler, "seed": seed, "best": marks, "failed": failed, "python_seconds": round(time.process_time() - start, 2)}
    return dict(line, path=path) if PROBLEMS[problem][0] == "tuned" else line


def load(path):
    if not os.path.exists(path):
        return []
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def run(a):
    done = {(s["problem"], s["sampler"], s["seed"]) for s in load(a.work) + load(HISTORIES) if str(a.trials) in s["best"]}
    names = [p for p in PROBLEMS if half(p) == a.half and (not a.family or PROBLEMS[p][0] in a.family)]
    until = time.time() + 60 * a.minutes
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        for problem in sorted(names, key=lambda p: random.Random(p).random()):  # whenever it stops, families are mixed
            if (problem, a.sampler, seed) not in done and time.time() < until:
                line = json.dumps(one_study(problem, a.sampler, a.program, seed, a.trials))
                with open(a.work, "a") as out:
                    print(line, file=out)


# ---- report ---------------------------------------------------------------------------------------------------------


def at(studies, sampler, problem, mark):
    return [s["best"][mark] for s in studies.get((sampler, problem), []) if mark in s["best"]]


def share(a, b):
    """How often one of a is better than one of b; None, nothing found, is worse than all."""
    wins = sum((x is not None and y is None) or (x is not None and y is not None and x < y) for x in a for y in b)
    ties = sum(x == y for x in a for y in b)
    return (wins + 0.5 * ties) / (len(a) * len(b))


def interval(shares):
    rng = random.Random(1)
    means = sorted(common.mean([rng.choice(shares) for _ in shares]) for _ in range(2000))
    return means[50], means[1949]


def compare(studies, first, second, which):
    rows = []
    for mark in map(str, MARKS):
        shares, families = [], {}
        for problem, (family, _) in PROBLEMS.items():
            a, b = at(studies, first, problem, mark), at(studies, second, problem, mark)
            if half(problem) == which and a and b:
                families.setdefault(family, []).append(share(a, b))
                if family != "tuned":  # named apart
                    shares.append(families[family][-1])
        if len(shares) >= 4:
            low, high = interval(shares) if len(shares) >= 5 else (0.0, 1.0)  # of four nothing can be said
            rows.append({"half": which, "first": first, "second": second, "trials": int(mark), "problems": len(shares), "better": common.mean(shares),
                         "low": low, "high": high, "families": {f: [common.mean(v), len(v)] for f, v in sorted(families.items())}})
    return rows


def add_automatic(studies):
    """Optuna's AutoSampler by its rules; see above. mixed, conditional and tuning problems have choices."""
    for problem, (family, _) in PROBLEMS.items():
        of = studies.get(("optuna gp" if family in ("bbob", "noisy") else "optuna tpe", problem), [])
        if of:
            studies["optuna auto", problem] = [dict(s, best={m: v for m, v in s["best"].items() if int(m) <= 200}) for s in of]


def hardest(rows, first):
    """Of each family the rival that `first` beats least, at a mark."""
    found = {}
    for r in rows:
        if r["half"] == "report" and r["first"] == first and not r["second"].startswith("ftengine"):
            for family, (value, count) in r["families"].items():
                key = (family, r["trials"])
                if count >= 3 and (key not in found or value < found[key]["better"]):
                    found[key] = {"family": family, "trials": r["trials"], "rival": r["second"], "better": value, "problems": count}
    return [found[k] for k in sorted(found)]


def ranks(studies):
    """{mark: {sampler: median rank}} on the reported half's problems that all have; a sampler takes part that has nearly all of them."""
    problems, out = [p for p in PROBLEMS if half(p) == "report" and PROBLEMS[p][0] != "tuned"], []
    for mark in map(str, MARKS):
        of = {}
        for sampler in sorted({k[0] for k in studies}):
            of[sampler] = {p for p in problems if at(studies, sampler, p, mark)}
        of = {k: v for k, v in of.items() if len(v) >= 0.9 * len(problems)}
        if len(of) < 3:
            continue
        all_have, place = sorted(set.intersection(*of.values())), {k: [] for k in of}
        for p in all_have:
            wins = {k: common.mean([share(at(studies, k, p, mark), at(studies, other, p, mark)) for other in of if other != k]) for k in of}
            for k in of:
                place[k].append(1 + sum(wins[o] > wins[k] for o in of) + 0.5 * sum(wins[o] == wins[k] for o in of if o != k))
        out.append({"trials": int(mark), "problems": len(all_have),
                    "ranks": {k: [common.median(v), common.mean(v)] for k, v in sorted(place.items(), key=lambda kv: common.mean(kv[1]))}})
    return out


def significance(studies, first, second, seeds=20):
    """Problems of the reported half where one is better than the other after Holm's correction over them."""
    out = []
    for mark in map(str, MARKS):
        rows = []
        for problem in PROBLEMS:
            a, b = ([math.inf if v is None else v for v in at(studies, s, problem, mark)] for s in (first, second))
            if half(problem) == "report" and PROBLEMS[problem][0] != "tuned" and min(len(a), len(b)) >= seeds:
                better, p = mann_whitney(a, b)
                rows.append({"problem": problem, "better": better, "p": p})
        if rows:
            holm(rows)
            out.append({"first": first, "second": second, "trials": int(mark), "problems": len(rows),
                        "better": sorted(r["problem"] for r in rows if r["holm"] < 0.05 and r["better"] > 0.5),
                        "worse": sorted(r["problem"] for r in rows if r["holm"] < 0.05 and r["better"] < 0.5)})
    return out


def trials_until(goals, studies):
    """Of recorded fine-tuning: after how many trials the median of {(sampler, problem): studies} is as good as that of the studies of Optuna's TPE in
    `goals` after 100, and stays so: a lucky trial may take the place of a better one."""
    out = []
    for sampler, problem in sorted(k for k in studies if PROBLEMS[k[1]][0] == "tuned"):
        goal = [s["path"][99] for s in goals.get(("optuna tpe", problem), []) if len(s["path"]) >= 100]
        paths = [s["path"] for s in studies[sampler, problem]]
        if goal:
            longest = min(map(len, paths))
            behind = [n for n in range(longest) if common.median([p[n] for p in paths]) > common.median(goal)]
            reached = (behind[-1] + 2 if behind else 1) if not behind or behind[-1] + 1 < longest else None
            out.append({"problem": problem, "sampler": sampler, "seeds": len(paths), "goal": common.median(goal), "trials": reached, "of": longest})
    return out


def lines_until(rows):
    return ["", "## Recorded fine-tuning: trials until the median study is as good as Optuna's TPE after 100, and stays so", "",
            "| table | sampler | seeds | error to reach | trials | of |", "|---|---|---|---|---|---|",
            *(f"| {r['problem']} | {r['sampler']} | {r['seeds']} | {r['goal']:.4f} | {r['trials'] or 'never'} | {r['of']} |" for r in rows)]


def report(a):
    lines = load(HISTORIES) + load(a.work)
    lines.sort(key=lambda s: max(map(int, s["best"]), default=0))  # of one study the longest
    kept = list({(s["problem"], s["sampler"], s["seed"]): s for s in lines}.values())
    studies = {}
    for s in kept:
        studies.setdefault((s["sampler"], s["problem"]), []).append(s)
    add_automatic(studies)
    samplers = sorted({k[0] for k in studies})
    rows = []
    for which in ("choose", "report"):
        for first in samplers:
            for second in samplers:
                if first.startswith("ftengine") and first != second and (not second.startswith("ftengine") or first < second):
                    rows += compare(studies, first, second, which)
    failed = {}
    for s in kept:
        if PROBLEMS[s["problem"]][0] == "tuning" and "50" in s["best"]:
            failed.setdefault((half(s["problem"]), s["sampler"]), []).append(sum(20 < n <= 50 for n in s["failed"]))
    document = dict(common.provenance(), rows=rows, problems={p: [f, half(p)] for p, (f, _) in PROBLEMS.items()},
                    hardest=hardest(rows, "ftengine gp"), ranks=ranks(studies), significance=significance(studies, "ftengine gp", "optuna tpe"),
                    trials_until=trials_until(studies, studies),
                    diverged=[{"half": h, "sampler": s, "of_trials_21_to_50": common.mean(v), "studies": len(v)} for (h, s), v in sorted(failed.items())])
    if a.note:
        document["note"] = a.note
    text = common.title_lines(document, "Samplers on problems that nobody tuned them for")
    text += ["How often a study of the first sampler has a better best trial than one of the second (ties half), mean over problems, with a 95 % interval of",
             "a bootstrap over problems; in brackets by family. Settings were chosen on the half \"choose\" alone. Recorded fine-tuning (tuned) is in brackets alone.", ""]
    text += [a.note, ""] if a.note else []
    text += ["| half | first | second | trials | problems | better | interval | families |", "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        families = ", ".join(f"{f} {100 * v:.0f} % ({n})" for f, (v, n) in r["families"].items())
        text.append(f"| {r['half']} | {r['first']} | {r['second']} | {r['trials']} | {r['problems']} | {100 * r['better']:.0f} % | "
                    f"{100 * r['low']:.0f} to {100 * r['high']:.0f} % | {families} |")
    text += ["", "## The hardest rival of each family, for ftengine gp on the reported half", "", "| family | trials | rival | better | problems |", "|---|---|---|---|---|"]
    text += [f"| {r['family']} | {r['trials']} | {r['rival']} | {100 * r['better']:.0f} % | {r['problems']} |" for r in document["hardest"]]
    text += ["", "## Ranks among all that ran nearly all reported problems: median (mean)", ""]
    for r in document["ranks"]:
        text.append(f"- {r['trials']} trials, {r['problems']} problems: " + ", ".join(f"{k} {v[0]:g} ({v[1]:.1f})" for k, v in r["ranks"].items()))
    text += ["", "## Significantly better or worse, 20 seeds and more, Holm's correction over problems", ""]
    for r in document["significance"]:
        text.append(f"- {r['first']} beside {r['second']}, {r['trials']} trials, {r['problems']} problems: better on {len(r['better'])} "
                    f"({', '.join(r['better']) or 'none'}), worse on {len(r['worse'])} ({', '.join(r['worse']) or 'none'})")
    text += lines_until(document["trials_until"])
    text += ["", "## Diverged trials", "", "Diverged trials among trials 21 to 50 of the fine-tuning problems, mean a study:", ""]
    text += [f"- {d['half']}, {d['sampler']}: {d['of_trials_21_to_50']:.1f} of 30 ({d['studies']} studies)" for d in document["diverged"]]
    common.write_results(os.path.join(common.RESULTS, "search_unseen"), document, "\n".join(text) + "\n")
    with gzip.GzipFile(HISTORIES, "wb", mtime=0) as out:
        out.write("".join(json.dumps(s) + "\n" for s in sorted(kept, key=lambda s: (s["sampler"], s["problem"], s["seed"]))).encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "report", "problems"))
    parser.add_argument("--program")
    parser.add_argument("--work", default="search_unseen.jsonl")
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--sampler", help="|".join([*OURS, *OPTUNA, *RIVALS]) + ", or settings of search_quality")
    parser.add_argument("--family", nargs="*")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--note")
    a = parser.parse_args()
    if a.what == "problems":
        for p, (family, _) in PROBLEMS.items():
            print(p, family, half(p))
    else:
        {"run": run, "report": report}[a.what](a)


if __name__ == "__main__":
    main()
