#!/usr/bin/env python3
"""Quality over several seeds: ftengine beside the Hugging Face Trainer. By default accuracy on TREC.

    python3 benchmarks/speed/trec_seeds.py --python /path/to/python/with/torch [--seeds 1,2,3,4,5]
        [--train FILE --test FILE] [--epochs N] [--output FILE]          any TSV: sentence or text, and a label
    ... --task regression --train data/ratings/train.tsv --test data/ratings/dev.tsv       Pearson's correlation instead

For every seed transformers draws a head for MiniLM and the checkpoint is exported; both sides start from it, with the
same order of examples (the seed's) and the same hyper-parameters (3 epochs, 5e-5 linear, batch 32, no warm-up), and
differ in dropout's random numbers. A regression makes the mean squared error small on both sides (the Trainer's
problem_type="regression" with one label). With --lora-r both train a LoRA, PEFT's on the Trainer's side. --task token_classification takes CoNLL's
columns (tools/get_data.sh --entities) and judges by the F1 of entities, ours and seqeval's. --task pictures takes folders with one for every class
(tests/vectors/pictures/make_digits.py) and by default a small ViT, digits_vit beside this file, all of whose weights are drawn. What is compared is of the model after the last step on the
test file, which no side saw. The result is the difference of means with its 95% interval, over the pairs and as independent samples: within 1
point of accuracy, or 0.02 of Pearson's correlation? Of entities: is 0 in both?
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import (  # noqa: E402
    HF_TRAIN,
    RESULTS,
    ROOT,
    TREC,
    add_lora_options,
    label_names,
    lora_of_ftengine,
    lora_of_trainer,
    mean,
    measured,
    paired,
    provenance,
    read_conll,
    read_folder,
    read_tsv,
    title_lines,
    variance,
    welch,
    write_results,
)


@dataclass(frozen=True)
class Task:
    """What is compared: a metric under the name both sides give it, as it is printed."""

    problem_type: str  # hf_train.py's word for it
    options: list  # of ftengine
    metric: str
    title: str
    scale: float
    form: str
    unit: str
    points: str
    within: float  # 0: what is asked is whether there is a difference


TASKS = {
    "single_label": Task("single_label_classification", ["train.task=single_label"], "accuracy", "accuracy", 100, ".2f", "%", "points", 1.0),
    "regression": Task(
        "regression", ["train.task=regression", "eval.metric=pearson"], "pearson", "Pearson's correlation", 1, ".4f", "", "", 0.02
    ),
    "token_classification": Task(
        "token_classification", ["train.task=token_classification", "eval.metric=f1_micro"], "f1_micro", "F1 of entities", 100, ".2f", "%", "points", 0
    ),
    "pictures": Task("image_classification", ["train.task=single_label", "data.max_length=auto"], "accuracy", "accuracy on pictures", 100, ".2f", "%", "points", 0),
}


def run_trainer(options, model, seed, log):
    text, process = measured(
        [
            options.python,
            HF_TRAIN,
            "train",
            "--task",
            options.task.problem_type,
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
        ]
        + lora_of_trainer(options),
        log,
    )
    return json.loads(text)[options.task.metric], process["process_seconds"]


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
        + options.task.options
        + lora_of_ftengine(options)
        + limit,
        log,
    )
    text, judging = measured([options.ftengine, "eval", run, "--data", options.test, "--json"], log)
    return json.loads(text)["metrics"][options.task.metric], training["process_seconds"] + judging["process_seconds"]


def table(document, task):
    def value(x, sign=""):
        return f"{x:{sign}{task.form}}"

    lines = title_lines(document, f"ftengine beside the Hugging Face Trainer: {task.title} over seeds") + [
        "| seed | ftengine | Trainer | difference |",
        "|---|---|---|---|",
    ]
    for row in document["seeds"]:
        difference = row["ftengine"] - row["trainer"]
        lines.append(
            f"| {row['seed']} | {value(row['ftengine'])}{task.unit} | {value(row['trainer'])}{task.unit} | {value(difference, '+')} |"
        )
    s = document["summary"]
    d, pairs, independent = s["difference"], s["half_width_paired"], s["half_width_welch"]
    within = f"Both within {task.within:g}{' point' if task.points else ''}" if task.within > 0 else "0 is in both"
    lines += [
        f"| mean | {value(s['ftengine_mean'])}{task.unit} | {value(s['trainer_mean'])}{task.unit} | {value(d, '+')} |",
        f"| standard deviation | {value(s['ftengine_deviation'])} | {value(s['trainer_deviation'])} | |",
        "",
        f"Difference of means{', ' + task.points if task.points else ''}: **{value(d, '+')}**, 95% interval "
        f"{value(d - pairs, '+')} to {value(d + pairs, '+')} over pairs, "
        f"{value(d - independent, '+')} to {value(d + independent, '+')} as independent samples (Welch).",
        f"{within}: **{'yes' if s['within'] else 'no'}**.",
        "",
        f"Data: {document['data'][0]}, {document['data'][1]}.",
    ]
    if "earlier" in document:
        lines += ["", "Some seeds are of earlier runs:", "", *(f"    {command}" for command in document["earlier"])]
    lines += [
        "",
    ]
    return "\n".join(lines)


def summary(rows, task):
    ours, theirs = [r["ftengine"] for r in rows], [r["trainer"] for r in rows]
    difference, by_pairs = paired(ours, theirs)
    independent = welch(ours, theirs)[1]
    near = abs(difference) + max(by_pairs, independent) <= task.within
    return {
        "ftengine_mean": mean(ours),
        "trainer_mean": mean(theirs),
        "ftengine_deviation": variance(ours) ** 0.5,
        "trainer_deviation": variance(theirs) ** 0.5,
        "difference": difference,
        "half_width_paired": by_pairs,
        "half_width_welch": independent,
        "within": near if task.within > 0 else abs(difference) <= min(by_pairs, independent),
    }


def write(options, document):
    if len(document["seeds"]) > 1:
        document["seeds"].sort(key=lambda row: row["seed"])
        document["summary"] = summary(document["seeds"], options.task)
        write_results(options.output, document, table(document, options.task))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch and transformers")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--train", default=os.path.join(TREC, "train.tsv"))
    parser.add_argument("--test", default=os.path.join(TREC, "test.tsv"))
    parser.add_argument("--task", choices=TASKS, default="single_label")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--max-length", type=int, default=128)
    add_lora_options(parser)
    parser.add_argument("--earlier", action="append", default=[], metavar="FILE.json", help="a result of the same settings with other seeds, which are not run again")
    parser.add_argument("--output", help="without extension; for TREC results/trec_seeds, else it must be given")
    options = parser.parse_args()
    options.task = TASKS[options.task]
    if options.task.problem_type == "image_classification" and options.model == parser.get_default("model"):
        options.model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits_vit")
    if options.output is None:
        if options.train != parser.get_default("train") or options.lora_r > 0:
            parser.error("--output: where do the results of this data go?")
        options.output = os.path.join(RESULTS, "trec_seeds")
    seeds = [int(s) for s in options.seeds.split(",") if s]
    if len(seeds) < 2 and not options.earlier:
        parser.error("--seeds: an interval needs at least two")
    for name in ("ftengine", "model", "train", "test"):
        path = os.path.abspath(getattr(options, name))
        setattr(options, name, path)
        if not os.path.exists(path):
            parser.error(f"--{name}: {path} does not exist (make; tools/get_model.sh, tools/get_data.sh [--ratings|--entities])")

    document = provenance() | {
        "metric": options.task.metric,
        "data": [os.path.relpath(options.train, ROOT), os.path.relpath(options.test, ROOT)],
        "seeds": [],
    }
    for path in options.earlier:
        with open(path, encoding="utf-8") as f:
            earlier = json.load(f)
        if (earlier["metric"], earlier["data"]) != (document["metric"], document["data"]):
            parser.error(f"--earlier: {path} is of {earlier['metric']} on {earlier['data']}")
        document["seeds"] += earlier["seeds"]
        document.setdefault("earlier", []).append(earlier["command"])
    if options.task.problem_type == "token_classification":
        labels = len(label_names(tag for _, tags in read_conll(options.train) for tag in tags))
    elif options.task.problem_type == "image_classification":
        labels = len(label_names(label for _, label in read_folder(options.train)))
    else:
        regression = options.task.metric == "pearson"
        labels = 1 if regression else len(label_names(label for _, label in read_tsv(options.train)))
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(tempfile.gettempdir(), "trec_seeds.log")
        for seed in seeds:
            model = os.path.join(scratch, f"model-{seed}")
            measured(
                [
                    options.python,
                    HF_TRAIN,
                    "export",
                    "--task",
                    options.task.problem_type,
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
            row["ftengine"], row["trainer"] = options.task.scale * ours, options.task.scale * theirs
            document["seeds"].append(row)
            print(
                f"seed {seed}: ftengine {row['ftengine']:{options.task.form}} ({row['ftengine_seconds']:.0f} s), "
                f"Trainer {row['trainer']:{options.task.form}} ({row['trainer_seconds']:.0f} s)",
                flush=True,
            )
            shutil.rmtree(model)
            write(options, document)  # a run that is stopped leaves what it has
    if not seeds:
        write(options, document)


if __name__ == "__main__":
    main()
