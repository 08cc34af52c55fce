#!/usr/bin/env python3
"""A study left alone: thousands of real trainings of a tiny model by four workers, under a limit that only some of them fit
together, while workers and the coordinator are killed, crash and hang, the database is locked, workers get no memory from the
kernel, and the disk is full for a while. The disk is a small one of its own, which needs root or user namespaces; without either
that fault is left out, and the result says so.

    python3 benchmarks/search/soak.py                       5,000 trials: 5 minutes with --pause 0.3 on 2 quiet cores
    python3 benchmarks/search/soak.py --trials 60           minutes
    python3 benchmarks/search/soak.py --seed 7 --keep DIR   the same faults at the same moments, as far as the machine allows
    python3 benchmarks/search/soak.py --coordinators 2      that many on the one study, with two workers each

What must hold, and the exit code says whether it does:

  finished    every trial has ended once: numbers 0 .. N-1, as many as were asked for, none RUNNING
  weights     the model of every completed trial is, byte for byte, that of `ftengine train` with its configuration alone
  limit       the reservations in the device's ledger, looked at by another process all the while, never exceed the limit
  memory      the resident memory of workers that live long does not grow; one worker of each coordinator is spared what kills
              workers, so that there are such, and it is an error when a long soak has seen none
  disk        what the study keeps on disk is bounded: models are looked at and removed as they come
  OOM         a trial that a worker had no memory for has been PRUNED with all that is recorded of such a trial; there are no
              more of them than there were refusals
  full disk   the study has said that it is paused, and has gone on by itself: no coordinator ends but by a kill or at the end
"""

import argparse
import errno
import hashlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, provenance  # noqa: E402

FIXTURE = os.path.join(ROOT, "tests", "vectors", "trainer")
CONFIG = f"""[model]
path = {FIXTURE}/model
hidden_dropout = 0.1
[data]
train = {FIXTURE}/train.tsv
validation = {FIXTURE}/validation.tsv
max_length = 24
[train]
max_steps = 40
[eval]
strategy = steps
steps = 20
metric = accuracy
[output]
save_steps = 10
[study]
sampler = random
keep = all
max_retries = 1000
max_failures = 0
heartbeat_timeout = 5s
min_free_disk = 16MiB
memory_policy = constrain
[space]
train.learning_rate = choice(0.001, 0.003, 0.01, 100)
train.weight_decay = 100 if train.learning_rate = 100
train.batch_size = choice(2, 8, 32, 60)
train.seed = choice(1, 2)
"""  # 100 diverges; the largest batch does not fit the limit of one trial
MOUNTED = "FTENGINE_SOAK_MOUNTED"  # set where mounts are this process's own
OOM = ["error_message", "error_traceback", "oom_config", "oom_error", "peak_memory_bytes", "peak_memory_gb"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def virtual(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def bytes_of(path):
    """0 of what has gone meanwhile."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


class Soak:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.random = random.Random(options.seed)
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(directory, "ledger"))
        self.place = os.path.join(directory, "disk")
        self.filler = os.path.join(self.place, "filler")
        self.env["XDG_CACHE_HOME"] = os.path.join(self.place, "cache")
        self.study = os.path.join(self.place, "studies", "soak")
        self.hashes, self.looked_at, self.faults, self.coordinators = {}, set(), {}, 0
        self.running = []  # coordinators
        self.reserved, self.memory, self.disk, self.over = 0, {}, 0, 0
        self.looks, self.blind = 0, None  # at the ledger; what ended them early
        self.spared = {}  # of each coordinator's pid, a worker's
        self.timers = []  # that end a fault
        self.refusing = []  # [begin, end] of each time in which a worker got no memory, seconds since 1970
        self.unpaused = []  # what must_pause() has found
        self.done = threading.Event()

    def run(self, *arguments):
        command = [self.options.ftengine, *arguments]
        return subprocess.run(command, cwd=self.place, env=self.env, capture_output=True, text=True)

    def mount(self):
        """A disk for the study alone, with room for its files, which can be filled without harm to anybody."""
        os.makedirs(self.place, exist_ok=True)
        if MOUNTED not in os.environ:
            return
        size = (96 << 20) + (80 << 10) * self.options.trials
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.place], check=True)

    def prepare(self):
        self.mount()
        with open(os.path.join(self.place, "soak.ini"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        sizes = {}
        for batch in (2, 8, 32, 60):
            plan = self.run("plan", "soak.ini", f"train.batch_size={batch}", f"train.micro_batch={batch}", "--json")
            sizes[batch] = json.loads(plan.stdout)["memory"]["peak_reserved_bytes"]
        self.limit = (sizes[32] + sizes[60]) // 2
        if not sizes[32] <= self.limit < sizes[60]:
            sys.exit(f"the batches do not differ in memory: {sizes}")
        # What a worker holds besides its allocator counts too: room for about two and a half of them.
        probe = self.run("train", "soak.ini", "train.batch_size=32", "train.learning_rate=0.001", "output.dir=probe")
        if probe.returncode != 0:
            sys.exit(probe.stderr)
        with open(os.path.join(self.place, "probe", "run.json"), encoding="utf-8") as f:
            memory = json.load(f)["memory"]
        one = memory["peak_reserved_bytes"] + memory["outside_allocator_bytes"]
        self.capacity = one * 5 // 2
        self.env["FTENGINE_LEDGER_CAPACITY"] = str(self.capacity)

    # ---- beside the study --------------------------------------------------------------------------------------------

    def watch(self):
        """Another process's view of the device, and what lives and lies around."""
        try:
            self.look()
        except Exception as error:  # a thread that dies would let all hold that it was to see
            self.blind = repr(error)

    def look(self):
        while not self.done.wait(0.05):
            try:
                devices = json.loads(self.run("devices", "--json").stdout)["devices"]
            except (ValueError, KeyError):
                continue
            now = devices[0]["reserved_bytes"]
            self.looks += 1
            self.reserved = max(self.reserved, now)
            self.over += now > self.capacity
            for worker in self.workers():
                self.memory.setdefault(worker, []).append((time.monotonic(), resident(worker)))

    def workers(self):
        return [worker for coordinator in list(self.running) for worker in children(coordinator.pid)]

    def mortal(self):
        """Those that faults may end: all but one of each coordinator, the same one as long as it lives."""
        mortal = []
        for coordinator in list(self.running):
            workers = children(coordinator.pid)
            if workers and self.spared.get(coordinator.pid) not in workers:
                self.spared[coordinator.pid] = workers[0]
            mortal += [worker for worker in workers if worker != self.spared.get(coordinator.pid)]
        return mortal

    def look_at_models(self):
        """Hashes the models of trials that have ended, and removes them: nobody else does with keep = all."""
        database = sqlite3.connect(f"file:{self.study}/study.db?mode=ro", uri=True, timeout=30)
        try:
            ended = list(database.execute("SELECT number, state FROM trials WHERE state IN ('COMPLETE', 'FAIL')"))
        except sqlite3.OperationalError:
            return
        finally:
            database.close()
        for number, state in ended:
            trial = os.path.join(self.study, "trials", f"{number:05}")
            model = os.path.join(trial, "model", "model.safetensors")
            if number in self.looked_at:
                continue
            if state == "COMPLETE" and os.path.exists(model):
                self.hashes[number] = digest(model)
            self.looked_at.add(number)
            shutil.rmtree(os.path.join(trial, "model"), ignore_errors=True)
            shutil.rmtree(os.path.join(trial, "checkpoints"), ignore_errors=True)
        size = sum(bytes_of(os.path.join(base, name)) for base, _, names in os.walk(self.study) for name in names if name.endswith(".safetensors"))
        self.disk = max(self.disk, size)

    def later(self, most, act, *arguments):
        """Ends a fault after a while, during which others may come."""

        def end():
            try:
                act(*arguments)
            except (ProcessLookupError, FileNotFoundError):
                pass  # it has gone meanwhile

        self.timers.append(threading.Timer(self.random.uniform(0.2, most), end))
        self.timers[-1].start()

    def refuse_memory(self, worker):
        """For a moment the kernel refuses the worker what is beyond what it has: a little more, or less."""
        room = self.random.choice([-(16 << 20), -(4 << 20), -(1 << 20), 0, 1 << 20])
        has, hard = virtual(worker), resource.prlimit(worker, resource.RLIMIT_AS)[1]
        if has > 1 << 42:
            raise ProcessLookupError("a sanitizer's: it ends the process itself, which is the fault `kill`")
        resource.prlimit(worker, resource.RLIMIT_AS, (has + room, hard))
        refusing = [time.time(), math.inf]
        self.refusing.append(refusing)

        def allow():
            refusing[1] = time.time()
            resource.prlimit(worker, resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))

        self.later(min(2, 2 * self.options.pause), allow)

    def fill_disk(self, spared):
        """To the last byte, or almost."""
        with open(self.filler, "wb", buffering=0) as f:
            try:
                for piece in (1 << 20, 4096):
                    while f.write(bytes(piece)) == piece:
                        pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            f.truncate(max(0, f.tell() - spared))

    def paused(self):
        with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as f:
            return f.read().count("paused: ")

    def begun(self):
        """How many trials are in the study."""
        if not os.path.exists(os.path.join(self.study, "study.db")):
            return 0
        database = sqlite3.connect(f"file:{self.study}/study.db?mode=ro", uri=True, timeout=30)
        try:
            return database.execute("SELECT count(*) FROM trials").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return 0  # it is being made
        finally:
            database.close()

    def wait_until(self, holds):
        """Or until no coordinator is left, or 2 minutes have passed."""
        end = time.monotonic() + 120
        while not holds() and time.monotonic() < end and any(c.poll() is None for c in self.running):
            time.sleep(0.002)

    def must_pause(self):
        """The disk is full until the study has said that it is paused. First before a trial can begin, whatever the machine's
        speed; then among trials, of which it must say so if more are to come than may just now have been given room."""
        self.wait_until(self.paused)
        if self.paused() == 0 or self.begun() > 0:
            self.unpaused.append(f"the disk was full from the start: {self.paused()} pauses, {self.begun()} trials")
        os.unlink(self.filler)
        self.wait_until(self.begun)
        said = self.paused()
        self.fill_disk(0)
        to_come = self.options.trials - self.begun()
        self.wait_until(lambda: self.paused() > said)
        if self.paused() == said and to_come > self.options.coordinators:
            self.unpaused.append(f"the disk was full with {to_come} trials to come, and the study has not said that it is paused")
        os.unlink(self.filler)
        self.faults["disk"] = 2

    def fault(self):
        workers = self.mortal()
        kinds = ["kill", "kill", "crash", "hang", "coordinator", "lock", "memory", "memory"]
        if MOUNTED in os.environ and not os.path.exists(self.filler):
            kinds.append("disk")
        kind = self.random.choice(kinds)
        if kind in ("kill", "crash", "hang", "memory") and not workers:
            return
        self.faults[kind] = self.faults.get(kind, 0) + 1
        try:
            if kind == "coordinator":
                self.random.choice(self.running).kill()
            elif kind == "lock":
                database = sqlite3.connect(os.path.join(self.study, "study.db"), timeout=5, isolation_level=None)
                database.execute("BEGIN IMMEDIATE")
                time.sleep(self.random.uniform(0.1, 2))
                database.close()
            elif kind == "memory":
                self.refuse_memory(self.random.choice(workers))
            elif kind == "disk":
                self.fill_disk(self.random.choice([0, 8 << 10, 64 << 10, 512 << 10]))
                self.later(min(5, 4 * self.options.pause), os.unlink, self.filler)
            else:
                number = {"kill": signal.SIGKILL, "crash": signal.SIGSEGV, "hang": signal.SIGSTOP}[kind]
                os.kill(self.random.choice(workers), number)
        except (ProcessLookupError, FileNotFoundError, sqlite3.OperationalError):
            self.faults[kind] -= 1

    # ---- the study ---------------------------------------------------------------------------------------------------

    def tune(self):
        log = open(os.path.join(self.directory, "log"), "ab")
        each = 4 if self.options.coordinators == 1 else 2
        command = [self.options.ftengine, "tune", "soak.ini", "--study", "soak", "--parallel", str(each), "--trials",
                   str(self.options.trials), f"memory.limit={self.limit}"]
        self.coordinators += 1
        return subprocess.Popen(command, cwd=self.place, env=self.env, stdout=log, stderr=log)

    def go(self):
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        began, to_go = time.monotonic(), self.options.coordinators
        pauses = self.options.until_pause and MOUNTED in os.environ
        if pauses:
            self.fill_disk(8 << 20)  # enough for the study, not for a trial (min_free_disk)
        while to_go > 0:
            while len(self.running) < to_go:
                self.running.append(self.tune())
            if pauses:
                self.must_pause()
                pauses = False
            time.sleep(self.random.expovariate(1 / self.options.pause))
            if os.path.exists(os.path.join(self.study, "study.db")):
                self.look_at_models()
            for coordinator in list(self.running):
                code = coordinator.poll()
                if code is None:
                    continue
                self.running.remove(coordinator)
                to_go -= code == 0
                if code not in (0, -signal.SIGKILL):
                    self.stop()
                    with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as f:
                        sys.exit(f"a coordinator ended with {code}; the end of what was said:\n{f.read()[-3000:]}")
            if self.running and os.path.exists(os.path.join(self.study, "study.db")):
                self.fault()
        self.seconds = time.monotonic() - began
        self.look_at_models()
        self.done.set()
        watcher.join()

    def stop(self):
        for coordinator in self.running:
            coordinator.kill()
            coordinator.wait()
        for timer in self.timers:
            timer.join()

    # ---- what must hold ------------------------------------------------------------------------------------------------

    def undisturbed(self, trial, known):
        """The hash of the model that this configuration gives alone, once for each."""
        with open(os.path.join(trial, "config.ini"), encoding="utf-8") as f:
            text = f.read()
        if text not in known:
            out = os.path.join(self.directory, "alone", str(len(known)))
            run = self.run("train", os.path.join(trial, "config.ini"), f"output.dir={out}")
            if run.returncode != 0:
                sys.exit(run.stderr)
            known[text] = digest(os.path.join(out, "model", "model.safetensors"))
        return known[text]

    @staticmethod
    def end_of(database, number):
        """State and status of a trial with these values that nobody disturbs."""
        parameters = "SELECT param_name, param_value, distribution_json FROM trial_params JOIN trials USING (trial_id)"
        values = {}
        for name, value, distribution in database.execute(parameters + " WHERE number = ?", (number,)):
            values[name] = json.loads(distribution)["attributes"]["choices"][int(value)]
        if values["train.batch_size"] == 60:
            return "PRUNED", '"does_not_fit"'
        return ("FAIL", '"diverged"') if values["train.learning_rate"] == 100 else ("COMPLETE", '"completed"')

    def judge_ooms(self, database, ooms):
        errors = []
        for number in ooms:
            where = " FROM trial_{}_attributes JOIN trials USING (trial_id) WHERE number = ?"
            user = dict(database.execute("SELECT key, value_json" + where.format("user"), (number,)))
            system = dict(database.execute("SELECT key, value_json" + where.format("system"), (number,)))
            missing = [key for key in OOM if user.get(key, '""') == '""']
            if missing or user.get("oom") != "true":
                errors.append(f"trial {number} ran out of memory, and has no {missing}")
            if not any(excess > 0 for excess in json.loads(system.get("constraints", "[]"))):
                errors.append(f"trial {number} ran out of memory, which is no violated constraint")
        if len(ooms) > self.faults.get("memory", 0):
            errors.append(f"{len(ooms)} trials ran out of memory")
        counted = database.execute("SELECT value_json FROM study_user_attributes WHERE key = 'oom_trials'").fetchone()
        if counted is None or int(counted[0]) != len(ooms):
            errors.append(f"{len(ooms)} trials ran out of memory, the study counts {counted}")
        return errors

    def judge(self):
        database = sqlite3.connect(os.path.join(self.study, "study.db"))
        rows = database.execute("SELECT number, state FROM trials ORDER BY number").fetchall()
        attributes = "SELECT number, value_json FROM trial_user_attributes JOIN trials USING (trial_id) WHERE key = ?"
        retries = sum(int(value) for _, value in database.execute(attributes, ("retries",)))
        states = {}
        for _, state in rows:
            states[state] = states.get(state, 0) + 1
        errors = []
        if [n for n, _ in rows] != list(range(self.options.trials)):
            errors.append(f"{len(rows)} trials, not {self.options.trials}")
        if set(states) - {"COMPLETE", "PRUNED", "FAIL"}:
            errors.append(f"trials that did not end: {states}")
        reasons = dict(database.execute(attributes, ("status",)))
        ooms = [n for n, state in rows if state == "PRUNED" and reasons.get(n) == '"oom"']
        odd = [n for n, state in rows if n not in ooms and (state, reasons.get(n)) != self.end_of(database, n)]
        # A limit that strikes while a trial is planned is one that it does not fit into; every trial that the worker begins meanwhile.
        seconds = "CAST(strftime('%s', datetime_{}) AS INTEGER)"
        times = database.execute(f"SELECT number, {seconds.format('start')}, {seconds.format('complete')} FROM trials").fetchall()
        refused = {n for n, begin, end in times if any(begin < until + 1 and since < end + 1 for since, until in self.refusing)}
        odd = [n for n in odd if n not in refused or (dict(rows)[n], reasons.get(n)) != ("PRUNED", '"does_not_fit"')]
        if odd:
            errors.append(f"trials with another end than their values have: {odd[:10]} of {len(odd)}")
        errors += self.judge_ooms(database, ooms)
        pauses = self.paused()
        errors += self.unpaused
        # One may have come and gone with no trial to begin.
        if self.faults.get("disk", 0) >= 5 and pauses == 0:
            errors.append("the disk was full, and the study has not said that it is paused")
        if self.disk > 64 << 20:
            errors.append(f"the study kept {self.disk} bytes of weights")
        known = {}
        for number, state in rows:
            if state != "COMPLETE":
                continue
            if self.hashes.get(number) != self.undisturbed(os.path.join(self.study, "trials", f"{number:05}"), known):
                errors.append(f"trial {number} has other weights than its configuration gives")
        if self.over or self.reserved > self.capacity:
            errors.append(f"{self.reserved} bytes were reserved of {self.capacity}")
        if self.blind is not None:
            errors.append(f"the watcher has ended: {self.blind}")
        if self.looks < self.seconds / 2:
            errors.append(f"the ledger was looked at {self.looks} times in {self.seconds:.0f} seconds")
        if self.reserved == 0:
            errors.append("nothing was ever seen to be reserved")
        growth, long_lived = 0, 0
        for seen in self.memory.values():
            # The first quarter has warmed it up.
            if len(seen) >= 20 and seen[-1][0] - seen[0][0] >= 10:
                long_lived += 1
                most = [size for _, size in seen]
                growth = max(growth, max(most[-len(most) // 4:]) - max(most[len(most) // 4: len(most) // 2]))
        if self.options.trials >= 1000 and long_lived == 0:
            errors.append("no worker has lived for ten seconds: nothing is known of its memory")
        if growth > 16 << 20:
            errors.append(f"a worker grew by {growth} bytes")
        figures = {"trials": self.options.trials, "states": states, "oom_trials": len(ooms), "retries": retries,
                   "faults": self.faults, "left_out": [] if MOUNTED in os.environ else ["disk"], "pauses": pauses,
                   "coordinators_at_once": self.options.coordinators, "coordinators": self.coordinators,
                   "configurations": len(known), "seconds": round(self.seconds, 1),
                   "capacity_bytes": self.capacity, "most_reserved_bytes": self.reserved, "long_lived_workers": long_lived,
                   "largest_growth_bytes": growth, "looks": self.looks,
                   "most_disk_of_weights_bytes": self.disk, "errors": errors}
        return figures


def with_mounts_of_its_own():
    """Starts this program again where it may mount a disk that nobody else sees, and that goes with it."""
    for unshare in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        if MOUNTED in os.environ or shutil.which("unshare") is None:
            return
        probe = "d=$(mktemp -d); mount -t tmpfs tmpfs $d; code=$?; umount $d 2>/dev/null; rmdir $d; exit $code"
        if subprocess.run([*unshare, "sh", "-c", probe], capture_output=True, check=False).returncode == 0:
            os.environ[MOUNTED] = "1"
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--coordinators", type=int, default=1, help="at once, on the one study")
    parser.add_argument("--pause", type=float, default=2, help="seconds between two faults, on average")
    parser.add_argument("--until-pause", action="store_true", help="before any other fault the disk is full until the study has paused")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a directory to work in, which stays; of the small disk in it a copy, `kept`")
    parser.add_argument("--write", action="store_true", help="results go to benchmarks/results/soak.json, or soak_coordinators.json")
    options = parser.parse_args()
    with_mounts_of_its_own()
    directory = os.path.abspath(options.keep) if options.keep else tempfile.mkdtemp(prefix="soak-")
    os.makedirs(directory, exist_ok=True)
    try:
        soak = Soak(options, directory)
        soak.prepare()
        try:
            soak.go()
        finally:
            soak.stop()
        figures = dict(soak.judge(), provenance=provenance())
    finally:
        if options.keep and MOUNTED in os.environ:
            shutil.copytree(os.path.join(directory, "disk"), os.path.join(directory, "kept"), dirs_exist_ok=True)
        if not options.keep:
            if MOUNTED in os.environ:  # a place where something is mounted would stay
                subprocess.run(["umount", "--lazy", os.path.join(directory, "disk")], check=False)
            shutil.rmtree(directory, ignore_errors=True)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.write:
        name = "soak.json" if options.coordinators == 1 else "soak_coordinators.json"
        with open(os.path.join(RESULTS, name), "w", encoding="utf-8") as f:
            f.write(text + "\n")
    sys.exit(1 if figures["errors"] else 0)


if __name__ == "__main__":
    main()
