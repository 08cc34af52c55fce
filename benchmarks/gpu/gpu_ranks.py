#!/usr/bin/env python3
"""Data-parallel efficiency on the GPUs of this machine: tokens/s of a training on all of them, by those on one times their number. gpu_check.sh runs it
as the part `ranks`. Standard library only.

    gpu_ranks.py --output ranks.json [--ftengine build/ftengine] [--model bert-large] [--ranks N] [--batch 32] ...

Every GPU has the same work alone and beside others: `--batch` texts of 512 tokens a step and GPU, in bf16 (weak scaling, as the target is stated).
Alone, together, together, alone, and so on: `--rounds` of each; the figure is the median of the pairs' ratios. The first half of a run warms up, the
second is timed. Exit code 4: there are not two GPUs to train on.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_steps
import gpu_texts


def gpus_of(options):
    """Names of the GPUs that ftengine trains on."""
    asked = subprocess.run([options.ftengine, "devices", "--json"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise gpu_steps.NoDevice((asked.stderr.strip().splitlines() or ["ftengine devices says nothing"])[0])
    found = [d["device"] for d in json.loads(asked.stdout)["devices"] if d["device"].startswith("cuda") and d["trains"]]
    if len(found) < 2:
        raise gpu_steps.NoDevice(f"{len(found) or 'no'} GPU{'' if len(found) == 1 else 's'} to train on: efficiency is of several")
    return found


def write_inputs(options, scratch):
    config = gpu_steps.config_of(options, options.model)
    most = min(options.longest, config["max_position_embeddings"])
    gpu_texts.write_model(config, os.path.join(scratch, "model"))
    for ranks in (1, options.ranks):
        texts = os.path.join(scratch, f"texts-{ranks}.tsv")
        gpu_texts.write_texts(texts, [most] * (2 * options.half * options.batch * ranks), config["vocab_size"], options.seed)
    return most


def run(options, scratch, most, devices, deadline):
    """Tokens/s of the second half of a run on these devices."""
    ranks = devices.count(",") + 1
    out, log = os.path.join(scratch, "run"), os.path.join(scratch, "log")
    shutil.rmtree(out, ignore_errors=True)
    case = {"model_directory": os.path.join(scratch, "model"), "texts": os.path.join(scratch, f"texts-{ranks}.tsv"), "most": most}
    case["batch"] = options.batch * ranks
    options.device = devices
    command = [options.ftengine, "train"] + gpu_steps.arguments_of(options, case)
    command += [f"train.logging_steps={options.half}", "output.save_steps=1000000000", "memory.timeline=false", f"output.dir={out}"]
    with open(log, "wb") as err:
        try:
            left = max(1.0, deadline - time.monotonic())
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=err, cwd=gpu_steps.ROOT, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    if done.returncode == gpu_steps.NO_DEVICE:
        raise gpu_steps.NoDevice(gpu_steps.error_in(log))
    lines = gpu_steps.lines_of(os.path.join(out, "metrics.jsonl"))
    if done.returncode != 0 or len(lines) < 2:
        raise gpu_steps.Failed(gpu_steps.error_in(log))
    return lines[1]["tokens_per_second"]


def measure(options, scratch, names):
    alone, together, deadline = [], [], time.monotonic() + options.seconds
    most = write_inputs(options, scratch)
    for turn in range(options.rounds):
        for side in (alone, together) if turn % 2 == 0 else (together, alone):
            side.append(run(options, scratch, most, names[0] if side is alone else ",".join(names), deadline))
    ratios = [b / (a * len(names)) for a, b in zip(alone, together)]
    return {
        "model": options.config or options.model,
        "texts_a_gpu": options.batch,
        "tokens_a_text": most,
        "precision": options.precision,
        "gpus": len(names),
        "steps_timed": options.half,
        "tokens_per_second_alone": alone,
        "tokens_per_second_together": together,
        "efficiency": statistics.median(ratios),
        "efficiency_least": min(ratios),
        "efficiency_most": max(ratios),
        "commit": options.commit,
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--ftengine", default=os.path.join(gpu_steps.ROOT, "build", "ftengine"))
    parser.add_argument("--model", default="bert-large", choices=sorted(gpu_steps.MODELS))
    parser.add_argument("--ranks", type=int, help="so many GPUs, from the first on; by itself all")
    parser.add_argument("--batch", type=int, default=32, help="texts of a step and GPU")
    parser.add_argument("--half", type=int, default=20, help="steps that warm up, and as many that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240, help="for everything")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp16", "fp32"])
    parser.add_argument("--commit", default="unknown", help="of ftengine, for whoever reads --output")
    parser.add_argument("--config", help="a config.json in place of the model's own: to try this program out")
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="options of ftengine")
    options = parser.parse_args()
    options.ftengine = os.path.abspath(options.ftengine)
    return options


def main():
    options = parse()
    try:
        names = gpus_of(options)[: options.ranks]
        options.ranks = len(names)
        if options.ranks < 2:
            raise SystemExit("gpu_ranks.py: --ranks: at least 2")
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(options.output))) as scratch:
            found = measure(options, scratch, names)
    except gpu_steps.NoDevice as why:
        print(f"gpu_ranks.py: {why}", file=sys.stderr)
        return gpu_steps.NO_DEVICE
    except TimeoutError:
        print(f"gpu_ranks.py: not done in {options.seconds:.0f} seconds", file=sys.stderr)
        return 124
    except gpu_steps.Failed as why:
        print(f"gpu_ranks.py: {why}", file=sys.stderr)
        return 1
    with open(options.output, "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
        f.write("\n")
    print(
        f"{found['model']}, {found['texts_a_gpu']} texts of {found['tokens_a_text']} tokens a GPU, {found['precision']}: {found['gpus']} GPUs have"
        f" {found['efficiency']:.1%} of {found['gpus']} times one ({found['efficiency_least']:.1%} to {found['efficiency_most']:.1%})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
