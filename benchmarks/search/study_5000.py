"""A study of 5,000 trials on disk, ours and Optuna's in one run: 10 mixed parameters, a trivial objective, TPE with full
history. Writes results/study_5000.md.

    python3 benchmarks/search/study_5000.py --program BUILD/benchmarks/bench_study --python PYTHON_WITH_OPTUNA

Optuna's 5,000 trials take some ten minutes; --optuna-trials N runs fewer and says so.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402

OPTUNA = '''
import json, math, os, sys, time, warnings
import optuna
warnings.simplefilter("ignore"); optuna.logging.set_verbosity(optuna.logging.ERROR)
path, trials = sys.argv[1], int(sys.argv[2])
def scaled(x, low, high, log=False):
    return math.log(x / low) / math.log(high / low) if log else (x - low) / (high - low)
def objective(t):
    u = [scaled(t.suggest_float("p0", 1e-6, 1e-3, log=True), 1e-6, 1e-3, True), scaled(t.suggest_float("p1", 0, 0.3), 0, 0.3),
         scaled(t.suggest_float("p2", 1e-8, 1e-1, log=True), 1e-8, 1e-1, True), scaled(t.suggest_float("p3", -5, 10), -5, 10),
         scaled(t.suggest_float("p4", 0, 1, step=0.05), 0, 1), scaled(t.suggest_int("p5", 128, 512, step=32), 128, 512),
         scaled(t.suggest_int("p6", 1, 1000, log=True), 1, 1000, True), scaled(t.suggest_int("p7", 1, 64), 1, 64),
         t.suggest_categorical("p8", list(range(7))) / 7, t.suggest_categorical("p9", list(range(3))) / 3]
    return sum((x - 0.3) ** 2 for x in u)
study = optuna.create_study(storage="sqlite:///" + path, sampler=optuna.samplers.TPESampler(seed=0))
wall, cpu, late = time.monotonic(), time.process_time(), 0.0
for n in range(trials):
    begin = time.process_time()
    study.optimize(objective, n_trials=1)
    if n >= trials - 100: late += time.process_time() - begin
print(json.dumps({"version": optuna.__version__, "trials": trials, "wall_seconds": time.monotonic() - wall,
                  "processor_seconds": time.process_time() - cpu, "late_ms_per_trial": 10 * late}))
'''


SETTINGS = [("joint, WAL, synchronous=NORMAL", []), ("joint, WAL, synchronous=FULL", ["full"]),
            ("one by one, WAL, synchronous=NORMAL", ["alone"])]


def ours(program, *words):
    return json.loads(subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout)


def optuna(python, trials):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory(dir=".") as directory:
        out = subprocess.run([python, "-c", OPTUNA, os.path.join(directory, "study.db"), str(trials)], check=True,
                             capture_output=True, text=True, env=environment).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--optuna-trials", type=int, default=5000)
    arguments = parser.parse_args()
    document = dict(common.provenance(), load_average_before=round(os.getloadavg()[0], 1))
    document["ftengine"] = [dict(ours(arguments.program, arguments.trials, *words), setting=name) for name, words in SETTINGS]
    document["optuna"] = other = optuna(arguments.python, arguments.optuna_trials)
    lines = common.title_lines(document, f"A study of {arguments.trials:,} trials on disk")
    lines += [
        "10 mixed parameters (4 floats, 1 stepped, 3 ints, 2 lists of choices), a trivial objective, 24 candidates, full",
        f"history. Load average {document['load_average_before']} before: other processes were running, which processor time",
        "suffers from less than wall time.", "",
        "| | trials | wall s | processor s | us a parameter, last 100 trials |", "|---|---|---|---|---|"]
    for r in document["ftengine"]:
        lines.append(f"| ftengine, {r['setting']} | {r['trials']} | {r['wall_seconds']:.1f} | {r['processor_seconds']:.1f} | "
                     f"{r['late_us_per_parameter']:.0f} |")
    lines += [f"| Optuna {other['version']}, SQLite as it comes | {other['trials']} | {other['wall_seconds']:.1f} | "
              f"{other['processor_seconds']:.1f} | {100 * other['late_ms_per_trial']:.0f} (a whole trial / 10) |", ""]
    lines += [f"- {r['setting']}: {r['equal']} of {r['checked']} checked values are those of the version that keeps nothing, "
              "to the bit." for r in document["ftengine"]]
    lines += [
        "- synchronous=NORMAL: kill -9 at any moment loses nothing that was committed. A power cut can lose the last commits,",
        "  back to the last checkpoint of the WAL, and never damages the file. FULL waits for the disk at each of the two",
        "  commits of a trial and loses nothing then either."]
    if arguments.optuna_trials < arguments.trials:
        lines += [f"- Optuna was given {arguments.optuna_trials:,} trials only. What a trial costs it grows with the history; "
                  "5,000 took it 502 s", "  on a machine of this kind without other work (2026-11-21; 266 s in memory)."]
    common.write_results(os.path.join(common.RESULTS, "study_5000"), document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
