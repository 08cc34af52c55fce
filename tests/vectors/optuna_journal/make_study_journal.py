"""Writes what is beside it: the studies of make_study_db.py as Optuna makes them in a journal (study.log), and what Optuna reads in them
(expect.txt).

    python tests/vectors/optuna_journal/make_study_journal.py
"""
import pathlib
import sys
import warnings

import optuna

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from make_study_db import several, single  # noqa: E402
from study_dump import dump  # noqa: E402

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)


def main():
    path = HERE / "study.log"
    path.unlink(missing_ok=True)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    (HERE / "expect.txt").write_text(dump(single(storage, 2**31 - 1)) + dump(several(storage)))
    print(f"{path}: {path.stat().st_size} bytes, optuna {optuna.__version__}")


if __name__ == "__main__":
    main()
