#!/usr/bin/env python3
"""What a pack of LoRA trials (study.pack) saves on a GPU by plan: time and memory of trials in one process beside one frozen model, against the same
trials one after the other and in processes of their own. Nothing is run: `ftengine plan` says how long a step takes and what of it are matrix products.

    benchmarks/speed/packed_plans.py --ftengine build/ftengine --gpu h200 --output benchmarks/results/packed_plans

In a pack the products of all trials are one launch each, as of a batch as large as all of theirs; all else is queued trial by trial."""

import argparse
import json
import os
import subprocess
import time

MODELS = ("sentence-transformers/all-MiniLM-L6-v2", "bert-base-uncased", "bert-large-uncased", "microsoft/deberta-v3-large")
TARGETS = ("auto", "all-linear")


def plan(program, gpu, model, targets, batch, length):
    words = [program, "plan", f"model.path={model}", "--gpu", gpu, "--json", "adapter.type=lora", "adapter.r=8", f"adapter.targets={targets}", "adapter.dropout=0.05",
             "train.precision=bf16", f"train.batch_size={batch}", f"data.max_length={length}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", required=True)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--output", required=True)
    a = parser.parse_args()
    program, n, lines = os.path.abspath(a.ftengine), a.trials, []
    for model in MODELS:
        for targets in TARGETS:
            one, all_ = (plan(program, a.gpu, model, targets, b, a.length) for b in (a.batch, n * a.batch))
            step, products = one["predicted_step_seconds"], one["predicted_product_seconds"]
            together = n * (step - products) + all_["predicted_product_seconds"]
            reserved, weights = one["memory"]["peak_reserved_bytes"], one["memory"]["at_peak"]["weights"]
            lines.append((model.split("/")[-1], targets, step, products / step, n * step, together, n * step / together, n * reserved, n * (reserved - weights) + weights))
    with open(a.output + ".md", "w", encoding="utf-8") as f:
        f.write(f"# {n} LoRA trials in a pack on {a.gpu}, by plan\n\n{time.strftime('%Y-%m-%d')}, `benchmarks/speed/packed_plans.py --gpu {a.gpu}`. **Predicted, not measured: no GPU has run it.**\n\n")
        f.write(f"LoRA of r 8, batches of {a.batch} texts of {a.length} tokens, bf16. Seconds of a step of each trial, by the rates of `kernels/devices/cost.h` "
                "(3 microseconds a launch).\n\n")
        f.write("| model | targets | a step alone, ms | of it products | one after the other, ms | packed, ms | times as fast | memory apart, GiB | packed, GiB |\n|---|---|---|---|---|---|---|---|---|\n")
        for model, targets, step, share, apart, together, gain, memory, packed in lines:
            f.write(f"| {model} | {targets} | {1e3 * step:.2f} | {share:.0%} | {1e3 * apart:.1f} | {1e3 * together:.1f} | **{gain:.2f}** | {memory / 2**30:.2f} | {packed / 2**30:.2f} |\n")


if __name__ == "__main__":
    main()
