#!/usr/bin/env python3
"""What people who fine-tune on a CPU notice, ftengine beside PyTorch and transformers, in one run of about 6 minutes.

    python3 benchmarks/speed/everyday.py --python /path/to/python/with/torch [--only train,start,predict,ops,tokenizer]

MiniLM in fp32 on all cores, from one exported checkpoint. Sides run in turns, with the FMA peak probed around every run.

train      texts of exactly 128 tokens in batches of 32, and of 512 in batches of 8: tokens a second, peak resident memory;
           PyTorch is transformers' model in a plain loop (everyday_torch.py). The first --skip steps of neither side count.
start      from starting the program, with cached tokens, to the beginning and to the end of the first step
predict    texts a second on the dev set of the reviews: ftengine predict from start to end, beside transformers' pipeline with
           the best of the batch sizes 1, 8 and 32, loading not counted
ops        part of the FMA peak that a step's matrix products and attention reach, at 352 and 4096 tokens a step, and where the
           time goes (bench_step)
tokenizer  bench_tokenizer.py: beside the fast tokenizers on one core

Data: reviews (tools/get_data.sh); texts of given lengths are made of words that are one token each.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import HF_TRAIN, RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402

TORCH = os.path.join(ROOT, "benchmarks", "speed", "everyday_torch.py")
PARTS = ("train", "start", "predict", "ops", "tokenizer")
SHAPES = ((32, 128), (8, 512))  # texts of a batch, tokens of a text
STEPS = ((11, 32), (32, 128))  # the same, of the shares of the peak
ALL_STEPS = ["eval.strategy=no", "output.save_steps=1000000", "data.validation=", "train.seed=42"]


class Bench:
    """What all parts need: programs, the checkpoint, a scratch directory, the log."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.log = os.path.join(tempfile.gettempdir(), "everyday.log")
        self.model = os.path.join(scratch, "model")
        export = ["export", "--model", options.model, "--labels", "2", "--seed", "42", "--output", self.model]
        measured([options.python, HF_TRAIN, *export], self.log)
        self.peak = fma_peak(options.fma_peak)
        self.others = 0.0  # largest share of the cores that other processes took during a run of this part

    def run(self, command):
        """Standard output and process figures, with the peak before and after."""
        before = self.peak
        text, process = measured(command, self.log)
        self.others = max(self.others, process["others_share"])
        self.peak = fma_peak(self.options.fma_peak)
        return text, process | {"fma_peak": (before + self.peak) / 2}

    def texts(self, count, length):
        """A file of texts of at least `length` tokens with two labels."""
        path = os.path.join(self.scratch, f"texts-{count}-{length}.tsv")
        if not os.path.exists(path):
            with open(os.path.join(self.model, "vocab.txt"), encoding="utf-8") as f:
                words = [w for w in f.read().split("\n") if w.isascii() and w.isalpha() and w.islower() and len(w) > 2]
            draw = random.Random(42)
            with open(path, "w", encoding="utf-8") as f:
                f.write("text\tlabel\n")
                f.writelines(f"{' '.join(draw.choices(words, k=length))}\t{i % 2}\n" for i in range(count))
        return path

    def training(self, data, length, batch, steps, *more):
        """Arguments of a training of ftengine, in a new run directory."""
        run = os.path.join(self.scratch, "run")
        shutil.rmtree(run, ignore_errors=True)
        cache = os.path.join(self.scratch, "cache")
        return run, [
            f"model.path={self.model}",
            f"data.train={data}",
            f"data.max_length={length}",
            f"device.isa={self.options.isa}",
            f"data.cache_dir={cache}",
            f"train.batch_size={batch}",
            f"train.max_steps={steps}",
            f"output.dir={run}",
            *ALL_STEPS,
            *more,
        ]


# ---- training ------------------------------------------------------------------------------------------------------


def our_training(bench, batch, length):
    o = bench.options
    # A line of the log behind the steps that do not count, and one at the end.
    run, arguments = bench.training(bench.texts(batch * 8, length), length, batch, o.steps + o.skip, f"train.logging_steps={o.skip}")
    _, process = bench.run([o.ftengine, "train", *arguments])
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    counted = [line for line in lines if "loss" in line][1:]
    with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
        result = json.load(f)
    if result["tokens"] != (o.steps + o.skip) * batch * length:
        sys.exit(f"{result['tokens']} tokens were trained on, not {(o.steps + o.skip) * batch * length}")
    # All lines are of as many steps, and all steps of as many tokens.
    return process | {"tokens_per_second": len(counted) / sum(1 / line["tokens_per_second"] for line in counted)}


def their_training(bench, batch, length):
    o = bench.options
    arguments = ["--batch", str(batch), "--length", str(length), "--steps", str(o.steps + o.skip), "--skip", str(o.skip)]
    text, process = bench.run([o.python, TORCH, "train", "--model", bench.model, *arguments])
    return process | json.loads(text)


def compare_training(bench):
    rows = []
    for batch, length in SHAPES:
        rounds = []
        for number in range(bench.options.rounds):
            sides = [("torch", their_training), ("ftengine", our_training)]
            pair = {side: run(bench, batch, length) for side, run in (sides if number % 2 == 0 else sides[::-1])}
            rounds.append(pair)
            ours, theirs = pair["ftengine"], pair["torch"]
            print(f"B{batch} S{length}: {ours['tokens_per_second']:.0f} and {theirs['tokens_per_second']:.0f} tokens/s", flush=True)
        speed = [r["ftengine"]["tokens_per_second"] / r["torch"]["tokens_per_second"] for r in rounds]
        by_peak = [s * r["torch"]["fma_peak"] / r["ftengine"]["fma_peak"] for s, r in zip(speed, rounds)]
        memory = [r["ftengine"]["resident_bytes"] / r["torch"]["resident_bytes"] for r in rounds]
        rows.append(
            {
                "batch": batch,
                "length": length,
                "rounds": rounds,
                "speed_ratio": median(speed),
                "speed_range": [min(speed), max(speed)],
                "speed_ratio_by_peak": median(by_peak),
                "resident_ratio": median(memory),
            }
        )
    return rows


def training_table(rows):
    lines = [
        "## Training, dense batches",
        "",
        "| | ftengine tokens/s | PyTorch tokens/s | ratio (range) | by the peak beside | resident, ftengine / PyTorch | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, theirs = ([r[side] for r in row["rounds"]] for side in ("ftengine", "torch"))
        low, high = row["speed_range"]
        target = "1.2x, memory 0.4x" if row["length"] == 128 else "2x, memory 0.4x"
        lines.append(
            f"| B{row['batch']} S{row['length']} | {median([r['tokens_per_second'] for r in ours]):.0f} "
            f"| {median([r['tokens_per_second'] for r in theirs]):.0f} | **{row['speed_ratio']:.2f}x** ({low:.2f} to {high:.2f}) "
            f"| {row['speed_ratio_by_peak']:.2f}x | {median([r['resident_bytes'] for r in ours]) / 2**20:.0f} / "
            f"{median([r['resident_bytes'] for r in theirs]) / 2**20:.0f} MiB, **{row['resident_ratio']:.2f}x** | {target} |"
        )
    first = rows[0]["rounds"][0]["torch"]
    return lines + ["", f"PyTorch: {first['versions']}, {first['threads']} threads.", ""]


# ---- start ---------------------------------------------------------------------------------------------------------


def first_step(bench, arguments):
    """Seconds from starting the program to the line before the first step, and to the one behind it."""
    start, times = time.monotonic(), {}
    command = [bench.options.ftengine, "train", os.path.join(ROOT, "configs", "minilm_quickstart.ini"), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        for line in process.stderr:
            for key, mark in (("begins", "Training Start:"), ("ends", "step 1/")):
                if line.startswith(mark):
                    times.setdefault(key, time.monotonic() - start)
    if process.returncode != 0 or len(times) != 2:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}, {times}")
    return times


def measure_start(bench):
    times = []
    for number in range(6):
        _, arguments = bench.training(os.path.join(bench.options.data, "train.tsv"), 128, 32, 1, "train.logging_steps=1")
        result = first_step(bench, arguments)
        if number > 0:  # the first one tokenises, and brings the files into memory
            times.append(result)
    bench.peak = fma_peak(bench.options.fma_peak)
    result = {"runs": times} | {key: median([t[key] for t in times]) for key in ("begins", "ends")}
    print(f"start: first step begins after {result['begins']:.2f} s, ends after {result['ends']:.2f} s", flush=True)
    return result


def start_table(result):
    least, most = (f([t["begins"] for t in result["runs"]]) for f in (min, max))
    return [
        "## From the start to the first step",
        "",
        f"The reviews, tokens from the cache, batch 32: the first step begins after **{result['begins']:.2f} s** "
        f"({least:.2f} to {most:.2f}; target 0.5 s) and has ended after {result['ends']:.2f} s (medians of {len(result['runs'])}).",
        "",
    ]


# ---- predict -------------------------------------------------------------------------------------------------------


def compare_predict(bench):
    o = bench.options
    data = os.path.join(o.data, "dev.tsv")
    rounds = []
    for _ in range(max(1, o.rounds - 1)):
        text, theirs = bench.run([o.python, TORCH, "predict", "--model", bench.model, "--data", data])
        theirs |= json.loads(text)
        labels = theirs.pop("labels")
        theirs["best"] = max(theirs["texts_per_second"].values())
        text, ours = bench.run([o.ftengine, "predict", bench.model, "--data", data, "--json"])
        answers = [json.loads(line)["label"] for line in text.splitlines()]
        ours["texts_per_second"] = len(answers) / ours["process_seconds"]
        same = sum(a == b for a, b in zip(answers, labels))
        if len(answers) != len(labels) or same < 0.995 * len(labels):
            sys.exit(f"predict: {same} of {len(labels)} labels agree with the pipeline's, of {len(answers)}")
        rounds.append({"ftengine": ours, "pipeline": theirs, "same_labels": same})
        print(f"predict: {ours['texts_per_second']:.0f} and {theirs['best']:.0f} texts/s", flush=True)
    ratios = [r["ftengine"]["texts_per_second"] / r["pipeline"]["best"] for r in rounds]
    return {"rounds": rounds, "ratio": median(ratios), "range": [min(ratios), max(ratios)]}


def predict_table(result):
    last = result["rounds"][-1]
    rates = ", ".join(f"{rate:.0f} at batch size {size}" for size, rate in last["pipeline"]["texts_per_second"].items())
    return [
        "## Prediction",
        "",
        f"{last['pipeline']['texts']} reviews: ftengine {last['ftengine']['texts_per_second']:.0f} texts/s from start to end of the "
        f"process; the pipeline {rates}, without loading. **{result['ratio']:.2f}x** its best ({result['range'][0]:.2f} to "
        f"{result['range'][1]:.2f}; target 2x). {last['same_labels']} labels are the same.",
        "",
    ]


# ---- ops -----------------------------------------------------------------------------------------------------------


def measure_ops(bench):
    o, results = bench.options, []
    for batch, length in STEPS:
        best = None
        for _ in range(2):
            steps = 4 + (40 if batch * length < 1000 else 6)
            _, arguments = bench.training(bench.texts(batch * 8, length), length, batch, steps)
            text, _ = bench.run([o.bench_step, "4", *arguments])
            result = json.loads(text) | {"tokens": batch * length}
            result["peak"] = (result["peak_before"] + result["peak_after"]) / 2
            flops = {kind: sum(op["flops"] for op in result["ops"] if op["op"].startswith(kind)) for kind in ("gemm", "attention")}
            result["products_share"] = flops["gemm"] / result["seconds"] / 1e9 / result["peak"]
            result["share"] = sum(flops.values()) / result["seconds"] / 1e9 / result["peak"]
            if best is None or result["share"] > best["share"]:
                best = result
        results.append(best)
        print(f"{batch * length} tokens a step: {best['share']:.0%} of the peak", flush=True)
    return results


def ops_table(results):
    lines = ["## Where a step's time goes", ""]
    for r in results:
        step = r["seconds"] / r["steps"]
        lines += [
            f"{r['tokens']} tokens a step: {1e3 * step:.0f} ms, {r['tokens'] / step:.0f} tokens/s. Matrix products and attention come "
            f"to **{r['share']:.0%}** of the FMA peak of {r['peak']:.0f} GFLOP/s beside it, the products alone to "
            f"{r['products_share']:.0%} (within reach by reference/cpu.md: {64 if r['tokens'] < 1000 else 73}%).",
            "",
            "| op | ms a step | part of the time | of the peak while it runs |",
            "|---|---|---|---|",
        ]
        rest = r["seconds"]
        for op in sorted(r["ops"], key=lambda op: -op["seconds"]):
            rest -= op["seconds"]
            if op["seconds"] < 0.004 * r["seconds"]:
                continue
            name = "gemm forward" if op["op"] == "gemm" else op["op"]
            reached = op["flops"] / op["seconds"] / 1e9 / r["peak"] if op["op"].startswith(("gemm", "attention")) else None
            lines.append(
                f"| {name} | {1e3 * op['seconds'] / r['steps']:.1f} | {op['seconds'] / r['seconds']:.1%} | "
                f"{f'{reached:.0%}' if reached is not None else ''} |"
            )
        lines += [f"| in no op | {1e3 * rest / r['steps']:.1f} | {rest / r['seconds']:.1%} | |", ""]
    return lines


# ---- tokenizer -----------------------------------------------------------------------------------------------------


def measure_tokenizer(bench):
    script = os.path.join(ROOT, "benchmarks", "speed", "bench_tokenizer.py")
    data = os.path.join(bench.options.data, "train.tsv")
    text, _ = bench.run([bench.options.python, script, "--bench", bench.options.bench_tokenizer, "--data", data, "--rounds", "3"])
    result = json.loads(text.strip().split("\n")[-1])
    print(", ".join(f"{name} {r['ratio']:.1f}x" for name, r in result.items()), flush=True)
    return result


def tokenizer_table(result):
    lines = [
        "## Tokenising on one core, beside the fast tokenizers (target 2x)",
        "",
        "| | ftengine ms | tokenizers ms | ratio |",
        "|---|---|---|---|",
    ]
    for name, r in result.items():
        lines.append(f"| {name} | {1e3 * r['ftengine_s']:.1f} | {1e3 * r['tokenizers_s']:.1f} | **{r['ratio']:.1f}x** |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch, transformers, tokenizers and sentencepiece")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    for name in ("bench_peak", "bench_step", "bench_tokenizer"):
        flag = "fma-peak" if name == "bench_peak" else name.replace("_", "-")
        parser.add_argument(f"--{flag}", default=os.path.join(ROOT, "build", "benchmarks", name))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--data", default=os.path.join(ROOT, "data", "reviews"), help="a directory with train.tsv and dev.tsv")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--isa", default="auto", help="of our training: avx2 with --only ops says what share of AVX2's peak is reached (an --output of its own)")
    parser.add_argument("--rounds", type=int, default=3, help="of training; of prediction one fewer")
    parser.add_argument("--steps", type=int, default=6, help="of training that count; a multiple of --skip")
    parser.add_argument("--skip", type=int, default=2, help="first steps of training that do not count")
    parser.add_argument("--output", default=os.path.join(RESULTS, "everyday"), help="without extension")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    if options.skip < 1 or options.steps % options.skip != 0:
        parser.error("--steps must be a multiple of --skip, which is at least 1")
    for name in ("fma_peak", "bench_step", "bench_tokenizer"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
        build_probe(getattr(options, name))
    for path in (options.ftengine, options.model, options.data):
        if not os.path.exists(path):
            parser.error(f"{path} does not exist (make; tools/get_model.sh; tools/get_data.sh)")
    for name in ("ftengine", "model", "data"):
        setattr(options, name, os.path.abspath(getattr(options, name)))

    document, start = provenance() | {"parts": {}}, time.monotonic()
    work = {
        "train": (compare_training, training_table),
        "start": (measure_start, start_table),
        "predict": (compare_predict, predict_table),
        "ops": (measure_ops, ops_table),
        "tokenizer": (measure_tokenizer, tokenizer_table),
    }
    lines = title_lines(document, "Everyday work on a CPU: ftengine beside PyTorch and transformers")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, scratch)
        document["others_share"] = {}
        for part in parts:
            measure, table = work[part]
            bench.others = 0.0
            document["parts"][part] = measure(bench)
            document["others_share"][part] = bench.others
            lines += table(document["parts"][part])
            if bench.others > 0.05:
                lines += [f"**Other processes took up to {bench.others:.0%} of the cores meanwhile: these are no results.**", ""]
    document["seconds"] = time.monotonic() - start
    lines += [f"All of it took {document['seconds'] / 60:.0f} minutes.", ""]
    write_results(options.output, document, "\n".join(lines))


if __name__ == "__main__":
    main()
