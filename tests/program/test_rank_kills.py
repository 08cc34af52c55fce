#!/usr/bin/env python3
"""Runs of two to four ranks, of which one is killed again and again at moments drawn by chance: with distributed.max_restarts each goes on by itself, nothing
hangs, no checkpoint is spoilt, and at the end it has the model, state, figures and predictions of a run that nothing happened to. In every second run one of
them then stays away - whenever it is there it is killed - until the run goes on without it. KILLS=50, KILL_SEED."""
# ctest: label=full_size timeout=3600 sanitize=leave
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM, SOURCE = os.environ["FTENGINE"], Path(os.environ["SOURCE_DIR"])
VECTORS = SOURCE / "tests/vectors/trainer"
STEPS, LONGEST, PATIENCE = 200, 12, 600  # kills of a run; seconds until it counts as hanging
OPTIONS = [str(VECTORS / "follow.ini"), f"data.validation={VECTORS / 'validation.tsv'}", "data.cache_dir=none", "eval.strategy=steps", "eval.steps=40",
           "output.save_steps=10", f"train.max_steps={STEPS}", "train.warmup_steps=3", "train.logging_steps=1", "model.hidden_dropout=0.1",
           "model.attention_dropout=0.1", "device.threads=1"]


def ranks_of(launcher):
    """Their process ids, by rank as they were started."""
    return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True).stdout.split()]


def members_of(launcher):
    """Their process ids by rank, as far as they have begun, and how many they are to be."""
    members, count = {}, 0
    for pid in ranks_of(launcher):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [b"rank"]:
            members[int(words[2])], count = pid, int(words[3])
    return members, count


def keep_away(process, log, draw):
    """Kills one rank again and again until it is left out. How often; 0: there was one rank alone, or the run has ended."""
    victim, of, killed, seen = None, 0, set(), len(log.read_text())
    while process.poll() is None and "is left out" not in log.read_text()[seen:]:
        members, count = members_of(process.pid)
        if victim is None and count > 0:
            victim, of = draw.randrange(count), count
        if of == 1 or (count > 0 and count != of):
            break
        pid = members.get(victim)
        if pid is not None and pid not in killed:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
        time.sleep(0.005)
    return len(killed)


def what_came_out(run):
    """All that is to be the same to the bit."""
    state = sorted((run / "checkpoints").glob("step-*"))[-1]
    figures = re.sub(rb',"tokens_per_second":[^,}]*', b"", (run / "metrics.jsonl").read_bytes())
    return {"model": (run / "model/model.safetensors").read_bytes(), "state": (state / "state.safetensors").read_bytes(), "figures": figures,
            "predictions": (run / "predictions.jsonl").read_bytes()}


def disturbed(run, ranks, quota, away, draw):
    """One run, of which at most `quota` ranks are killed; away: then one of them stays away. How many were in both ways, the restarts that it told of, how many
    ranks it left out, and the seconds to its end after the last kill."""
    command = [PROGRAM, "train", *OPTIONS, "--devices", ",".join(["cpu"] * ranks), f"output.dir={run}", "distributed.max_restarts=1000"]
    log = run.with_suffix(".err")
    with open(log, "wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
    killed, last = 0, time.monotonic()
    while killed < quota:
        pause = draw.expovariate(1 / 0.5)
        try:
            process.wait(pause)
            break
        except subprocess.TimeoutExpired:
            pass
        alive = ranks_of(process.pid)
        if not alive:
            continue
        try:
            os.kill(draw.choice(alive), signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed, last = killed + 1, time.monotonic()
    if away:
        time.sleep(draw.uniform(0, 0.3))
    kept_away = keep_away(process, log, draw) if away else 0
    last = time.monotonic()
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise SystemExit(f"HANGS: {' '.join(command)}\n{log.read_text()}") from None
    text = log.read_text()
    if code != 0:
        raise SystemExit(f"exit code {code} after {killed} kills: {' '.join(command)}\n{text}")
    return killed, kept_away, len(re.findall(r"; restart \d+ of at most", text)), text.count("is left out"), time.monotonic() - last


def main():
    wanted, seed = int(os.environ.get("KILLS", "50")), int(os.environ.get("KILL_SEED", str(int(time.time()) % 100000)))
    draw = random.Random(seed)
    print(f"seed {seed}, {wanted} kills", flush=True)
    killed = restarts = runs = left_out = 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        os.environ.update(XDG_CACHE_HOME=str(place / "cache"), FTENGINE_LEDGER_DIR=str(place / "ledger"))
        subprocess.run([PROGRAM, "train", *OPTIONS, f"output.dir={place / 'calm'}"], check=True, capture_output=True)
        calm = what_came_out(place / "calm")
        while killed < wanted:
            runs += 1
            run, ranks = place / f"run-{runs}", draw.choice([2, 3, 4])
            away = runs % 2 == 1
            quota = draw.randint(0, 2) if away else draw.randint(4, LONGEST)
            count, kept_away, told, without, seconds = disturbed(run, ranks, min(quota, wanted - killed), away, draw)
            killed, restarts, left_out = killed + count, restarts + told - kept_away, left_out + (kept_away >= 3 and without > 0)
            print(f"run {runs}: {ranks} ranks, {count} kills and {kept_away} of one that stayed away, {told} restarts, {without} left out, "
                  f"ended {seconds:.1f} s after the last", flush=True)
            for what, bytes_ in what_came_out(run).items():
                if bytes_ != calm[what]:
                    raise SystemExit(f"run {runs} (seed {seed}): another {what} than a run that nothing happened to")
            left = [str(path) for path in run.rglob("*") if ".ft-" in path.name]
            if left:
                raise SystemExit(f"run {runs} (seed {seed}): temporaries are left: {left}")
    print(f"{runs} runs, {killed} kills, {restarts} restarts, {left_out} runs went on without one that stayed away: no hang, the same bits")
    # A rank may be killed when its run is over already, or two for one restart.
    return 0 if restarts > wanted // 2 and left_out > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
