#!/usr/bin/env python3
"""LoRA trials beside one frozen model in one process (study.pack) against the same trials one after the other, in pairs that take turns.

    benchmarks/speed/packed_trials.py --ftengine build/ftengine --model models/all-MiniLM-L6-v2 --data data/reviews --output benchmarks/results/packed_trials

Compared are seconds by the clock and of the processor of whole studies: starting, reading and planning are in them. What training alone gains is the
difference between studies of so many texts a trial and of twice as many, in both ways; it is held against what one trial gains when its batch is as
large as all of theirs together (the curve of its tokens/s over its batch)."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """[model]
path = {model}
[data]
train = {data}/train.tsv
max_length = 24
[adapter]
type = lora
dropout = 0.05
[eval]
strategy = no
[output]
save_steps = 1000000
[study]
objective = minimize train.loss
sampler = random
keep = none
[space]
adapter.r = choice(4, 8, 16)
train.learning_rate = float(1e-4, 1e-3, log)
train.seed = int(0, 1000)
"""


def study(program, scratch, trials, steps, batch, pack):
    """Seconds by the clock, of the processor, and the peak of the largest process in MiB."""
    with tempfile.TemporaryDirectory(dir=scratch) as here:
        command = [program, "tune", f"{scratch}/bench.ini", "--study", "s", "--trials", str(trials), f"train.max_steps={steps}",
                   f"train.batch_size={batch}", f"study.pack={pack}"]
        before = time.monotonic()
        child = subprocess.Popen(command, cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"failed: {' '.join(command)}")
        return time.monotonic() - before, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def curve(program, scratch, batch, texts):
    """Tokens a second of one run."""
    with tempfile.TemporaryDirectory(dir=scratch) as here:
        out = subprocess.run([program, "train", f"{scratch}/bench.ini", "output.dir=r", f"train.batch_size={batch}", f"train.max_steps={texts // batch}"],
                             cwd=here, capture_output=True, text=True, check=True).stderr
        line = next(line for line in out.splitlines() if "real tokens/s" in line)
        return int(line.split(",")[1].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--texts", type=int, default=120, help="texts that a trial is trained on")
    parser.add_argument("--output", required=True)
    a = parser.parse_args()
    program = os.path.abspath(a.ftengine)
    rows, largest = [], {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/bench.ini", "w") as f:
            f.write(CONFIG.format(model=os.path.abspath(a.model), data=os.path.abspath(a.data)))
        study(program, scratch, 1, 1, 8, 1)  # the texts' tokens are kept from here on
        for batch in (1, 3, 8):
            steps = max(a.texts // batch, 1)
            pairs = []
            for _ in range(a.repeats):
                pairs.append((study(program, scratch, a.trials, steps, batch, a.trials), study(program, scratch, a.trials, steps, batch, 1)))
            largest = {"together": max(p[0][2] for p in pairs), "alone": max(p[1][2] for p in pairs)}
            for what, k in (("processor", 1), ("clock", 0)):
                ratios = sorted(p[0][k] / p[1][k] for p in pairs)
                rows.append((batch, steps, what, statistics.median(p[0][k] for p in pairs), statistics.median(p[1][k] for p in pairs),
                             statistics.median(ratios), ratios[0], ratios[-1]))
        halves = []  # batch 8 again, with twice the texts: (seconds of the second half together, one after the other)
        for _ in range(a.repeats):
            steps = a.texts // 8
            shorter, longer = ([study(program, scratch, a.trials, n, 8, pack)[0] for pack in (a.trials, 1)] for n in (steps, 2 * steps))
            halves.append((longer[0] - shorter[0], longer[1] - shorter[1]))
        rates = [(batch, statistics.median(curve(program, scratch, batch, 640) for _ in range(a.repeats))) for batch in (1, 3, 8, 16, 64, 128)]
    together, alone = (statistics.median(h[k] for h in halves) for k in (0, 1))
    gain, allowed = alone / together, dict(rates)[8 * a.trials] / dict(rates)[8] if 8 * a.trials in dict(rates) else None
    with open(a.output + ".md", "w") as f:
        f.write("# LoRA trials beside one MiniLM: together and one after the other\n\n")
        f.write(f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {os.cpu_count()} cores, load average {load:.0f} before and {os.getloadavg()[0]:.0f} after"
                " (of other programs too: above the number of cores read processor seconds)\n\n")
        f.write(f"    {' '.join(sys.argv)}\n\n")
        f.write(f"{a.trials} trials, LoRA of r 4, 8 or 16 on queries and values, texts of at most 24 tokens, fp32; medians of {a.repeats} pairs. Together: one process.\n\n")
        f.write("| batch | steps | seconds | together | one after the other | ratio: median (least, most) |\n|---|---|---|---|---|---|\n")
        for batch, steps, what, x, y, ratio, least, most in rows:
            f.write(f"| {batch} | {steps} | {what} | {x:.2f} | {y:.2f} | **{ratio:.2f}** ({least:.2f}, {most:.2f}) |\n")
        f.write("\nOne trial's real tokens a second by its batch, while it trains: " + ", ".join(f"{b}: {r:.0f}" for b, r in rates) + ".\n\n")
        f.write(f"Batch 8, training alone (the second half of studies of {2 * (a.texts // 8)} steps a trial): {together:.2f} s together, {alone:.2f} s one after "
                f"the other: **{gain:.2f}** times as fast" + (f", where the curve allows {allowed:.2f}: **{gain / allowed:.0%}** of it (target 90%).\n\n" if allowed
                else ".\n\n"))
        f.write(f"Peak of resident memory: {largest['together']:.0f} MiB of the process of {a.trials} trials, {largest['alone']:.0f} MiB of a process of one.\n")


if __name__ == "__main__":
    main()
