"""Writes tpe.txt: what Optuna's TPESampler makes of random histories, and distributions.txt: how Optuna adjusts steps.

    /opt/ref/bin/python tests/vectors/make_tpe_vectors.py

numpy.argsort is replaced by a stable one, because Optuna sorts with the default, whose ties depend on the processor.

One case is:
    case NAME liar multivariate directions...      direction 1 = maximise
    distribution float|int low high log step       or: distribution categorical N   (choices are the integers 0..N-1)
    name TEXT
    trial STATE v.. | name dist value .. | step value .. | constraint .. | relative: name dist value ..
    joint name..                                   the space drawn jointly, and after it one line a group:
    group name..
    ask name dist ..                               what is drawn for the last trial of the list
    split 0120..                                   one digit a trial: 0 neither, 1 below, 2 above
    below N weights..                              N observations, N + 1 weights; then one line a parameter:
    kernels sigma..                                numbers: N + 1 sigmas; choices: (N + 1) rows of probabilities
    above N weights..
    kernels ..
    point x.. l g                                  a candidate and its two log densities
    best I                                         the candidate taken
    end

distributions.txt has a line "float|int low high step adjusted-high single contains..": for the values low + k * step/2,
k = -1..3, whether the distribution contains them.
"""
import json
import math
import pathlib
import warnings

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.samplers._tpe import sampler as tpe_module
from optuna.trial import TrialState, create_trial

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
plain_argsort = np.argsort
np.argsort = lambda a, *args, **kwargs: plain_argsort(a, kind="stable")

LETTER = {TrialState.RUNNING: "R", TrialState.COMPLETE: "C", TrialState.PRUNED: "P", TrialState.FAIL: "F",
          TrialState.WAITING: "W"}
KINDS = {
    "float": FloatDistribution(-5.0, 10.0),
    "log": FloatDistribution(1e-6, 1e-2, log=True),
    "stepped": FloatDistribution(0.0, 1.0, step=0.1),
    "int": IntDistribution(1, 12),
    "wide": IntDistribution(128, 100000),
    "stride": IntDistribution(128, 512, step=32),
    "logint": IntDistribution(1, 1000, log=True),
    "pick": CategoricalDistribution(list(range(4))),
    "flag": CategoricalDistribution([0, 1]),
    "one": IntDistribution(7, 7),
}
OTHER = {"float": FloatDistribution(0.0, 2.0), "log": FloatDistribution(1e-5, 1e-1, log=True),
         "int": IntDistribution(4, 9), "stepped": FloatDistribution(0.25, 0.75, step=0.25),
         "logint": IntDistribution(2, 64, log=True), "wide": IntDistribution(200, 300), "stride": IntDistribution(100, 300)}


class Recorder(TPESampler):
    """The sampler itself; it only looks at what passes through."""

    def _build_parzen_estimator(self, study, space, trials, handle_below):
        estimator = super()._build_parzen_estimator(study, space, trials, handle_below)
        self.seen.append(([t.number for t in trials], estimator))
        return estimator

    def _compute_acquisition_func(self, samples, below, above):
        self.samples = samples
        self.densities = (below.log_pdf(samples), above.log_pdf(samples))
        return super()._compute_acquisition_func(samples, below, above)


def draw(rng, d):
    if isinstance(d, CategoricalDistribution):
        return int(rng.integers(len(d.choices)))
    if d.log:
        x = math.exp(rng.uniform(math.log(d.low), math.log(d.high)))
        return min(max(round(x), d.low), d.high) if isinstance(d, IntDistribution) else float(f"{x:.5g}")
    if d.step is not None:
        k = int(rng.integers(round((d.high - d.low) / d.step) + 1))
        return d.low + k * d.step
    return round(float(rng.uniform(d.low, d.high)), 4)


def floats(values):
    return " ".join(repr(float(v)) for v in values)


def internal(d, value):
    return repr(float(d.to_internal_repr(value)))


class Case:
    def __init__(self, name, rng, count, kinds, directions=(0,), states="C", liar=True, multivariate=True, mixed=0.0,
                 conditional=False, infeasible=0.0, ties=0.0, ask=None, ask_other=False, extremes=False, reports_most=3):
        self.distributions, self.lines = [], []
        names = sorted(f"{k}{i}" for i, k in enumerate(kinds))
        kind = {n: n.rstrip("0123456789") for n in names}
        study = optuna.create_study(directions=["maximize" if m else "minimize" for m in directions],
                                    storage=optuna.storages.InMemoryStorage())
        self.names = names
        rows = []
        for number in range(count + 1):
            state = {LETTER[s]: s for s in LETTER}[states[int(rng.integers(len(states)))]]
            if number == count:
                state = TrialState.RUNNING
            params, dists, relative = {}, {}, {}
            branch = int(rng.integers(8)) == 0
            for i, n in enumerate(names):
                if conditional and i % 3 != 0 and (i % 3 == 1) != branch:
                    continue
                if conditional and number == count and i % 3:
                    continue
                d = OTHER[kind[n]] if rng.random() < mixed and kind[n] in OTHER else KINDS[kind[n]]
                value = draw(rng, d)
                if state == TrialState.RUNNING and rng.random() < 0.4:
                    relative[n] = (d, value)
                else:
                    params[n], dists[n] = value, d
            if number == count:
                params, dists, relative = {}, {}, {}
            attrs = {}
            if relative:
                attrs["tpe:relative_params:0"] = json.dumps({n: v for n, (_, v) in relative.items()})
            constraints = []
            if rng.random() < infeasible:
                constraints = [round(float(rng.normal()), 2) for _ in range(2)]
                attrs["constraints"] = constraints
            values, reports = None, {}
            if state == TrialState.COMPLETE:
                values = [round(float(rng.normal(0, 1)), 1 if rng.random() < ties else 6) for _ in directions]
                if extremes and rng.random() < 0.1:
                    values[0] = math.inf if rng.random() < 0.7 else -math.inf
            if state == TrialState.PRUNED and len(directions) == 1:
                for step in range(int(rng.integers(0, reports_most + 1))):
                    reports[step * 2] = round(float(rng.normal()), 1)
                if reports and rng.random() < 0.2:
                    reports[max(reports)] = math.nan
            study.add_trial(create_trial(state=state, values=values, params=params, distributions=dists,
                                         intermediate_values=reports, system_attrs=attrs))
            fields = [floats(values or []),
                      " ".join(f"{names.index(n)} {self.id(d)} {internal(d, params[n])}" for n, d in dists.items()),
                      " ".join(f"{s} {float(v)!r}" for s, v in sorted(reports.items())), floats(constraints),
                      " ".join(f"{names.index(n)} {self.id(d)} {internal(d, v)}" for n, (d, v) in relative.items())]
            rows.append(f"trial {LETTER[state]} " + " | ".join(fields))
        current = study._storage.get_all_trials(study._study_id, deepcopy=False)[-1]
        sampler = Recorder(seed=1, multivariate=multivariate, constant_liar=liar, n_startup_trials=0)
        sampler.seen = []
        joint = sampler.infer_relative_search_space(study, current) if multivariate else {}
        grouped = []
        if multivariate:
            other = TPESampler(multivariate=True, group=True)
            other.infer_relative_search_space(study, current)
            for space in other._search_space_group.search_spaces:
                members = sorted(n for n, d in space.items() if not d.single())
                grouped.append(members)
        if ask is None:
            space = dict(joint)
        else:
            space = {n: (OTHER if ask_other and kind[n] in OTHER else KINDS)[kind[n]] for n in names if kind[n] in ask}
        self.lines += rows + ["joint " + " ".join(str(names.index(n)) for n in joint)]
        self.lines += ["group " + " ".join(str(names.index(n)) for n in g) for g in sorted(g for g in grouped if g)]
        self.lines.append("ask " + " ".join(f"{names.index(n)} {self.id(d)}" for n, d in space.items()))
        if space:
            self.sample(study, sampler, current, space, count)
        head = [f"case {name} {int(liar)} {int(multivariate)} " + " ".join(str(int(m)) for m in directions)]
        for d in self.distributions:
            if isinstance(d, CategoricalDistribution):
                head.append(f"distribution categorical {len(d.choices)}")
            else:
                kind_name = "float" if isinstance(d, FloatDistribution) else "int"
                head.append(f"distribution {kind_name} {float(d.low)!r} {float(d.high)!r} {int(d.log)} {float(d.step or 0)!r}")
        self.text = "\n".join(head + [f"name {n}" for n in names] + self.lines + ["end"]) + "\n"

    def id(self, d):
        if d not in self.distributions:
            self.distributions.append(d)
        return self.distributions.index(d)

    def sample(self, study, sampler, current, space, count):
        taken = sampler._sample(study, current, space)
        sides = ["0"] * (count + 1)
        for digit, (numbers, _) in zip("12", sampler.seen):
            for n in numbers:
                sides[n] = digit
        self.lines.append("split " + "".join(sides))
        for label, (_, estimator) in zip(("below", "above"), sampler.seen):
            mixture = estimator._mixture_distribution
            self.lines.append(f"{label} {len(mixture.weights) - 1} " + floats(mixture.weights))
            for d in mixture.distributions:
                self.lines.append("kernels " + floats(d.sigma if hasattr(d, "sigma") else d.weights.ravel()))
        points = np.array([sampler.samples[n] for n in space]).T
        low, high = sampler.densities
        for x, l, g in zip(points, low, high):
            self.lines.append(f"point {floats(x)} {l!r} {g!r}".replace("np.float64(", "").replace(")", ""))
        best = int(np.argmax(low - high))
        assert all(d.to_internal_repr(taken[n]) == points[best, i] for i, (n, d) in enumerate(space.items()))
        self.lines.append(f"best {best}")


def cases():
    everything = ["float", "log", "stepped", "int", "wide", "stride", "logint", "pick", "flag", "one"]
    rng = np.random.default_rng(7)
    for n in (0, 1, 2, 3, 9, 11, 25, 26, 27, 40):
        yield Case(f"mixed_{n}", rng, n, everything, states="CCCCP")
    for kind in everything[:-1]:
        yield Case(f"alone_{kind}", rng, 60, [kind], states="CCCPF", ask=[kind])
        yield Case(f"other_range_{kind}", rng, 30, [kind, "float"], mixed=0.4, ask=[kind], ask_other=True)
    yield Case("maximise_ties", rng, 80, everything[:5], directions=(1,), states="CCCCPPFWR", ties=0.9)
    yield Case("minimise_ties", rng, 80, everything[4:], states="CCPPFWR", ties=0.9, liar=False)
    yield Case("all_pruned", rng, 40, ["float", "int"], states="P")
    yield Case("pruned_maximise", rng, 60, ["log", "pick"], directions=(1,), states="PPPPPPC")
    yield Case("pruned_silent", rng, 60, ["float"], states="PPPPPPPPF", reports_most=0)
    yield Case("pruned_early", rng, 12, ["float", "pick"], states="P", reports_most=1)
    yield Case("infeasible", rng, 70, ["float", "int", "pick"], states="CCCP", infeasible=0.8)
    yield Case("all_infeasible", rng, 40, ["float", "flag"], states="CP", infeasible=1.0, ties=0.5)
    yield Case("infinite_values", rng, 50, ["float", "log"], extremes=True)
    yield Case("running_liar", rng, 60, everything[:6], states="CCCRRF")
    yield Case("running_alone", rng, 60, everything[:6], states="CCCRRF", multivariate=False, ask=["float", "int"][:1])
    yield Case("running_no_liar", rng, 60, ["float", "pick"], states="CCR", liar=False)
    yield Case("mixed_ranges", rng, 40, everything[:5], mixed=0.05)
    for i, states in enumerate(("CCCP", "CCRP")):
        yield Case(f"conditional_{i}", rng, 90, everything[:6], states=states, conditional=True)
        yield Case(f"conditional_branch_{i}", rng, 90, everything[:6], states=states, conditional=True, ask=["log"])
    yield Case("conditional_pair", rng, 120, ["float", "log", "pick", "int", "flag", "stepped"], conditional=True,
               ask=["pick", "stepped"])
    for objectives in (2, 3, 4):
        directions = tuple(i % 2 for i in range(objectives))
        for n in (5, 30, 90):
            yield Case(f"objectives_{objectives}_{n}", rng, n, ["float", "int", "pick"], directions=directions, ask=["float"],
                       multivariate=False, states="CCCCF")
        yield Case(f"objectives_{objectives}_joint", rng, 60, ["float", "int", "pick"], directions=directions,
                   multivariate=True, states="CCCR", ties=1.0)
        yield Case(f"objectives_{objectives}_infeasible", rng, 60, ["log", "pick"], directions=directions, infeasible=0.6,
                   multivariate=False, ask=["pick"], ties=0.6)
        yield Case(f"objectives_{objectives}_infinite", rng, 50, ["float"], directions=directions, multivariate=False,
                   ask=["float"], extremes=objectives == 2, ties=1.0)
    for objectives in (2, 3, 4):
        yield Case(f"objectives_{objectives}_250", rng, 250, ["int"], directions=(0,) * objectives, multivariate=False,
                   ask=["int"], ties=0.3)
    yield Case("two_hundred", rng, 230, ["float", "log", "int", "pick", "wide"], states="CCCP", ties=0.5)
    yield Case("three_hundred", rng, 320, ["stepped", "logint"], states="CCCP")


def distributions():
    rng = np.random.default_rng(3)
    for i in range(400):
        digits = int(rng.integers(0, 6))
        low = round(float(rng.uniform(-10, 10)), digits)
        step = round(float(rng.choice([0.1, 0.3, 0.05, 1, 2.5, 1e-3, 7e-5, 1e-7])), 7) * int(rng.integers(1, 9))
        high = round(low + float(rng.uniform(0, 60)) * step, digits + int(rng.integers(0, 9)))
        if i % 10 == 0:
            high = low + int(rng.integers(0, 30)) * step  # whole in binary, mostly not in decimals
        if high < low:
            continue
        d = FloatDistribution(low, high, step=step)
        yield "float", low, high, step, d
    for _ in range(60):
        low = int(rng.integers(-50, 50))
        high, step = low + int(rng.integers(0, 90)), int(rng.integers(1, 9))
        yield "int", low, high, step, IntDistribution(low, high, step=step)


if __name__ == "__main__":
    table = pathlib.Path(__file__).with_name("distributions.txt")
    table.write_text("".join(
        f"{kind} {low!r} {high!r} {step!r} {d.high!r} {int(d.single())} "
        + " ".join(str(int(d._contains(low + k * step / 2))) for k in range(-1, 4)) + "\n"
        for kind, low, high, step, d in distributions()))
    out = pathlib.Path(__file__).with_name("tpe.txt")
    out.write_text(f"# optuna {optuna.__version__}, made by make_tpe_vectors.py\n" + "".join(c.text for c in cases()))
    print(out, out.stat().st_size, "bytes")
