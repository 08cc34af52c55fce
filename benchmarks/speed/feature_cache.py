#!/usr/bin/env python3
"""The head alone on features of a frozen model (data.feature_cache): an epoch that makes them beside one that reads them, and a study of heads.

    python3 benchmarks/speed/feature_cache.py [--repeats 3] [--trials 1000]

The quick start's model and reviews (tools/get_model.sh, tools/get_data.sh), fp32, on all cores. Of each run, from an empty cache: the first
epoch is the pass over all training texts and the first steps of the head, the second the steps alone; `off` is an epoch that computes every
text (data.feature_cache=off). --train takes a folder of pictures, one inside it for every class, with a --model of pictures. The study is one command from an empty cache to its end, with an evaluation after each of three epochs.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402

BATCH = 32


def run_of(options, scratch, name, count, *settings):
    """One run of so many epochs, a line logged at the end of each: (run.json, seconds of its steps by epoch)."""
    directory = os.path.join(scratch, name)
    shutil.rmtree(directory, ignore_errors=True)
    measured([options.ftengine, "train", options.config, f"output.dir={directory}", *options.common, "train.learning_rate=1e-3", f"train.batch_size={BATCH}", "data.validation=", "eval.strategy=no",
              f"train.logging_steps={options.steps}", f"train.epochs={count}", *settings])
    with open(os.path.join(directory, "run.json"), encoding="utf-8") as f:
        run = json.load(f)
    with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as f:
        rates = [line["tokens_per_second"] for line in map(json.loads, f) if "tokens_per_second" in line]
    assert len(rates) == count, rates
    return run, [run["tokens"] / count / rate for rate in rates]


def epochs(options, scratch):
    rows = []
    for _ in range(options.repeats):
        peak = fma_peak(options.fma_peak)
        shutil.rmtree(os.path.join(scratch, "kept"), ignore_errors=True)
        made, seconds = run_of(options, scratch, "made", 2)
        assert not made["features"]["from_cache"]
        found, found_seconds = run_of(options, scratch, "found", 2)
        assert found["features"]["from_cache"]
        _, off = run_of(options, scratch, "off", 1, "data.feature_cache=off")
        rows.append({"fma_peak": (peak + fma_peak(options.fma_peak)) / 2, "made": made["features"]["seconds"], "first": made["features"]["seconds"] + seconds[0],
                     "second": seconds[1], "found": found_seconds, "off": off, "bytes": made["features"]["bytes"], "rows": made["features"]["rows"]})
    return rows


def study(options, scratch):
    shutil.rmtree(os.path.join(scratch, "kept"), ignore_errors=True)
    config = os.path.join(scratch, "heads.ini")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"include = {options.config}\n[space]\ntrain.learning_rate = float(1e-4, 1e-2, log)\ntrain.weight_decay = float(1e-4, 1e-1, log)\n"
                "train.batch_size = choice(16, 32, 64)\n[study]\nobjective = maximize eval.accuracy\n")
    log = os.path.join(scratch, "study.log")
    _, process = measured([options.ftengine, "tune", config, *options.common, "train.epochs=3", f"data.validation={options.data}/dev.tsv", "device.threads=1",
                           f"study.storage=sqlite:///{scratch}/study.db", "--study", os.path.basename(scratch), "--trials", str(options.trials), "--parallel", "2",
                           "--timeout", f"{options.study_seconds}s"], log)
    with open(log, encoding="utf-8") as f:
        lines = f.read().replace("\r", "\n").split("\n")
    best = [line.strip() for line in lines if line.startswith("best trial")]
    done = sum(" complete " in line and line.startswith("trial ") for line in lines)
    shutil.rmtree(os.path.join(ROOT, "studies", os.path.basename(scratch)), ignore_errors=True)
    return process | {"asked": options.trials, "trials": done, "best": best[-1] if best else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--config", default=os.path.join(ROOT, "configs", "minilm_quickstart.ini"))
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    parser.add_argument("--data", default=os.path.join(ROOT, "data", "reviews"))
    parser.add_argument("--train", help="a file or folder; the data's train.tsv by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--study-seconds", type=int, default=3600, help="the study ends then, with the trials that it has")
    parser.add_argument("--output", default=os.path.join(RESULTS, "features"))
    options = parser.parse_args()
    build_probe(options.fma_peak)
    scratch = tempfile.mkdtemp(prefix="features-")
    train = os.path.abspath(options.train or os.path.join(options.data, "train.tsv"))
    pictures = os.path.isdir(train)
    if pictures:
        texts = sum(len(names) for _, _, names in os.walk(train))
    else:
        with open(train, encoding="utf-8") as f:
            texts = sum(1 for _ in f) - 1
    options.steps = -(-texts // BATCH)
    options.common = [f"model.path={options.model}", f"data.train={train}", f"data.feature_cache={scratch}/kept",
                      "train.parameters=classifier"] + (["train.task=single_label", "data.max_length=auto"] if pictures else [])
    document = provenance() | {"epochs": epochs(options, scratch), "study": study(options, scratch) if options.trials > 0 else None}
    shutil.rmtree(scratch)

    lines = title_lines(document, "The head alone on features of a frozen model")
    lines += [f"{os.path.basename(options.model)}, {document['epochs'][0]['rows']} {'pictures' if pictures else 'texts'}, batch {BATCH}; rows of {document['epochs'][0]['bytes'] / 2**20:.1f} MiB in all. Seconds.", "",
              "| FMA peak, GFLOP/s | pass over the texts | first epoch | second epoch | first / second | epoch of a run that found them | epoch without (off) | off / second |",
              "|---|---|---|---|---|---|---|---|"]
    for row in document["epochs"]:
        lines.append(f"| {row['fma_peak']:.0f} | {row['made']:.2f} | {row['first']:.2f} | {row['second']:.3f} | **{row['first'] / row['second']:.0f}x** | "
                     f"{row['found'][1]:.3f} | {row['off'][0]:.2f} | {row['off'][0] / row['second']:.0f}x |")
    ratios = [row["first"] / row["second"] for row in document["epochs"]]
    lines += ["", f"Median first / second: **{median(ratios):.0f}x** (target 200x)."]
    if document["study"]:
        s = document["study"]
        lines += ["", f"Study of {s['trials']} heads of {s['asked']} that were asked for (learning rate, weight decay, batch size; three epochs, an evaluation after each; two at once, a thread each): "
                  f"**{s['process_seconds'] / 60:.1f} minutes** from an empty cache, {s['process_seconds'] / s['trials']:.2f} s a trial. "
                  f"Other programs had {100 * s['others_share']:.0f}% of the cores meanwhile (trials are processes of their own and count there). {s['best']}."]
    write_results(options.output, document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
