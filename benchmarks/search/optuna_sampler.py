"""What a trial costs in Optuna with ftengine.optuna.Sampler, beside Optuna's TPE and random sampling: 1,000 trials of a cheap function, in memory,
each in a process of its own, in turns. Writes results/optuna_sampler.md.

    FTENGINE_LIBRARY=build/libftengine.so python3 benchmarks/search/optuna_sampler.py --python PYTHON_WITH_OPTUNA
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402

WORK = '''
import json, sys, time, warnings
import optuna
warnings.simplefilter("ignore"); optuna.logging.set_verbosity(optuna.logging.ERROR)
name, space, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
def floats(count):
    return lambda t: sum((t.suggest_float(f"x{i}", -5, 5) - 1) ** 2 for i in range(count))
def mixed(t):
    value = (t.suggest_float("rate", 1e-6, 1e-2, log=True) - 1e-4) ** 2 + t.suggest_int("size", 8, 512, step=8) / 512 + t.suggest_float("drop", 0, 1, step=0.05)
    return value + (t.suggest_float("deep", 0, 1) if t.suggest_categorical("kind", ["a", "b", "c"]) == "b" else 0.5)
objective = {"1 float": floats(1), "5 floats": floats(5), "mixed, with a branch": mixed}[space]
if name == "ftengine":
    from ftengine.optuna import Sampler
    sampler = Sampler(seed=0)
else:
    sampler = {"Optuna TPE": lambda: optuna.samplers.TPESampler(seed=0), "Optuna random": lambda: optuna.samplers.RandomSampler(seed=0),
               "Optuna multivariate TPE": lambda: optuna.samplers.TPESampler(seed=0, multivariate=True)}[name]()
study = optuna.create_study(sampler=sampler)
wall, cpu = time.perf_counter(), time.process_time()
study.optimize(objective, n_trials=trials)
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "best": study.best_value, "version": optuna.__version__}))
'''
NAMES = ["ftengine", "Optuna random", "Optuna TPE", "Optuna multivariate TPE"]
SPACES = ["1 float", "5 floats", "mixed, with a branch"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONPATH=os.path.join(common.ROOT, "python"))
    document = dict(common.provenance(), load_average_before=round(os.getloadavg()[0], 1), trials=arguments.trials, rounds=arguments.rounds, results=[])
    for space in SPACES:
        times = {name: [] for name in NAMES}
        for _ in range(arguments.rounds):
            for name in NAMES:
                command = [arguments.python, "-c", WORK, name, space, str(arguments.trials)]
                done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
                times[name].append(done)
        for name in NAMES:
            document["results"].append({"space": space, "sampler": name, "version": times[name][0]["version"], "best": times[name][0]["best"],
                                        "wall_seconds": [t["wall"] for t in times[name]], "processor_seconds": [t["cpu"] for t in times[name]]})  # fmt: skip
    lines = common.title_lines(document, f"{arguments.trials:,} trials of a cheap function in Optuna, by sampler")
    lines += ["In memory; the median of the rounds, processor seconds of the whole process, which start only with the study. The figure that is wanted: at most a tenth",
              "of Optuna's TPE, and at most three times random sampling.", "",
              "| space | sampler | processor s | wall s | of Optuna's TPE | of random | best value |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    median = {(r["space"], r["sampler"]): statistics.median(r["processor_seconds"]) for r in document["results"]}
    for r in document["results"]:
        own = median[r["space"], r["sampler"]]
        lines.append(f"| {r['space']} | {r['sampler']} | {own:.2f} | {statistics.median(r['wall_seconds']):.2f} | {own / median[r['space'], 'Optuna TPE']:.3f} | "
                     f"{own / median[r['space'], 'Optuna random']:.2f} | {r['best']:.4g} |")  # fmt: skip
    common.write_results(os.path.join(common.RESULTS, "optuna_sampler"), document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
