#!/usr/bin/env python3
"""What a trial costs besides its training: the way through coordinator, worker, planner and admission.

    python3 benchmarks/search/trial_overhead.py [--write]       results go to benchmarks/results/trial_overhead.json

  trial        from the end of one trial to the end of the next, one worker, a tiny model trained for one step: the most that
               the overhead can be, for the step, an evaluation of 60 texts and the saving of the model are in it
  first step   from a trial's admission to the begin of its first step, and to the end of it, in a worker that has had a trial
               of this model before; by the worker's messages and log, seen with strace
  idle         processor time of a coordinator whose two workers train, as a share of the time

Run it on a machine with nothing else to do; the disk counts too (--directory).
"""

import argparse
import datetime
import json
import os
import re
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
TINY = f"""[model]
path = {FIXTURE}/model
[data]
train = {FIXTURE}/train.tsv
validation = {FIXTURE}/validation.tsv
max_length = 24
[train]
max_steps = 1
[eval]
metric = accuracy
[study]
sampler = random
pruner = none
[space]
train.learning_rate = float(1e-5, 1e-2, log)
"""


def median(values):
    return sorted(values)[len(values) // 2]


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(directory, "ledger"))
        self.tiny = os.path.join(directory, "tiny.ini")
        with open(self.tiny, "w", encoding="utf-8") as f:
            f.write(TINY)

    def tune(self, config, name, *arguments):
        return [self.options.ftengine, "tune", config, "--study", os.path.join(self.directory, name), *arguments]

    def run(self, command):
        done = subprocess.run(command, cwd=self.directory, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)

    def trial(self):
        self.run(self.tune(self.tiny, "trials", "--trials", str(self.options.trials)))
        database = sqlite3.connect(os.path.join(self.directory, "trials", "study.db"))
        ends = [datetime.datetime.fromisoformat(end) for (end,) in
                database.execute("SELECT datetime_complete FROM trials ORDER BY number")]
        times = [1000 * (b - a).total_seconds() for a, b in zip(ends, ends[1:])]
        return {"trials": len(ends), "median_ms": round(median(times), 2), "least_ms": round(min(times), 2),
                "most_ms": round(max(times), 2)}

    def first_step(self):
        if shutil.which("strace") is None or not os.path.exists(self.options.config):
            return None
        trace = os.path.join(self.directory, "trace")
        command = self.tune(self.options.config, "first", "--trials", "5", "train.max_steps=2", "train.logging_steps=1",
                            "eval.strategy=epoch", "study.pruner=none")
        self.run(["strace", "-f", "-ttt", "-e", "trace=sendto,write", "-s", "120", "-o", trace, *command])
        entered, begun, ended = 0, [], []
        with open(trace, encoding="utf-8", errors="replace") as f:
            for line in f:
                now = float(line.split()[1])
                step = re.search(r'\\"is\\":\\"alive\\",\\"step\\":(\d+)', line)
                if '\\"is\\":\\"entered\\"' in line:
                    entered = now
                elif " - Training Start: " in line:
                    begun.append(now - entered)
                elif step is not None and int(step.group(1)) >= 1 and len(ended) < len(begun):
                    ended.append(now - entered)
        # The worker of the first one had just been started.
        return {"config": os.path.relpath(self.options.config, ROOT), "cold_begin_s": round(begun[0], 3),
                "warm_begin_median_s": round(median(begun[1:]), 3), "warm_begin_most_s": round(max(begun[1:]), 3),
                "warm_end_median_s": round(median(ended[1:]), 3)}

    def idle(self):
        command = self.tune(self.tiny, "idle", "--parallel", "2", "train.max_steps=100000000", "eval.strategy=steps",
                            "eval.steps=100000000")
        coordinator = subprocess.Popen(command, cwd=self.directory, env=self.env, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)

        def used():
            with open(f"/proc/{coordinator.pid}/stat", encoding="ascii") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        time.sleep(3)
        before, began = used(), time.monotonic()
        time.sleep(self.options.seconds)
        share = (used() - before) / (time.monotonic() - began)
        coordinator.send_signal(signal.SIGKILL)  # its workers go with it
        coordinator.wait()
        return {"seconds": self.options.seconds, "percent": round(100 * share, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "tune.ini"), help="of the first step")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20, help="to look at an idle coordinator")
    parser.add_argument("--directory", help="where studies are made: the disk to measure")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    directory = tempfile.mkdtemp(prefix="overhead-", dir=options.directory)
    try:
        bench = Bench(options, directory)
        figures = {"trial": bench.trial(), "first_step": bench.first_step(), "idle": bench.idle(),
                   "load": os.getloadavg()[0], "provenance": provenance()}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.write:
        with open(os.path.join(RESULTS, "trial_overhead.json"), "w", encoding="utf-8") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
