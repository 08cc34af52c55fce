#!/usr/bin/env python3
"""Do predicted and measured step times put settings in the same order?

    benchmarks/speed/cost_model.py [--ftengine build/ftengine] [--model models/all-MiniLM-L6-v2] [--data data/reviews/train.tsv]
    benchmarks/speed/cost_model.py --device cuda            a GPU; needs Python and this repository alone (a part of gpu_check.sh)

Thirty ways (on a GPU 36) to run one configuration, in fp32 - micro-batches of several sizes, layers recomputed or not, activation
function and outputs of norms kept or made again, AdamW's state or inputs of recomputed layers on the host (on a GPU, where else
there is a third stretch of layers), two effective batches - are planned (`predicted_step_seconds` of `ftengine plan --json`) and
trained for some steps. Measured on the CPU is the
processor time of a step on one thread: that of a run of many steps less that of a run of few, best of --rounds, so that a busy
machine disturbs it little. On a GPU it is the time of training by run.json, taken in the same way. The result is Spearman's rank
correlation (ties share their rank); exit 1 where it is below
--least, 4 where there is no such device.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = os.path.join(ROOT, "tests", "vectors", "trainer", "model")  # a tokenizer, for texts that are made up
BATCHES = (32, 64)


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


def program(command):
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0:
        print(f"{run.stderr.strip()[-500:]}\nof {' '.join(command)}", file=sys.stderr)
        sys.exit(4 if run.returncode == 4 else 1)  # 4: there is no such device
    return run.stdout


def processor_seconds(command, directory):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def training_seconds(command, directory):
    program(command)
    with open(os.path.join(directory, "run.json"), encoding="utf-8") as f:
        return json.load(f)["seconds"]["train"]


def settings_of(device):
    """Options by name; what a setting does not name has its default."""
    every = ("off", "on", "3") if device == "cpu" else ("off", "on")
    finer = [("true", "true"), ("false", "false"), ("false", "true")]  # activation function, norms
    for batch in BATCHES:
        for tokens in ("32", "128", "auto"):
            for layers in every:
                yield batch, {"train.micro_batch_tokens": tokens, "train.gradient_checkpointing": layers}
        for tokens in ("64", "auto"):
            for activation, norms in finer:
                yield batch, {"train.micro_batch_tokens": tokens, "train.gradient_checkpointing": "off",
                              "memory.recompute_activation": activation, "memory.recompute_layernorm": norms}
        if device != "cpu":
            for tokens in ("64", "320", "auto"):
                yield batch, {"train.micro_batch_tokens": tokens, "train.gradient_checkpointing": "off", "memory.offload": "optimizer"}
            for tokens in ("64", "320", "auto"):
                yield batch, {"train.micro_batch_tokens": tokens, "train.gradient_checkpointing": "on", "memory.offload": "activations"}


def write_texts(path):
    """Of mixed lengths, up to 60 words."""
    drawn = random.Random(1)
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for row in range(512):
            f.write(" ".join("ab" for _ in range(drawn.randint(8, 60))) + f"\t{row % 2}\n")


def common_options(words, scratch):
    if words.device == "cpu":
        model, data = words.model or os.path.join(ROOT, "models", "all-MiniLM-L6-v2"), words.data or os.path.join(ROOT, "data", "reviews", "train.tsv")
        return [f"model.path={model}", f"data.train={data}", "device.name=cpu", "device.threads=1"]
    options = [f"model.path={words.model}"] if words.model else ["model.path=bert-base-uncased", "model.init=random", f"model.stand_in_tokenizer={TINY}"]
    if not words.data:
        write_texts(os.path.join(scratch, "texts.tsv"))
    return options + [f"data.train={words.data or os.path.join(scratch, 'texts.tsv')}", f"device.name={words.device}", "data.cache_dir=none"]


def measured_step(words, options, scratch):
    measure = processor_seconds if words.device == "cpu" else training_seconds
    best = None
    for _ in range(words.rounds):
        seconds = []
        for steps in (2, 2 + words.steps):
            with tempfile.TemporaryDirectory(dir=scratch) as run:
                directory = os.path.join(run, "run")
                seconds.append(measure([words.ftengine, "train", *options, f"train.max_steps={steps}", f"output.dir={directory}"], directory))
        step = (seconds[1] - seconds[0]) / words.steps
        best = step if best is None else min(best, step)
    return best


def measure_all(words, scratch):
    common = common_options(words, scratch) + ["eval.strategy=no"]
    for batch, setting in list(settings_of(words.device))[: words.settings]:
        options = common + [f"train.batch_size={batch}"] + [f"{k}={v}" for k, v in setting.items()]
        plan = json.loads(program([words.ftengine, "plan", *options, f"train.max_steps={words.steps}", "--json"]))
        row = {"batch_size": batch, **setting, "predicted": plan["predicted_step_seconds"], "measured": measured_step(words, options, scratch)}
        text = " ".join(v for v in setting.values())
        print(f"{batch:4} {text:24} predicted {row['predicted'] * 1e3:8.1f} ms  measured {row['measured'] * 1e3:8.1f} ms", flush=True)
        yield row


def correlation(rows):
    return spearman([r["predicted"] for r in rows], [r["measured"] for r in rows]) if len(rows) > 2 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--model", help="on the CPU MiniLM, on a GPU BERT base with random weights")
    parser.add_argument("--data", help="on the CPU the quick start's reviews, on a GPU made up")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--settings", type=int, help="so many of them only, to try it")
    parser.add_argument("--least", type=float, help="of the correlation over all of them")
    parser.add_argument("--output", help="also as JSON")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = list(measure_all(words, scratch))
    result = correlation(rows)
    if result is None:
        sys.exit("too few settings for a correlation")
    each = {b: correlation([r for r in rows if r["batch_size"] == b]) for b in BATCHES}
    texts = [f"of batch {b} alone {v:.3f}" for b, v in each.items() if v is not None]
    print(f"Spearman over {len(rows)} settings {result:.3f}; {', '.join(texts)}")
    if words.output:
        with open(words.output, "w", encoding="utf-8") as out:
            json.dump({"format_version": 2, "device": words.device, "spearman": result, "each": each, "rows": rows}, out, indent=1)
    if words.least is not None and not result >= words.least:
        sys.exit(f"below {words.least}")


if __name__ == "__main__":
    main()
