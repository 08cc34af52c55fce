"""Writes what is beside it: the studies of make_study_db.py as Optuna makes them in PostgreSQL (study.sql, for psql), and what Optuna
reads in them (expect.txt).

    PGHOST=... PGPORT=... PGUSER=... python tests/vectors/optuna_postgres/make_study_postgres.py DATABASE     (an empty one; needs psycopg2 and pg_dump)
"""
import pathlib
import re
import subprocess
import sys
import warnings

import optuna

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from make_study_db import several, single  # noqa: E402
from study_dump import dump  # noqa: E402

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)


def main(database):
    url = f"postgresql+psycopg2:///{database}"
    (HERE / "expect.txt").write_text(dump(single(url, 2**31 - 1)) + dump(several(url)))
    optuna.load_study(study_name="two", storage=url)._storage.record_heartbeat(1)
    text = subprocess.run(["pg_dump", "--inserts", "-O", "-x", database], check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"--|\\|SET transaction_timeout", line)]
    (HERE / "study.sql").write_text("\n".join(lines) + "\n")
    print(f"{HERE / 'study.sql'}: {len(lines)} lines, optuna {optuna.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
