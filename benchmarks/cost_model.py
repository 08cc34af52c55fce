#!/usr/bin/env python3
"""Do predicted and measured step times put settings in the same order?

    benchmarks/cost_model.py [--ftengine build/ftengine] [--model models/all-MiniLM-L6-v2] [--data data/reviews/train.tsv]

Thirty ways to run one configuration - micro-batches of six sizes, recomputation off, of every layer and of stretches, two
effective batches - are planned (`predicted_step_seconds` of `ftengine plan --json`) and trained for some steps on one
thread. Measured is the processor time of a step: that of a run of many steps less that of a run of few, best of
--rounds, so that a busy machine disturbs it little. The result is Spearman's rank correlation (ties share their rank).
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            result[i] = (at + end - 1) / 2
        at = end
    return result


def spearman(a, b):
    x, y = ranks(a), ranks(b)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((p - mx) * (q - my) for p, q in zip(x, y))
    return covariance / (sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y)) ** 0.5


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default="build/ftengine")
    parser.add_argument("--model", default="models/all-MiniLM-L6-v2")
    parser.add_argument("--data", default="data/reviews/train.tsv")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", help="also as JSON")
    words = parser.parse_args()
    settings = [(batch, tokens, every) for batch in (32, 64) for tokens in (32, 64, 128, 320, "auto") for every in ("off", "on", "3")]
    rows = []
    for batch, tokens, every in settings:
        common = [f"model.path={words.model}", f"data.train={words.data}", f"train.batch_size={batch}",
                  f"train.micro_batch_tokens={tokens}", f"train.gradient_checkpointing={every}", "device.threads=1",
                  "eval.strategy=no"]
        plan = json.loads(subprocess.run([words.ftengine, "plan", *common, f"train.max_steps={words.steps}", "--json"],
                                         check=True, capture_output=True).stdout)
        best = None
        for _ in range(words.rounds):
            seconds = []
            for steps in (2, 2 + words.steps):
                with tempfile.TemporaryDirectory() as scratch:
                    seconds.append(processor_seconds([words.ftengine, "train", *common, f"train.max_steps={steps}",
                                                      f"output.dir={os.path.join(scratch, 'run')}"]))
            step = (seconds[1] - seconds[0]) / words.steps
            best = step if best is None else min(best, step)
        rows.append({"batch_size": batch, "micro_batch_tokens": tokens, "gradient_checkpointing": every,
                     "predicted": plan["predicted_step_seconds"], "measured": best})
        print(f"{batch:4} {tokens!s:>6} {every:>4}  predicted {plan['predicted_step_seconds'] * 1e3:8.1f} ms  measured {best * 1e3:8.1f} ms",
              flush=True)
    result = spearman([r["predicted"] for r in rows], [r["measured"] for r in rows])
    each = {b: spearman([r["predicted"] for r in rows if r["batch_size"] == b], [r["measured"] for r in rows if r["batch_size"] == b])
            for b in (32, 64)}
    print(f"Spearman over {len(rows)} settings {result:.3f}; of batch 32 alone {each[32]:.3f}, of 64 alone {each[64]:.3f}")
    if words.output:
        with open(words.output, "w", encoding="utf-8") as out:
            json.dump({"format_version": 1, "spearman": result, "each": each, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
