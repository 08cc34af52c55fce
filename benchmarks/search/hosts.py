#!/usr/bin/env python3
"""A study of several hosts on one PostgreSQL: network namespaces with links that are slow or cut (network.py), a server of the
distribution's programs in one of its own. Needs root and apt-get install postgresql iproute2; exit code 77 without.

    python3 benchmarks/search/hosts.py                      1,000 tiny trainings by 3 hosts, under faults: some 5 minutes on 2 cores
    python3 benchmarks/search/hosts.py --trials 60 --cut 15
    python3 benchmarks/search/hosts.py --rate               trials an hour of 4 hosts by those of one, 5 ms away, trials that sleep a second

Faults: kill -9, crash and hang of workers, kill -9 of coordinators, the server stopped (fast, immediate, kill -9) and started, hosts cut
off, one of them for --cut seconds (60), while one host is 5 ms away all the time. What must hold, and the exit code says whether it does:

  finished    every trial has ended once: numbers 0 .. N-1 in the order of their rows, as many as were asked for, none running, with
              the state that its values have
  values      the objective of every completed trial and the model that a host keeps of it are, bit by bit, those of `ftengine train` with
              its configuration alone
  nobody      holds a claim at the end, and no coordinator ended but by a kill or at the end
"""

import argparse
import glob
import json
import os
import pwd
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import common  # noqa: E402
from network import Network, missing  # noqa: E402
import soak  # noqa: E402
from soak import children, digest  # noqa: E402

# That of the study on one machine, without trials that do not fit: here memory is no fault.
CONFIG = soak.CONFIG.replace("sampler = random\n", "sampler = random\npruner = none\n").replace("heartbeat_timeout = 5s", "heartbeat_timeout = 10s") \
    .replace("memory_policy = constrain\n", "").replace(", 60)", ")")
SLEEPY = CONFIG.replace("max_steps = 40", "max_steps = 1").replace("strategy = steps\nsteps = 20\n", "").replace("keep = all", "keep = none") \
    .replace("save_steps = 10", "save_steps = 1000").replace("max_retries = 1000", "max_retries = 1000\nworker_trials = 1") \
    .replace(", 100)", ")").replace("train.weight_decay = 100 if train.learning_rate = 100\n", "")
SLEEP = r"""
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
__attribute__((constructor)) static void sleep_as_a_worker(void) {
    char line[4096] = {0};
    const int file = open("/proc/self/cmdline", O_RDONLY);
    const ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    if (length > 0 && strcmp(line + strlen(line) + 1, "worker") == 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}
"""


class Server:
    """In the network's namespace `server`; its socket is reached from anywhere."""

    def __init__(self, network, directory):
        self.network, self.directory = network, os.path.join(directory, "server")
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[4]))[-1]
        os.makedirs(self.directory)
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            user = pwd.getpwnam("nobody")
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        self.data = os.path.join(self.directory, "data")
        self.do("initdb", "-D", self.data, "-A", "trust", "-U", "ft", "-E", "UTF8", "--locale=C", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as out:
            out.write(f"listen_addresses = '*'\nunix_socket_directories = '{self.directory}'\nfsync = off\nmax_connections = 60\n"
                      "shared_buffers = 16MB\n")
        with open(os.path.join(self.data, "pg_hba.conf"), "w", encoding="utf-8") as out:
            out.write("local all all trust\nhost all all 10.77.0.0/16 trust\n")
        self.start()
        self.ask("CREATE DATABASE study", "postgres")

    def do(self, name, *words, check=True):
        process = self.network.run("server", [*self.prefix, f"{self.bin}/{name}", *words], cwd="/", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if name != "pg_ctl" else subprocess.DEVNULL, text=True)
        _, said = process.communicate()
        if check and process.returncode != 0:
            sys.exit(f"{name}: {said}")
        return process.returncode

    def start(self):
        """One that was killed leaves processes that end on their own."""
        for _ in range(100):
            if self.do("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", f"{self.directory}/log", "start", check=False) == 0:
                return
            time.sleep(0.2)
        sys.exit("the server does not start: " + open(f"{self.directory}/log", encoding="utf-8").read()[-2000:])

    def stop(self, mode):
        if mode != "kill":
            self.do("pg_ctl", "-D", self.data, "-w", "-t", "60", "-m", mode, "stop", check=False)
            return
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as f:
            os.kill(int(f.readline()), signal.SIGKILL)

    def ask(self, sql, database="study"):
        """Rows of texts."""
        command = [f"{self.bin}/psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", self.directory, "-U", "ft", "-d", database, "-c", sql]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [line.split("\t") for line in out.splitlines()]

    def url(self, host):
        return f"postgresql://ft@{self.network.server(host)}/study"


class Host:
    def __init__(self, name, network, server, directory, options):
        self.name, self.network, self.options = name, network, options
        self.place = os.path.join(directory, name)
        os.makedirs(self.place)
        self.log = open(os.path.join(self.place, "log"), "ab")
        self.env = dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(self.place, "ledger"), XDG_CACHE_HOME=os.path.join(self.place, "cache"))
        with open(os.path.join(self.place, "study.ini"), "w", encoding="utf-8") as f:
            f.write(CONFIG)
        self.url, self.started, self.coordinator = server.url(name), 0, None

    def tune(self, study, *more, **environment):
        command = [self.options.ftengine, "tune", "study.ini", "--study", study, "--storage", self.url, *more]
        self.coordinator = self.network.run(self.name, command, cwd=self.place, env=dict(self.env, **environment), stdin=subprocess.DEVNULL,
                                            stdout=self.log, stderr=self.log)
        self.started += 1

    def said(self):
        with open(os.path.join(self.place, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()


# ---- the soak -------------------------------------------------------------------------------------------------------


class Soak:
    def __init__(self, options, directory):
        self.options, self.directory, self.random = options, directory, random.Random(options.seed)
        self.faults, self.later, self.down, self.errors = {}, [], False, []
        self.most_finished = 0

    def at(self, seconds, act):
        self.later.append((time.monotonic() + seconds, act))

    def note(self, kind):
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def cut(self, host, seconds):
        if host.name in self.network.cut:
            return
        self.note("cut")
        self.network.cut.add(host.name)
        self.at(seconds, lambda: self.network.cut.discard(host.name))

    def stop_server(self):
        mode = self.random.choice(["fast", "immediate", "kill"])
        self.note(f"server {mode}")
        self.down = True
        self.server.stop(mode)

        def again():
            self.server.start()
            self.down = False

        self.at(self.random.uniform(0.2, 5), again)

    def fault(self):
        kind = self.random.choice(["kill", "kill", "kill", "crash", "hang", "coordinator", "coordinator", "server", "cut"])
        host = self.random.choice([host for host in self.hosts if host.coordinator is not None] or [None])
        if host is None:
            return
        workers = children(host.coordinator.pid)
        if kind == "server":
            if not self.down:
                self.stop_server()
        elif kind == "cut":
            self.cut(host, self.random.uniform(2, 15))
        elif kind == "coordinator":
            self.note(kind)
            host.coordinator.kill()
        elif workers:
            self.note(kind)
            try:
                os.kill(self.random.choice(workers), {"kill": signal.SIGKILL, "crash": signal.SIGSEGV, "hang": signal.SIGSTOP}[kind])
            except ProcessLookupError:
                pass

    def look_after(self):
        """Whoever was killed is started again. True: all have come to the end."""
        for host in self.hosts:
            if host.coordinator is None:
                continue
            code = host.coordinator.poll()
            if code is None:
                continue
            host.coordinator = None
            if code == -signal.SIGKILL:
                host.tune("soak", "--parallel", "2", "--trials", str(self.options.trials))
            elif code != 0:
                sys.exit(f"the coordinator of {host.name} ended with {code}; the end of what it said:\n{host.said()[-3000:]}")
        return all(host.coordinator is None for host in self.hosts)

    def act(self):
        due = [entry for entry in self.later if entry[0] <= time.monotonic()]
        self.later = [entry for entry in self.later if entry not in due]
        for _, what in due:
            what()

    def finished(self):
        if self.down:
            return self.most_finished
        try:
            rows = self.server.ask("SELECT count(*) FROM trials WHERE state IN ('COMPLETE', 'FAIL', 'PRUNED')")
        except subprocess.CalledProcessError:
            return self.most_finished
        self.most_finished = max(self.most_finished, int(rows[0][0]))
        return self.most_finished

    def go(self):
        with Network(["one", "two", "three"]) as self.network:
            self.network.delay["three"] = 0.005
            self.server = Server(self.network, self.directory)
            try:
                self.hosts = [Host(name, self.network, self.server, self.directory, self.options) for name in self.network.hosts]
                began = time.monotonic()
                for host in self.hosts:
                    host.tune("soak", "--parallel", "2", "--trials", str(self.options.trials))
                self.at(10, lambda: self.cut(self.hosts[0], self.options.cut))
                pause, told = began + 5, began
                while not self.look_after():
                    time.sleep(0.05)
                    self.act()
                    if time.monotonic() > pause:
                        self.fault()
                        pause = time.monotonic() + self.random.expovariate(1 / self.options.pause)
                    if time.monotonic() > told + 20:
                        told = time.monotonic()
                        print(f"{told - began:.0f} s: {self.finished()} trials, {self.faults}", file=sys.stderr, flush=True)
                    if time.monotonic() > began + self.options.limit:
                        sys.exit(f"{self.finished()} trials after {self.options.limit} seconds")
                self.seconds = time.monotonic() - began
                while self.down:
                    self.act()
                return self.judge()
            finally:
                for host in getattr(self, "hosts", []):
                    if host.coordinator is not None:
                        host.coordinator.kill()
                self.server.stop("immediate")

    def undisturbed(self, trial, known):
        """The objective and the model's hash that this configuration gives alone, once for each."""
        with open(os.path.join(trial, "config.ini"), encoding="utf-8") as f:
            text = f.read()
        if text not in known:
            out = os.path.join(self.directory, "alone", str(len(known)))
            run = subprocess.run([self.options.ftengine, "train", os.path.join(trial, "config.ini"), f"output.dir={out}"], cwd=self.directory,
                                 env=dict(os.environ, FTENGINE_LEDGER_DIR=os.path.join(self.directory, "ledger")), capture_output=True, text=True, check=False)
            if run.returncode != 0:
                sys.exit(run.stderr)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
                known[text] = json.load(f)["metrics"]["eval_accuracy"], digest(os.path.join(out, "model", "model.safetensors"))
        return known[text]

    @staticmethod
    def is_whole(trial):
        """A host that was cut off may keep the best so far of a run that another one has ended."""
        try:
            with open(os.path.join(trial, "run.json"), encoding="utf-8") as f:
                return json.load(f)["status"] == "completed"
        except FileNotFoundError:
            return False

    def judge(self):
        trials, errors, known, models = self.options.trials, self.errors, {}, 0
        rows = self.server.ask("SELECT number, state, value FROM trials LEFT JOIN trial_values USING (trial_id) ORDER BY trial_id")
        numbers = [int(row[0]) for row in rows]
        if numbers != list(range(trials)):
            errors.append(f"{len(numbers)} rows of trials and values, not 0 to {trials - 1} in order")
        rates = {int(n): json.loads(d)["attributes"]["choices"][int(float(v))] for n, v, d in self.server.ask(
            "SELECT number, param_value, distribution_json FROM trial_params JOIN trials USING (trial_id) WHERE param_name = 'train.learning_rate'")}
        odd = [n for n, state, _ in rows if state != ("FAIL" if rates.get(int(n)) == 100 else "COMPLETE")]
        if odd:
            errors.append(f"trials with another end than their values have: {odd[:10]} of {len(odd)}")
        left = self.server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0][0]
        if left != "0":
            errors.append(f"{left} claims are held by nobody")
        for number, state, value in rows:
            places = [place for host in self.hosts for place in [os.path.join(host.place, "studies", "soak", "trials", f"{int(number):05}")]
                      if os.path.exists(os.path.join(place, "config.ini"))]
            if state != "COMPLETE":
                continue
            if not places:
                errors.append(f"nobody has a directory of trial {number}")
                continue
            objective, weights = self.undisturbed(places[0], known)
            if float(value) != objective:
                errors.append(f"trial {number} has the value {value}, and {objective} alone")
            kept = [digest(os.path.join(place, "model", "model.safetensors")) for place in places if self.is_whole(place)]
            models += len(kept)
            if not kept or any(hashed != weights for hashed in kept):
                errors.append(f"trial {number}: {len(kept)} models, not all with the weights that its configuration gives")
        states = {state: sum(row[1] == state for row in rows) for state in sorted({row[1] for row in rows})}
        by = {host.name: len(glob.glob(os.path.join(host.place, "studies", "soak", "trials", "*"))) for host in self.hosts}
        return {"trials": trials, "states": states, "faults": self.faults, "longest_cut_seconds": self.options.cut, "slow_host_ms_one_way": 5,
                "coordinators_started": sum(host.started for host in self.hosts), "trial_directories": by, "models_compared": models,
                "configurations": len(known), "seconds": round(self.seconds, 1), "load_average_after": round(os.getloadavg()[0], 1), "errors": errors[:20]}


# ---- the rate -------------------------------------------------------------------------------------------------------


def rate(options, directory):
    """Seconds between the first and the last end of a trial, of the middle of each study: nobody starts or waits for the last one."""
    names = ["one", "two", "three", "four"]
    with open(os.path.join(directory, "sleep.c"), "w", encoding="utf-8") as f:
        f.write(SLEEP)
    library = os.path.join(directory, "sleep.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, os.path.join(directory, "sleep.c")], check=True)
    rates = {1: [], 4: []}
    with Network(names) as network:
        for name in names:
            network.delay[name] = 0.005
        server = Server(network, directory)
        try:
            hosts = [Host(name, network, server, directory, options) for name in names]
            for host in hosts:
                with open(os.path.join(host.place, "study.ini"), "w", encoding="utf-8") as f:
                    f.write(SLEEPY)
            for turn in range(options.turns):
                for count in (1, 4):
                    study = f"rate{turn}x{count}"
                    for host in hosts[:count]:
                        host.tune(study, "--parallel", "1", "--trials", str(options.rate_trials * count), LD_PRELOAD=library)
                    for host in hosts[:count]:
                        if host.coordinator.wait() != 0:
                            sys.exit(host.said()[-3000:])
                    rows = server.ask("SELECT extract(epoch FROM datetime_complete) FROM trials JOIN studies USING (study_id) WHERE state = 'COMPLETE' "
                                      f"AND study_name = '{study}' ORDER BY 1")
                    ends = [float(row[0]) for row in rows]
                    if len(ends) != options.rate_trials * count:
                        sys.exit(f"{len(ends)} trials completed")
                    inner = ends[count:-count]
                    rates[count].append((len(inner) - 1) / (inner[-1] - inner[0]) * 3600)
                    print(f"{count} of them: {rates[count][-1]:.0f} trials an hour", file=sys.stderr, flush=True)
        finally:
            server.stop("immediate")
    one, four = statistics.median(rates[1]), statistics.median(rates[4])
    figures = {"trials_an_hour": {"1": [round(r, 1) for r in rates[1]], "4": [round(r, 1) for r in rates[4]]}, "ratio": round(four / one, 3),
               "delay_ms_one_way": 5, "trials_each": options.rate_trials, "load_average_after": round(os.getloadavg()[0], 1)}
    figures["errors"] = [] if figures["ratio"] >= 3.5 else [f"4 coordinators have {figures['ratio']} times the trials of one, not 3.5"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ftengine", default=os.path.join(common.ROOT, "build", "ftengine"))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=3, help="seconds between two faults, on average")
    parser.add_argument("--cut", type=float, default=60, help="seconds that a host is cut off once")
    parser.add_argument("--limit", type=float, default=3000, help="seconds after which it has failed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", action="store_true")
    parser.add_argument("--rate-trials", type=int, default=20, help="of each coordinator")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--keep", help="a directory to work in, which stays")
    parser.add_argument("--write", action="store_true", help="results go to benchmarks/results/hosts_soak.json, or hosts_rate.json")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    why = missing() or (None if glob.glob("/usr/lib/postgresql/*/bin/initdb") else "there is no PostgreSQL server: apt-get install postgresql")
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(77)
    directory = os.path.abspath(options.keep) if options.keep else tempfile.mkdtemp(prefix="hosts-")
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o755)
    try:
        figures = rate(options, directory) if options.rate else Soak(options, directory).go()
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    figures["provenance"] = common.provenance()
    text = json.dumps(figures, indent=2)
    print(text)
    if options.write:
        with open(os.path.join(common.RESULTS, "hosts_rate.json" if options.rate else "hosts_soak.json"), "w", encoding="utf-8") as f:
            f.write(text + "\n")
    sys.exit(1 if figures["errors"] else 0)


if __name__ == "__main__":
    main()
