#!/usr/bin/env python3
"""ftengine.optuna.Sampler: Optuna's own tests of samplers; the values of `ftengine study ask`, to the bit; the same seed in another process, after a
pickle, from a file, with trials that others added; constraints, pruned, failed, waiting and running trials; several objectives; threads."""
# ctest: sanitize=leave

import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import wheel_site

try:
    import optuna
    import pytest
    from optuna.testing.pytest_samplers import BasicSamplerTestCase, MultiObjectiveSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOURCE = Path(os.environ["SOURCE_DIR"])
wheel_site.use()

from ftengine.optuna import Sampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
SMALL = {"startup_trials": 3}  # so that 10 trials are searched for, too


# ---- Optuna's own; nothing is left out ------------------------------------------------------------------------------


class TestTpe(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler(seed=1, **SMALL)


class TestGroups(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler(seed=1, group=True, **SMALL)


class TestAuto(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler("auto", seed=1, **SMALL)


class TestRandom(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler("random", seed=1)


class TestQuasiRandom(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler("quasi_random", seed=1)


class TestGp(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: Sampler("gp", seed=1, **SMALL)


# ---- ours -----------------------------------------------------------------------------------------------------------

KINDS = ["tpe", "auto", "gp", "cmaes", "random", "quasi_random"]


def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    size = trial.suggest_int("size", 8, 64, step=8)
    loss = (x - 1) ** 2 + abs(math.log10(rate) + 3) + size / 64
    if trial.suggest_categorical("kind", ["plain", "deep"]) == "deep":
        loss += (trial.suggest_float("depth", 0, 1, step=0.1) - 0.3) ** 2 - 0.5
    if trial.number % 7 == 5:
        trial.report(loss, 3)
        raise optuna.TrialPruned()
    return float("nan") if trial.number % 11 == 9 else loss


def run(sampler, trials=30, **more):
    study = optuna.create_study(sampler=sampler, **more)
    study.optimize(objective, n_trials=trials, catch=())
    return study


def params(study):
    return [trial.params for trial in study.get_trials(deepcopy=False)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_is_a_study(kind):
    first = params(run(Sampler(kind, seed=5, **SMALL)))
    assert params(run(Sampler(kind, seed=5, **SMALL))) == first
    assert params(run(Sampler(kind, seed=6, **SMALL))) != first
    assert any("depth" in p for p in first) and any("depth" not in p for p in first)


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_from_a_file(kind, tmp_path):
    whole = params(run(Sampler(kind, seed=5, **SMALL)))
    storage = f"sqlite:///{tmp_path}/study.db"
    study = run(Sampler(kind, seed=5, **SMALL), 14, storage=storage, study_name="s")
    del study
    sampler = pickle.loads(pickle.dumps(Sampler(kind, seed=5, **SMALL)))
    later = optuna.load_study(study_name="s", storage=storage, sampler=sampler)
    later.optimize(objective, n_trials=16)
    assert params(later) == whole
    pickled = pickle.loads(pickle.dumps(later.sampler))  # in the midst of a study
    assert pickled.seed == 5 and params(run(pickled)) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_study_ask_says(kind, tmp_path):
    """The program keeps the history in SQLite and knows nothing of Optuna; the values are the same doubles."""
    d = optuna.distributions
    space = {"x": d.FloatDistribution(-5, 5), "rate": d.FloatDistribution(1e-5, 1e-1, log=True), "size": d.IntDistribution(8, 64, step=8),
             "kind": d.CategoricalDistribution(["plain", "deep"])}  # fmt: skip
    (tmp_path / "space.json").write_text(json.dumps({name: json.loads(d.distribution_to_json(one)) for name, one in space.items()}))

    def program(*words):
        done = subprocess.run([os.environ["FTENGINE"], "study", *map(str, words), "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    program("create", "--study", "s", "--direction", "maximize")
    study = optuna.create_study(direction="maximize", sampler=Sampler(kind, seed=42))
    for number in range(25):
        theirs = program("ask", "s", "--space", "space.json", f"study.sampler={kind}")
        trial = study.ask()
        ours = {
            "x": trial.suggest_float("x", -5, 5), "rate": trial.suggest_float("rate", 1e-5, 1e-1, log=True),
            "size": trial.suggest_int("size", 8, 64, step=8), "kind": trial.suggest_categorical("kind", ["plain", "deep"]),
        }  # fmt: skip
        assert theirs["number"] == number and theirs["params"] == ours, number
        if number % 6 == 4:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            program("tell", "s", number, "--state", "fail")
            continue
        value = -((ours["x"] - 1) ** 2) - ours["size"] / 64
        study.tell(trial, value)
        program("tell", "s", number, repr(value))


def test_only_what_is_new_is_told(monkeypatch):
    sampler = Sampler(seed=5, **SMALL)
    told = []
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=1)
    call = sampler._mirror.calls["tell"]
    sampler._mirror.calls["tell"] = lambda *words: told.append(1) or call(*words)
    study.optimize(objective, n_trials=40)
    assert len(told) <= 40 * 6  # begun, ended, and at most what was asked for one by one


def test_trials_of_others_count():
    study = optuna.create_study(sampler=Sampler(seed=5, **SMALL))
    distribution = optuna.distributions.FloatDistribution(-5, 5)
    for i in range(30):
        x = -5 + 10 * i / 29
        study.add_trial(optuna.create_trial(params={"x": x}, distributions={"x": distribution}, value=(x - 2) ** 2))
    study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, n_trials=10)
    near = [abs(t.params["x"] - 2) for t in study.trials[30:]]
    assert sorted(near)[5] < 1, near


def test_constraints():
    def limited(trial):
        x = trial.suggest_float("x", 0, 10)
        trial.set_user_attr("excess", x - 3)
        return -x

    free = optuna.create_study(sampler=Sampler(seed=3))
    free.optimize(limited, n_trials=60)
    kept = optuna.create_study(sampler=Sampler(seed=3, constraints_func=lambda trial: (trial.user_attrs["excess"],)))
    kept.optimize(limited, n_trials=60)
    assert sum(t.params["x"] <= 3 for t in free.trials[30:]) < 5
    assert sum(t.params["x"] <= 3 for t in kept.trials[30:]) > 15
    if hasattr(optuna.Trial, "set_constraint"):
        named = optuna.create_study(sampler=Sampler(seed=3))

        def limited_by_name(trial):
            value = limited(trial)
            trial.set_constraint("excess", -value - 3)
            return value

        named.optimize(limited_by_name, n_trials=60)
        assert params(named) == params(kept)
    with pytest.raises(ValueError):
        optuna.create_study(sampler=Sampler(seed=3, constraints_func=lambda trial: (float("nan"),))).optimize(limited, n_trials=1)


def test_running_waiting_and_failed_trials():
    def f(trial):
        return (trial.suggest_float("x", -5, 5) - 2) ** 2

    study = optuna.create_study(sampler=Sampler(seed=4, **SMALL))
    study.optimize(f, n_trials=12)
    study.enqueue_trial({"x": 4.5})
    running = [study.ask() for _ in range(6)]
    values = [trial.suggest_float("x", -5, 5) for trial in running]
    assert values[0] == 4.5
    assert min(abs(a - b) for i, a in enumerate(values) for b in values[:i]) > 1e-3  # those that run are kept away from
    for trial in running[1:4]:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    study.tell(running[0], 1.0)
    study.optimize(f, n_trials=10)
    assert study.best_value < 0.2


def test_several_objectives():
    def f(trial):
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        return x**2 + y, (x - 1) ** 2 + y

    study = optuna.create_study(directions=["minimize", "minimize"], sampler=Sampler(seed=4))
    study.optimize(f, n_trials=80)
    assert sum(t.params["y"] < 0.2 for t in study.trials[40:]) > 20
    with pytest.raises(ValueError):
        optuna.create_study(directions=["minimize"] * 2, sampler=Sampler("gp")).optimize(f, n_trials=1)


def test_threads():
    study = optuna.create_study(sampler=Sampler(seed=4, **SMALL))
    study.optimize(objective, n_trials=60, n_jobs=4)
    drawn = [tuple(p.items()) for p in params(study)]
    assert len(drawn) == 60 and len(set(drawn)) == 60


def test_hyperband_sees_all_trials():
    def f(trial):
        x = trial.suggest_float("x", -5, 5)
        for step in range(9):
            trial.report((x - 2) ** 2, step)
            if trial.should_prune():
                raise optuna.TrialPruned()
        return (x - 2) ** 2

    study = optuna.create_study(sampler=Sampler(seed=4), pruner=optuna.pruners.HyperbandPruner(max_resource=9))
    study.optimize(f, n_trials=40)
    assert study.best_value < 0.1


def test_choices_of_any_kind():
    things = [None, True, 2.5, "text", float("nan")]
    study = optuna.create_study(sampler=Sampler(seed=4, **SMALL))
    study.optimize(lambda trial: repr(trial.suggest_categorical("c", things)) != "'text'", n_trials=25)
    assert study.best_params == {"c": "text"}


@pytest.mark.parametrize("words", [{"kind": "grid"}, {"kind": "bayes"}, {"no_such_option": 1}, {"candidates": 0}])
def test_what_cannot_be_meant(words):
    with pytest.raises(ValueError):
        Sampler(**words)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ftengine-optuna-") as scratch:
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={scratch}", f"--basetemp={scratch}/tests", __file__]))
