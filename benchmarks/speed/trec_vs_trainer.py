#!/usr/bin/env python3
"""Training speed and resident memory: ftengine beside the Hugging Face Trainer, in turns, in one run.

    python3 benchmarks/speed/trec_vs_trainer.py --python /path/to/python/with/torch [--rounds 3]

Both sides fine-tune the same exported MiniLM checkpoint in fp32 on all cores over the same batches (same seed, so the
same order; batch 32; default collator on the Hugging Face side). In every round both run, the side that begins
alternates, and the machine's FMA peak is probed before, between and after: virtual machines change phase by 2x.
tokens/s count real tokens only. With --lora-r both train a LoRA, PEFT's on the Trainer's side, and a third run, ftengine's of all parameters, says what
a step of an adapter takes of a full one's time. The Trainer's first --skip steps are not timed, ftengine's all are.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import (  # noqa: E402
    HF_TRAIN,
    RESULTS,
    ROOT,
    TREC,
    add_lora_options,
    build_probe,
    fma_peak,
    label_names,
    lora_of_ftengine,
    lora_of_trainer,
    measured,
    median,
    provenance,
    read_tsv,
    title_lines,
    write_results,
)


def run_trainer(options, model, log):
    text, process = measured(
        [
            options.python,
            HF_TRAIN,
            "train",
            "--model",
            model,
            "--train",
            options.train,
            "--epochs",
            str(options.epochs),
            "--max-steps",
            str(options.max_steps),
            "--batch-size",
            str(options.batch_size),
            "--max-length",
            str(options.max_length),
            "--seed",
            str(options.seed),
            "--skip",
            str(options.skip),
            "--task",
            getattr(options, "task", "single_label_classification"),
        ]
        + lora_of_trainer(options),
        log,
    )
    result = json.loads(text)
    return {
        "tokens_per_second": result["tokens_per_second"],
        "tokens": result["tokens"],
        "steps": result["steps"],
        **process,
        "versions": result["versions"],
    }


def run_ftengine(options, model, scratch, log, adapter):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    limit = [f"train.max_steps={options.max_steps}"] if options.max_steps > 0 else [f"train.epochs={options.epochs}"]
    _, process = measured(
        [
            options.ftengine,
            "train",
            os.path.join(ROOT, "configs", "trec.ini"),
            f"model.path={model}",
            f"data.train={options.train}",
            f"data.max_length={options.max_length}",
            f"train.batch_size={options.batch_size}",
            f"train.seed={options.seed}",
            "eval.strategy=no",
            f"output.dir={run}",
        ]
        + limit
        + adapter
        + options.set,
        log,
    )
    with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
        result = json.load(f)
    return {
        "tokens_per_second": result["tokens_per_second"],
        "tokens": result["tokens"],
        "steps": result["steps"],
        **process,
        "versions": result["versions"],
        "memory": result["memory"],
    }


def table(document):
    rival = "PEFT and the Hugging Face Trainer, LoRA" if "step_of_full" in document["summary"] else "the Hugging Face Trainer"
    lines = title_lines(document, f"ftengine beside {rival}: speed and memory") + [
        "| round | side | real tokens/s | peak resident | FMA peak before / after, GFLOP/s | tokens/s per GFLOP/s "
        "| cores taken by others / the host |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, pair in enumerate(document["rounds"], 1):
        for side in pair["order"]:
            r = pair[side]
            lines.append(
                f"| {number} | {side} | {r['tokens_per_second']:.0f} | {r['resident_bytes'] / 2**30:.2f} GiB | "
                f"{r['fma_peak_before']:.0f} / {r['fma_peak_after']:.0f} | {r['tokens_per_gflop']:.2f} | "
                f"{r['others_share']:.0%} / {r['stolen_share']:.0%} |"
            )
    if any(pair[side]["others_share"] > 0.05 for pair in document["rounds"] for side in pair["order"]):
        lines += ["", "**Other processes used the cores meanwhile: these are no results.**"]
    s = document["summary"]
    low, high = s["speed_ratio_range"]
    lines += [
        "",
        f"ftengine / Trainer, median of {len(document['rounds'])} rounds (smallest to largest):",
        "",
        f"- real tokens/s: **{s['speed_ratio']:.2f}x** ({low:.2f} to {high:.2f}); each divided by the FMA peak beside it: {s['speed_ratio_by_peak']:.2f}x",
        f"- peak resident memory: **{s['resident_ratio']:.2f}x**",
    ]
    if "step_of_full" in s:
        least, most = s["step_of_full_range"]
        lines.append(f"- a step of the adapter takes **{s['step_of_full']:.2f}x** ({least:.2f} to {most:.2f}) of the time of ftengine's step of all parameters")
    lines += [
        "",
        f"Trainer: {document['rounds'][0]['trainer']['versions']}. "
        f"Data: {document['data']}, {document['tokens']} real tokens a run.",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch and transformers")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument(
        "--train", default=os.path.join(TREC, "train.tsv"), help="TSV with a header: sentence or text, label"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--skip", type=int, default=5, help="first steps of the Trainer that are not timed")
    parser.add_argument(
        "--set", action="append", default=[], metavar="section.key=value", help="an option for ftengine alone"
    )
    add_lora_options(parser)
    parser.add_argument("--output", default=os.path.join(RESULTS, "trec_vs_trainer"), help="without extension")
    options = parser.parse_args()
    options.fma_peak = os.path.abspath(options.fma_peak)
    build_probe(options.fma_peak)
    for name in ("ftengine", "model", "train"):
        path = os.path.abspath(getattr(options, name))
        setattr(options, name, path)
        if not os.path.exists(path):
            parser.error(f"--{name.replace('_', '-')}: {path} does not exist (make; tools/get_model.sh)")

    document = provenance() | {"data": os.path.relpath(options.train, ROOT), "rounds": []}
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(tempfile.gettempdir(), "trec_vs_trainer.log")
        model = os.path.join(scratch, "model")
        labels = len(label_names(label for _, label in read_tsv(options.train)))
        measured(
            [
                options.python,
                HF_TRAIN,
                "export",
                "--model",
                options.model,
                "--labels",
                str(labels),
                "--seed",
                str(options.seed),
                "--output",
                model,
            ],
            log,
        )
        sides = {
            "trainer": lambda: run_trainer(options, model, log),
            "ftengine": lambda: run_ftengine(options, model, scratch, log, lora_of_ftengine(options)),
            "full": lambda: run_ftengine(options, model, scratch, log, []),
        }
        for number in range(options.rounds):
            order = ["trainer", "ftengine"] + (["full"] if options.lora_r > 0 else [])
            order = order if number % 2 == 0 else order[::-1]
            pair = {"order": order}
            peak = fma_peak(options.fma_peak)
            for side in order:
                result = sides[side]()
                result["fma_peak_before"], peak = peak, fma_peak(options.fma_peak)
                result["fma_peak_after"] = peak
                result["tokens_per_gflop"] = 2 * result["tokens_per_second"] / (result["fma_peak_before"] + peak)
                pair[side] = result
                print(
                    f"round {number + 1} {side}: {result['tokens_per_second']:.0f} tokens/s, "
                    f"{result['resident_bytes'] / 2**20:.0f} MiB, FMA peak {peak:.0f} GFLOP/s",
                    flush=True,
                )
            if pair["trainer"]["tokens"] != pair["ftengine"]["tokens"]:
                tokens = [pair[side]["tokens"] for side in order]
                parser.exit(1, f"the sides trained on {tokens[0]} and {tokens[1]} tokens: not comparable\n")
            document["rounds"].append(pair)

    def ratios(key):
        return [pair["ftengine"][key] / pair["trainer"][key] for pair in document["rounds"]]

    speed = ratios("tokens_per_second")
    document["tokens"] = document["rounds"][0]["ftengine"]["tokens"]
    document["summary"] = {
        "speed_ratio": median(speed),
        "speed_ratio_range": [min(speed), max(speed)],
        "speed_ratio_by_peak": median(ratios("tokens_per_gflop")),
        "resident_ratio": median(ratios("resident_bytes")),
    }
    if options.lora_r > 0:
        times = [pair["full"]["tokens_per_second"] / pair["ftengine"]["tokens_per_second"] for pair in document["rounds"]]
        document["summary"] |= {"step_of_full": median(times), "step_of_full_range": [min(times), max(times)]}
    write_results(options.output, document, table(document))


if __name__ == "__main__":
    main()
