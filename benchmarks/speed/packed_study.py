#!/usr/bin/env python3
"""A study of 64 LoRA trials, packed and pruned (study.pack, study.pruner=halving), beside the same study one trial after the other, unpruned.

    python3 benchmarks/speed/packed_study.py --train TREC/train.tsv --dev TREC/test.tsv [--trials 64] [--pack 16] [--steps 320] [--seeds 1]

Both draw the same trials (sampler random, the study's seed), so the packed study has reached the other's best value when a trial that is as good has
ended. Seconds are those of the clock, of the whole command and from its begin to that trial's end, start, plans and evaluations in them. About half
an hour a seed on 2 cores."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, TREC, build_probe, fma_peak, measured, provenance, title_lines, write_results  # noqa: E402

TARGET = 0.2
CONFIG = """[model]
path = {model}
[data]
train = {train}
validation = {dev}
max_length = 32
cache_dir = {scratch}/cache
[adapter]
type = lora
dropout = 0.05
[train]
batch_size = 8
max_steps = {steps}
[eval]
strategy = steps
steps = {every}
metric = accuracy
[output]
save_steps = 0
[study]
objective = maximize eval.accuracy
sampler = random
keep = none
[space]
adapter.r = choice(4, 8, 16)
adapter.alpha = choice(8, 16, 32)
train.learning_rate = float(1e-4, 1e-2, log)
train.seed = int(0, 1000)
"""


def study(o, scratch, name, seed, settings):
    """What the command took, and its trials with the seconds from its first trial's begin to each one's end."""
    _, process = measured(
        [o.ftengine, "tune", f"{scratch}/bench.ini", "--study", name, "--trials", str(o.trials), f"study.seed={seed}", *settings],
        log=os.path.join(scratch, name + ".log"), cwd=scratch)
    lines = subprocess.run([o.ftengine, "study", "export", name, "--format", "jsonl"], cwd=scratch, check=True, capture_output=True, text=True).stdout
    trials = [json.loads(line) for line in lines.splitlines()][1:]
    begin = min(datetime.fromisoformat(t["datetime_start"]) for t in trials)
    done = sorted(((datetime.fromisoformat(t["datetime_complete"]) - begin).total_seconds(), t["values"][0], t["number"])
                  for t in trials if t["state"] == "COMPLETE")
    steps = sum(max(int(step) for step in t["intermediate_values"]) for t in trials if t["intermediate_values"])
    return {"seconds": process["process_seconds"], "others_share": process["others_share"], "trials": len(trials),
            "pruned": sum(t["state"] == "PRUNED" for t in trials), "steps": steps, "done": done}


def first(done, value):
    """Seconds until a trial as good as value has ended; None: there is none."""
    return next((seconds for seconds, found, _ in done if found >= value), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--train", default=os.path.join(TREC, "train.tsv"))
    parser.add_argument("--dev", default=os.path.join(TREC, "test.tsv"))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--pack", type=int, default=16)
    parser.add_argument("--steps", type=int, default=320, help="of a trial")
    parser.add_argument("--every", type=int, default=20, help="steps between two evaluations; the first pruning is after as many")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--output", default=os.path.join(RESULTS, "packed_study"), help="without extension")
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    o = parser.parse_args()
    build_probe(o.fma_peak)
    every = o.every
    rows, peaks = [], []
    with tempfile.TemporaryDirectory() as scratch:
        paths = {name: os.path.abspath(getattr(o, name)) for name in ("model", "train", "dev")}
        with open(f"{scratch}/bench.ini", "w", encoding="utf-8") as f:
            f.write(CONFIG.format(**paths, scratch=scratch, steps=o.steps, every=every))
        pruner = [f"study.pack={o.pack}", "study.pruner=halving", f"study.pruner_min_resource={every}", "study.pruner_reduction_factor=4"]
        for seed in map(int, o.seeds.split(",")):
            peaks.append(fma_peak(o.fma_peak))
            together = study(o, scratch, f"together-{seed}", seed, pruner)
            alone = study(o, scratch, f"alone-{seed}", seed, [])
            best = max(value for _, value, _ in alone["done"])
            rows.append({"seed": seed, "best": best, "alone": alone, "together": together, "alone_first": first(alone["done"], best),
                         "together_first": first(together["done"], best), "together_best": max(value for _, value, _ in together["done"])})
            print(f"seed {seed}: {alone['seconds']:.0f} s and {together['seconds']:.0f} s", file=sys.stderr)
    peaks.append(fma_peak(o.fma_peak))
    with open(o.dev, encoding="utf-8") as f:
        texts = sum(1 for _ in f) - 1
    lines = title_lines(dict(provenance()), "LoRA trials packed and pruned beside one after the other")
    lines += [f"{o.trials} trials of {o.steps} steps of 8 texts, judged on {texts} others every {every} steps. "
              f"Packed: {' '.join(pruner)}.", "",
              "| seed | best, alone | seconds: first reached, whole study | steps | best, packed | seconds: as good as alone, whole study | steps, pruned | "
              "share: whole over whole | as good over whole |", "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        a, t = r["alone"], r["together"]
        reached = "never" if r["together_first"] is None else f"{r['together_first']:.0f}"
        share = "-" if r["together_first"] is None else f"**{r['together_first'] / a['seconds']:.2f}**"
        lines.append(f"| {r['seed']} | {r['best']:.4f} | {r['alone_first']:.0f}, {a['seconds']:.0f} | {a['steps']:,} | {r['together_best']:.4f} | "
                     f"{reached}, {t['seconds']:.0f} | {t['steps']:,}, {t['pruned']} | {t['seconds'] / a['seconds']:.2f} | {share} |")
    others = max(x["others_share"] for r in rows for x in (r["alone"], r["together"]))
    lines += ["", f"Target {TARGET}. FMA peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s; other processes took up to {others:.0%} of the cores.", ""]
    document = dict(provenance(), trials=o.trials, pack=o.pack, steps=o.steps, seeds=rows, fma_peak=peaks)
    write_results(o.output, document, "\n".join(lines))


if __name__ == "__main__":
    main()
