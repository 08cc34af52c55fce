#!/usr/bin/env python3
"""A training file far larger than the memory that a run may take: tokenised, trained on, killed with SIGKILL, and resumed.

    FTENGINE=build/ftengine benchmarks/memory/large_data.py --bytes 10e9 --limit 500e6 [--scratch DIR] [--in-memory] [--output FILE.md]

The file is made by a generator with a seed, and everything lies below --scratch (about four times the file; removed afterwards). Three runs
of the same command in a cgroup (v1) of --limit bytes: one undisturbed, which finds no cache; one that is killed after 20 of its 50 steps; the
same command again, which goes on. Weights and losses must be the same bits. --in-memory: a fourth, without a limit, without a cache and
without scratch files (its arrays are on the heap), must have them too.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "memory"))
import host_runs

FTENGINE = os.environ.get("FTENGINE", "build/ftengine")
MODEL = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
         "type_vocab_size": 2, "max_position_embeddings": 128, "hidden_act": "gelu"}


def write_model(directory, vocabulary):
    os.makedirs(directory)
    shutil.copy(vocabulary, f"{directory}/vocab.txt")
    with open(vocabulary) as f:
        words = [w for w in f.read().split("\n") if w.isascii() and w.isalpha() and len(w) > 2]
    with open(vocabulary) as f:
        size = sum(1 for _ in f)
    with open(f"{directory}/config.json", "w") as f:
        json.dump(dict(MODEL, vocab_size=size), f)
    return words


def write_texts(path, size, words):
    """Rows of 10 to 150 words: phrases that repeat, behind a number that does not."""
    rng = random.Random(26)
    phrases = [" ".join(rng.choices(words, k=rng.randrange(3, 30))) for _ in range(20000)]
    written, row = 0, 0
    with open(path, "w", buffering=1 << 20) as f:
        written += f.write("text\tlabel\n")
        while written < size:
            written += f.write(f"{row} {' '.join(rng.choices(phrases, k=rng.randrange(1, 10)))}\tc{rng.randrange(5)}\n")
            row += 1
    return row


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return sum(int(line.split()[1]) << 10 for line in f if line.startswith(("RssAnon:", "RssShmem:")))
    except OSError:
        return 0


def steps_of(run):
    try:
        with open(f"{run}/metrics.jsonl") as f:
            return max((json.loads(line).get("step", 0) for line in f if line.endswith("\n")), default=0)
    except OSError:
        return 0


def run(command, limit, out, kill_after=None, tmp=None):
    """Runs it in a group of its own; what was measured. limit None: no group."""
    group = host_runs.make_group(int(limit)) if limit else None
    if limit and group is None:
        sys.exit("no cgroup (v1) can be made here")

    def enter():
        if group:
            with open(f"{group}/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))

    began, held, killed, first, done = time.time(), 0, False, None, steps_of(out)
    env = dict(os.environ, TMPDIR=tmp) if tmp else None
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=enter, env=env)
    while child.poll() is None:
        held = max(held, anonymous(child.pid))
        step = steps_of(out)
        first = first or (time.time() - began if step > done else None)
        if kill_after and step >= kill_after and not killed:
            child.send_signal(signal.SIGKILL)
            killed = True
        time.sleep(0.02)
    said = child.stderr.read()
    told = {"code": child.returncode, "seconds": time.time() - began, "first_step": first, "held": held, "killed_by_us": killed, "said": said}
    if group:
        with open(f"{group}/memory.max_usage_in_bytes") as f:
            told["usage"] = int(f.read())
        with open(f"{group}/memory.oom_control") as f:
            told["oom"] = next((int(line.split()[1]) for line in f if line.startswith("oom_kill ")), 0)
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)
    return told


def bits(out):
    with open(f"{out}/model/model.safetensors", "rb") as f:
        weights = hashlib.sha256(f.read()).hexdigest()
    with open(f"{out}/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    return weights, [(m["step"], m.get("loss"), m.get("grad_norm")) for m in lines if "loss" in m]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--bytes", type=float, default=10e9)
    p.add_argument("--limit", type=float, default=500e6, help="bytes of the cgroup")
    p.add_argument("--scratch", default="/var/tmp")
    p.add_argument("--vocabulary", default=os.path.join(HERE, "..", "..", "models", "all-MiniLM-L6-v2", "vocab.txt"))
    p.add_argument("--in-memory", action="store_true", help="once more on the heap, without a limit")
    p.add_argument("--output", help="a table for people, as Markdown")
    options = p.parse_args()
    directory = tempfile.mkdtemp(prefix="ft-large-", dir=options.scratch)
    faults = []
    try:
        words = write_model(f"{directory}/model", options.vocabulary)
        rows = write_texts(f"{directory}/train.tsv", options.bytes, words)
        size = os.path.getsize(f"{directory}/train.tsv")
        print(f"{rows} rows, {size / 1e9:.2f} GB", flush=True)
        os.makedirs(f"{directory}/tmp")

        def command(out, cache):
            return [FTENGINE, "train", f"model.path={directory}/model", "model.init=random", f"data.train={directory}/train.tsv",
                    "train.max_steps=50", "train.batch_size=16", "data.max_length=128", "device.name=cpu", "device.threads=2", "output.save_steps=10",
                    "train.logging_steps=1", f"data.cache_dir={directory}/{cache}", "output.exists=resume",
                    f"output.dir={out}"]

        runs = []

        def once(name, out, cache, limit, tmp, kill_after=None):
            told = run(command(f"{directory}/{out}", cache), limit, f"{directory}/{out}", kill_after, tmp)
            wanted = -signal.SIGKILL if kill_after else 0
            if told["code"] != wanted or told.get("oom", 0) or (kill_after and not told["killed_by_us"]):
                faults.append(f"{name}: exit code {told['code']}, {told.get('oom', 0)} kills: {told['said'][-600:]}")
            runs.append((name, told))
            print(f"{name}: {told['seconds']:.0f} s, first step after {told['first_step'] or 0:.0f} s, held {told['held'] / 1e6:.0f} MB, "
                  f"usage {told.get('usage', 0) / 1e6:.0f} MB, {told.get('oom', 0)} kills", flush=True)

        tmp = f"{directory}/tmp"
        once("undisturbed", "a", "cache", options.limit, tmp)
        once("killed", "b", "cache", options.limit, tmp, kill_after=20)
        once("resumed", "b", "cache", options.limit, tmp)
        cached = sum(os.path.getsize(f"{directory}/cache/{n}") for n in os.listdir(f"{directory}/cache")) if os.path.isdir(f"{directory}/cache") else 0
        same = not faults and bits(f"{directory}/a") == bits(f"{directory}/b")
        if options.in_memory:
            once("on the heap", "c", "none-cache", None, "/nowhere")
            same = same and not faults and bits(f"{directory}/a") == bits(f"{directory}/c")
        if not same:
            faults.append("the bits differ")
        lines = [f"`benchmarks/memory/large_data.py --bytes {options.bytes:g} --limit {options.limit:g}`: {rows} rows, {size / 1e9:.2f} GB, "
                 f"in a cache of {cached / 1e9:.2f} GB; 50 steps of 16 texts, a model of 2 layers of 64.", "",
                 "| run | seconds | of these before the first step | held at most, MB | usage at most (page cache too), MB | kills for memory |",
                 "| --- | --- | --- | --- | --- | --- |"]
        for name, t in runs:
            lines.append(f"| {name} | {t['seconds']:.0f} | {t['first_step'] or 0:.0f} | {t['held'] / 1e6:.0f} | {t.get('usage', 0) / 1e6:.0f} | {t.get('oom', 0)} |")
        lines += ["", "Weights, losses and norms of gradients of all of them: " + ("the same bits." if same else "NOT the same.")]
        lines += ["", *[f"- {f}" for f in faults]] if faults else []
        print("\n".join(lines))
        if options.output:
            with open(options.output, "a") as f:
                f.write("\n" + "\n".join(lines) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
