#!/usr/bin/env python3
"""What thawing a trial takes beside its load: the way through history, queue, directory and worker.

    python3 benchmarks/search/thaw_overhead.py [--write]       results go to benchmarks/results/thaw_overhead.json

A pruned trial with a checkpoint (study.keep_pruned) goes on in two ways, in turns, each from a fresh copy that is on the disk:

  train   `ftengine train RUN/config.ini output.exists=resume`: the load alone, and the start of a process
  tune    `ftengine study thaw`, which is timed by itself, and `ftengine tune --add 1`; "warm": of `--add 2` the second trial, in the worker
          and with the coordinator of the first one, from that one's end on

until "Training Start" stands in the run's log once more, which is looked at every millisecond: the state is loaded, and the next thing is a step. "added" is
tune, or warm, less train, round by round; "added processor" the same of processor time of all processes, which other programs move less. Run it on a machine
with nothing else to do; the disk counts too (--directory)."""

import argparse
import datetime
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, provenance  # noqa: E402

FIXTURE = os.path.join(ROOT, "tests", "vectors", "trainer")
MODELS = {"tiny": (f"{FIXTURE}/model", f"{FIXTURE}/train.tsv", f"{FIXTURE}/validation.tsv", 2000),
          "MiniLM": (f"{ROOT}/models/all-MiniLM-L6-v2", f"{ROOT}/data/reviews/train.tsv", None, 40)}
CONFIG = """[model]
path = {model}
[data]
train = {train}
validation = {validation}
max_length = 24
[train]
max_steps = {steps}
batch_size = 8
logging_steps = 1
[eval]
strategy = steps
steps = {every}
metric = accuracy
[study]
trials = 2
sampler = random
pruner = threshold
pruner_lower = 2
keep_pruned = 100GiB
[space]
train.learning_rate = float(1e-6, 1e-5, log)
"""


def median(values):
    return sorted(values)[len(values) // 2]


def processor(pid):
    """Seconds of a process, all its threads and its children."""
    seconds = 0.0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as f:
                seconds += int(f.read().split()[0]) / 1e9
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as f:
                seconds += sum(processor(child) for child in f.read().split())
    except OSError:
        pass  # one has gone meanwhile
    return seconds


class Bench:
    def __init__(self, options, directory, name):
        self.options, self.directory = options, directory
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(directory, "ledger"), XDG_CACHE_HOME=os.path.join(directory, "cache"))
        model, train, validation, steps = MODELS[name]
        if validation is None:  # 60 texts, so that an evaluation is no matter of seconds
            validation = os.path.join(directory, "validation.tsv")
            with open(train, encoding="utf-8") as whole, open(validation, "w", encoding="utf-8") as part:
                part.writelines(line for _, line in zip(range(61), whole))
        self.config = os.path.join(directory, "study.ini")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(model=model, train=train, validation=validation, steps=steps, every=steps // 2))
        self.template = os.path.join(directory, "template")
        self.call("tune", self.config, "--study", self.template, allow=1)
        if any(int(d[5:]) >= steps for n in (0, 1) for d in os.listdir(os.path.join(self.trial(self.template, n), "checkpoints"))):
            sys.exit(f"{name}: a trial was at its end before it was pruned")

    @staticmethod
    def trial(study, number):
        return os.path.join(study, "trials", f"{number:05}")

    def call(self, *arguments, allow=0):
        done = subprocess.run([self.options.ftengine, *arguments], cwd=self.directory, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode not in (0, allow):
            sys.exit(done.stderr)

    def copy(self):
        """All of it, whichever trial goes on: what the machine has in memory counts."""
        to = os.path.join(self.directory, "copy")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.template, to)
        os.sync()
        return to

    def wait(self, log, process):
        """The time at which the run goes on: its log has the lines of before."""
        while process.poll() is None:
            try:
                with open(log, encoding="utf-8") as f:
                    if f.read().count("Training Start: ") > 1:
                        return time.time()
            except FileNotFoundError:
                pass
            time.sleep(0.001)
        sys.exit(f"it ended and did not go on: {log}")

    def start(self, *arguments):
        return subprocess.Popen([self.options.ftengine, *arguments], cwd=self.directory, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def until(self, log, *arguments):
        began = time.time()
        process = self.start(*arguments)
        seconds, computed = self.wait(log, process) - began, processor(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return seconds, computed

    def train(self):
        run = self.trial(self.copy(), 0)
        return self.until(os.path.join(run, "train.log"), "train", os.path.join(run, "config.ini"), f"output.dir={run}", "output.exists=resume")

    def tune(self):
        study = self.copy()
        began = time.time()
        self.call("study", "thaw", study, "0")
        queued = time.time() - began
        return queued, *self.until(os.path.join(self.trial(study, 2), "train.log"), "tune", "--study", study, "--add", "1")

    def warm(self):
        study = self.copy()
        self.call("study", "thaw", study, "0", "1")
        process = self.start("tune", "--study", study, "--parallel", "1", "--add", "2")
        end = self.wait(os.path.join(self.trial(study, 3), "train.log"), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        told, = sqlite3.connect(os.path.join(study, "study.db")).execute("SELECT datetime_complete FROM trials WHERE number = 2").fetchone()
        return end - datetime.datetime.fromisoformat(told).replace(tzinfo=datetime.timezone.utc).timestamp()

    def measure(self):
        rows = [(*self.train(), *self.tune(), self.warm()) for _ in range(self.options.rounds + 1)][1:]  # the first fills caches
        train, computed, queued, tune, computed_tune, warm = zip(*rows)
        figures = {"train": train, "study thaw": queued, "tune": tune, "warm": warm, "added": [b - a for a, b in zip(train, tune)],
                   "added warm": [b - a for a, b in zip(train, warm)], "added processor": [b - a for a, b in zip(computed, computed_tune)]}
        return {key: {"median_s": round(median(v), 3), "least_s": round(min(v), 3), "most_s": round(max(v), 3)} for key, v in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--directory", help="where studies are made: the disk to measure")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    figures = {"rounds": options.rounds}
    for name in MODELS:
        directory = tempfile.mkdtemp(prefix="thaw-", dir=options.directory)
        try:
            bench = Bench(options, directory, name)
            figures[name] = {"checkpoint_bytes": sum(os.path.getsize(os.path.join(d, f)) for d, _, files in
                                                     os.walk(os.path.join(bench.trial(bench.template, 0), "checkpoints")) for f in files), **bench.measure()}
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    figures |= {"load": os.getloadavg()[0], "provenance": provenance()}
    text = json.dumps(figures, indent=1)
    print(text)
    if options.write:
        with open(os.path.join(RESULTS, "thaw_overhead.json"), "w", encoding="utf-8") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
