#!/usr/bin/env python3
"""What the Python package costs beside the command: from `pip install` to a first prediction, the import, and a fit of 1,000 texts.

    python3 benchmarks/speed/python_package.py --wheel build-wheel/wheel/ftengine-*.whl --python PYTHON_WITH_SCIKIT_LEARN [--rounds 3]

install   a new virtual environment (its making is not counted), then from the start of pip to the label of one text by a fine-tuned model, in two
          processes as people have them: pip install, python -c "ftengine.load(RUN).predict(...)". Wanted: at most 10 s.
import    `import ftengine` in a python that has started, in processes of their own, and the start of python and of ctypes beside it. Wanted: at most 0.15 s.
fit       FtengineClassifier.fit and ftengine.train beside `ftengine train`, on the same 1,000 texts and settings, in turns, the FMA peak beside each.
          Wanted: the same weights to the bit, and at most 3% more time. Of the estimator and the module the call counts, of the command the process.

The model is models/all-MiniLM-L6-v2, texts are the reviews (tools/get_data.sh). Writes results/python_package.md.
"""

import argparse
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, read_tsv, title_lines, write_results  # noqa: E402

PREDICT = "import sys, ftengine; print(ftengine.load(sys.argv[1]).predict(['a fine film'])[0])"
IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
FIT = """
import hashlib, json, sys, time
from ftengine.sklearn import FtengineClassifier
import numpy  # before the clock: a user of scikit-learn has it
data, model, epochs, length, batch = json.load(open(sys.argv[1])), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
c = FtengineClassifier(model, epochs=epochs, batch_size=batch, max_length=length, seed=1)
start = time.perf_counter()
c.fit(data["texts"], data["labels"])
took = time.perf_counter() - start
print(json.dumps({"seconds": took, "sha256": hashlib.sha256(c._files["model/model.safetensors"]).hexdigest()}))
"""
TRAIN = """
import hashlib, json, os, sys, time
import ftengine
data, model, epochs, length, batch, run = json.load(open(sys.argv[1])), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
start = time.perf_counter()
done = ftengine.train(train=(data["texts"], data["labels"]), model=model, epochs=epochs, batch_size=batch, max_length=length, seed=1, output_dir=run,
                      progress=False, ignore_mismatched_sizes=True, **{"data.cache_dir": "none"})
took = time.perf_counter() - start
print(json.dumps({"seconds": took, "sha256": hashlib.sha256((done.model_dir / "model.safetensors").read_bytes()).hexdigest()}))
"""


def new_environment(scratch, number):
    folder = os.path.join(scratch, f"venv-{number}")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return os.path.join(folder, "bin", "python")


def install(options, scratch, run):
    """Seconds of pip, and of the first prediction behind it."""
    rows = []
    for number in range(options.rounds):
        python = new_environment(scratch, number)
        start = time.monotonic()
        command = [python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", "--no-cache-dir", options.wheel]
        subprocess.run(command, check=True)
        installed = time.monotonic()
        label = subprocess.run([python, "-c", PREDICT, run], check=True, capture_output=True, text=True, cwd=scratch).stdout.strip()
        rows.append({"pip": installed - start, "predict": time.monotonic() - installed, "label": label})
    return rows, python


def importing(python, scratch, rounds=15):
    """Seconds of imports, each in a new process; the first of all is not counted."""
    names = ("ftengine", "ctypes", "json")
    times = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            took = float(subprocess.run([python, "-c", IMPORT.format(name)], check=True, capture_output=True, text=True, cwd=scratch).stdout)
            if number > 0:
                times[name].append(took)
    return times


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def fitting(options, scratch, python_plain, log):
    """Seconds and the hash of the weights, in turns: the command, the module, the estimator."""
    pairs = read_tsv(os.path.join(options.data, "train.tsv"))[:1000]
    classes = sorted({label for _, label in pairs})
    table = os.path.join(scratch, "texts.json")
    with open(table, "w", encoding="utf-8") as f:
        # names as the estimator has them, so that all three write the same model
        json.dump({"texts": [text for text, _ in pairs], "labels": [f"c{classes.index(label)}" for _, label in pairs]}, f)
    lines = os.path.join(scratch, "texts.jsonl")
    with open(lines, "w", encoding="utf-8") as f:
        for text, label in pairs:
            f.write(json.dumps({"text": text, "label": f"c{classes.index(label)}"}, ensure_ascii=False) + "\n")
    settings = [options.model, str(options.epochs), str(options.length), str(options.batch)]
    environment = ["env", f"PYTHONPATH={os.path.join(os.path.dirname(os.path.dirname(python_plain)), 'package')}"]
    # The wheel beside the packages of the Python that has scikit-learn: unpacked, and found first.
    subprocess.run([python_plain, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", environment[1].split("=", 1)[1], options.wheel], check=True)
    rows = []
    for number in range(options.rounds):
        run, of_module = os.path.join(scratch, f"run-{number}"), os.path.join(scratch, f"module-{number}")
        command = [options.ftengine, "train", f"data.train={lines}", f"model.path={options.model}", f"train.epochs={options.epochs}", f"data.max_length={options.length}",
                   f"train.batch_size={options.batch}", "train.seed=1", "model.ignore_mismatched_sizes=true", "data.cache_dir=none", f"output.dir={run}", "--quiet"]  # fmt: skip
        sides = ["command", "module", "estimator"]
        row = {}
        for side in sides[number % 3 :] + sides[: number % 3]:
            before = fma_peak(options.fma_peak)
            if side == "command":
                _, process = measured(command, log)
                row[side] = {"seconds": process["process_seconds"], "sha256": sha256(os.path.join(run, "model", "model.safetensors")), "others": process["others_share"]}
            else:
                script, more = (TRAIN, [of_module]) if side == "module" else (FIT, [])
                text, process = measured([*environment, options.python, "-c", script, table, *settings, *more], log)
                row[side] = dict(json.loads(text.strip().splitlines()[-1]), others=process["others_share"])
            row[side]["fma_peak"] = (before + fma_peak(options.fma_peak)) / 2
        rows.append(row)
        print("fit:", {side: round(row[side]["seconds"], 2) for side in sides}, "same bits" if len({row[side]["sha256"] for side in sides}) == 1 else "OTHER BITS", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--python", required=True, help="a Python with scikit-learn")
    parser.add_argument("--ftengine", default=None, help="the command; the wheel's, if it is not given")
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--data", default=os.path.join(ROOT, "data", "reviews"))
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", default=os.path.join(RESULTS, "python_package"), help="without extension")
    options = parser.parse_args()
    options.wheel = os.path.abspath((glob.glob(options.wheel) or [options.wheel])[0])
    options.model = os.path.abspath(options.model)
    build_probe(options.fma_peak)
    load = os.getloadavg()[0]
    log = os.path.join(tempfile.gettempdir(), "python_package.log")
    with tempfile.TemporaryDirectory(prefix="python-package-") as scratch:
        first = new_environment(scratch, "first")
        subprocess.run([first, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", options.wheel], check=True)
        options.ftengine = options.ftengine or os.path.join(os.path.dirname(first), "ftengine")
        fits = fitting(options, scratch, first, log)
        rows, python = install(options, scratch, os.path.join(scratch, "run-0"))
        imports = importing(python, scratch)
    load = max(load, os.getloadavg()[0])
    document = dict(provenance(), load_average=round(load, 1), wheel=os.path.basename(options.wheel), texts=1000, epochs=options.epochs, install=rows, imports=imports, fits=fits)
    whole = [row["pip"] + row["predict"] for row in rows]
    same = all(len({row[side]["sha256"] for side in row}) == 1 for row in fits)
    lines = title_lines(document, "What the Python package costs beside the command")
    lines += [f"Wheel: {document['wheel']}. Load average {document['load_average']:g}, the larger of before and after"
              f"{': fits on such a machine are compared for their bits alone' if load > 3 else ''}.", "", "| | median | range | wanted |", "|---|---|---|---|",
              f"| `pip install` to the first prediction | {median(whole):.2f} s | {min(whole):.2f} to {max(whole):.2f} | <= 10 s |",
              f"| of it pip | {median([row['pip'] for row in rows]):.2f} s | | |"]  # fmt: skip
    for name, times in imports.items():
        lines.append(f"| `import {name}` | {median(times) * 1e3:.1f} ms | {min(times) * 1e3:.1f} to {max(times) * 1e3:.1f} | {'<= 150 ms' if name == 'ftengine' else ''} |")
    lines += ["", f"Fits of 1,000 texts, {options.epochs:g} epoch{'s' if options.epochs != 1 else ''}, batch {options.batch}, length {options.length}; the weights of all are "
              f"{'the same bits' if same else 'NOT the same'}.", "", "| | seconds, median | over the command, median of rounds | by the peak beside | others' share, largest | wanted |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    for side in ("command", "module", "estimator"):
        ratio = [row[side]["seconds"] / row["command"]["seconds"] for row in fits]
        by_peak = [r * row[side]["fma_peak"] / row["command"]["fma_peak"] for r, row in zip(ratio, fits)]
        lines.append(f"| {side} | {median([row[side]['seconds'] for row in fits]):.2f} | {median(ratio):.3f} | {median(by_peak):.3f} | "
                     f"{max(row[side]['others'] for row in fits):.0%} | {'' if side == 'command' else '<= 1.03, same bits'} |")  # fmt: skip
    write_results(options.output, document, "\n".join(lines) + "\n")
    if not same:
        sys.exit("the weights differ")


if __name__ == "__main__":
    main()
