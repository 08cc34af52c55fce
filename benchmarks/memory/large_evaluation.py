#!/usr/bin/env python3
"""A million texts with a thousand classes, evaluated and predicted in bounded memory; every figure held against one that is not ours.

    FTENGINE=build/ftengine benchmarks/memory/large_evaluation.py --texts 1e6 --classes 1000 --limit 100e6 [--exact 20000] [--output FILE.md]

A tiny model is trained on pairs of words that mean a class. `eval --json` and `predict` then run in a cgroup (v1) of --limit bytes. What is
defined by counts is counted here from the predictions, which come through a pipe and are kept by nobody; what needs an order (AUROC, average
precision) or all probabilities is computed of the first --exact texts by scikit-learn in float64 from the logits that `predict --logits` writes, and
held against `eval` of the same texts in the same cgroup. Needs numpy and scikit-learn for that; --exact 0 leaves it out.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "memory"))
import host_runs

FTENGINE = os.environ.get("FTENGINE", "build/ftengine")
MODEL = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
         "type_vocab_size": 2, "max_position_embeddings": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def write_model(directory, vocabulary):
    os.makedirs(directory)
    shutil.copy(vocabulary, f"{directory}/vocab.txt")
    with open(vocabulary) as f:
        pieces = f.read().split("\n")[:-1]
    with open(f"{directory}/config.json", "w") as f:
        json.dump(dict(MODEL, vocab_size=len(pieces)), f)
    return [p for p in pieces if p.isascii() and p.isalpha() and len(p) > 2]


def texts(count, classes, words, seed):
    """The class is that of two words; of one text in five it is any other, so that nothing is right everywhere."""
    rng = random.Random(seed)
    side = math.isqrt(classes - 1) + 1
    for _ in range(count):
        label = rng.randrange(classes)
        meant = label if rng.random() < 0.8 else rng.randrange(classes)
        yield f"{words[meant // side]} {words[side + meant % side]} {rng.choice(words)}", label


def write_texts(path, *rest):
    with open(path, "w", buffering=1 << 20) as f:
        f.write("text\tlabel\n")
        for text, label in texts(*rest):
            f.write(f"{text}\tc{label:05d}\n")


def in_group(command, limit, take):
    """Runs it in a cgroup; take(stream): what to do with its standard output. -> what that gave, and what was measured"""
    group = host_runs.make_group(int(limit))
    if group is None:
        sys.exit("no cgroup (v1) can be made here")

    def enter():
        with open(f"{group}/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    began = time.time()
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=enter)
        watched = {"held": 0}

        def watch():
            watched["held"] = max(watched["held"], host_runs.held(child.pid))

        taken = take(child.stdout, watch)
        while child.poll() is None:
            watch()
            time.sleep(0.01)
        errors.seek(0)
        said = errors.read()
    told = {"seconds": time.time() - began, "held": watched["held"], "kills": host_runs.kills_in(group), "code": child.returncode}
    with open(f"{group}/memory.max_usage_in_bytes") as f:
        told["usage"] = int(f.read())
    host_runs.remove_group(group)
    if child.returncode != 0 or told["kills"]:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}, {told['kills']} kills: {said[-800:]}")
    return taken, told


def whole(stream, watch):
    """All of it; looks at the process meanwhile, until it says something."""
    import select
    while not select.select([stream], [], [], 0.01)[0]:
        watch()
    return stream.read()


def counts_of(classes, labels):
    """A taker of predictions: the table of label and prediction, as three lists and the number of hits."""
    def take(stream, watch):
        header = stream.readline().split("\t")
        at = header.index("predicted") if "predicted" in header else header.index("label")
        hit, said, true, rows = [0] * classes, [0] * classes, [0] * classes, 0
        for line, label in zip(stream, labels):
            predicted = int(line.split("\t", at + 1)[at][1:])
            said[predicted] += 1
            true[label] += 1
            hit[label] += predicted == label
            rows += 1
            if rows % 200 == 0:
                watch()
        return hit, said, true, rows
    return take


def figures_of(counts):
    """As scikit-learn defines them, of one class a text; sums by math.fsum."""
    hit, said, true, n = counts
    right = sum(hit)
    present = [k for k in range(len(true)) if true[k] or said[k]]
    precision = {k: hit[k] / said[k] if said[k] else 0.0 for k in present}
    recall = {k: hit[k] / true[k] if true[k] else 0.0 for k in present}
    f1 = {k: 2 * hit[k] / (said[k] + true[k]) for k in present}
    both, said2, true2 = sum(s * t for s, t in zip(said, true)), sum(s * s for s in said), sum(t * t for t in true)
    spread = math.sqrt(n * n - said2) * math.sqrt(n * n - true2)
    mean = lambda values: math.fsum(values) / len(present)
    occur = [k for k in present if true[k]]
    return {"accuracy": right / n, "balanced_accuracy": math.fsum(recall[k] for k in occur) / len(occur), "precision_macro": mean(precision.values()),
            "recall_macro": mean(recall.values()), "f1_macro": mean(f1.values()), "f1_micro": right / n,
            "f1_weighted": math.fsum(f1[k] * true[k] for k in present) / n,
            "matthews": (right * n - both) / spread if spread else 0.0, "cohen_kappa": (right / n - both / n / n) / (1 - both / n / n)}


def sorted_figures(path, labels, classes):
    """What needs all probabilities or an order of them, by scikit-learn and numpy in float64."""
    import numpy
    from sklearn.metrics import average_precision_score, roc_auc_score
    logits = numpy.empty((len(labels), classes))
    with open(path) as f:
        for i, line in enumerate(f): # nine digits: the float32 that was computed
            said = json.loads(line)["logits"]
            logits[i] = numpy.array([said[f"c{k:05d}"] for k in range(classes)], dtype=numpy.float32)
    logits -= logits.max(axis=1, keepdims=True)
    p = numpy.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    one = numpy.zeros_like(p, dtype=bool)
    one[numpy.arange(len(labels)), labels] = True
    return {"auroc": float(numpy.mean([roc_auc_score(one[:, k], p[:, k]) for k in range(classes)])),
            "average_precision": float(numpy.mean([average_precision_score(one[:, k], p[:, k]) for k in range(classes)])),
            "log_loss": float(-numpy.log(p[numpy.arange(len(labels)), labels]).mean()), "brier": float(((p - one) ** 2).sum(axis=1).mean())}


def compare(ours, theirs, tolerance, what, faults):
    """-> the largest difference of those that both have"""
    both = [k for k in theirs if k in ours]
    if not both:
        faults.append(f"{what}: nothing to compare")
        return 0.0, both
    for k in both:
        if not abs(ours[k] - theirs[k]) <= tolerance * max(1, abs(theirs[k])):
            faults.append(f"{what}: {k} is {ours[k]!r}, not {theirs[k]!r}")
    return max(abs(ours[k] - theirs[k]) for k in both), both


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--texts", type=float, default=1e6)
    p.add_argument("--classes", type=int, default=1000)
    p.add_argument("--limit", type=float, default=100e6, help="bytes of the cgroup")
    p.add_argument("--exact", type=int, default=20000)
    p.add_argument("--steps", type=int, default=1500, help="of training, of 64 texts")
    p.add_argument("--scratch", default="/var/tmp")
    p.add_argument("--vocabulary", default=os.path.join(HERE, "..", "..", "tests", "vectors", "trainer", "model", "vocab.txt"))
    p.add_argument("--output", help="a table for people, appended, as Markdown")
    o = p.parse_args()
    count, faults, rows = int(o.texts), [], []
    directory = tempfile.mkdtemp(prefix="ft-evaluation-", dir=o.scratch)
    os.environ["TMPDIR"] = directory
    os.environ["FTENGINE_LEDGER_DIR"] = f"{directory}/ledger"
    try:
        words = write_model(f"{directory}/base", o.vocabulary)
        write_texts(f"{directory}/train.tsv", 50 * o.classes, o.classes, words, 1)
        write_texts(f"{directory}/all.tsv", count, o.classes, words, 2)
        size = os.path.getsize(f"{directory}/all.tsv")
        where = ["device.name=cpu", "device.threads=1"]
        subprocess.run([FTENGINE, "train", f"model.path={directory}/base", "model.init=random", f"data.train={directory}/train.tsv", "data.max_length=8",
                        f"train.max_steps={o.steps}", "train.batch_size=64", "train.learning_rate=3e-3", "train.warmup_steps=100", "eval.strategy=no",
                        "output.save_steps=0", "data.cache_dir=none", f"output.dir={directory}/run", "--quiet", *where], check=True)

        def evaluate(name, path):
            text, told = in_group([FTENGINE, "eval", f"{directory}/run", "--data", path, "--json", *where], o.limit, whole)
            rows.append((name, told))
            print(f"{name}: {told}", flush=True)
            return json.loads(text)["metrics"]

        ours = evaluate(f"eval, {count} texts", f"{directory}/all.tsv")
        labels = (label for _, label in texts(count, o.classes, words, 2))
        counts, told = in_group([FTENGINE, "predict", f"{directory}/run", "--data", f"{directory}/all.tsv", *where], o.limit, counts_of(o.classes, labels))
        rows.append((f"predict, {count} texts", told))
        print(f"predict: {told}", flush=True)
        if counts[3] != count:
            faults.append(f"{counts[3]} predictions")
        print(ours, flush=True)
        counted = figures_of(counts)
        print(counted, flush=True)
        difference, named = compare(ours, counted, 1e-12, "counts", faults)
        lines = [f"`benchmarks/memory/large_evaluation.py --texts {o.texts:g} --classes {o.classes} --limit {o.limit:g} --exact {o.exact}`: {count} texts, "
                 f"{size / 1e6:.1f} MB; their logits are {4e-9 * count * o.classes:.2f} GB.", "",
                 f"By counts (accuracy {ours['accuracy']:.4f}): {', '.join(named)}; counted again from the predictions, which differ by at most {difference:.1e}.", ""]
        if o.exact:
            few = f"{directory}/few.tsv"
            write_texts(few, o.exact, o.classes, words, 2)
            part = evaluate(f"eval, {o.exact} texts", few)
            subprocess.run([FTENGINE, "predict", f"{directory}/run", "--data", few, "--logits", "--output", f"{directory}/few.out.jsonl", *where], check=True,
                           stderr=subprocess.DEVNULL)
            there = [label for _, label in texts(o.exact, o.classes, words, 2)]
            difference, named = compare(part, sorted_figures(f"{directory}/few.out.jsonl", there, o.classes), 1e-9, "scikit-learn", faults)
            lines += [f"Of the first {o.exact} by scikit-learn in float64: {', '.join(named)}; they differ by at most {difference:.1e}.", ""]
        lines += ["| | seconds | held at most, MB | usage at most (page cache too), MB | kills for memory |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| {name} | {t['seconds']:.0f} | {t['held'] / 1e6:.1f} | {t['usage'] / 1e6:.0f} | {t['kills']} |" for name, t in rows]
        lines += ["", *[f"- {f}" for f in faults]] if faults else []
        print("\n".join(lines))
        if o.output:
            with open(o.output, "a") as f:
                f.write("\n" + "\n".join(lines) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
