#!/usr/bin/env python3
"""Peak memory, planned and measured: models x batch x length x precision x recompute, ftengine beside PyTorch + transformers.

    tools/get_model.sh && tools/get_data.sh                                          once: a vocabulary, and texts
    python3 benchmarks/memory/peak_memory.py --python /path/to/python/with/torch            all of it; about half an hour on 2 cores
    python3 benchmarks/memory/peak_memory.py --python ... --full                            hours, and 20 GiB; see FULL
    python3 benchmarks/memory/peak_memory.py --only oom seven                               no run: only what can be planned; minutes
    python3 benchmarks/memory/peak_memory.py --only cells --models NAME --shapes 32x512 --precisions bf16 ...   some cells again

With --only (cells, oom, seven) the other parts, and the other cells, are kept as they stand in the output's JSON; every cell
and every part says when and of which commit it is. Without --python PyTorch's figures are those that stand there of the same
cell, or of one that differs in our options only, with the date of their measurement.

Every cell trains two optimizer steps on the CPU, with random weights in the shape of the named model and texts that all have
the full length, the whole batch at once. The texts are the quick start's reviews strung together, in the vocabulary of MiniLM
for every model: the rows of the word table that they read are those of that small data set. bf16 is mixed precision on both
sides, PyTorch's by autocast. The figures:

  planned   peak reserved bytes of `ftengine plan`, before anything runs
  metered   the same of the run, from run.json; a difference is an error of ours, and the exit code says so
  process   the largest resident set of the whole process, as the kernel saw it (wait4): for ftengine and for PyTorch
  torch     PyTorch's process less what it held before the model was made, with all libraries loaded and a tiny model trained:
            what the program itself costs is not held against it
  ratio     planned / torch

Then the configurations that ran out of memory in practice (configs/oom), and the seven models of
configs/spaces/seven_models.ini over all its batches, accumulations and lengths on 24 GiB: planned only, in fp32 and bf16, for
the CPU back end. The slowdown is the planner's prediction, against the same run with unlimited memory. Both are judged by
tests/train/test_oom_configs.sh.
"""

import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, measured, provenance, read_tsv  # noqa: E402
from peak_memory_output import GIB, name_of, write_all  # noqa: E402
from peak_memory_plans import out_of_memory_rows, plan_json, seven_models  # noqa: E402

SMALL = ["prajjwal1/bert-mini", "sentence-transformers/all-MiniLM-L6-v2", "microsoft/deberta-v3-xsmall"]
LARGE = ["distilbert-base-uncased", "bert-base-uncased", "roberta-base", "microsoft/deberta-v3-base", "bert-large-uncased"]
# (models, shapes, precision, recompute, rows of the word table): auto, those that the texts read; off, all of them
# recompute: none is what a run does where everything fits, in which the activation function is made again by default; finer makes
# outputs of norms again too, which 16 bits do not have; layers is layer checkpointing.
RECOMPUTE = {
    "none": [],
    "finer": ["memory.recompute_activation=true", "memory.recompute_layernorm=true"],
    "layers": [],
}
DEFAULT = [
    (SMALL, ["8x128", "32x128", "8x512"], "fp32", ["none", "finer", "layers"], ["auto"]),
    (SMALL, ["32x128", "32x512"], "bf16", ["none"], ["auto", "off"]),
    (["bert-base-uncased"], ["32x128"], "fp32", ["none", "finer"], ["auto"]),
    (["bert-base-uncased"], ["32x128"], "bf16", ["none"], ["auto", "off"]),
]
FULL = DEFAULT + [
    (LARGE, ["8x128", "32x128", "8x512", "32x512"], "fp32", ["none", "finer", "layers"], ["auto"]),
    (LARGE, ["32x128", "32x512"], "bf16", ["none"], ["auto", "off"]),
]
TOKENIZER = os.path.join(ROOT, "models", "all-MiniLM-L6-v2")
TEXTS = os.path.join(ROOT, "data", "reviews", "train.tsv")
IDENTITY = ("model", "batch", "length", "precision", "recompute", "vocabulary")


# ---- one cell -------------------------------------------------------------------------------------------------------


def write_texts(path, rows, words):
    """All words of the reviews, in texts of `words` words: no text is shorter than so many tokens. The last begins again."""
    every = " ".join(text for text, _ in read_tsv(TEXTS)).split()
    rows = max(rows, -(-len(every) // words))
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for row in range(rows):
            text = " ".join(every[(row * words + k) % len(every)] for k in range(words))
            f.write(f"{text}\t{row % 2}\n")


def overrides(cell, train, options):
    return [
        f"model.path={cell['model']}",
        "model.init=random",
        f"model.stand_in_tokenizer={TOKENIZER}",
        f"data.train={train}",
        "data.cache_dir=none",
        f"data.max_length={cell['length']}",
        f"train.batch_size={cell['batch']}",
        f"train.micro_batch={cell['batch']}",
        f"train.precision={cell['precision']}",
        f"train.gradient_checkpointing={'on' if cell['recompute'] == 'layers' else 'off'}",
        f"memory.active_vocabulary={cell['vocabulary']}",
        "train.max_steps=2",
        "eval.strategy=no",
        "memory.timeline=false",
    ] + RECOMPUTE[cell["recompute"]] + options.set


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable:"))


def measure_torch(options, cell):
    command = [options.python, os.path.join(ROOT, "benchmarks", "memory", "peak_memory_torch.py")]
    command += ["--model", os.path.join(ROOT, "configs", "models", cell["model"] + ".json"), "--attention", options.attention]
    command += ["--batch", str(cell["batch"]), "--length", str(cell["length"])] + ["--recompute"] * (cell["recompute"] == "layers")
    command += ["--precision", cell["precision"]]
    text, process = measured(command)
    result = json.loads(text)
    return {
        "torch_process_bytes": process["resident_bytes"],
        "torch_before_bytes": result["before_model_bytes"],
        "torch_bytes": process["resident_bytes"] - result["before_model_bytes"],
        "torch_parameters": result["parameters"],
        "versions": result["versions"],
        "torch_date": provenance()["date"],
    }


def torch_key(cell):
    """The same for cells that differ only in what PyTorch does not have: our word table, and finer recomputation."""
    return tuple(cell[k] == "layers" if k == "recompute" else cell[k] for k in IDENTITY if k != "vocabulary")


def known_torch(cells):
    """Of cells that stand in the document."""
    known = {}
    for cell in cells:
        figures = {k: cell[k] for k in cell if k == "versions" or k.startswith("torch_")}
        if figures:
            known[torch_key(cell)] = {"torch_date": cell["date"]} | figures
    return known


def add_torch(options, cell, known):
    key = torch_key(cell)
    need = options.torch_factor * cell["planned_bytes"]  # not known beforehand: as many times ours as it has ever needed
    if key not in known and options.python:
        if need > available_bytes():
            known[key] = {"torch_not_run": f"about {need / GIB:.0f} GiB may be needed, {available_bytes() / GIB:.0f} are free"}
        else:
            try:
                known[key] = measure_torch(options, cell)
            except SystemExit as failure:  # out of memory, most likely: the next cells may well run
                known[key] = {"torch_not_run": str(failure).rsplit(": ", maxsplit=1)[-1]}
    cell.update(known.get(key, {}))
    if "torch_bytes" in cell:
        cell["ratio"] = cell["planned_bytes"] / cell["torch_bytes"]


def measure(options, cell, scratch, known):
    train = os.path.join(scratch, f"texts-{cell['batch']}-{cell['length']}.tsv")
    if not os.path.exists(train):
        write_texts(train, 2 * cell["batch"], cell["length"])
    words = overrides(cell, train, options)
    plan, error = plan_json(options.ftengine, words)
    if plan is None:
        sys.exit(f"{name_of(cell)}: {error}")
    planned, rows = plan["memory"]["peak_reserved_bytes"], plan["active_vocabulary"]
    result = dict(cell, planned_bytes=planned, parameters=plan["model"]["parameters"], table_rows=rows["rows"])
    result.update(trained_rows=rows["trained_rows"], **{k: v for k, v in provenance().items() if k in ("date", "commit")})
    if planned * 1.2 > available_bytes():
        result["not_run"] = f"{available_bytes() / GIB:.1f} GiB are free"
    elif not options.plan_cells:
        with tempfile.TemporaryDirectory(dir=scratch) as run:
            _, process = measured([options.ftengine, "train", *words, f"output.dir={run}/run"])
            with open(f"{run}/run/run.json", encoding="utf-8") as f:
                memory = json.load(f)["memory"]
        result["metered_bytes"] = memory["peak_reserved_bytes"]
        result["allocated_bytes"] = memory["peak_allocated_bytes"]
        result["process_bytes"] = process["resident_bytes"]
    else:
        result["not_run"] = "planned only (--plan-cells)"
    add_torch(options, result, known)
    return result


def cells_of(options):
    if not (options.models or options.shapes or options.precisions):
        groups = FULL if options.full else DEFAULT
    else:
        models, shapes = options.models or SMALL, options.shapes or ["8x128", "32x128", "8x512"]
        groups = [(models, shapes, precision, options.recompute, options.vocabulary) for precision in options.precisions or ["fp32"]]
    for models, shapes, precision, recompute, vocabulary in groups:
        for model in models:
            for shape in shapes:
                batch, length = map(int, shape.split("x"))
                for again in recompute:
                    for rows in vocabulary:
                        yield {"model": model, "batch": batch, "length": length, "precision": precision, "recompute": again, "vocabulary": rows}


def same(a, b):
    return all(a[k] == b[k] for k in IDENTITY)


def measure_all(options, document):
    """Cells that the document has already are replaced, in their place."""
    known = {} if options.python else known_torch(document["cells"] or cells_on_file(options))
    with tempfile.TemporaryDirectory() as scratch:
        for cell in cells_of(options):
            result = measure(options, cell, scratch, known)
            cells = document["cells"]
            at = next((i for i, old in enumerate(cells) if same(old, cell)), len(cells))
            cells[at : at + 1] = [result]
            print(f"{name_of(cell)}: done", file=sys.stderr)


def cells_on_file(options):
    """What PyTorch takes for them does not change with us."""
    if not os.path.exists(options.output + ".json"):
        return []
    with open(options.output + ".json", encoding="utf-8") as f:
        return json.load(f)["cells"]


def read_document(options):
    """What stands in the output already, where only a part is asked for."""
    document = {"format_version": 3, **provenance(), "attention": options.attention, "set": options.set, "parts": {}}
    document.update(cells=[], out_of_memory=[], seven_models=[])
    if options.only and os.path.exists(options.output + ".json"):
        with open(options.output + ".json", encoding="utf-8") as f:
            old = json.load(f)
        if old["format_version"] != document["format_version"]:
            sys.exit(
                f"peak_memory.py: {options.output}.json has format_version {old['format_version']}, and parts of {document['format_version']} "
                "cannot be added to it: give another --output, or measure everything (no --only)"
            )
        document.update({k: old[k] for k in ("parts", "cells", "out_of_memory", "seven_models")})
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--python", help="with torch and transformers; without it only ftengine is measured")
    parser.add_argument("--attention", default="eager", help="transformers' attn_implementation")
    parser.add_argument("--only", nargs="+", choices=["cells", "oom", "seven"], help="parts; the others are kept")
    parser.add_argument("--models", nargs="+", help="names in configs/models")
    parser.add_argument("--shapes", nargs="+", help="BATCHxLENGTH")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"])
    parser.add_argument("--recompute", nargs="+", choices=list(RECOMPUTE), default=["none"], help="of cells that are named")
    parser.add_argument("--vocabulary", nargs="+", choices=["auto", "off"], default=["auto"], help="of cells that are named")
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE", help="further options for ftengine")
    parser.add_argument("--full", action="store_true", help="larger models and shapes")
    parser.add_argument("--plan-cells", action="store_true", help="our side of the cells planned, not run")
    parser.add_argument("--torch-factor", type=float, default=6, help="PyTorch is run where so many times our plan is free")
    parser.add_argument("--output", default=os.path.join(RESULTS, "peak_memory"), help="without extension")
    options = parser.parse_args()
    parts = options.only or ["cells", "oom", "seven"]
    if "cells" in parts and not (os.path.exists(TEXTS) and os.path.exists(TOKENIZER)):
        sys.exit("peak_memory.py: the texts or the vocabulary are not there: run tools/get_model.sh and tools/get_data.sh first")
    document = read_document(options)
    stamp = {k: document[k] for k in ("date", "commit", "command")}
    try:
        if "cells" in parts:
            measure_all(options, document)
            document["parts"]["cells"] = stamp
        for part, key, rows_of in (("oom", "out_of_memory", out_of_memory_rows), ("seven", "seven_models", seven_models)):
            if part in parts:
                document[key] = rows_of(options.ftengine)
                document["parts"][part] = stamp
    except KeyboardInterrupt:  # what is measured is not lost
        document["interrupted"] = True
        print("stopped: what there is so far is written", file=sys.stderr)
    print(write_all(options.output, document))
    wrong = [name_of(c) for c in document["cells"] if "metered_bytes" in c and c["metered_bytes"] != c["planned_bytes"]]
    if wrong:
        sys.exit(f"planned and metered differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
