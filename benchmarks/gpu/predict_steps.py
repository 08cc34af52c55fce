#!/usr/bin/env python3
"""How long a training step takes on chips that are not there: predicted from what is counted. Nothing here is measured.

    cmake --build build --target bench_ops && python3 benchmarks/gpu/predict_steps.py [--write]

bench_ops gives every op of a step with its shape, as the program queues it. Here each becomes a time:
    products    cuBLASLt's, in whole tiles and waves over the multiprocessors, from L2's or the memory's bytes where those bind
    attention   pairs of tokens in whole tiles, at the rate that the compiled loop can have (results/static_model.md)
    the others  bytes by kernels/devices/cost.h, times what the emulator counted of the kernel's own (tests/emulator/pieces/counts.txt) over the least, at the
                memory's rate for a copy and the part of it that the compiled loop can have
and each launch has a gap before it. Two columns: `best` has every kernel at its bound, `expected` at the part of it in ASSUMED. What no
count gives stands in ASSUMED (step_times.py), each with its source, and nowhere else. Standard library only; --write replaces results/predicted_steps.*.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

import gpu_steps
from predicted_tables import gains_of, markdown, rows_of
from step_times import ASSUMED, RESULTS, ROOT, Counted, attention_rates, dense, documents, mixed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "benchmarks", "bench_ops"))
    parser.add_argument("--static", default=os.path.join(RESULTS, "static_model.md"))
    parser.add_argument("--counts", default=os.path.join(ROOT, "tests", "emulator", "pieces", "counts.txt"))
    parser.add_argument("--write", action="store_true", help="results/predicted_steps.md and .json; else the document goes to stdout")
    options = parser.parse_args()
    counted = Counted(options.static, options.counts)
    cases = [dense(options.program, counted, model, arch) for arch in ("sm_90a", "sm_80", "sm_89") for model in gpu_steps.MODELS]
    cases += [mixed(options.program, counted, model, name, "sm_90a") for model in ("bert-base", "deberta-v3-base") for name in gpu_steps.CASES if name != "dense-512"]
    cases.append(documents(options.program, counted, "sm_90a"))
    cases += [dense(options.program, counted, "bert-large", arch, "16bit") for arch in ("sm_90a", "sm_80", "sm_89")]
    gains = {c["model"]: gains_of(c) for c in cases if c["case"] == "dense-512" and c["arch"] == "sm_90a"}
    for c in cases:  # of the dearest kinds
        for column in ("best", "expected"):
            c[column]["kinds"] = c[column].get("kinds", [])[:20]
    rates = attention_rates(counted)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()
    document = {"format_version": 1, "measured": False, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit or "unknown",
                "command": "python3 benchmarks/gpu/predict_steps.py --write", "assumed": {k: v[0] for k, v in ASSUMED.items()},
                "targets": [dict(zip(("target", "predicted", "binds", "met", "helps"), row)) for row in rows_of(cases, rates, counted)], "gains": gains, "cases": cases, "attention": rates}
    text = markdown(document)
    if not options.write:
        print(text, end="")
        return 0
    for suffix, contents in (("md", text), ("json", json.dumps(document, indent=1) + "\n")):
        with open(os.path.join(RESULTS, "predicted_steps." + suffix), "w", encoding="utf-8") as f:
            f.write(contents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
