"""SMAC3, HEBO and Ax for search_unseen.py. They want a space before the first trial: it is found by running the problem on random values.

A parameter that some of these runs lack hangs on another where the value of that one decides it, which SMAC and Ax are told as a condition; HEBO
has no conditions and is given all parameters of the space.
"""
import random
import sys
import warnings

RUNS = 3000  # enough that each branch is seen


class Recorder:
    """A trial of random values that notes what is asked for."""

    def __init__(self, rng):
        self.rng, self.asked, self.values = rng, {}, {}

    def note(self, name, asked, value):
        self.asked[name], self.values[name] = asked, value
        return value

    def suggest_float(self, name, low, high, log=False, step=0):
        value = low * (high / low) ** self.rng.random() if log else low + (high - low) * self.rng.random()
        return self.note(name, ("float", low, high, log, step), low + round((value - low) / step) * step if step else value)

    def suggest_int(self, name, low, high, log=False):
        return self.note(name, ("int", low, high, log), self.rng.randint(low, high))

    def suggest_categorical(self, name, choices):
        return self.note(name, ("choice", list(choices)), self.rng.choice(choices))


def space_of(problem, function):
    """Parameters in order of appearance, and {parameter: (parent, values of it)} of those that some trials lack."""
    rng, runs, asked = random.Random("space " + problem), [], {}
    for _ in range(RUNS):
        trial = Recorder(rng)
        function(trial, rng)
        asked.update((k, v) for k, v in trial.asked.items() if k not in asked)
        runs.append(trial.values)
    conditions = {}
    for name in asked:
        if all(name in run for run in runs):
            continue
        for parent in asked:
            if parent == name or not all(parent in run for run in runs) or len({run[parent] for run in runs}) > 20:
                continue
            present, absent = {run[parent] for run in runs if name in run}, {run[parent] for run in runs if name not in run}
            if not present & absent:
                conditions[name] = (parent, sorted(present))
                break
        else:
            raise SystemExit(f"{problem}: nothing decides when {name} is there")
    return asked, conditions


class Given:
    """A trial whose values are there already."""

    def __init__(self, values, proposal):
        self.values, self.proposal = values, proposal

    def suggest_float(self, name, low, high, log=False, step=0):
        value = min(high, max(low, float(self.values[name])))
        return low + round((value - low) / step) * step if step else value

    def suggest_int(self, name, low, high, log=False):
        return int(self.values[name])

    def suggest_categorical(self, name, choices):
        return choices[int(self.values[name])]


class Smac:
    """SMAC3's HyperparameterOptimizationFacade, asked and told: a random forest, as its documentation advises for mixed spaces."""

    def __init__(self, problem, function, seed, trials):
        import logging
        import tempfile

        import ConfigSpace as cs
        import smac
        from smac.runhistory import TrialValue
        from smac.runhistory.enumerations import StatusType
        self.value_of, self.status, self.worst = TrialValue, StatusType, None
        asked, conditions = space_of(problem, function)
        space = cs.ConfigurationSpace(seed=seed)
        for name, (kind, *what) in asked.items():
            if kind == "choice":
                space.add(cs.CategoricalHyperparameter(name, list(range(len(what[0])))))
            elif kind == "int":
                space.add(cs.UniformIntegerHyperparameter(name, what[0], what[1], log=what[2]))
            else:
                space.add(cs.UniformFloatHyperparameter(name, what[0], what[1], log=what[2]))
        for name, (parent, values) in conditions.items():
            kind, *what = asked[parent]
            space.add(cs.InCondition(space[name], space[parent], [what[0].index(v) for v in values] if kind == "choice" else values))
        self.folder = tempfile.TemporaryDirectory()
        scenario = smac.Scenario(space, deterministic=True, n_trials=trials, seed=seed, output_directory=self.folder.name)
        self.smac = smac.HyperparameterOptimizationFacade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=logging.CRITICAL)

    def trial(self):
        proposal = self.smac.ask()
        return Given(dict(proposal.config), proposal)

    def tell(self, trial, value):
        if value is not None:
            self.worst = value if self.worst is None else max(self.worst, value)
        cost = value if value is not None else 1 if self.worst is None else self.worst  # its forest takes no infinity, which crash_cost is
        self.smac.tell(trial.proposal, self.value_of(cost=cost, status=self.status.CRASHED if value is None else self.status.SUCCESS))

    def close(self):
        self.folder.cleanup()


class Hebo:
    def __init__(self, problem, function, seed, trials):
        import numpy
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO
        warnings.simplefilter("ignore")
        numpy.random.seed(seed)
        torch.manual_seed(seed)
        self.numpy, rows = numpy, []
        asked, _ = space_of(problem, function)
        for name, (kind, *what) in asked.items():
            if kind == "choice":
                rows.append({"name": name, "type": "cat", "categories": list(range(len(what[0])))})
            elif kind == "int":
                rows.append({"name": name, "type": "pow_int" if what[2] else "int", "lb": what[0], "ub": what[1]})
            elif what[3]:
                rows.append({"name": name, "type": "step_int", "lb": 0, "ub": round((what[1] - what[0]) / what[3]), "step": 1, "of": what})
            else:
                rows.append({"name": name, "type": "pow" if what[2] else "num", "lb": what[0], "ub": what[1]})
        self.steps = {r["name"]: r.pop("of") for r in rows if "of" in r}
        self.hebo = HEBO(DesignSpace().parse(rows), scramble_seed=seed)

    def trial(self):
        proposal = self.hebo.suggest(1)
        values = proposal.iloc[0].to_dict()
        for name, (low, _, _, step) in self.steps.items():
            values[name] = low + step * values[name]
        return Given(values, proposal)

    def tell(self, trial, value):
        self.hebo.observe(trial.proposal, self.numpy.array([[float("nan") if value is None else value]]))

    def close(self):
        sys.stdout.flush()


class Ax:
    """Ax's Client with the method that it takes by itself ("fast": a centre, five Sobol points, then BoTorch's Gaussian process)."""

    def __init__(self, problem, function, seed, trials):
        import logging

        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
        asked, conditions = space_of(problem, function)
        hang = {}  # {parent: {value: [parameters]}}
        for name, (parent, values) in conditions.items():
            if len(values) > 1:  # its spaces are trees: what two values of a parent have is there for all
                continue
            of = asked[parent][1] if asked[parent][0] == "choice" else None
            for value in values:
                hang.setdefault(parent, {}).setdefault(of.index(value) if of else value, []).append(name)
        parameters = []
        for name, (kind, *what) in asked.items():
            if kind == "choice" or name in hang:  # only choices can decide about others
                values = list(range(len(what[0]))) if kind == "choice" else list(range(what[0], what[1] + 1))
                parameters.append(ChoiceParameterConfig(name=name, values=values, parameter_type="int", is_ordered=kind != "choice",
                                                        dependent_parameters=hang.get(name)))
            elif kind == "int":
                parameters.append(RangeParameterConfig(name=name, bounds=(what[0], what[1]), parameter_type="int", scaling="log" if what[2] else "linear"))
            else:
                low, high, log, step = what
                high = low + int((high - low) / step + 1e-9) * step if step else high
                parameters.append(RangeParameterConfig(name=name, bounds=(low, high), parameter_type="float", step_size=step or None,
                                                       scaling="log" if log else "linear"))
        self.ax = Client(random_seed=seed)
        self.ax.configure_experiment(parameters=parameters)
        self.ax.configure_optimization(objective="-loss")
        self.ax.configure_generation_strategy(initialization_random_seed=seed)

    def trial(self):
        (index, values), = self.ax.get_next_trials(1).items()
        return Given(values, index)

    def tell(self, trial, value):
        if value is None:
            self.ax.mark_trial_failed(trial.proposal)
        else:
            self.ax.complete_trial(trial.proposal, raw_data={"loss": value})

    def close(self):
        pass


RIVALS = {"smac": Smac, "hebo": Hebo, "ax": Ax}
