#!/usr/bin/env python3
"""Two CPU ranks of one thread beside one rank of two threads, TREC's mixed lengths, in turns, about 10 minutes.

    python3 benchmarks/speed/ranks_vs_threads.py --train TREC/train.tsv [--batches 32,64] [--steps 60] [--rounds 4]

Ranks cost what a smaller share of a batch costs (weights read and gradients added to once for every rank) and what they wait for each other, since a
rank continues the sums of the one before it. So one rank of two threads that takes the same shares one after another (train.micro_batch) stands
beside them: the rest is waiting. With distributed.reduction = ring nobody waits, and gradients of each rank are summed instead. Tokens/s are those of
run.json. The weights of all but ring must be the same bits, and those of all runs of ring.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, TREC, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402

TARGET = 0.9


def train(o, scratch, batch, options):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    _, process = measured(
        [o.ftengine, "train", os.path.join(ROOT, "configs", "trec.ini"), f"model.path={o.model}", f"data.train={o.train}", f"data.cache_dir={scratch}/cache",
         f"train.max_steps={o.steps}", f"train.batch_size={batch}", "eval.strategy=no", f"output.dir={run}", "--quiet", *options])
    with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
        speed = json.load(f)["tokens_per_second"]
    with open(os.path.join(run, "model", "model.safetensors"), "rb") as f:
        bits = hashlib.sha256(f.read()).hexdigest()
    return {"tokens_per_second": speed, "sha256": bits, "others_share": process["others_share"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--train", default=os.path.join(TREC, "train.tsv"))
    parser.add_argument("--batches", default="32,64")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--output", default=os.path.join(RESULTS, "ranks_vs_threads"), help="without extension")
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    o = parser.parse_args()
    build_probe(o.fma_peak)
    o.ftengine, o.model, o.train = (os.path.abspath(path) for path in (o.ftengine, o.model, o.train))
    found, lines = {}, ["| batch | 1 rank of 2 threads, tokens/s | the same in two shares | 2 ranks of 1 thread | with ring | ranks over threads (range) | ring over threads (range) |",
                        "|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as scratch:
        peaks = [fma_peak(o.fma_peak)]
        for batch in (int(b) for b in o.batches.split(",")):
            ways = {"threads": ["device.threads=2"], "shares": ["device.threads=2", f"train.micro_batch={batch // 2}"],
                    "ranks": ["--devices", "cpu,cpu", "device.threads=1"],
                    "ring": ["--devices", "cpu,cpu", "device.threads=1", "distributed.reduction=ring"]}
            sides = found[batch] = {name: [] for name in ways}
            for _ in range(o.rounds):
                for name, options in ways.items():
                    sides[name].append(train(o, scratch, batch, options))
                print(f"batch {batch}: " + ", ".join(f"{name} {sides[name][-1]['tokens_per_second']:.0f}" for name in ways), "tokens/s", flush=True)
            if any(len({side["sha256"] for name in names for side in sides[name]}) != 1 for names in (set(ways) - {"ring"}, {"ring"})):
                sys.exit(f"batch {batch}: the weights of two runs differ")
            speed = {name: [side["tokens_per_second"] for side in sides[name]] for name in ways}
            ratios = {name: [a / b for a, b in zip(speed[name], speed["threads"])] for name in ("ranks", "ring")}
            lines.append(f"| {batch} | " + " | ".join(f"{median(speed[name]):.0f}" for name in ways) + " | " +
                         " | ".join(f"**{median(r):.2f}** ({min(r):.2f} to {max(r):.2f})" for r in ratios.values()) + " |")
        peaks.append(fma_peak(o.fma_peak))
    others = max(side["others_share"] for sides in found.values() for side in sum(sides.values(), []))
    lines += ["", f"Target {TARGET}. FMA peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s; other processes took up to {100 * others:.0f}% of the cores. "
              "The weights of all runs of a batch size are the same bits, those of ring among themselves.", ""]
    document = provenance() | {"peaks": peaks, "found": found}
    write_results(o.output, document, "\n".join(title_lines(document, "CPU ranks beside threads") + lines))


if __name__ == "__main__":
    main()
