#!/usr/bin/env python3
"""What a training loses beside a busy loop that keeps one core, about 4 minutes: builds of ftengine in turns, alone and beside it.

    python3 benchmarks/speed/shared_machine.py --model models/all-MiniLM-L6-v2 --data data/reviews/train.tsv build/ftengine [OTHER/ftengine ...]

The loop has nice 0 and is bound to the last core; the training is bound to nothing. A fair scheduler gives the loop half of its core, so of C
cores C - 1/2 are left: a step should take C / (C - 1/2) times as long, 1.33 times on two cores. `cost` is what it takes beyond: the time beside the
loop over the time alone, over that.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, measured, median, provenance, title_lines, write_results  # noqa: E402

TARGET = 1.2


def spin(core):
    os.sched_setaffinity(0, {core})
    while True:
        pass


def train(o, program, scratch, busy):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    arguments = [f"model.path={o.model}", f"data.train={o.data}", f"data.cache_dir={scratch}/cache", f"train.max_steps={o.steps}", "eval.strategy=no",
                 f"train.batch_size={o.batch}", f"data.max_length={o.max_length}", "output.save_steps=1000000", f"output.dir={run}"]
    loop = multiprocessing.Process(target=spin, args=(max(os.sched_getaffinity(0)),), daemon=True) if busy else None
    if loop:
        loop.start()
    _, process = measured([program, "train", *arguments, "--quiet"])
    if loop:
        loop.kill()
        loop.join()
    with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
        result = json.load(f)
    return {"tokens_per_second": result["tokens_per_second"], "others_share": process["others_share"], "stolen_share": process["stolen_share"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", default=os.path.join(RESULTS, "shared_machine"), help="without extension")
    o = parser.parse_args()
    o.model, o.data = os.path.abspath(o.model), os.path.abspath(o.data)
    found = {program: {"alone": [], "beside": []} for program in o.programs}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(o.rounds):
            for busy in (False, True):
                for program in o.programs:
                    side = train(o, os.path.abspath(program), scratch, busy)
                    found[program]["beside" if busy else "alone"].append(side)
                    print(f"{program} {'beside the loop' if busy else 'alone'}: {side['tokens_per_second']:.0f} tokens/s", flush=True)
    cores = len(os.sched_getaffinity(0))
    fair = cores / (cores - 0.5)
    lines = [f"A fair share costs {fair:.2f} times the time; target: at most {TARGET} times that.", "",
             "| | alone, tokens/s | beside the loop | times as long | cost |", "|---|---|---|---|---|"]
    for program, sides in found.items():
        alone, beside = (median([s["tokens_per_second"] for s in sides[name]]) for name in ("alone", "beside"))
        sides["cost"] = alone / beside / fair
        lines.append(f"| {program} | {alone:.0f} | {beside:.0f} | {alone / beside:.2f} | **{sides['cost']:.2f}** |")
    document = provenance() | {"found": found}
    write_results(o.output, document, "\n".join(title_lines(document, "Training beside a busy loop") + lines) + "\n")


if __name__ == "__main__":
    main()
