"""Writes optuna_journal/: the studies of make_study_db.py as Optuna makes them in a journal (study.log), and what Optuna reads in them
(expect.txt).

    python tests/vectors/make_study_journal.py
"""
import pathlib
import warnings

import optuna

from make_study_db import several, single
from study_dump import dump

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
HERE = pathlib.Path(__file__).parent / "optuna_journal"


def main():
    HERE.mkdir(exist_ok=True)
    path = HERE / "study.log"
    path.unlink(missing_ok=True)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    (HERE / "expect.txt").write_text(dump(single(storage, 2**31 - 1)) + dump(several(storage)))
    print(f"{path}: {path.stat().st_size} bytes, optuna {optuna.__version__}")


if __name__ == "__main__":
    main()
