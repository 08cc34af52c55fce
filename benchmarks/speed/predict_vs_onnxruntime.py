#!/usr/bin/env python3
"""Prediction in fp32 and int8, ftengine beside ONNX Runtime (PyPI's package), texts of mixed lengths, about 5 minutes.

    python3 benchmarks/speed/predict_vs_onnxruntime.py --python /path/to/python/with/onnxruntime --model RUN_OR_MODEL --data FILE.tsv

Sides run in turns: fp32 beside fp32, int8 beside quantize_dynamic with a step a tensor (its default) and a step a channel, with the FMA peak
probed around every run and the share of the cores that other processes took. ftengine is the whole process, its start and loading the model
included; ONNX Runtime is given texts sorted by length, the better of two graphs, its best batch size, and is not charged for loading
(predict_onnxruntime.py). Labels of all forms are compared with the file's and with those of fp32.

--model: a run of ftengine, or a BERT with a classifier; --data: TSV with a header, text and label.
"""

import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, read_tsv, title_lines, write_results  # noqa: E402

SIDE = os.path.join(ROOT, "benchmarks", "speed", "predict_onnxruntime.py")
PAIRS = (("fp32", "fp32"), ("int8", "int8"), ("int8", "int8-channel"))
TARGET = 1.5


def our_side(o, model, precision, data):
    text, process = measured([o.ftengine, "predict", model, "--data", data, "--json", "--precision", precision, f"device.threads={o.threads}"])
    labels = [json.loads(line)["label"] for line in text.splitlines()]
    return process | {"best": len(labels) / process["process_seconds"], "labels": labels}


def their_side(o, model, graphs, form, data):
    command = [o.python, SIDE, "predict", "--graphs", graphs, "--model", model, "--data", data, "--form", form]
    text, process = measured([*command, "--threads", str(o.threads), "--max-length", str(o.max_length)])
    return process | json.loads(text)


def compare(o, model, graphs, data):
    rounds = []
    for number in range(o.rounds):
        found = {"peak_before": fma_peak(o.fma_peak)}
        for ours, theirs in PAIRS if number % 2 == 0 else PAIRS[::-1]:
            found[f"onnxruntime {theirs}"] = their_side(o, model, graphs, theirs, data)
            if f"ftengine {ours}" not in found:
                found[f"ftengine {ours}"] = our_side(o, model, ours, data)
        found["peak_after"] = fma_peak(o.fma_peak)
        rounds.append(found)
        print(", ".join(f"{name} {side['best']:.0f}" for name, side in found.items() if isinstance(side, dict)), "texts/s", flush=True)
    return rounds


def table(o, rounds, texts, names):
    lines = ["| | ftengine texts/s | ONNX Runtime texts/s, at its best | ratio (range) |", "|---|---|---|---|"]
    ratios = {}
    for ours, theirs in PAIRS:
        a, b = ([r[f"{side} {form}"] for r in rounds] for side, form in (("ftengine", ours), ("onnxruntime", theirs)))
        ratio = [x["best"] / y["best"] for x, y in zip(a, b)]
        ratios[f"{ours} beside {theirs}"] = {"median": median(ratio), "range": [min(ratio), max(ratio)]}
        best = max(b[-1]["texts_per_second"], key=b[-1]["texts_per_second"].get)
        lines.append(
            f"| {ours} beside {theirs} | {median([x['best'] for x in a]):.0f} | {median([y['best'] for y in b]):.0f} ({best}) "
            f"| **{median(ratio):.2f}x** ({min(ratio):.2f} to {max(ratio):.2f}) |"
        )
    last, truth = rounds[-1], [label for _, label in texts]
    sides = {name: side["labels"] if name.startswith("ftengine") else [names[i] for i in side["labels"]]
             for name, side in last.items() if isinstance(side, dict)}
    others = max(side["others_share"] for r in rounds for side in r.values() if isinstance(side, dict))
    peaks = [p for r in rounds for p in (r["peak_before"], r["peak_after"])]
    lines += ["", f"Target {TARGET}x. {len(texts)} texts, {o.threads} threads, FMA peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s; other processes took up "
              f"to {others:.0%} of the cores.", "", "| | accuracy | labels that differ from ftengine's in fp32 |", "|---|---|---|"]
    for name in sorted(sides):
        right = sum(a == b for a, b in zip(sides[name], truth))
        differs = sum(a != b for a, b in zip(sides[name], sides["ftengine fp32"]))
        lines.append(f"| {name} | {right / len(truth):.4f} | {differs} of {len(truth)} |")
    return lines, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="with onnxruntime, onnx, torch and transformers")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", required=True, help="a run of ftengine, or a BERT with a classifier")
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--max-length", type=int, default=512, help="as the model was trained with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", default=os.path.join(RESULTS, "predict_vs_onnxruntime"), help="without extension")
    o = parser.parse_args()
    o.fma_peak = os.path.abspath(o.fma_peak)
    build_probe(o.fma_peak)
    inside = os.path.join(o.model, "model")
    model = os.path.abspath(inside if os.path.isdir(inside) else o.model)
    data = os.path.abspath(o.data)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        label_of = json.load(f)["id2label"]
    names = [label_of[str(i)] for i in range(len(label_of))]
    with tempfile.TemporaryDirectory() as graphs:
        text, _ = measured([o.python, SIDE, "export", "--model", model, "--output", graphs])
        fused = json.loads(text.splitlines()[-1])["fused"]
        rounds = compare(o, model, graphs, data)
    lines, ratios = table(o, rounds, read_tsv(data), names)
    document = provenance() | {"ratios": ratios, "fused": fused, "onnxruntime": rounds[-1]["onnxruntime fp32"]["version"]}
    for r in rounds:
        for side in r.values():
            if isinstance(side, dict):
                del side["labels"]
    document["rounds"] = rounds
    write_results(o.output, document, "\n".join(title_lines(document, "Prediction, ftengine beside ONNX Runtime") + lines) + "\n")


if __name__ == "__main__":
    main()
