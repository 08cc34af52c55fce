#!/usr/bin/env python3
"""Is the time of a run inside the interval of `ftengine quote`? Random short configurations, each quoted and then trained.

    python3 benchmarks/speed/quote_interval.py [--runs 20] [--seconds 3] [--seed 1]

What is drawn: a MiniLM of all layers or of two, full or LoRA, batch size, length, texts, epochs, when it is evaluated and saved, threads. A quote measures for
--seconds beside what it reads; real is the process of `ftengine train` from its start to its end. The interval is meant to hold the real
time in 95% of cases on a machine that goes on as it did: the share of the cores that other processes took, and the FMA peak beside quote and run, stand in
every row, so that a miss on a machine that changed can be told from one of ours. Of 20, 17 or more is what 95% gives 98 times in 100.
Writes results/quote_interval.md. 20 runs take some 10 minutes.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402


def two_layers(model, scratch):
    """The same model with its first two layers: a file that says so, and the weights as they are."""
    small = os.path.join(scratch, "two-layers")
    os.makedirs(small)
    for name in os.listdir(model):
        path = os.path.join(model, name)
        if os.path.isfile(path) and name != "config.json":
            os.symlink(os.path.realpath(path), os.path.join(small, name))
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["num_hidden_layers"] = 2
    with open(os.path.join(small, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return small


def share_of(data, count, draw, path):
    """A file with so many of its rows."""
    with open(data, encoding="utf-8") as f:
        header, *rows = f.read().rstrip("\n").split("\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join([header, *draw.sample(rows, min(count, len(rows)))]) + "\n")
    return path


def draw_configuration(draw, models, data, lengths, scratch, number):
    model = draw.choice(models)
    small = model != models[0]
    texts = share_of(os.path.join(data, "train.tsv"), draw.choice([200, 400] if not small else [600, 1500]), draw, os.path.join(scratch, f"train-{number}.tsv"))
    held = share_of(os.path.join(data, "dev.tsv"), draw.choice([50, 200]), draw, os.path.join(scratch, f"dev-{number}.tsv"))
    words = {
        "model.path": model, "data.train": texts, "data.validation": held, "data.max_length": draw.choice(lengths),
        "train.batch_size": draw.choice([4, 8, 16, 32]), "train.epochs": draw.choice([1, 2, 3]), "eval.strategy": draw.choice(["no", "epoch", "steps"]),
        "device.threads": draw.choice([1, len(os.sched_getaffinity(0))]), "train.seed": number, "data.cache_dir": "none",
    }  # fmt: skip
    if words["eval.strategy"] == "steps":
        words["eval.steps"] = draw.choice([10, 25])
    if draw.random() < 0.5:
        words["output.save_steps"] = draw.choice([20, 50])
    if draw.random() < 0.3:
        words.update({"adapter.type": "lora", "adapter.r": 8})
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--data", default=os.path.join(ROOT, "data", "reviews"), help="a directory with train.tsv and dev.tsv")
    parser.add_argument("--lengths", type=lambda text: [int(word) for word in text.split(",")], default=[32, 64, 128])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3, help="that a quote measures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=os.path.join(RESULTS, "quote_interval"), help="without extension")
    options = parser.parse_args()
    build_probe(options.fma_peak)
    log = os.path.join(tempfile.gettempdir(), "quote_interval.log")
    draw, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory(prefix="quote-interval-") as scratch:
        models = [options.model, two_layers(options.model, scratch)]
        for number in range(options.runs):
            words = draw_configuration(draw, models, options.data, options.lengths, scratch, number)
            arguments = [f"{name}={value}" for name, value in words.items()]
            run = os.path.join(scratch, "run")
            shutil.rmtree(run, ignore_errors=True)
            peaks = [fma_peak(options.fma_peak)]
            text, quoting = measured([options.ftengine, "quote", *arguments, f"output.dir={run}", "--seconds", str(options.seconds), "--json"], log)
            peaks.append(fma_peak(options.fma_peak))
            _, training = measured([options.ftengine, "train", *arguments, f"output.dir={run}", "--quiet"], log)
            peaks.append(fma_peak(options.fma_peak))
            quote = json.loads(text)
            with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
                said = json.load(f)
            seconds, real = quote["seconds"], training["process_seconds"]
            row = {"options": {name: os.path.basename(str(value)) for name, value in words.items()}, "quote": seconds, "parts": quote["parts"],
                   "quote_took": quoting["process_seconds"], "real": real, "real_parts": said["seconds"], "inside": seconds["low"] <= real <= seconds["high"],
                   "bytes_equal": said["memory"]["peak_reserved_bytes"] == quote["peak_reserved_bytes"], "steps": said["steps"], "quoted_steps": quote["total_steps"],
                   "fma_peaks": peaks, "others_share": max(quoting["others_share"], training["others_share"])}  # fmt: skip
            rows.append(row)
            print(f"{number + 1}: {seconds['low']:.1f} to {seconds['high']:.1f} s, real {real:.1f} s{'' if row['inside'] else ' OUTSIDE'}", flush=True)
    inside = sum(row["inside"] for row in rows)
    document = dict(provenance(), runs=options.runs, seconds=options.seconds, seed=options.seed, inside=inside, rows=rows)
    lines = title_lines(document, "Is the time of a run inside the interval of its quote?")
    lines += [f"**{inside} of {len(rows)}** runs ended inside of the interval that is meant to hold 95%; bytes and steps were as quoted in "
              f"{sum(row['bytes_equal'] and row['steps'] == row['quoted_steps'] for row in rows)}. Real over estimated: median "
              f"{median([row['real'] / row['quote']['estimate'] for row in rows]):.3f}. Width of the interval, over the estimate: median "
              f"{median([(row['quote']['high'] - row['quote']['low']) / row['quote']['estimate'] for row in rows]):.2f}.", "",
              "| model | batch | length | steps | evaluated | estimate s | interval s | real s | inside | real / estimate | FMA peak beside quote, run | others' share |",
              "|---|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        o, q, p = row["options"], row["quote"], row["fma_peaks"]
        lines.append(f"| {o['model.path']}{', LoRA' if 'adapter.type' in o else ''} | {o['train.batch_size']} | {o['data.max_length']} | {row['steps']} | "
                     f"{o['eval.strategy']} | {q['estimate']:.2f} | {q['low']:.2f} to {q['high']:.2f} | {row['real']:.2f} | {'yes' if row['inside'] else 'NO'} | "
                     f"{row['real'] / q['estimate']:.3f} | {(p[0] + p[1]) / 2:.0f}, {(p[1] + p[2]) / 2:.0f} | {row['others_share']:.0%} |")  # fmt: skip
    write_results(options.output, document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
