#!/usr/bin/env python3
"""Few labels: accuracy beside seconds of processor time, ftengine and two others with the same encoder.

    python3 benchmarks/speed/few_labels.py --python /path/to/python [--counts 8,16,64] [--draws 5] [--methods probe,lora,embed,model2vec,setfit]

Of TREC's and the quick start's training files so many texts of each class are drawn, `--draws` times; every method learns from the same ones and is judged
on the same test file. One thread each, so that processor time does not depend on who else runs.

- probe: train.parameters=classifier, model.head.pooling=mean, on rows of the frozen model that each run computes anew (nothing is cached in front)
- lora: adapter.type=lora, model.head.pooling=mean
- embed: `ftengine embed` (mean of rows, length 1), and scikit-learn's logistic regression on that
- model2vec: a static model, distilled from the same encoder (once, listed apart), and logistic regression
- setfit: pairs of texts (--iterations for each text, 20 as in its paper), then logistic regression on the encoder's vectors

Seconds are user and system time of a process and its children: `all` until there is a trained model, with the start of Python and its packages; `without start`
from when those are loaded. Judging is in neither. Settings of ftengine are the same for all texts; they were chosen with --holdout, which judges on other
texts of the training file, and with --first-draw 101, so by texts that are not in the result. Rows are kept in --rows as they come; what is there is not
measured again, unless --rows is another file.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, TREC, mean, median, paired, provenance, read_tsv, title_lines, variance, write_results  # noqa: E402

RIVALS = os.path.join(ROOT, "benchmarks", "speed", "few_labels_torch.py")
OURS, OTHERS = ("probe", "lora", "embed"), ("model2vec", "setfit")
NAMES = {
    "probe": "ftengine, head alone",
    "lora": "ftengine, LoRA",
    "embed": "ftengine embed + logistic regression",
    "model2vec": "model2vec + logistic regression",
    "setfit": "SetFit",
}
BATCH, HELD_OUT = 16, 500
# Steps: so many epochs of the texts, and no fewer than that.
SETTINGS = {
    "probe": {"epochs": 30, "least": 300, "options": ["train.parameters=classifier", "model.head.pooling=mean", "train.learning_rate=2e-3"]},
    "lora": {"epochs": 10, "least": 100, "options": ["adapter.type=lora", "model.head.pooling=mean", "adapter.r=8", "adapter.alpha=16", "train.learning_rate=1e-3"]},
}
COMMON = ["data.max_length=128", f"train.batch_size={BATCH}", "train.warmup_ratio=0.1", "eval.strategy=no", "device.name=cpu", "device.threads=1"]


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))


def draw(rows, count, seed):
    """So many of each class in a random order, and the others."""
    generator, taken = random.Random(seed), []
    for label in sorted({label for _, label in rows}):
        taken += generator.sample([i for i, (_, l) in enumerate(rows) if l == label], count)
    generator.shuffle(taken)
    rest = sorted(set(range(len(rows))) - set(taken))
    return [rows[i] for i in taken], [rows[i] for i in generator.sample(rest, HELD_OUT)]


def spent(command, log):
    """Standard output, and the processor seconds of the process and its children."""
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log, "ab") as err:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=err, cwd=ROOT, env=os.environ | one, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode} (see {log})")
    return done.stdout.decode(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Case:
    def __init__(self, options, scratch, data, count, seed):
        train, held_out = draw(read_tsv(options.data[data]["train"]), count, seed)
        self.options, self.scratch, self.seed, self.texts = options, scratch, seed, len(train)
        self.train, self.test, self.run = (os.path.join(scratch, name) for name in ("train.tsv", "test.tsv", "run"))
        write_rows(self.train, train)
        write_rows(self.test, held_out if options.holdout else read_tsv(options.data[data]["test"]))
        self.log = os.path.join(scratch, "log")

    def ftengine(self, method):
        s = SETTINGS[method]
        shutil.rmtree(self.run, ignore_errors=True)
        steps = max(s["least"], -(-s["epochs"] * self.texts // BATCH))
        more = self.options.more.get(method, [])
        _, seconds = spent(
            [self.options.ftengine, "train", f"model.path={self.options.model}", f"data.train={self.train}", f"output.dir={self.run}", "data.cache_dir=none",
             f"train.seed={self.seed}", f"train.max_steps={steps}", *COMMON, *s["options"], *more],
            self.log,
        )
        text, _ = spent([self.options.ftengine, "eval", self.run, "--data", self.test, "--json", "data.cache_dir=none", "device.name=cpu", "device.threads=1"], self.log)
        return {"accuracy": json.loads(text)["metrics"]["accuracy"], "all": seconds, "without_start": seconds}

    def rival(self, method, *words):
        text, seconds = spent([self.options.python, RIVALS, method, "--train", self.train, "--test", self.test, *words], self.log)
        result = json.loads(text)
        parts = result["seconds"]
        return {"accuracy": result["accuracy"], "all": seconds - parts["judge"], "without_start": parts["train"]}

    def embed(self):
        vectors, texts = os.path.join(self.scratch, "vectors.npy"), os.path.join(self.scratch, "texts.tsv")
        made = {}
        for name, rows in ("train", read_tsv(self.train)), ("both", read_tsv(self.train) + read_tsv(self.test)):
            write_rows(texts, rows)
            _, made[name] = spent([self.options.ftengine, "embed", self.options.model, "--data", texts, "--pooling", "mean", "--normalize", "--output", vectors,
                                   "data.max_length=128", "device.name=cpu", "device.threads=1"], self.log)
        result = self.rival("vectors", "--vectors", vectors)
        return result | {"all": result["all"] + made["train"], "without_start": result["without_start"] + made["train"]}

    def measure(self, method):
        if method in SETTINGS:
            return self.ftengine(method)
        if method == "embed":
            return self.embed()
        if method == "model2vec":
            return self.rival(method, "--model", self.options.static)
        return self.rival(method, "--model", self.options.model, "--seed", str(self.seed), "--iterations", str(self.options.iterations))


# ---- the table ------------------------------------------------------------------------------------------------------------------


def cell_of(rows):
    accuracy = [100 * r["accuracy"] for r in rows]
    return {
        "draws": len(rows),
        "accuracy": mean(accuracy),
        "deviation": variance(accuracy) ** 0.5 if len(rows) > 1 else 0.0,
        "all": median([r["all"] for r in rows]),
        "without_start": median([r["without_start"] for r in rows]),
    }


def verdicts(cells, by_draw, clock):
    """Of each rival: who of ours is at least as right in at most its seconds; else what is missing."""
    lines = []
    for rival in (m for m in OTHERS if m in cells):
        inside = [m for m in OURS if m in cells and cells[m][clock] <= cells[rival][clock]]
        best = max(inside, key=lambda m: cells[m]["accuracy"], default=None)
        if best is None:
            lines.append(f"{NAMES[rival]}: nothing of ours takes so few seconds")
            continue
        shared = sorted(set(by_draw[best]) & set(by_draw[rival]))
        words = f"{NAMES[rival]}: {NAMES[best]}"
        times = f"in {cells[best][clock] / cells[rival][clock]:.2f} times the seconds"
        ours, theirs = [100 * by_draw[best][k] for k in shared], [100 * by_draw[rival][k] for k in shared]
        if len(shared) < 2:  # a draw alone has no interval
            lines.append(f"{words} {sum(ours) - sum(theirs):+.1f} points {times}, one draw" if shared else f"{words} has no draw in common")
            continue
        d, half = paired(ours, theirs)
        word = "ahead" if d - half > 0 else "behind" if d + half < 0 else "no difference that is significant"
        lines.append(f"{words} {d:+.1f} points (95% interval {d - half:+.1f} to {d + half:+.1f}) {times}: {word}")
    return lines


def table(document, rows, methods):
    lines = title_lines(document, "Few labels: accuracy beside seconds of processor time")
    lines += [
        f"{document['model']}, fp32, one thread each; {document['draws']} draws of so many texts a class, the same for all. Accuracy on the test file: mean and standard deviation over "
        "draws. Seconds: median of user and system time of the process and its children until there is a trained model; `without start` from when "
        "Python and its packages are loaded (of ftengine, a program, both are one).",
        "",
    ]
    document["cells"] = []
    for data, count in sorted({(r["data"], r["count"]) for r in rows}):
        here = [r for r in rows if (r["data"], r["count"]) == (data, count)]
        by_draw = {m: {r["draw"]: r["accuracy"] for r in here if r["method"] == m} for m in methods}
        cells = {m: cell_of([r for r in here if r["method"] == m]) for m in methods if by_draw[m]}
        document["cells"].append({"data": data, "count": count, "methods": cells})
        lines += [f"## {data}, {count} texts a class", "", "| | accuracy | seconds, all | seconds without start | draws |", "|---|---|---|---|---|"]
        for m, c in cells.items():
            lines.append(f"| {NAMES[m]} | {c['accuracy']:.1f}% ± {c['deviation']:.1f} | {c['all']:.1f} | {c['without_start']:.1f} | {c['draws']} |")
        lines += ["", "In at most the seconds of the other, all counted:", ""]
        lines += [f"- {line}" for line in verdicts(cells, by_draw, "all")]
        lines += ["", "Without start:", ""]
        lines += [f"- {line}" for line in verdicts(cells, by_draw, "without_start")] + [""]
    if document["distilled"]:
        lines += [f"The static model was distilled once, in {document['distilled']:.0f} s of processor time, which no row has.", ""]
    lines += [f"Settings of ftengine: {json.dumps(SETTINGS)}, {json.dumps(COMMON)}. SetFit: {document['iterations']} iterations a text, batch 16, one epoch, its other defaults.", ""]
    return "\n".join(lines)


# ---- all of it --------------------------------------------------------------------------------------------------------------------


def static_model(options, scratch):
    if options.static or "model2vec" not in options.methods:
        return 0.0
    options.static = os.path.join(scratch, "static")
    text, _ = spent([options.python, RIVALS, "distill", "--model", options.model, "--output", options.static], os.path.join(scratch, "log"))
    return sum(json.loads(text)["seconds"].values())


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with setfit, model2vec and scikit-learn")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--static", help="a static model of model2vec that is there already")
    parser.add_argument("--data", default="trec,reviews")
    parser.add_argument("--trec", default=TREC)
    parser.add_argument("--counts", default="8,16,64")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first-draw", type=int, default=1)
    parser.add_argument("--methods", default=",".join(NAMES))
    parser.add_argument("--iterations", type=int, default=20, help="SetFit's pairs: twice so many a text")
    parser.add_argument("--holdout", action="store_true", help="judge on other texts of the training file, to choose settings by")
    parser.add_argument("--more", action="append", default=[], metavar="METHOD:OPTION", help="another option of ftengine, for trying out")
    parser.add_argument("--rows", help="a file of JSON lines, one a measured run (default: the output's name with .jsonl)")
    parser.add_argument("--output", default=os.path.join(RESULTS, "few_labels"))
    options = parser.parse_args()
    options.methods = options.methods.split(",")
    more, options.more = options.more, {}
    for word in more:
        method, _, option = word.partition(":")
        options.more.setdefault(method, []).append(option)
    files = {"trec": (options.trec, "train.tsv", "test.tsv"), "reviews": (os.path.join(ROOT, "data", "reviews"), "train.tsv", "dev.tsv")}
    options.data = {name: {"train": os.path.join(files[name][0], files[name][1]), "test": os.path.join(files[name][0], files[name][2])} for name in options.data.split(",")}
    options.counts = [int(n) for n in options.counts.split(",")]
    options.rows = options.rows or options.output + ".jsonl"
    return options


def known(options):
    if not os.path.exists(options.rows):
        return []
    with open(options.rows, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def main():
    options = parse()
    rows = known(options)
    there = {(r["data"], r["count"], r["draw"], r["method"]) for r in rows}
    scratch = tempfile.mkdtemp(prefix="few-labels-")
    document = provenance() | {"model": os.path.basename(options.model), "draws": options.draws, "iterations": options.iterations, "distilled": static_model(options, scratch)}
    os.makedirs(os.path.dirname(os.path.abspath(options.rows)), exist_ok=True)
    for method in options.methods:  # one after the other: what takes longest comes last
        for count in options.counts:
            for data in options.data:
                for seed in range(options.first_draw, options.first_draw + options.draws):
                    if (data, count, seed, method) in there:
                        continue
                    result = Case(options, scratch, data, count, seed).measure(method)
                    row = {"data": data, "count": count, "draw": seed, "method": method} | result
                    rows.append(row)
                    with open(options.rows, "a", encoding="utf-8") as f:
                        f.write(json.dumps(row) + "\n")
                    print(f"{data} {count} draw {seed} {method}: {100 * row['accuracy']:.1f}% in {row['all']:.1f} s", file=sys.stderr, flush=True)
    shutil.rmtree(scratch)
    document["rows"] = rows
    write_results(options.output, document, table(document, rows, [m for m in NAMES if any(r["method"] == m for r in rows)]))


if __name__ == "__main__":
    main()
