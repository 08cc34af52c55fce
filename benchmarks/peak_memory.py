#!/usr/bin/env python3
"""Peak memory, planned and measured: models x batch x length x recompute, ftengine beside PyTorch + transformers.

    python3 benchmarks/peak_memory.py --python /path/to/python/with/torch            minutes on 2 cores
    python3 benchmarks/peak_memory.py --python ... --full                            hours, and 20 GiB; see FULL
    python3 benchmarks/peak_memory.py --plans-only                                   no run: only what can be planned; 3 minutes

Every cell trains two optimizer steps in fp32 on the CPU, with random weights in the shape of the named model and texts that
all have the full length, the whole batch at once. Its figures:

  planned   peak reserved bytes of `ftengine plan`, before anything runs
  metered   the same of the run, from run.json; a difference is an error of ours, and the exit code says so
  process   the largest resident set of the whole process, as the kernel saw it (wait4): for ftengine and for PyTorch
  torch     PyTorch's process less what it held before the model was made, with all libraries loaded and a tiny model trained:
            what the program itself costs is not held against it
  ratio     planned / torch

Then the configurations that ran out of memory in practice (configs/oom), and the seven models of
configs/spaces/seven_models.ini over all its batches and lengths on 24 GiB: planned only, in the precision that is named, for
the CPU back end. The slowdown is the planner's prediction, against the same run with unlimited memory.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

from charts import grouped_bars
from common import RESULTS, ROOT, measured, provenance, title_lines

DEFAULT = {
    "models": ["prajjwal1/bert-mini", "sentence-transformers/all-MiniLM-L6-v2", "microsoft/deberta-v3-xsmall"],
    "shapes": ["8x128", "32x128", "8x512"],
}
FULL = {
    "models": DEFAULT["models"]
    + ["distilbert-base-uncased", "bert-base-uncased", "roberta-base", "microsoft/deberta-v3-base", "bert-large-uncased"],
    "shapes": ["8x128", "32x128", "8x512", "32x512"],
}
SEVEN = [
    "bert-base-uncased",
    "bert-large-uncased",
    "roberta-base",
    "roberta-large",
    "microsoft/deberta-v3-base",
    "microsoft/deberta-v3-large",
    "xlm-roberta-base",
]
# Batches, accumulation and lengths of configs/spaces/seven_models.ini: 7 x 6 x 13 = 546 points.
BATCHES, ACCUMULATIONS, LENGTHS = [8, 12, 16, 24, 32, 48, 64], [1, 2, 3, 4, 6, 8], list(range(128, 513, 32))
CARD = 24 * 2**30 - 600 * 2**20  # 24 GiB less what engine/plan/cards.h assumes for context and modules
GIB = 2.0**30
STAND_IN = os.path.join(ROOT, "tests", "vectors", "trainer", "model")


# ---- one cell -------------------------------------------------------------------------------------------------------


def write_texts(path, rows, words):
    """Longer than any length that is asked for, and no two alike."""
    with open(os.path.join(STAND_IN, "vocab.txt"), encoding="utf-8") as f:
        vocabulary = [word for word in f.read().split("\n") if word.isalpha() and len(word) > 2]
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for row in range(rows):
            text = " ".join(vocabulary[(row * 7 + k * (row % 11 + 1)) % len(vocabulary)] for k in range(words))
            f.write(f"{text}\t{row % 2}\n")


def overrides(cell, train, options):
    return [
        f"model.path={cell['model']}",
        "model.init=random",
        f"model.stand_in_tokenizer={STAND_IN}",
        f"data.train={train}",
        "data.cache_dir=none",
        f"data.max_length={cell['length']}",
        f"train.batch_size={cell['batch']}",
        f"train.micro_batch={cell['batch']}",
        f"train.gradient_checkpointing={'on' if cell['recompute'] else 'off'}",
        "train.max_steps=2",
        "eval.strategy=no",
        "memory.timeline=false",
    ] + options.set


def plan_json(options, words):
    """The document, and the exit code (3: it does not fit)."""
    run = subprocess.run([options.ftengine, "plan", *words, "--json"], capture_output=True, text=True, check=False, cwd=ROOT)
    if run.returncode not in (0, 3) or not run.stdout:
        return None, run.stderr.strip()
    return json.loads(run.stdout), None


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable:"))


def measure_torch(options, cell):
    command = [options.python, os.path.join(ROOT, "benchmarks", "peak_memory_torch.py")]
    command += ["--model", os.path.join(ROOT, "configs", "models", cell["model"] + ".json"), "--attention", options.attention]
    command += ["--batch", str(cell["batch"]), "--length", str(cell["length"])] + ["--recompute"] * cell["recompute"]
    text, process = measured(command)
    result = json.loads(text)
    return {
        "torch_process_bytes": process["resident_bytes"],
        "torch_before_bytes": result["before_model_bytes"],
        "torch_bytes": process["resident_bytes"] - result["before_model_bytes"],
        "torch_parameters": result["parameters"],
        "versions": result["versions"],
    }


def measure(options, cell, scratch):
    train = os.path.join(scratch, f"texts-{cell['batch']}-{cell['length']}.tsv")
    if not os.path.exists(train):
        write_texts(train, 2 * cell["batch"], cell["length"])
    words = overrides(cell, train, options)
    plan, error = plan_json(options, words)
    if plan is None:
        sys.exit(f"{name_of(cell)}: {error}")
    planned = plan["memory"]["peak_reserved_bytes"]
    result = dict(cell, precision="fp32", planned_bytes=planned, parameters=plan["model"]["parameters"])
    if planned * 1.2 > available_bytes():
        print(f"{name_of(cell)}: {planned / GIB:.2f} GiB planned, not run: so much is not free here", file=sys.stderr)
        return result
    with tempfile.TemporaryDirectory(dir=scratch) as run:
        _, process = measured([options.ftengine, "train", *words, f"output.dir={run}/run"])
        with open(f"{run}/run/run.json", encoding="utf-8") as f:
            memory = json.load(f)["memory"]
    result["metered_bytes"] = memory["peak_reserved_bytes"]
    result["allocated_bytes"] = memory["peak_allocated_bytes"]
    result["process_bytes"] = process["resident_bytes"]
    # What PyTorch needs is not known beforehand; three times ours is more than it has needed so far.
    if options.python and planned * 3 < available_bytes():
        result.update(measure_torch(options, cell))
        result["ratio"] = planned / result["torch_bytes"]
    return result


def name_of(cell):
    return f"{cell['model'].split('/')[-1]} {cell['batch']}x{cell['length']}{' recompute' if cell['recompute'] else ''}"


# ---- planned only ---------------------------------------------------------------------------------------------------


def planned_row(options, name, precision, words):
    plan, error = plan_json(options, words + [f"train.precision={precision}"])
    if plan is None:  # the option says what it takes: a precision that is not built yet ends here
        return {"name": name, "precision": precision, "error": error.split("\n", maxsplit=1)[0].replace("ftengine: error: ", "")}
    fit = plan["autofit"]
    resolved = plan["resolved"]
    return {
        "name": name,
        "precision": precision,
        "fits": plan["fits"],
        "budget_bytes": plan["budget_bytes"],
        "planned_bytes": plan["memory"]["peak_reserved_bytes"],
        "whole_batch_bytes": fit["ideal"]["peak_reserved_bytes"] if fit else plan["memory"]["peak_reserved_bytes"],
        "micro_batch_tokens": resolved["micro_batch_tokens"],
        "gradient_checkpointing": resolved["gradient_checkpointing"],
        "slowdown": fit["choice"]["step_seconds"] / fit["ideal"]["step_seconds"] if fit else 1.0,
    }


def out_of_memory_rows(options):
    directory = os.path.join(ROOT, "configs", "oom")
    rows = []
    for file in sorted(os.listdir(directory)):
        for precision in ("fp32", "bf16"):
            path = os.path.join(directory, file)
            name, words = file.removesuffix(".ini"), [path, "--labels", "2"]
            rows.append(planned_row(options, name, precision, words))
            if name == "bert_large_23gib":  # as it was asked for, and not only as it fits
                rows.append(planned_row(options, name + ", whole batch at once", precision, words + ["train.micro_batch=48"]))
    return rows


def seven_models(options):
    """A row a model: how many points were planned, how many fit, the largest and the slowest of them."""
    points = [(b, a, n) for b in BATCHES for a in ACCUMULATIONS for n in LENGTHS]
    rows = []
    for model in SEVEN:
        plans = []
        for batch, accumulation, length in points:
            words = [f"model.path={model}", "--labels", "2", f"memory.limit={CARD}", "train.gradient_checkpointing=auto"]
            words += [f"train.batch_size={batch}", f"train.gradient_accumulation_steps={accumulation}"]
            words += [f"data.max_length={length}", "model.head.hidden=512,704,448"]
            plans.append(planned_row(options, model, "fp32", words))
            if "error" in plans[-1]:
                sys.exit(f"{model}: {plans[-1]['error']}")
        rows.append({
            "model": model,
            "points": len(plans),
            "fit": sum(p["fits"] for p in plans),
            "whole_batch": sum(p["whole_batch_bytes"] <= CARD for p in plans),
            "largest_bytes": max(p["planned_bytes"] for p in plans),
            "largest_whole_batch_bytes": max(p["whole_batch_bytes"] for p in plans),
            "slowest": max(p["slowdown"] for p in plans),
        })
        print(f"{model}: {rows[-1]['fit']} of {rows[-1]['points']} fit", file=sys.stderr)
    return rows


# ---- what is written ------------------------------------------------------------------------------------------------

COLUMNS = ["model", "batch", "length", "recompute", "precision", "planned_bytes", "metered_bytes", "allocated_bytes"]
COLUMNS += ["process_bytes", "torch_bytes", "torch_process_bytes", "ratio"]


def write_csv(path, cells):
    with open(path, "w", encoding="utf-8", newline="") as f:
        rows = csv.DictWriter(f, COLUMNS, extrasaction="ignore", restval="")
        rows.writeheader()
        rows.writerows(cells)


def write_chart(path, document):
    cells = [c for c in document["cells"] if "process_bytes" in c]
    if not cells:
        return

    def gib(cell, key):
        return cell[key] / GIB if key in cell else None

    groups = [(name_of(c), [gib(c, "torch_process_bytes"), gib(c, "process_bytes")]) for c in cells]
    with open(path, "w", encoding="utf-8") as f:
        chart = grouped_bars(
            "Peak memory of training: the whole process",
            f"fp32 on the CPU, AdamW, batch x length, all texts at full length; {document['date']}",
            "GiB resident at the peak",
            groups,
            [("PyTorch + transformers", "#b8b8b8"), ("ftengine", "#3572b0")],
            ("planned by ftengine", [gib(c, "planned_bytes") for c in cells]),
        )
        f.write(chart)


def gib_text(cell, key):
    return f"{cell[key] / GIB:.3f}" if cell.get(key) is not None else "-"


def row_of(*fields):
    return "| " + " | ".join(str(f) for f in fields) + " |"


def cells_table(cells):
    lines = ["| model | batch x length | recompute | planned GiB | metered - planned | process | torch | torch process | ratio |"]
    lines += ["|---|---|---|---:|---:|---:|---:|---:|---:|"]
    for c in cells:
        difference = str(c["metered_bytes"] - c["planned_bytes"]) + " B" if "metered_bytes" in c else "-"
        ratio = f"{c['ratio']:.2f}" if "ratio" in c else "-"
        shape, recompute = f"{c['batch']} x {c['length']}", "layers" if c["recompute"] else "no"
        figures = [gib_text(c, key) for key in ("process_bytes", "torch_bytes", "torch_process_bytes")]
        lines.append(row_of(c["model"], shape, recompute, gib_text(c, "planned_bytes"), difference, *figures, ratio))
    return lines


def plans_table(rows):
    lines = ["| configuration | precision | budget GiB | whole batch at once | planned | fits | as | predicted slowdown |"]
    lines += ["|---|---|---:|---:|---:|---|---|---:|"]
    for r in rows:
        if "error" in r:
            lines.append(row_of(r["name"], r["precision"], "-", "-", "-", "not planned", r["error"], "-"))
            continue
        every = r["gradient_checkpointing"]
        recompute = {0: "", 1: ", recomputing every layer"}.get(every, f", recomputing all but every {every}th layer")
        figures = [gib_text(r, key) for key in ("budget_bytes", "whole_batch_bytes", "planned_bytes")]
        slowdown = f"{r['slowdown']:.2f}" if r["fits"] else "-"
        how = f"{r['micro_batch_tokens']} tokens at once{recompute}"
        lines.append(row_of(r["name"], r["precision"], *figures, "yes" if r["fits"] else "no", how, slowdown))
    return lines


def seven_table(rows):
    lines = ["| model | points | fit | whole batch, no recompute | largest planned GiB | largest whole batch | slowest |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        figures = [gib_text(r, key) for key in ("largest_bytes", "largest_whole_batch_bytes")]
        lines.append(row_of(r["model"], r["points"], r["fit"], r["whole_batch"], *figures, f"{r['slowest']:.2f}"))
    return lines


def markdown(document):
    lines = title_lines(document, "Peak memory, planned and measured")
    lines += ["What the columns are: benchmarks/peak_memory.py. fp32; the targets of bf16 wait for bf16.", ""]
    if document["cells"]:
        versions = next((c["versions"] for c in document["cells"] if "versions" in c), None)
        if versions:
            lines += [f"PyTorch {versions['torch']}, transformers {versions['transformers']}, attention {document['attention']}.", ""]
        if document.get("interrupted"):
            lines += [f"Stopped by hand after {len(document['cells'])} cells.", ""]
        lines += cells_table(document["cells"]) + [""]
    lines += ["## Ran out of memory in practice (planned only)", ""] + plans_table(document["out_of_memory"]) + [""]
    lines += ["## Seven models on 24 GiB less 600 MiB, head 512, 704, 448, fp32, all 546 points (planned only)", ""]
    lines += seven_table(document["seven_models"]) + [""]
    return "\n".join(lines)


def write_all(options, document):
    os.makedirs(os.path.dirname(os.path.abspath(options.output)), exist_ok=True)
    text = markdown(document)
    with open(options.output + ".json", "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    with open(options.output + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    write_csv(options.output + ".csv", document["cells"])
    write_chart(options.output + ".svg", document)
    print(text)


def measure_all(options, models, document):
    lists = FULL if options.full else DEFAULT
    with tempfile.TemporaryDirectory() as scratch:
        for model in models:
            for shape in options.shapes or lists["shapes"]:
                batch, length = map(int, shape.split("x"))
                for recompute in options.recompute:
                    cell = {"model": model, "batch": batch, "length": length, "recompute": recompute == "on"}
                    document["cells"].append(measure(options, cell, scratch))
                    print(f"{name_of(cell)}: done", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--python", help="with torch and transformers; without it only ftengine is measured")
    parser.add_argument("--attention", default="eager", help="transformers' attn_implementation")
    parser.add_argument("--models", nargs="+", help="names in configs/models")
    parser.add_argument("--shapes", nargs="+", help="BATCHxLENGTH")
    parser.add_argument("--recompute", nargs="+", choices=["off", "on"], default=["off", "on"])
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE", help="further options for ftengine")
    parser.add_argument("--full", action="store_true", help="larger models and shapes")
    parser.add_argument("--plans-only", action="store_true")
    parser.add_argument("--output", default=os.path.join(RESULTS, "peak_memory"), help="without extension")
    options = parser.parse_args()
    lists = FULL if options.full else DEFAULT
    models = [] if options.plans_only else options.models or lists["models"]
    document = {"format_version": 1, **provenance(), "full": options.full, "attention": options.attention, "set": options.set, "cells": []}
    try:
        measure_all(options, models, document)
    except KeyboardInterrupt:  # what is measured is not lost, and the figures that need no run follow
        document["interrupted"] = True
        print("stopped: the cells so far are written", file=sys.stderr)
    document["out_of_memory"] = out_of_memory_rows(options)
    document["seven_models"] = seven_models(options)
    write_all(options, document)
    wrong = [name_of(c) for c in document["cells"] if "metered_bytes" in c and c["metered_bytes"] != c["planned_bytes"]]
    if wrong:
        sys.exit(f"planned and metered differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
