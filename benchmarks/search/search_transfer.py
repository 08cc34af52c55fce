"""study.learn_from beside a cold start, on problems of search_unseen.py.

    python search_transfer.py run --program BUILD/benchmarks/search_quality [--half choose|report] [--problems 12] [--seeds 3] [--trials 50]
    python search_transfer.py report

Of each problem other studies are made with the same sampler: `shifted` instances of it (every number moved by a normal step of a tenth of its
range, values scaled and lifted), and `strange` ones, which are the problem turned upside down on numbers that are mirrored: nothing they say is
of use. A warm study learns from two of a kind. run appends a line a study to --work, and leaves out what is there; report writes
results/search_transfer.{md,json}. Never worse than cold by more than 2% means here: the mean loss of the best trial, ranked among random points
of the problem (the share of them that are better), is not larger by more than 0.02.
"""
import argparse
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402
import search_unseen as unseen  # noqa: E402
from search_unseen_problems import PROBLEMS, half  # noqa: E402

MARKS = (15, 25, 50)
KINDS = {"cold": None, "shifted": 0.1, "strange": "strange"}
TUNED = [p for p in PROBLEMS if PROBLEMS[p][0] == "tuned"]  # recorded fine-tuning: kind `others` learns from the other tables


class Moved:
    """A trial whose numbers mean others: moved by a fixed part of their range, or mirrored."""

    def __init__(self, trial, how, key):
        self.trial, self.how, self.key = trial, how, key

    def place(self, name, u):
        if self.how is None:
            return u
        if self.how == "strange":
            return 1 - u
        return min(1, max(0, u + self.how * random.Random(f"{self.key} {name}").gauss(0, 1)))

    def suggest_float(self, name, low, high, log=False, step=0):
        import math
        x = self.trial.suggest_float(name, low, high, log=log, step=step)
        if log:
            u = self.place(name, math.log(x / low) / math.log(high / low))
            return low * (high / low) ** u
        x = low + (high - low) * self.place(name, (x - low) / (high - low))
        return low + round((x - low) / step) * step if step else x

    def suggest_int(self, name, low, high, log=False):
        x = self.trial.suggest_int(name, low, high, log=log)
        return low + round((high - low) * self.place(name, (x - low) / (high - low))) if high > low else x

    def suggest_categorical(self, name, choices):
        return self.trial.suggest_categorical(name, choices)


class Uniform:
    def __init__(self, rng):
        self.rng = rng

    def suggest_float(self, name, low, high, log=False, step=0):
        if log:
            return low * (high / low) ** self.rng.random()
        x = low + (high - low) * self.rng.random()
        return low + round((x - low) / step) * step if step else x

    def suggest_int(self, name, low, high, log=False):
        return self.rng.randint(low, high)

    def suggest_categorical(self, name, choices):
        return self.rng.choice(choices)


def source(study, function, how, key, trials):
    """One study that others learn from; it is the server's present one afterwards."""
    noise, factor, lift = random.Random(key), random.Random(key + " scale").uniform(0.5, 2), random.Random(key + " lift").gauss(0, 1)
    for _ in range(trials):
        trial = study.trial()
        result = function(Moved(trial, how, key), noise)
        sign = -1 if how == "strange" else 1
        study.tell(trial, None if result is None else sign * factor * result[0] + lift)


def one(problem, kind, sampler, program, seed, trials):
    function = PROBLEMS[problem][1]
    study = unseen.Study(sampler, program, seed)
    others = [PROBLEMS[p][1] for p in TUNED if p != problem] if kind == "others" else [function] * (2 if KINDS[kind] is not None else 0)
    if kind == "others":  # they have other parameters; those of this problem are learnt of
        study.pipe.stdin.write("cold 0\n")
        source(study, function, None, problem, 20)
        study.pipe.stdin.write("axes\n")
    for k, other in enumerate(others):
        study.pipe.stdin.write("cold %d\n" % (1000 + 10 * seed + k))
        source(study, other, KINDS.get(kind), f"{problem} {seed} {k}", 40)
        study.pipe.stdin.write("learn source%d\n" % k)
    study.pipe.stdin.write(f"study {seed}\n")
    noise, observed, found, marks, path = random.Random(f"{problem} {seed}"), None, None, {}, []
    for n in range(1, trials + 1):
        trial = study.trial()
        result = function(trial, noise)
        study.tell(trial, None if result is None else result[0])
        if result is not None and (observed is None or result[0] < observed):
            observed, found = result
        if n in MARKS:
            marks[str(n)] = found
        path.append(found)
    study.close()
    line = {"problem": problem, "kind": kind, "sampler": sampler, "seed": seed, "best": marks}
    return dict(line, path=path) if problem in TUNED else line


def names(count, which):
    """A mixture of families, in an order that a hash decides."""
    chosen = [p for p in sorted(PROBLEMS, key=lambda p: random.Random("transfer " + p).random()) if half(p) == which]
    families = {}
    for p in chosen:
        families.setdefault(PROBLEMS[p][0], []).append(p)
    mixed = [p for row in zip(*[f + [None] * len(chosen) for f in families.values()]) for p in row if p is not None]
    return mixed[:count]


def run(a):
    done = {(s["problem"], s["kind"], s["sampler"], s["seed"]) for s in unseen.load(a.work)}
    for seed in range(a.seeds):
        for problem in TUNED if a.tuned else names(a.problems, a.half):
            for sampler in a.samplers:
                for kind in ("cold", "others") if a.tuned else KINDS:
                    if (problem, kind, sampler, seed) not in done:
                        line = json.dumps(one(problem, kind, sampler, a.program, seed, a.trials))
                        with open(a.work, "a") as out:
                            print(line, file=out)


def report(a):
    studies, rows = unseen.load(a.work), []
    losses = {}
    for problem in {s["problem"] for s in studies}:
        rng, values = random.Random("uniform " + problem), []
        while len(values) < 5000:
            result = PROBLEMS[problem][1](Uniform(rng), rng)
            values.append(float("inf") if result is None else result[1])
        losses[problem] = sorted(values)
    import bisect

    def rank(problem, value):
        return 1.0 if value is None else bisect.bisect_left(losses[problem], value) / 5000
    by = {}
    for s in studies:
        by.setdefault((s["problem"], s["sampler"], s["kind"]), []).append(s["best"])
    samplers = sorted({s["sampler"] for s in studies})
    for which, warm_of, cold_of in [(h, w, c) for h in ("choose", "report") for w in samplers for c in samplers]:
        for kind in ("shifted", "strange", "others"):
            for mark in map(str, MARKS):
                wins, worse = [], {}
                for p in sorted(p for p in losses if half(p) == which):
                    warm, cold = ([best[mark] for best in by.get(k, [])] for k in ((p, warm_of, kind), (p, cold_of, "cold")))
                    if cold and warm:
                        wins.append(unseen.share(warm, cold))
                        worse[p] = common.mean([rank(p, v) for v in warm]) - common.mean([rank(p, v) for v in cold])
                if wins:
                    rows.append({"half": which, "warm": warm_of, "cold": cold_of, "sources": kind, "trials": int(mark), "problems": len(wins),
                                 "better": common.mean(wins), "rank": common.mean(list(worse.values())),
                                 "over": sorted(p for p in worse if worse[p] > 0.02), "worst": max(worse.values()), "worst_problem": max(worse, key=worse.get)})
    seeds = len({s["seed"] for s in studies})
    goals, tuned = {}, {}
    for s in unseen.load(unseen.HISTORIES):
        goals.setdefault((s["sampler"], s["problem"]), []).append(s)
    for s in studies:
        if "path" in s:
            tuned.setdefault((f"{s['sampler']}, {s['kind']}", s["problem"]), []).append(s)
    until = unseen.trials_until(goals, tuned)
    document = dict(common.provenance(), rows=rows, seeds=seeds, trials_until=until, studies=studies)
    text = common.title_lines(document, "study.learn_from beside a cold start")
    text += [f"Up to {seeds} seeds, two sources of 40 trials each. better: how often the warm study's best trial is better (ties half). rank: how much larger,",
             "in the mean, the share of random points is that beat its best trial; over: problems where that is more than 2 %; worst: on the worst one.", "",
             "| half | warm | cold | sources | trials | problems | better | rank | over | worst |", "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        text.append(f"| {r['half']} | {r['warm']} | {r['cold']} | {r['sources']} | {r['trials']} | {r['problems']} | {100 * r['better']:.0f} % | "
                    f"{100 * r['rank']:+.2f} % | {len(r['over'])} | {100 * r['worst']:+.2f} % ({r['worst_problem']}) |")
    text += unseen.lines_until(until)
    common.write_results(os.path.join(common.RESULTS, "search_transfer"), document, "\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("--program")
    parser.add_argument("--work", default="search_transfer.jsonl")
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--tuned", action="store_true", help="tables of recorded fine-tuning, each warm by the others")
    parser.add_argument("--samplers", nargs="*", default=["ftengine gp", "ftengine tpe"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=50)
    a = parser.parse_args()
    {"run": run, "report": report}[a.what](a)


if __name__ == "__main__":
    main()
