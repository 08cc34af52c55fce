#!/usr/bin/env python3
"""Does a cheap view of a setting rank settings as the whole does (study.fidelity)? On recorded curves (curves_NAME.jsonl.gz): the value after a
quarter of the steps, and that of a training of as many steps with its complete schedule, each against the value after all of them.

    fidelity.py record curves_trec.jsonl.gz CONFIG.ini ROWS.jsonl [section.key=value ...]
        trains 50 of the table's settings, evenly from the best to the worst, for a quarter of the steps; what is there is not trained again
    fidelity.py report ROWS.jsonl
        Spearman's coefficients, with the interval of their difference by 2,000 draws of the settings, in results/fidelity.json and .md"""
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import common  # noqa: E402

SETTINGS, STEPS, DRAWS = 50, 20, 2000


def record(curves, config, out, *settings):
    with gzip.open(curves, "rt") as f:
        trials = sorted(list(map(json.loads, f))[1:], key=lambda t: -t["values"][0])
    name = os.path.basename(curves)[len("curves_"):-len(".jsonl.gz")]
    there = set()
    if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
            there = {(r["table"], r["number"]) for r in map(json.loads, f)}
    for trial in (trials[i * len(trials) // SETTINGS] for i in range(SETTINGS)):
        if (name, trial["number"]) in there:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([os.path.join(ROOT, "build", "ftengine"), "train", config, *(f"{k}={v}" for k, v in trial["params"].items()), *settings,
                            f"train.max_steps={STEPS}", f"eval.steps={STEPS}", f"output.dir={scratch}/run"], check=True, stdout=subprocess.DEVNULL)
            with open(f"{scratch}/run/run.json", encoding="utf-8") as f:
                value = json.load(f)["best"]["value"]
        row = {"table": name, "number": trial["number"], "steps": STEPS, "value": value, "final": trial["values"][0], "curve": trial["intermediate_values"]}
        with open(out, "a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")


def ranks(values):
    """Equal ones share the mean of their places."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    both, one, other = (sum((x - mean) * (y - mean) for x, y in zip(p, q)) for p, q in ((a, b), (a, a), (b, b)))
    return both / (one * other) ** 0.5 if one * other > 0 else 0.0


def row_of(table, rows, draw):
    whole, steps, final = ([r["value"] for r in rows], [r["curve"][str(STEPS)] for r in rows], [r["final"] for r in rows])
    differences = []
    for _ in range(DRAWS):
        a, b, c = zip(*(draw.choice(list(zip(whole, steps, final))) for _ in rows))
        differences.append(spearman(a, c) - spearman(b, c))
    differences.sort()
    return {"table": table, "settings": len(rows), "whole": spearman(whole, final), "steps": spearman(steps, final),
            "low": differences[DRAWS // 40], "high": differences[-DRAWS // 40 - 1], "values": len(set(whole)), "most": max(whole.count(v) for v in set(whole))}


def report(path):
    with open(path, encoding="utf-8") as f:
        rows = list(map(json.loads, f))
    draw = random.Random(1)
    tables = list(dict.fromkeys(r["table"] for r in rows))
    document = dict(common.provenance(), rows=rows, tables=[row_of(t, [r for r in rows if r["table"] == t], draw) for t in tables])
    lines = common.title_lines(document, "How well a quarter ranks settings") + [
        f"Spearman's coefficient with the best value within 80 steps: of a whole training of {STEPS} steps with its complete schedule, and of the value after {STEPS} of the 80. "
        "The latter is of the same run as the whole, and shares its luck. In brackets 95% of the difference, by draws of the settings.", "",
        "| table | settings | whole trainings | steps | difference | settings that a whole training gives the same value |", "|---|---|---|---|---|---|"]
    lines += [f"| {t['table']} | {t['settings']} | {t['whole']:.2f} | {t['steps']:.2f} | {t['whole'] - t['steps']:+.2f} ({t['low']:+.2f} to {t['high']:+.2f}) | {t['most']} |"
              for t in document["tables"]]
    base = os.path.join(ROOT, "benchmarks", "results", "fidelity")
    with open(base + ".json", "w", encoding="utf-8") as f:
        json.dump(document, f)
        f.write("\n")
    with open(base + ".md", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    commands = {"record": record, "report": report}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
