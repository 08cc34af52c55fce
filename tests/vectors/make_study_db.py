"""Writes optuna_study/: study.db as Optuna makes it (two studies with all that a trial can hold) and what Optuna reads in it.

    /opt/ref/bin/python tests/vectors/make_study_db.py
"""
import pathlib
import sqlite3
import warnings

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import SuccessiveHalvingPruner
from optuna.trial import TrialState, create_trial

from study_dump import dump

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
HERE = pathlib.Path(__file__).parent / "optuna_study"


def single(url, far=2**40):  # the largest step, which is 32 bits wide in other databases
    sampler = optuna.samplers.TPESampler(seed=3, multivariate=True, n_startup_trials=4)
    study = optuna.create_study(storage=url, study_name="ein Näme \U0001F600", direction="maximize", sampler=sampler,
                                pruner=SuccessiveHalvingPruner(1, 2))
    study.set_metric_names(["eval.accuracy"])
    study.set_user_attr("config", {"nested": [1, None, "ü\n\"\\"], "nan": float("nan")})

    def objective(trial):
        lr = trial.suggest_float("train.learning_rate", 1e-6, 1e-2, log=True)
        dropout = trial.suggest_float("dropout", 0, 0.55, step=0.1)
        length = trial.suggest_int("data.max_length", 128, 512, step=32)
        layers = trial.suggest_int("layers", 1, 1000, log=True)
        optimizer = trial.suggest_categorical("optimizer", ["adamw", None, True, 2, 0.5, float("inf"), "ä\U0001F600\n"])
        trial.suggest_float("plain", -1, 1)
        if trial.number % 3 == 0:
            trial.suggest_int("only.sometimes", -5, 5 + trial.number)
        if trial.number == 2:
            trial.report(float("nan"), 7)
        for step in range(0, 8, 2):
            trial.report(dropout + step * lr if trial.number != 4 else float("-inf"), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr("seconds", length / 7)
        trial.set_constraint("memory", float(layers - 500))
        if trial.number == 5:
            raise RuntimeError
        return float("inf") if trial.number == 6 else dropout * (1 if optimizer is None else 2)

    study.optimize(objective, n_trials=9, catch=(RuntimeError,))
    old = create_trial(params={"plain": 0.25}, distributions={"plain": FloatDistribution(-1, 1)}, value=0.5,
                       system_attrs={"constraints": [0.5, -1.0, float("inf")], "constraints:1": 2.0})
    study.add_trial(old)
    study.add_trial(create_trial(state=TrialState.PRUNED, params={"optimizer": 2},
                                 distributions={"optimizer": CategoricalDistribution(
                                     ["adamw", None, True, 2, 0.5, float("inf"), "ä\U0001F600\n"])},
                                 intermediate_values={0: 1.0, far: 2.0}))
    study.enqueue_trial({"plain": 0.125, "optimizer": None, "layers": 3}, user_attrs={"why": "it was good"})
    study.enqueue_trial({})
    running = study.ask()  # takes the first of the queue
    running.suggest_float("train.learning_rate", 1e-6, 1e-2, log=True)
    return study


def several(url):
    study = optuna.create_study(storage=url, study_name="two", directions=["minimize", "maximize"])
    study.optimize(lambda t: (t.suggest_float("x", 0, 1), t.suggest_int("y", 0, 9)), n_trials=3)
    study.add_trial(create_trial(state=TrialState.FAIL, params={"y": 4}, distributions={"y": IntDistribution(0, 9)}))
    study.ask()
    return study


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    path = HERE / "study.db"
    path.unlink(missing_ok=True)
    url = f"sqlite:///{path}"
    (HERE / "expect.txt").write_text(dump(single(url)) + dump(several(url)))
    # Optuna wrote these names until 2022.
    text = (HERE / "expect.txt").read_text()
    with sqlite3.connect(path) as db:
        db.execute("""UPDATE trial_params SET distribution_json = '{"name": "UniformDistribution", "attributes": """
                   """{"low": -1.0, "high": 1.0}}' WHERE param_name = 'plain' AND trial_id = 2""")
        db.execute("""UPDATE trial_params SET distribution_json = '{"name": "LogUniformDistribution", "attributes": """
                   """{"low": 1e-06, "high": 0.01}}' WHERE param_name = 'train.learning_rate' AND trial_id = 3""")
        db.execute("""UPDATE trial_params SET distribution_json = '{"name": "DiscreteUniformDistribution", "attributes": """
                   """{"low": 0.0, "high": 0.5, "q": 0.1}}' WHERE param_name = 'dropout' AND trial_id = 2""")
        db.execute("""UPDATE trial_params SET distribution_json = '{"name": "IntUniformDistribution", "attributes": """
                   """{"low": 128, "high": 512, "step": 32}}' WHERE param_name = 'data.max_length' AND trial_id = 3""")
        db.execute("""UPDATE trial_params SET distribution_json = '{"name": "IntLogUniformDistribution", "attributes": """
                   """{"low": 1, "high": 1000, "step": 1}}' WHERE param_name = 'layers' AND trial_id = 1""")
    again = "".join(dump(optuna.load_study(study_name=name, storage=url)) for name in ("ein Näme \U0001F600", "two"))
    assert again == text, "the old names mean something else"
    print(f"{path}: {path.stat().st_size} bytes, {text.count(chr(10) + 'trial ')} trials, optuna {optuna.__version__}")
