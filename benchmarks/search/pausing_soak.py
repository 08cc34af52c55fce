#!/usr/bin/env python3
"""Studies of real trainings of a tiny model whose trials are stopped and go on, while workers and the coordinator are killed.

    python3 benchmarks/search/pausing_soak.py                     100 trials each, twenty minutes on 2 cores
    python3 benchmarks/search/pausing_soak.py --trials 30 --python PYTHON_WITH_OPTUNA     Optuna reads them all the while
    python3 benchmarks/search/pausing_soak.py --only shares --write                       one of them; with --write the others' figures stay

paused  study.pruner = freeze_thaw: the search pauses trials and lets them go on
thawed  study.pruner = halving with study.keep_pruned: pruned trials are thawed by `ftengine study thaw`, drawn by chance
shares  the same with study.fidelity = data: they go on with the next share of the texts

What must hold, and the exit code says whether it does: every trial has ended once; the model of every completed trial is, byte for byte, that of
`ftengine train` with its configuration alone, without a stop, and so are its evaluations; enough trials were stopped, went on and were killed for that to
mean something; Optuna saw the paused ones as RUNNING with their values so far, and no trial that had ended changed before its eyes."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, provenance  # noqa: E402
from soak import FIXTURE, digest  # noqa: E402

CONFIG = f"""[model]
path = {FIXTURE}/model
hidden_dropout = 0.1
[data]
train = {FIXTURE}/train.tsv
validation = {FIXTURE}/validation.tsv
max_length = 24
[train]
max_steps = 60
[eval]
strategy = steps
steps = 10
metric = accuracy
[output]
save_steps = 7
[study]
keep = all
max_retries = 1000
max_failures = 0
keep_pruned = 1GiB
[space]
train.learning_rate = float(1e-5, 3e-3, log)
train.batch_size = choice(4, 8, 16)
train.lr_scheduler = choice(linear, cosine, constant)
train.seed = int(0, 99)
"""
STUDIES = {"paused": ["study.pruner=freeze_thaw", "study.sampler=auto"],
           "thawed": ["study.pruner=halving", "study.pruner_min_resource=10", "study.pruner_reduction_factor=2", "study.sampler=tpe"],
           "shares": ["study.fidelity=data", "study.pruner=halving", "study.pruner_reduction_factor=3", "study.sampler=tpe"]}
# Reads the study until its input ends, and says what it saw; what has ended must stay as it is.
OPTUNA = """
import json, sys, threading, time, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
looks = most = changed = 0
ended = {}
while True:
    last = done.is_set()
    study = optuna.load_study(study_name=sys.argv[2], storage="sqlite:///" + sys.argv[1])
    trials = study.get_trials(deepcopy=False)
    looks += 1
    most = max(most, sum(t.state.name == "RUNNING" and len(t.intermediate_values) > 0 for t in trials))
    for t in trials:
        if t.state.is_finished():
            now = (t.state.name, t.values, dict(t.intermediate_values), t.params)
            changed += ended.setdefault(t.number, now) != now
    if last: break
    time.sleep(0.3)
states = {}
for t in trials: states[t.state.name] = states.get(t.state.name, 0) + 1
print(json.dumps({"optuna": optuna.__version__, "looks": looks, "most_running_with_values": most, "changed": changed, "states": states,
                  "best": study.best_value}))
"""


def workers_of(pid):
    """Its child that plans the space is none: one that is killed there is taken for one that had no memory."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            for child in f.read().split():
                with open(f"/proc/{child}/cmdline", encoding="ascii", errors="replace") as words:
                    if words.read().split("\0")[:2] == ["ftengine", "worker"]:
                        found.append(int(child))
    except OSError:
        pass  # one has gone meanwhile
    return found


def evaluations(run):
    """Of a run, what it said of itself at every evaluation, but for its times."""
    said = []
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if "eval_accuracy" in row:
                said.append({k: v for k, v in row.items() if k in ("step", "eval_accuracy", "eval_loss")})
    return said


class Soak:
    def __init__(self, options, directory, name):
        self.options, self.place, self.name = options, directory, name
        self.random = random.Random(f"{options.seed} {name}")
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(directory, "ledger"), XDG_CACHE_HOME=os.path.join(directory, "cache"))
        self.study = os.path.join(directory, "studies", name)
        self.faults, self.thawed, self.errors = {}, [], []

    def run(self, *arguments):
        return subprocess.run([self.options.ftengine, *arguments], cwd=self.place, env=self.env, capture_output=True, text=True, check=False)

    def tune(self):
        command = [self.options.ftengine, "tune", "soak.ini", "--study", self.name, "--parallel", "2", "--trials", str(self.options.trials), *STUDIES[self.name]]
        with open(os.path.join(self.place, self.name + ".log"), "ab") as log:
            return subprocess.Popen(command, cwd=self.place, env=self.env, stdout=log, stderr=log)

    def trials(self):
        out = self.run("study", "export", self.name, "--format", "jsonl").stdout
        return [json.loads(line) for line in out.splitlines()][1:]

    def thaw(self):
        """By a person, of any trial that was pruned; such a person may come too late or ask twice, which is refused."""
        pruned = [t["number"] for t in self.trials() if t["state"] == "PRUNED"]
        number = self.random.choice(pruned) if pruned else None
        if number is not None and self.run("study", "thaw", self.name, str(number)).returncode == 0:
            self.thawed.append(number)

    def fault(self, coordinator):
        kinds = ["worker", "worker", "coordinator", "stop"] + (["thaw"] * 4 if self.name != "paused" else [])
        kind = self.random.choice(kinds)
        if kind == "thaw":
            self.thaw()
            return
        workers = workers_of(coordinator.pid)
        pid = coordinator.pid if kind != "worker" else self.random.choice(workers) if workers else None
        if pid is None or coordinator.poll() is not None:
            return
        try:
            os.kill(pid, signal.SIGTERM if kind == "stop" else signal.SIGKILL)
        except ProcessLookupError:
            return
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def watcher(self):
        database = os.path.join(self.study, "study.db")
        if not self.options.python:
            return None
        while not os.path.exists(database) or self.run("study", "show", self.name).returncode != 0:
            time.sleep(0.1)
        return subprocess.Popen([self.options.python, "-c", OPTUNA, database, self.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go(self):
        """Faults until every trial has ended; for the thawed ones a last round for those that wait."""
        found = []
        looker = threading.Thread(target=lambda: found.append(self.watcher()))
        looker.start()
        began = time.monotonic()
        while True:
            coordinator = self.tune()
            while coordinator.poll() is None:
                time.sleep(self.random.expovariate(1 / self.options.pause))
                if os.path.exists(os.path.join(self.study, "study.db")):
                    self.fault(coordinator)
            if coordinator.returncode not in (0, -signal.SIGKILL, -signal.SIGTERM, 143):
                with open(os.path.join(self.place, self.name + ".log"), encoding="utf-8", errors="replace") as f:
                    sys.exit(f"{self.name}: a coordinator ended with {coordinator.returncode}: {f.read()[-2000:]}")
            trials = self.trials()
            begun = sum(t["state"] in ("COMPLETE", "PRUNED", "FAIL") for t in trials)
            if coordinator.returncode == 0 and begun >= self.options.trials and begun == len(trials):
                break
            if coordinator.returncode == 0:  # what was thawed as the study ended
                self.options.trials = max(self.options.trials, len(trials))
        self.seconds = time.monotonic() - began
        looker.join()
        return found[0]

    def alone(self, number):
        run = os.path.join(self.place, "alone", self.name, str(number))
        told = self.run("train", os.path.join(self.study, "trials", f"{number:05}", "config.ini"), f"output.dir={run}", "data.shares=")
        if told.returncode != 0:
            sys.exit(told.stderr)
        return run

    def judge(self, watcher):
        trials = self.trials()
        states = {}
        for t in trials:
            states[t["state"]] = states.get(t["state"], 0) + 1
        if set(states) - {"COMPLETE", "PRUNED"}:
            self.errors.append(f"trials that did not end as they should: {states}")
        if [t["number"] for t in trials] != list(range(len(trials))):
            self.errors.append("numbers are missing")
        retries = 0
        for t in trials:
            retries += int(t["user_attributes"].get("retries", 0))
            if t["state"] != "COMPLETE":
                continue
            run, here = self.alone(t["number"]), os.path.join(self.study, "trials", f"{t['number']:05}", "share-1" if self.name == "shares" else "")
            if self.name == "shares" and list(t["intermediate_values"]) != ["1", "3", "9"]:
                self.errors.append(f"trial {t['number']} lacks the value of a share: {t['intermediate_values']}")
            if digest(os.path.join(run, "model", "model.safetensors")) != digest(os.path.join(here, "model", "model.safetensors")):
                self.errors.append(f"trial {t['number']} has another model than alone")
            if evaluations(run) != evaluations(here):
                self.errors.append(f"trial {t['number']} said something else on its way than alone")
        seen = None
        if watcher is not None:
            seen = json.loads(watcher.communicate("")[0])
            if seen["changed"] or seen["states"] != states:
                self.errors.append(f"Optuna saw {seen}, and it is {states}")
            if self.name == "paused" and seen["most_running_with_values"] <= 2:
                self.errors.append("Optuna saw no paused trial")
        if sum(self.faults.values()) < self.options.trials / 10 or (self.name != "paused" and len(self.thawed) < self.options.trials / 20):
            self.errors.append(f"too little happened: {self.faults}, {len(self.thawed)} thawed")
        return {"trials": len(trials), "states": states, "faults": self.faults, "thawed_by_a_person": len(self.thawed), "retries": retries,
                "seconds": round(self.seconds, 1), "optuna": seen, "errors": self.errors}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.6, help="seconds between two faults, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", help="one with Optuna, which then reads both studies all the while")
    parser.add_argument("--only", choices=list(STUDIES))
    parser.add_argument("--write", action="store_true", help="results go to benchmarks/results/pausing_soak.json")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    figures, path = {}, os.path.join(RESULTS, "pausing_soak.json")
    names = [options.only] if options.only else list(STUDIES)
    with tempfile.TemporaryDirectory(prefix="pausing-") as directory:
        with open(os.path.join(directory, "soak.ini"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        for name in names:
            soak = Soak(argparse.Namespace(**vars(options)), directory, name)
            figures[name] = soak.judge(soak.go())
            print(name, json.dumps(figures[name], indent=1), flush=True)
            figures[name]["provenance"] = provenance()
    if options.write:
        before = {}
        if options.only:
            with open(path, encoding="utf-8") as f:
                before = json.load(f)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(before | figures, f, indent=1)
            f.write("\n")
    sys.exit(1 if any(figures[name]["errors"] for name in names) else 0)


if __name__ == "__main__":
    main()
