#!/usr/bin/env python3
"""Accuracy on TREC over several seeds: ftengine beside the Hugging Face Trainer.

    python3 benchmarks/trec_seeds.py --python /path/to/python/with/torch [--seeds 1,2,3,4,5]

For every seed transformers draws a head for MiniLM and the checkpoint is exported; both sides start from it, with the
same order of examples (the seed's) and the same hyper-parameters (3 epochs, 5e-5 linear, batch 32, no warm-up), and
differ in dropout's random numbers. Accuracy is of the model after the last step on the test file, which no side saw.
The result is the difference of means with its 95% interval, over the pairs and as independent samples.
"""

import argparse
import json
import os
import shutil
import tempfile

from common import (
    HF_TRAIN,
    RESULTS,
    ROOT,
    TREC,
    label_names,
    mean,
    measured,
    paired,
    provenance,
    read_tsv,
    title_lines,
    variance,
    welch,
    write_results,
)


def run_trainer(options, model, seed, log):
    text, process = measured(
        [
            options.python,
            HF_TRAIN,
            "train",
            "--model",
            model,
            "--train",
            options.train,
            "--test",
            options.test,
            "--epochs",
            str(options.epochs),
            "--max-steps",
            str(options.max_steps),
            "--batch-size",
            str(options.batch_size),
            "--learning-rate",
            str(options.learning_rate),
            "--max-length",
            str(options.max_length),
            "--seed",
            str(seed),
            "--skip",
            "1",
        ],
        log,
    )
    return json.loads(text)["accuracy"], process["process_seconds"]


def run_ftengine(options, model, seed, scratch, log):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    limit = [f"train.max_steps={options.max_steps}"] if options.max_steps > 0 else [f"train.epochs={options.epochs}"]
    # No evaluation while training: choosing the best epoch by the test file would favour this side.
    _, training = measured(
        [
            options.ftengine,
            "train",
            os.path.join(ROOT, "configs", "trec.ini"),
            f"model.path={model}",
            f"data.train={options.train}",
            f"data.max_length={options.max_length}",
            f"train.batch_size={options.batch_size}",
            f"train.learning_rate={options.learning_rate}",
            f"train.seed={seed}",
            "eval.strategy=no",
            f"output.dir={run}",
        ]
        + limit,
        log,
    )
    text, judging = measured([options.ftengine, "eval", run, "--data", options.test, "--json"], log)
    return json.loads(text)["metrics"]["accuracy"], training["process_seconds"] + judging["process_seconds"]


def table(document):
    lines = title_lines(document, "ftengine beside the Hugging Face Trainer: accuracy over seeds") + [
        "| seed | ftengine | Trainer | difference |",
        "|---|---|---|---|",
    ]
    for row in document["seeds"]:
        difference = row["ftengine"] - row["trainer"]
        lines.append(f"| {row['seed']} | {row['ftengine']:.2f}% | {row['trainer']:.2f}% | {difference:+.2f} |")
    s = document["summary"]
    d, pairs, independent = s["difference"], s["half_width_paired"], s["half_width_welch"]
    lines += [
        f"| mean | {s['ftengine_mean']:.2f}% | {s['trainer_mean']:.2f}% | {s['difference']:+.2f} |",
        f"| standard deviation | {s['ftengine_deviation']:.2f} | {s['trainer_deviation']:.2f} | |",
        "",
        f"Difference of means, points: **{d:+.2f}**, 95% interval {d - pairs:+.2f} to {d + pairs:+.2f} over pairs, "
        f"{d - independent:+.2f} to {d + independent:+.2f} as independent samples (Welch).",
        f"Both within 1 point: **{'yes' if s['within_one_point'] else 'no'}**.",
        "",
        f"Data: {document['data'][0]}, {document['data'][1]}.",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch and transformers")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--train", default=os.path.join(TREC, "train.tsv"))
    parser.add_argument("--test", default=os.path.join(TREC, "test.tsv"))
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--output", default=os.path.join(RESULTS, "trec_seeds"), help="without extension")
    options = parser.parse_args()
    seeds = [int(s) for s in options.seeds.split(",")]
    if len(seeds) < 2:
        parser.error("--seeds: an interval needs at least two")
    for name in ("ftengine", "model", "train", "test"):
        path = os.path.abspath(getattr(options, name))
        setattr(options, name, path)
        if not os.path.exists(path):
            parser.error(f"--{name}: {path} does not exist (make; tools/get_model.sh)")

    document = provenance() | {
        "data": [os.path.relpath(options.train, ROOT), os.path.relpath(options.test, ROOT)],
        "seeds": [],
    }
    labels = len(label_names(label for _, label in read_tsv(options.train)))
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(tempfile.gettempdir(), "trec_seeds.log")
        for seed in seeds:
            model = os.path.join(scratch, f"model-{seed}")
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
                    str(seed),
                    "--output",
                    model,
                ],
                log,
            )
            row = {"seed": seed}
            ours, row["ftengine_seconds"] = run_ftengine(options, model, seed, scratch, log)
            theirs, row["trainer_seconds"] = run_trainer(options, model, seed, log)
            row["ftengine"], row["trainer"] = 100 * ours, 100 * theirs
            document["seeds"].append(row)
            print(
                f"seed {seed}: ftengine {row['ftengine']:.2f}% ({row['ftengine_seconds']:.0f} s), "
                f"Trainer {row['trainer']:.2f}% ({row['trainer_seconds']:.0f} s)",
                flush=True,
            )
            shutil.rmtree(model)
    ours, theirs = [r["ftengine"] for r in document["seeds"]], [r["trainer"] for r in document["seeds"]]
    difference, by_pairs = paired(ours, theirs)
    independent = welch(ours, theirs)[1]
    document["summary"] = {
        "ftengine_mean": mean(ours),
        "trainer_mean": mean(theirs),
        "ftengine_deviation": variance(ours) ** 0.5,
        "trainer_deviation": variance(theirs) ** 0.5,
        "difference": difference,
        "half_width_paired": by_pairs,
        "half_width_welch": independent,
        "within_one_point": abs(difference) + max(by_pairs, independent) <= 1.0,
    }
    write_results(options.output, document, table(document))


if __name__ == "__main__":
    main()
