"""Writes pruners.txt and importance.txt: the verdicts of Optuna's pruners over simulated studies, and its importances.

    /opt/ref/bin/python tests/vectors/make_pruner_vectors.py

pruners.txt: a study begins with "study MAXIMIZE PRUNER OPTIONS...", then what happens to it in order:
    n                            a new trial (numbers from 0)
    r NUMBER STEP VALUE VERDICT RUNGS   a report and what the pruner says; RUNGS new values of completed rungs
    f NUMBER STATE [VALUE]       a trial ends; 1 where no pruner looks at the value
importance.txt: "case SEED TRIALS OBJECTIVES OBJECTIVE" (the one asked for, -1: all) and "NAME VALUE" lines. The histories come from a generator that the C test
has too (history() here, make_history() there).
"""
import pathlib
import random
import warnings

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import (HyperbandPruner, MedianPruner, NopPruner, PatientPruner, PercentilePruner,
                            SuccessiveHalvingPruner, ThresholdPruner, WilcoxonPruner)
from optuna.trial import TrialState

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
HERE = pathlib.Path(__file__).parent
NAN, INF = float("nan"), float("inf")

# (line of the file, pruner)
PRUNERS = [
    ("none", lambda: NopPruner()),
    ("median 5 0 1 1", lambda: MedianPruner()),
    ("median 1 2 1 1", lambda: MedianPruner(1, 2)),
    ("median 0 1 3 2", lambda: MedianPruner(0, 1, 3, n_min_trials=2)),
    ("percentile 25 2 0 1 1", lambda: PercentilePruner(25.0, 2)),
    ("percentile 80 3 0 2 1", lambda: PercentilePruner(80.0, 3, 0, 2)),
    ("percentile 0 1 0 1 1", lambda: PercentilePruner(0.0, 1)),
    ("percentile 100 1 0 1 4", lambda: PercentilePruner(100.0, 1, n_min_trials=4)),
    ("percentile 33.3 1 1 1 1", lambda: PercentilePruner(33.3, 1, 1)),
    ("halving 0 4 0 0", lambda: SuccessiveHalvingPruner()),
    ("halving 1 2 0 0", lambda: SuccessiveHalvingPruner(1, 2)),
    ("halving 1 3 1 0", lambda: SuccessiveHalvingPruner(1, 3, 1)),
    ("halving 2 2 0 3", lambda: SuccessiveHalvingPruner(2, 2, 0, 3)),
    ("hyperband 1 0 3 0", lambda: HyperbandPruner()),
    ("hyperband 1 16 2 0", lambda: HyperbandPruner(1, 16, 2)),
    ("hyperband 1 243 3 0", lambda: HyperbandPruner(1, 243, 3)),
    ("hyperband 2 9 3 1", lambda: HyperbandPruner(2, 9, 3, 1)),
    ("patient 0 0 none", lambda: PatientPruner(None, 0)),
    ("patient 2 0 none", lambda: PatientPruner(None, 2)),
    ("patient 1 0.15 none", lambda: PatientPruner(None, 1, 0.15)),
    ("patient 1 0 median 2 0 1 1", lambda: PatientPruner(MedianPruner(2), 1)),
    ("patient 1 0 halving 1 2 0 0", lambda: PatientPruner(SuccessiveHalvingPruner(1, 2), 1)),
    ("threshold 0.2 0.9 0 1", lambda: ThresholdPruner(0.2, 0.9)),
    ("threshold -inf 0.8 2 3", lambda: ThresholdPruner(upper=0.8, n_warmup_steps=2, interval_steps=3)),
]


def number(value):
    return repr(float(value))


def simulate(line, pruner, maximize, seed):
    rng = random.Random(seed)
    study = optuna.create_study(study_name="pruning", direction="maximize" if maximize else "minimize", pruner=pruner)
    out = [f"study {int(maximize)} {line}"]
    running = {}
    started = 0
    while started < 22 or running:
        if started < 22 and (len(running) < 3 or rng.random() < 0.1):
            trial = study.ask()
            out.append("n")
            # level, noise, length, stride of steps, chance of not being a number
            running[trial.number] = [trial, rng.random(), rng.choice([0.05, 0.4]), rng.randint(2, 18), rng.choice([1, 1, 2, 3]),
                                     rng.choice([0, 0, 0.1, 0.6]), rng.randint(0, 2)]
            started += 1
            continue
        trial, level, noise, length, stride, odd, step = running[chosen := rng.choice(list(running))]
        value = round(level + rng.uniform(-noise, noise), 1)
        if rng.random() < odd:
            value = rng.choice([NAN, NAN, INF, -INF])
        before = sum(k.startswith("completed_rung_") for k in trial.storage.get_trial_system_attrs(trial._trial_id))
        trial.report(value, step)
        verdict = trial.should_prune()
        after = sum(k.startswith("completed_rung_") for k in trial.storage.get_trial_system_attrs(trial._trial_id))
        out.append(f"r {chosen} {step} {number(value)} {int(verdict)} {after - before}")
        running[chosen][6] = step + rng.randint(1, stride)
        if verdict and rng.random() < 0.6:  # otherwise it goes on, to be judged at later steps too
            study.tell(trial, state=TrialState.PRUNED)
            out.append(f"f {chosen} PRUNED")
        elif running[chosen][6] >= length and rng.random() < 0.1:
            study.tell(trial, state=TrialState.FAIL)
            out.append(f"f {chosen} FAIL")
        elif running[chosen][6] >= length:
            study.tell(trial, level)
            out.append(f"f {chosen} COMPLETE")
        else:
            continue
        del running[chosen]
    return out


def simulate_runs(maximize, seed, digits, length):
    """Trials of `length` runs each: few digits give ties and zeros, many runs the normal approximation."""
    rng = random.Random(seed)
    study = optuna.create_study(direction="maximize" if maximize else "minimize", pruner=WilcoxonPruner())
    out = [f"study {int(maximize)} wilcoxon"]
    hardness = [rng.gauss(0, 1) for _ in range(length)]
    for number_ in range(24):
        trial = study.ask()
        out.append("n")
        level, values = rng.choice([0, 0.05, 0.2, 0.5]) * (-1 if maximize else 1), []
        for step in range(length):
            if rng.random() < 0.05 and number_ > 0:
                continue  # a run that was left out
            value = round(level + hardness[step] + rng.gauss(0, 0.2), digits)
            if rng.random() < 0.002:
                value = NAN
            values.append(value)
            trial.report(value, step)
            verdict = trial.should_prune()
            out.append(f"r {number_} {step} {number(value)} {int(verdict)} 0")
            if verdict and rng.random() < 0.5:
                study.tell(trial, state=TrialState.PRUNED)
                out.append(f"f {number_} PRUNED")
                break
        else:
            mean = sum(values) / len(values)
            failed = mean != mean
            study.tell(trial, state=TrialState.FAIL) if failed else study.tell(trial, mean)
            out.append(f"f {number_} FAIL" if failed else f"f {number_} COMPLETE {number(mean)}")
    return out


class Generator:
    """Knuth's LCG; the C test has the same one."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 11) / 2**53

    def below(self, n):
        return int(self.uniform() * n)


def history(seed, count, objectives):
    g = Generator(seed)
    study = optuna.create_study(directions=["minimize", "maximize"][:objectives] if seed % 2 else
                                ["maximize", "minimize"][:objectives])
    for i in range(count):
        params, distributions = {}, {}

        def add(name, value, distribution):
            params[name], distributions[name] = value, distribution

        a, b, c, d, e, h = (g.uniform() for _ in range(6))
        add("float", a, FloatDistribution(0, 1))
        add("log", (1 + b) * 2.0**-g.below(9), FloatDistribution(2.0**-9, 2, log=True))
        add("step", 0.25 * g.below(9), FloatDistribution(0, 2, step=0.25))
        add("int", g.below(100) - 20, IntDistribution(-20, 79))
        add("int_log", 1 + g.below(1000), IntDistribution(1, 1000, log=True))
        add("int_step", 8 * g.below(4), IntDistribution(0, 24, step=8))
        add("choice", ["x", None, True, 2.5][g.below(4)], CategoricalDistribution(["x", None, True, 2.5]))
        add("single", 7, IntDistribution(7, 7))
        if c < 0.4:
            add("conditional", d, FloatDistribution(0, 1))
        add("moving", e, FloatDistribution(0, 1) if i < count // 2 else FloatDistribution(0, 2))
        value = (a - 0.3) * (a - 0.3) + 0.05 * params["int_step"] + (0.5 if params["choice"] is None else 0) + 0.1 * h
        if c < 0.4:
            value += 0.5 * d
        states = [TrialState.COMPLETE] * 8 + [TrialState.PRUNED, TrialState.FAIL]
        state = states[g.below(10)]
        if g.below(40) == 0:
            value = INF
        values = [value, params["step"] - e][:objectives]
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, state=state,
                                                  values=values if state == TrialState.COMPLETE else None))
    return study


if __name__ == "__main__":
    lines = []
    for i, (line, make) in enumerate(PRUNERS):
        for maximize in (False, True):
            lines += simulate(line, make(), maximize, 2 * i + maximize)
    for i, (digits, length) in enumerate([(9, 12), (1, 12), (9, 62), (1, 40)]):
        for maximize in (False, True):
            lines += simulate_runs(maximize, 100 + 2 * i + maximize, digits, length)
    (HERE / "pruners.txt").write_text("\n".join(lines) + "\n")
    verdicts = [l.split()[4] for l in lines if l[0] == "r"]
    print(f"pruners.txt: {len(verdicts)} verdicts, {verdicts.count('1')} to prune, optuna {optuna.__version__}")

    lines = []
    for seed, count, objectives in [(1, 60, 1), (2, 200, 1), (3, 25, 1), (4, 500, 1), (5, 2, 1), (6, 11, 1), (7, 120, 2),
                                    (8, 60, 2), (9, 1, 1)]:
        study = history(seed, count, objectives)
        # With a target, Optuna takes the lower for the better whatever the direction.
        signs = [1 if d == optuna.study.StudyDirection.MINIMIZE else -1 for d in study.directions]
        targets = [(-1, None)] + ([(o, lambda t, o=o: signs[o] * t.values[o]) for o in range(objectives)] if objectives > 1 else [])
        for objective, target in targets:
            lines.append(f"case {seed} {count} {objectives} {objective}")
            importances = optuna.importance.get_param_importances(study, target=target)
            lines += [f"{name} {number(value)}" for name, value in sorted(importances.items())]
    (HERE / "importance.txt").write_text("\n".join(lines) + "\n")
