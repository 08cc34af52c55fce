"""Optuna's side of search_quality.py; the only file of it that needs Optuna.

    python search_quality_optuna.py check PROGRAM               the problems are the same in both languages
    python search_quality_optuna.py run SAMPLER RESULTS SEEDS TRIALS [PROBLEM...]    SAMPLER: tpe, group, random

run appends a line to RESULTS as each study ends and leaves out what is there already, so it can be stopped and
started again. Seeds are in the outer loop: whenever it stops, all problems have been tried about equally often.
"""
import json
import math
import os
import subprocess
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import optuna  # noqa: E402

from search_quality_problems import PROBLEMS  # noqa: E402

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
MARKS = (50, 200, 1000, 5000)


def check(program):
    lines = subprocess.run([program, "check"], check=True, capture_output=True, text=True).stdout.splitlines()
    seen = set()
    for line in map(json.loads, lines):
        spaces = {k: optuna.distributions.json_to_distribution(json.dumps(d)) for k, (d, _) in line["params"].items()}
        trial = optuna.trial.FixedTrial({k: spaces[k].to_external_repr(v) for k, (_, v) in line["params"].items()})
        constraints = []
        value = PROBLEMS[line["problem"]](trial, constraints)
        assert trial.distributions == spaces, f"{line['problem']}: another space"
        for a, b in zip([value] + constraints, [line["value"]] + line["constraints"], strict=True):
            assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9), f"{line['problem']}: {a} here, {b} in C"
        seen.add(line["problem"])
    assert seen == set(PROBLEMS)
    print(f"{len(lines)} trials of {len(seen)} problems: equal spaces, values and constraints", file=sys.stderr)


def sampler_of(name, problem, seed):
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    constraints = (lambda t: t.user_attrs["c"]) if problem.startswith("con_") else None
    return optuna.samplers.TPESampler(seed=seed, group=name == "group", constraints_func=constraints)


def study(problem, sampler, seed, trials):
    best, marks, start = math.inf, {}, time.process_time()
    made = optuna.create_study(sampler=sampler_of(sampler, problem, seed))
    for n in range(1, trials + 1):
        trial, constraints = made.ask(), []
        value = PROBLEMS[problem](trial, constraints)
        if constraints:
            trial.set_user_attr("c", constraints)
        made.tell(trial, value)
        if max(constraints, default=0) <= 0:
            best = min(best, value)
        if n in MARKS:
            marks[str(n)] = best
    return {"problem": problem, "seed": seed, "best": marks, "seconds": round(time.process_time() - start, 3)}


def run(sampler, results, seeds, trials, names):
    done = set()
    if os.path.exists(results):
        for line in map(json.loads, open(results)):
            if str(trials) in line["best"]:
                done.add((line["problem"], line["seed"]))
    for seed in range(seeds):
        for problem in names or PROBLEMS:
            if (problem, seed) not in done:
                line = json.dumps(study(problem, sampler, seed, trials))
                with open(results, "a") as out:
                    print(line, file=out)


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:])
