"""A study of 5,000 trials in PostgreSQL on this machine, ours and Optuna's on the same server: 10 mixed parameters, a trivial
objective, TPE with full history, every commit on the disk. Writes results/study_postgres.md.

    python3 benchmarks/search/study_postgres.py --program BUILD/benchmarks/bench_study --python PYTHON_WITH_OPTUNA_AND_PSYCOPG2

The server is started in a directory here, on a real disk, by the distribution's programs (apt-get install postgresql), with its own
settings but for the port; pg_stat_statements counts what each sends.
"""
import argparse
import glob
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402
import study_5000  # noqa: E402

PORT = "54329"


class Server:
    """A server in a directory that goes with it."""

    def __init__(self, where):
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[4]))[-1]
        self.directory = tempfile.mkdtemp(prefix="study_postgres_", dir=where)
        os.chmod(self.directory, 0o755)
        self.prefix = []
        if os.getuid() == 0:  # which it refuses to work for
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        self.run("initdb", "-D", f"{self.directory}/data", "-A", "trust", "-U", "ft", "-E", "UTF8", "--locale=C")
        with open(f"{self.directory}/data/postgresql.conf", "a", encoding="utf-8") as out:
            out.write(f"port = {PORT}\nlisten_addresses = ''\nunix_socket_directories = '{self.directory}'\n"
                      "shared_preload_libraries = 'pg_stat_statements'\n")
        self.run("pg_ctl", "-D", f"{self.directory}/data", "-w", "-l", f"{self.directory}/data/log", "start")

    def run(self, name, *words):
        return subprocess.run([*self.prefix, f"{self.bin}/{name}", *words], check=True, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL if name == "pg_ctl" else subprocess.PIPE, text=True).stdout

    def ask(self, database, sql):
        return self.run("psql", "-X", "-q", "-A", "-t", "-h", self.directory, "-p", PORT, "-U", "ft", "-d", database, "-c", sql).strip()

    def fresh(self, name):
        self.ask("postgres", f"CREATE DATABASE {name}")
        self.ask(name, "CREATE EXTENSION pg_stat_statements")
        self.ask(name, "SELECT pg_stat_statements_reset()")
        return f"postgresql://ft@/{name}?host={self.directory}&port={PORT}"

    def statements(self, name):
        return int(self.ask(name, "SELECT sum(calls) FROM pg_stat_statements JOIN pg_database ON oid = dbid WHERE datname = current_database()"))

    def close(self):
        self.run("pg_ctl", "-D", f"{self.directory}/data", "-w", "-m", "fast", "stop")
        shutil.rmtree(self.directory)


def optuna(python, url, trials):
    script = study_5000.OPTUNA.replace('storage="sqlite:///" + path', "storage=path")
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    out = subprocess.run([python, "-c", script, url.replace("postgresql:", "postgresql+psycopg2:"), str(trials)], check=True,
                         capture_output=True, text=True, env=environment).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--optuna-trials", type=int, default=1000)
    parser.add_argument("--where", default=os.getcwd(), help="a directory on the disk that counts")
    arguments = parser.parse_args()
    document = dict(common.provenance(), load_average_before=round(os.getloadavg()[0], 1))
    server = Server(arguments.where)
    try:
        document["server"] = server.ask("postgres", "SHOW server_version")
        url = server.fresh("ours")
        document["ftengine"] = r = study_5000.ours(arguments.program, arguments.trials, url)
        r["statements"] = server.statements("ours")
        url = server.fresh("theirs")
        document["optuna"] = other = optuna(arguments.python, url, arguments.optuna_trials)
        other["statements"] = server.statements("theirs")
    finally:
        server.close()
    lines = common.title_lines(document, f"A study of {arguments.trials:,} trials in PostgreSQL")
    lines += [
        f"PostgreSQL {document['server']} on the same machine, over a Unix socket, every commit on the disk. 10 mixed parameters (4 floats,",
        "1 stepped, 3 ints, 2 lists of choices), a trivial objective, 24 candidates, full history. Load average",
        f"{document['load_average_before']} before. Statements as pg_stat_statements counts them.", "",
        "| | trials | wall s | ms a trial | statements a trial | round trips a trial |", "|---|---|---|---|---|---|",
        f"| ftengine | {r['trials']} | {r['wall_seconds']:.1f} | {1000 * r['wall_seconds'] / r['trials']:.2f} | "
        f"{r['statements'] / r['trials']:.1f} | {r['round_trips'] / r['trials']:.1f} |",
        f"| Optuna {other['version']}, psycopg2 | {other['trials']} | {other['wall_seconds']:.1f} | "
        f"{1000 * other['wall_seconds'] / other['trials']:.2f} | {other['statements'] / other['trials']:.1f} | as many |", "",
        f"- {r['equal']} of {r['checked']} checked values are those of the version that keeps nothing, to the bit."]
    if arguments.optuna_trials < arguments.trials:
        lines += [f"- Optuna was given {arguments.optuna_trials:,} trials only; what a trial costs it grows with the history."]
    common.write_results(os.path.join(common.RESULTS, "study_postgres"), document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
