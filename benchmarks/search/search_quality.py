"""Search quality: the best feasible value after 50, 200 and 1,000 trials over seeds, ftengine beside Optuna's TPE and
random search on standard, mixed, conditional and constrained problems. Writes results/search_quality.{md,json}.

    python3 benchmarks/search/search_quality.py --program BUILD/benchmarks/search_quality --python PYTHON_WITH_OPTUNA

Optuna's 1,000 trials of all problems and 20 seeds take about an hour of one core, ours one minute. What Optuna has done
is kept in --work, so a run can be stopped and started again; --minutes stops Optuna's 1,000-trial studies after so long
(the first 200 trials of every study are made before), and the result says how many seeds there are of each.

The problems are search_problems.c and search_quality_problems.py; both are compared, space by space and value by value,
before anything is measured. Seeds are independent on both sides, so values are compared by the Mann-Whitney test, two
sided, with Holm's correction over all comparisons of the table. Whether a kind of problem as a whole is better is asked
once a kind and mark, by the Mann-Whitney statistics of its problems added up (a stratified rank test, each problem with
equal weight), with Holm's correction over these. Settings were chosen on other problems (search_training.c).
"""
import argparse
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402

OPTUNA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "search_quality_optuna.py")
MARKS = ("50", "200", "1000")
SETTINGS = "branch_split=1,branch_joint=1,fine=1"  # what `ftengine tune` does; everything else is as in Optuna


def optuna(arguments, sampler, name, trials, minutes=None):
    path = os.path.join(arguments.work, name + ".jsonl")
    if arguments.report:
        return path
    command = ["nice", "-n", "15", arguments.python, OPTUNA, "run", sampler, path, str(arguments.seeds), str(trials)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    try:
        subprocess.run(command, check=True, env=environment, timeout=None if minutes is None else 60 * minutes)
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {minutes} minutes", file=sys.stderr)
    return path


def load(*paths):
    """{problem: {seed: {trials: best}}} of several files; of one study they must agree."""
    studies, seconds = {}, 0.0
    for path in paths:
        for line in map(json.loads, open(path, encoding="utf-8")):
            known = studies.setdefault(line["problem"], {}).setdefault(line["seed"], {})
            for mark, best in line["best"].items():
                assert known.setdefault(mark, best) == best, f"{path}: {line['problem']}, seed {line['seed']}"
            seconds += line["seconds"]
    return studies, seconds


def at(studies, problem, mark, seeds):
    return [best[mark] for seed, best in sorted(studies.get(problem, {}).items()) if mark in best and seed < seeds]


def rank_statistic(a, b):
    """(how often one of a is better (smaller) than one of b, the variance of that when there is no difference)."""
    pooled = sorted((v, side) for side, values in enumerate((a, b)) for v in values)
    n, rank_sum, ties, i = len(pooled), 0.0, 0, 0
    while i < n:
        j = i
        while j < n and pooled[j][0] == pooled[i][0]:
            j += 1
        rank_sum += sum(side == 0 for _, side in pooled[i:j]) * (i + j + 1) / 2
        ties += (j - i) ** 3 - (j - i)
        i = j
    pairs = len(a) * len(b)
    u = rank_sum - len(a) * (len(a) + 1) / 2
    return 1 - u / pairs, ((n + 1) - ties / (n * (n - 1))) / (12 * pairs)


def two_sided(better, variance, correction=0.0):
    z = max(0.0, abs(better - 0.5) - correction) / math.sqrt(variance) if variance > 0 else 0.0
    return math.erfc(z / math.sqrt(2))


def mann_whitney(a, b):
    """(probability that one of a is better (smaller) than one of b, two-sided p by the normal approximation)."""
    better, variance = rank_statistic(a, b)
    return better, two_sided(better, variance, 0.5 / (len(a) * len(b)))


def kinds_of(rows):
    """A row for each kind of problem and mark: all of its problems together."""
    groups = {}
    for r in rows:
        groups.setdefault((r["kind"], r["trials"]), []).append(r)
    out = []
    for (kind, trials), some in groups.items():
        better = common.mean([r["better"] for r in some])
        out.append({"kind": kind, "trials": trials, "problems": len(some), "better": better,
                    "better_than_random": common.mean([r["better_than_random"] for r in some]),
                    "p": two_sided(better, sum(r["variance"] for r in some) / len(some) ** 2)})
    holm(out)
    return out


def holm(comparisons):
    """Adds "holm", the corrected p, to comparisons with "p"."""
    worst = 0.0
    for rank, c in enumerate(sorted(comparisons, key=lambda c: c["p"])):
        worst = max(worst, min(1.0, c["p"] * (len(comparisons) - rank)))
        c["holm"] = worst


def number(value):
    return "none" if math.isinf(value) else f"{value:.4g}"


def rows_of(kinds, ours, tpe, random, seeds):
    rows = []
    for problem, (kind, what) in kinds.items():
        for mark in MARKS:
            a, b, c = (at(s, problem, mark, seeds) for s in (ours, tpe, random))
            if len(a) < 5 or len(b) < 5:
                continue
            better, p = mann_whitney(a, b)
            variance = rank_statistic(a, b)[1]
            rows.append({"problem": problem, "kind": kind, "what": what, "trials": int(mark), "ours": common.median(a),
                         "optuna": common.median(b), "random": common.median(c), "optuna_seeds": len(b),
                         "better": better, "variance": variance, "p": p, "better_than_random": mann_whitney(a, c)[0]})
    holm(rows)
    return rows


def verdict(rows):
    worse = [r for r in rows if r["holm"] < 0.05 and r["better"] < 0.5]
    better = [r for r in rows if r["holm"] < 0.05 and r["better"] > 0.5]
    name = lambda r: f"{r['problem']} after {r['trials']}"  # noqa: E731
    lines = [f"{len(rows)} comparisons. Significantly worse than Optuna's TPE (Holm, 5 %): "
             f"{', '.join(map(name, worse)) or 'none'}. Significantly better: {', '.join(map(name, better)) or 'none'}."]
    lines += ["", "| kind, all problems together | trials | better than Optuna's TPE | p | Holm | better than random |",
              "|---|---|---|---|---|---|"]
    for k in kinds_of(rows):
        lines.append(f"| {k['kind']} ({k['problems']}) | {k['trials']} | {100 * k['better']:.0f} % | {k['p']:.1g} | "
                     f"{k['holm']:.1g} | {100 * k['better_than_random']:.0f} % |")
    return lines


def markdown(document, rows):
    lines = common.title_lines(document, "Search quality beside Optuna")
    lines += [
        f"Median of the best feasible value over {document['seeds']} seeds (all problems are minimised; \"none\": in most "
        "runs no trial was", f"feasible). ftengine: TPE with `{SETTINGS}`, as `ftengine tune` has it; Optuna "
        f"{document['optuna']}: TPESampler and RandomSampler as they", "come. \"better\": how often a seed of ftengine beats one "
        "of Optuna's TPE (50 % is a draw); p: Mann-Whitney, two-sided, and", "after Holm's correction. Processor time of all "
        f"studies: ftengine {document['seconds']['ftengine']:.0f} s, Optuna's TPE {document['seconds']['optuna']:.0f} s.", ""]
    lines += [document["note"], ""] if "note" in document else []
    lines += verdict(rows) + ["", "| problem | trials | ftengine | Optuna TPE (seeds) | random | better | p | Holm |",
                              "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['problem']} | {r['trials']} | {number(r['ours'])} | {number(r['optuna'])} ({r['optuna_seeds']}) | "
                     f"{number(r['random'])} | {100 * r['better']:.0f} % | {r['p']:.3f} | {r['holm']:.2f} |")
    lines += ["", "Problems:", ""]
    lines += [f"- {name} ({kind}): {what}" for name, (kind, what) in document["problems"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--work", default="search_quality_work")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--report", action="store_true", help="run nothing: write the result from what is in --work")
    parser.add_argument("--note", help="a sentence for the result: what was special this time")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    subprocess.run([arguments.python, OPTUNA, "check", arguments.program], check=True)
    lines = subprocess.run([arguments.program, "check"], check=True, capture_output=True, text=True).stdout.splitlines()
    kinds = {line["problem"]: (line["kind"], line["what"]) for line in map(json.loads, lines)}
    own = os.path.join(arguments.work, "ours.jsonl")
    if not arguments.report:
        with open(own, "w", encoding="utf-8") as out:
            subprocess.run([arguments.program, "run", SETTINGS, str(arguments.seeds), "1000"], check=True, stdout=out)
    random, _ = load(optuna(arguments, "random", "random", 1000))
    short = optuna(arguments, "tpe", "tpe200", 200)
    tpe, optuna_seconds = load(short, optuna(arguments, "tpe", "tpe", 1000, arguments.minutes))
    ours, own_seconds = load(own)
    version = subprocess.run([arguments.python, "-c", "import optuna; print(optuna.__version__)"], check=True,
                             capture_output=True, text=True).stdout.strip()
    document = dict(common.provenance(), seeds=arguments.seeds, optuna=version, problems=kinds,
                    seconds={"ftengine": own_seconds, "optuna": optuna_seconds})
    if arguments.note:
        document["note"] = arguments.note
    document["comparisons"] = rows = rows_of(kinds, ours, tpe, random, arguments.seeds)
    document["kinds"] = kinds_of(rows)
    text = markdown(document, rows)
    for r in rows:  # JSON has no infinity
        r.update({k: None for k in ("ours", "optuna", "random") if math.isinf(r[k])})
    common.write_results(os.path.join(common.RESULTS, "search_quality"), document, text)


if __name__ == "__main__":
    main()
