#!/usr/bin/env python3
"""Hundreds of random runs in limits of exactly what `ftengine plan` says their process needs, and in less.

    FTENGINE=build/ftengine benchmarks/memory/host_runs.py --runs 200 [--seed 1] [--largest 100e6] [--output benchmarks/results/host_memory.md]

Each run is drawn, planned, run in a limit of the plan and 1%, and tried in less than the plan without its slack (tests/memory/
host_runs.py). Every run is judged in a cgroup; every fourth under RLIMIT_AS too, every fourth under RLIMIT_DATA. Needs cgroups that can be made
(v1), and as root: nothing else.
"""

import argparse
import concurrent.futures
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "memory"))
import host_runs


def histogram(values, edges):
    rows = []
    for low, high in zip(edges, edges[1:]):
        count = sum(low <= v < high for v in values)
        rows.append(f"| {low:g} to {high:g} | {count} | {'#' * count} |")
    return rows


def one(seed, scratch, options):
    """All that is judged of the run of a seed: its words, the size of its texts, [(kind, what came)], faults."""
    args, told = host_runs.draw(seed, scratch, options.largest, options.threads, options.large_share, options.repeated_share)
    size = os.path.getsize(next(a for a in args if a.startswith("data.train="))[len("data.train="):])
    results, faults = [], []
    every = options.all_kinds
    for kind in ["cgroup"] + (["as"] if every or seed % 4 == 1 else []) + (["data"] if every or seed % 4 == 2 else []):
        try:
            result = host_runs.judge(args, kind)
        except RuntimeError as e:
            faults.append(f"run {seed} ({told}): {e}")
            break
        results.append((kind, result))
        if result is not None:
            faults += [f"run {seed} ({told}), {kind}: {f}" for f in result["faults"]]
    shutil.rmtree(f"{scratch}/{seed}", ignore_errors=True)
    return told, size, results, faults


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--largest", type=float, default=100e6, help="bytes of the largest training file")
    p.add_argument("--large-share", type=float, default=0.15, help="of runs with files above 3 MB")
    p.add_argument("--repeated-share", type=float, default=0.2, help="of runs for two seeds, some of them with folds")
    p.add_argument("--all-kinds", action="store_true", help="each run under RLIMIT_AS and RLIMIT_DATA too")
    p.add_argument("--threads", type=int, default=16, help="of a run, at most")
    p.add_argument("--seconds", type=float, default=1e9, help="no new run after that")
    p.add_argument("--parallel", type=int, default=2, help="runs at the same time")
    p.add_argument("--output", help="a table for people, as Markdown")
    options = p.parse_args()
    began, over, ratio, faults, kinds, skipped, largest = time.time(), [], [], [], {"cgroup": 0, "as": 0, "data": 0}, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["FTENGINE_LEDGER_DIR"] = f"{scratch}/ledger"

        def work(seed):
            return (seed, one(seed, scratch, options)) if time.time() - began < options.seconds else (seed, None)

        with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
            for seed, done in pool.map(work, range(options.seed, options.seed + options.runs)):
                if done is None:
                    continue
                told, size, results, wrong = done
                faults += wrong
                for kind, result in results:
                    if result is None:
                        skipped += 1
                        continue
                    kinds[kind] += 1
                    if kind == "cgroup":
                        largest = max(largest, size)
                        over.append((result["need"] - result["held"]) / 1e6)
                        ratio.append(100 * result["held"] / result["need"])
                        print(f"{seed} {told}: planned {result['need'] / 1e6:.1f} MB, held {result['held'] / 1e6:.1f}", flush=True)
                for fault in wrong:
                    print(f"   {fault}", flush=True)
    held = [o * r / (100 - r) if r < 100 else 0 for o, r in zip(over, ratio)]
    near = sum(o <= max(8.388608, 0.05 * h) for o, h in zip(over, held))
    lines = [
        "# What a process holds against what was planned for it", "",
        f"`benchmarks/memory/host_runs.py --runs {options.runs} --seed {options.seed} --largest {options.largest:g}`: {kinds['cgroup']} random runs in "
        f"cgroups of exactly the planned bytes and 1%, {kinds['as']} of them under RLIMIT_AS and {kinds['data']} under RLIMIT_DATA too; each once more in "
        f"less than its plan without the slack of 2 MiB. Largest training file: {largest / 1e6:.0f} MB.", "",
        f"Faults (a kill, a refusal of what was planned, a refusal after the run was begun, more held than planned): {len(faults)}.", "",
        f"The bound was within 8 MiB or 5% of what was held in {near} of {len(over)} runs; the farthest was {max(over, default=0):.1f} MB above.", "",
        "Planned less held, MB (held: the largest RssAnon of samples 2 ms apart):", "", "| MB | runs | |", "| --- | --- | --- |",
        *histogram(over, [-100, 0, 1, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12, 20, 1000]), "",
        "Held, % of planned:", "", "| % | runs | |", "| --- | --- | --- |",
        *histogram(ratio, [0, 30, 40, 50, 60, 70, 80, 90, 95, 98, 100, 101, 1000])]
    if skipped:
        lines += ["", f"Skipped, for no cgroup can be made here: {skipped}."]
    lines += ["", *[f"- {f}" for f in faults]] if faults else []
    print("\n".join(lines))
    if options.output:
        with open(options.output, "w") as f:
            f.write("\n".join(lines) + "\n")
    return 1 if faults or not kinds["cgroup"] else 0


if __name__ == "__main__":
    sys.exit(main())
