"""Opens study files written by ftengine in Optuna: what Optuna reads must be what was written, and Optuna must go on with
them. Needs Optuna, so it is no part of `make test`.

    /opt/ref/bin/python tests/vectors/check_storage.py BUILD_DIR/tests/hpo_test_storage
"""
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import warnings

import optuna

from study_dump import dump

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
HERE = pathlib.Path(__file__).parent
NAMES = ["größe \U0001F600", "two"]


def dump_here(program, path):
    return subprocess.run([program, "dump", path], check=True, capture_output=True, text=True).stdout


def dump_optuna(path):
    return "".join(dump(optuna.load_study(study_name=name, storage=f"sqlite:///{path}")) for name in NAMES)


def compare(here, there):
    for a, b in zip(here.splitlines(), there.splitlines()):
        assert a == b, f"ftengine '{a}', Optuna '{b}'"
    assert here == there
    return here.count("\n")


def schema(path):
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    return [(t, n, table, " ".join((sql or "").split()).replace(", ", ",").replace("( ", "(").replace(" )", ")"))
            for t, n, table, sql in rows]


def main(program):
    path = os.path.join(tempfile.mkdtemp(), "study.db")
    subprocess.run([program, "write", path], check=True)
    assert schema(path) == schema(HERE / "optuna_study" / "study.db"), "another schema"
    lines = compare(dump_here(program, path), dump_optuna(path))
    print(f"written by ftengine: Optuna {optuna.__version__} reads {lines} equal lines, the schema is equal")

    # Optuna continues both: its TPE reads everything, takes the queue, and adds trials; then it is read here again.
    storage = f"sqlite:///{path}"
    rate = optuna.distributions.FloatDistribution(1e-6, 1e-2, log=True)
    study = optuna.load_study(study_name=NAMES[0], storage=storage, sampler=optuna.samplers.TPESampler(n_startup_trials=1, seed=0))
    choices = next(t.distributions["optimizer"] for t in study.trials if "optimizer" in t.params)

    def objective(trial):
        trial.suggest_categorical("optimizer", choices.choices)
        trial.suggest_int("layers", 1, 1000, log=True)
        trial.report(0.5, 1)
        return trial.suggest_float("train.learning_rate", rate.low, rate.high, log=True)

    queued = [t.number for t in study.trials if t.state == optuna.trial.TrialState.WAITING]
    study.optimize(objective, n_trials=3)
    assert all(study.trials[n].state.is_finished() for n in queued) and len(queued) == 1
    assert study.best_trial.state == optuna.trial.TrialState.COMPLETE
    optuna.importance.get_param_importances(study)
    several = optuna.load_study(study_name=NAMES[1], storage=storage, sampler=optuna.samplers.TPESampler(n_startup_trials=1))
    several.optimize(lambda t: (t.suggest_float("dropout", 0, 0.5, step=0.1), 1.0), n_trials=2)
    lines = compare(dump_here(program, path), dump_optuna(path))
    print(f"continued by Optuna: {lines} equal lines")


if __name__ == "__main__":
    main(sys.argv[1])
