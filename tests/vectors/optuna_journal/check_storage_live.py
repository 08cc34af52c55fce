"""Optuna and ftengine at work on one study at the same time, in PostgreSQL or in a journal: every trial once, numbers without gaps, and
both read the same. Needs Optuna (and psycopg2), so it is no part of `make test`.

    python tests/vectors/optuna_journal/check_storage_live.py FTENGINE BUILD_DIR/tests/hpo_test_storage postgresql://... | journal:FILE
"""
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings

import optuna

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from study_dump import dump  # noqa: E402

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
NAME, EACH, PROCESSES = "both", 25, 4
SPACE = {"x": {"name": "FloatDistribution", "attributes": {"low": -5, "high": 5, "log": False, "step": None}},
         "n": {"name": "IntDistribution", "attributes": {"low": 1, "high": 64, "log": True, "step": 1}},
         "kind": {"name": "CategoricalDistribution", "attributes": {"choices": ["a", True, None, 2.5]}}}


def storage_of(url):
    if url.startswith("journal:"):
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(url[len("journal:"):]))
    return url.replace("postgresql:", "postgresql+psycopg2:")


def value(p):
    return (p["x"] - 2) ** 2 + abs(p["n"] - 8) / 8 + (p["kind"] is not None)


def optunas(url, seed):
    study = optuna.load_study(study_name=NAME, storage=storage_of(url), sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=5))

    def objective(t):
        p = {"x": t.suggest_float("x", -5, 5), "n": t.suggest_int("n", 1, 64, log=True),
             "kind": t.suggest_categorical("kind", ["a", True, None, 2.5])}
        t.report(value(p) + 1, 1)
        t.set_user_attr("who", "optuna")
        return value(p)

    study.optimize(objective, n_trials=EACH)


def ours(program, url, seed, space):
    def study(*words):
        return json.loads(subprocess.run([program, "study", words[0], "--study", NAME, "--storage", url, *words[1:], "--json"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)
    for _ in range(EACH):
        t = study("ask", "--space", space, f"study.seed={seed}", "study.startup_trials=5")
        number = str(t["number"])
        study("tell", number, repr(value(t["params"]) + 1), "--step", "1")
        study("tell", number, repr(value(t["params"])))


def main(program, reader, url):
    subprocess.run([program, "study", "create", "--study", NAME, "--storage", url, "--direction", "minimize"], check=True)
    space = os.path.join(tempfile.mkdtemp(), "space.json")
    with open(space, "w", encoding="utf-8") as out:
        json.dump(SPACE, out)
    workers = [multiprocessing.Process(target=optunas, args=(url, i)) for i in range(PROCESSES)]
    workers += [multiprocessing.Process(target=ours, args=(program, url, 10 + i, space)) for i in range(PROCESSES)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert all(w.exitcode == 0 for w in workers), [w.exitcode for w in workers]
    study = optuna.load_study(study_name=NAME, storage=storage_of(url))
    trials = study.trials
    assert [t.number for t in trials] == list(range(2 * PROCESSES * EACH)), len(trials)
    assert all(t.state == optuna.trial.TrialState.COMPLETE and t.value == value(t.params) and t.intermediate_values == {1: t.value + 1}
               for t in trials)
    assert sum("who" in t.user_attrs for t in trials) == PROCESSES * EACH
    here = subprocess.run([reader, "dump", url], check=True, capture_output=True, text=True).stdout
    for a, b in zip(here.splitlines(), dump(study).splitlines()):
        assert a == b, f"ftengine '{a}', Optuna '{b}'"
    assert here == dump(study)
    print(f"{url.split(':')[0]}: {len(trials)} trials of {PROCESSES} processes of each, {here.count(chr(10))} equal lines")


if __name__ == "__main__":
    main(*sys.argv[1:])
