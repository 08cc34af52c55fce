#!/usr/bin/env python3
"""What gpu_check.sh measured, as one table and one JSON file a kind of chip, held against the last committed one. Standard library only.

    gpu_report.py --results DIR [--committed benchmarks/results] [--accept]

Reads speed.json, wgmma.json, steps.json, ceilings.json and verdicts.json of DIR, each if it is there, and writes gpu_CHIP.json and gpu_CHIP.md there.
Figures of ftengine that fall (peak memory: rise) more than 5% from the committed gpu_CHIP.json are listed, and the exit code is 1. The first
run on a kind of chip writes the committed file, and so does --accept, but not while something of ftengine's has failed; figures and
tables that were not measured this time stay in it with the date they have. Exit 1 also when something has failed; 4: nothing was
measured.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gpu_counts  # noqa: E402
import gpu_targets  # noqa: E402
from common import RESULTS, ROOT  # noqa: E402

ALLOWED = 0.95
PARTS = ("speed.json", "wgmma.json", "steps.json", "ceilings.json")
KERNELS = (("flash_attention_2", "FlashAttention-2"), ("cudnn", "cuDNN"))


def read(directory, name):
    """None: it is not there, or was cut off."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8") as f:
            return json.load(f)
    except (FileNotFoundError, ValueError):
        return None


def chip_of(speed, wgmma, steps):
    """As the driver names it, and as files here are called."""
    described = (speed or wgmma or {}).get("device") or next((c["chip"] for c in (steps or {}).get("cases", []) if c["chip"]), None)
    if described is None:
        return None, None
    return described, slug_of(described.split(",")[0].replace("NVIDIA", "").strip())


def slug_of(name):
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def driver():
    try:
        asked = ["nvidia-smi", "-i", gpu_counts.first_device(), "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def path_name(case):
    return f"attention {case['path']} {case['case']} {case['type']}, {case['heads']} heads of {case['head_dim']}, dropout {case['dropout']}"


def figures_of(speed, wgmma, steps):
    """Name: (value, unit), of what is right. More is better in all of them but in bytes."""
    figures = {}
    for case in (speed or {}).get("cases", []):
        if case["microseconds"] > 0 and case["right"]:
            name = f"op {case['op']} {case['type']} {case['rows']}x{case['cols']}, texts of {case['length']}"
            computes = case["tflop_per_second"] > 0
            figures[name] = (case["tflop_per_second"], "TFLOP/s") if computes else (case["gb_per_second"], "GB/s")
    for case in (wgmma or {}).get("cases", []):
        if case["microseconds"] > 0 and case["right"]:
            figures[path_name(case)] = (case["tflop_per_second"], "TFLOP/s")
    for case in (steps or {}).get("cases", []):
        for side, found in case["sides"].items():
            if side.startswith("ftengine") and found["status"] == "measured":
                figures[f"step {case['model']} {case['case']} {side}"] = (found["tokens_per_second"], "tokens/s")
                if found.get("peak_bytes") is not None:
                    figures[f"peak memory {case['model']} {case['case']} {side}"] = (found["peak_bytes"], "bytes")
    return figures


def failures_of(speed, wgmma, steps, verdicts):
    """Of ftengine's own, in words."""
    failed = [f"part {v['part']} ({v['note']})" for v in verdicts if v["verdict"] == "FAILED"]
    wrong = [c for c in (speed or {}).get("cases", []) if not c["right"]]
    failed += [f"op {c['op']} {c['type']} {c['rows']}x{c['cols']}, texts of {c['length']}, is wrong" for c in wrong]
    failed += [f"{path_name(c)}, is wrong" for c in (wgmma or {}).get("cases", []) if not c["right"]]
    for case in (steps or {}).get("cases", []):
        own = [(name, side) for name, side in case["sides"].items() if name.startswith("ftengine") and side["status"] == "failed"]
        failed += [f"step {case['model']} {case['case']} {name} ({side['why']})" for name, side in own]
    return failed


def with_kept(sections, committed, stamp):
    """Tables of this run, and of the committed document those that this run has not measured, each with its date."""
    whole, dates = {}, {}
    for key, section in sections.items():
        whole[key] = section or committed.get(key)
        if whole[key]:
            dates[key] = stamp if section else committed["dates"][key]
    if whole["steps"]:
        now, before = ((steps or {}).get("cases", []) for steps in (sections["steps"], committed.get("steps")))
        cases = {(c["model"], c["case"]): c for c in before} | {(c["model"], c["case"]): {"measured": stamp} | c for c in now}
        whole["steps"] = whole["steps"] | {"cases": list(cases.values())}
    return whole | {"dates": dates}


def of_date(stamp):
    return f"{stamp['date']}, commit {stamp['commit']}"


def fallen(figures, committed):
    """(name, before, now) of what is more than 5% worse."""

    def holds(value, unit, before):
        return value <= (2 - ALLOWED) * before if unit == "bytes" else value >= ALLOWED * before

    return [(name, committed[name]["value"], value) for name, (value, unit) in figures.items() if name in committed and not holds(value, unit, committed[name]["value"])]


def merged(figures, committed, stamp):
    return committed | {name: {"value": value, "unit": unit} | stamp for name, (value, unit) in figures.items()}


def config_of(model):
    names = {"bert-base": "bert-base-uncased", "bert-large": "bert-large-uncased"}
    with open(os.path.join(ROOT, "configs", "models", names.get(model, "microsoft/" + model) + ".json"), encoding="utf-8") as f:
        return json.load(f)


def floors_of(steps, ceilings):
    """Of every dense case the parts of its floor, and how far above it the step of each of our sides is."""
    found = []
    for case in (steps or {}).get("cases", []):
        if not case.get("products"):
            continue
        config = config_of(case["model"])
        heads = config["num_attention_heads"]
        attention = next((a["flash_attention_2"] for a in (ceilings or {}).get("attention", []) if a["heads"] == heads), None)
        lengths = [case["tokens"] // case["texts"]] * case["batch"]
        parts = gpu_counts.floor(config, lengths, case["products"], (ceilings or {}).get("copy_bytes_per_second"), attention)
        sides = {name: sum(lengths) / s["tokens_per_second"] for name, s in case["sides"].items() if name.startswith("ftengine") and s["status"] == "measured"}
        found.append({"model": case["model"], "case": case["case"], "seconds": parts, "step_seconds": sides})
    return found


def beside_prediction(steps, predicted, slug):
    """Of our sides the measured rate and what predict_steps.py had said of this kind of chip: at the bounds of the compiled kernels, which
    nothing can exceed, and as expected. With another precision or batch there is nothing to compare."""
    if not steps or steps.get("precision") != "bf16":
        return []
    said = {(c["model"], c["case"], c["batch"]): c for c in (predicted or {}).get("cases", []) if slug_of(c["chip"]) == slug}
    rows = []
    for case in steps["cases"]:
        c = said.get((case["model"], case["case"], case["batch"]))
        for name, side in case["sides"].items() if c else ():
            if name in ("ftengine", "ftengine-graphs") and side["status"] == "measured":  # the prediction is of mma.sync
                seconds = "graph_seconds" if name.endswith("graphs") else "seconds"
                best, expected = (c["tokens"] / c[column][seconds] for column in ("best", "expected"))
                rows.append({"model": case["model"], "case": case["case"], "side": name, "measured": side["tokens_per_second"], "best": best, "expected": expected})
    return rows


def attention_of(speed, ceilings):
    """Our attention, forward and backward in bf16 on the longest texts, beside FlashAttention-2's and cuDNN's: (operations a second of
    ours, theirs). None: something was not measured."""
    passes = [c for c in (speed or {}).get("cases", []) if c["op"].startswith("attention_") and c["type"] == "bf16" and c["microseconds"] > 0]
    longest = [c for c in passes if c["length"] == (ceilings or {}).get("length")]
    theirs = next((a for c in longest for a in ceilings["attention"] if a["heads"] * a["head_dim"] == c["cols"]), None)
    if len(longest) != 2 or theirs is None:
        return None
    seconds = sum(c["microseconds"] for c in longest) * 1e-6
    return sum(c["tflop_per_second"] * c["microseconds"] * 1e6 for c in longest) / seconds, theirs


# ---- the table -------------------------------------------------------------------------------------------------------------


def gib(n):
    return "-" if n is None else f"{n / 2**30:.2f}"


def milliseconds(x):
    return "not measured" if x is None else f"{1e3 * x:.2f}"


def gain_of_tuning(case):
    rates = [case["sides"].get(name, {}).get("tokens_per_second") for name in ("ftengine", "ftengine-tuned")]
    return rates[1] / rates[0] if all(rates) else None


def steps_table(steps, stamp):
    lines = [
        "## Training steps",
        "",
        f"{steps['precision']}, real tokens/s, medians of {steps['rounds']} turns. A ratio is ftengine's rate over the rival's, the median of turns "
        "(smallest to largest). Host share: of a step's time, in which the host queued; at most 5% is wanted. MFU is of executed operations. GiB: the driver's peak for the whole process, and the plan's for what is allocated.",
        "",
        "| case | side | tokens/s | MFU | host share | driver GiB | by eager's | planned GiB | ftengine is faster by | ftengine-graphs by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]

    def by_eager(case, side):
        eager = case["sides"].get("eager", {}).get("peak_bytes")
        return "-" if not eager or side["peak_bytes"] is None else f"{side['peak_bytes'] / eager:.2f}x"

    def ratio(case, ours, name):
        r = case["sides"].get(ours, {}).get("ratios", {}).get(name)
        return "" if r is None else f"{r[0]:.2f}x ({r[1]:.2f} to {r[2]:.2f})"

    for case in steps["cases"]:
        for name, side in case["sides"].items():
            title = f"{case['model']} {case['case']}, {case['batch']} texts" + ("" if case["measured"] == stamp else f" ({of_date(case['measured'])})")
            if side["status"] != "measured":
                lines.append(f"| {title} | {name} | {side['status']}: {side['why'].replace('|', '/')} | | | | | | | |")
                continue
            mfu, host = ("-" if side.get(key) is None else f"{side[key]:.1%}" for key in ("mfu", "host_share"))
            lines.append(
                f"| {title} | {name} | {side['tokens_per_second']:.0f} | {mfu} | {host} | {gib(side['peak_bytes'])} | {by_eager(case, side)} | {gib(side.get('planned_bytes'))} | "
                f"{ratio(case, 'ftengine', name)} | {ratio(case, 'ftengine-graphs', name)} |"
            )
    tuned = [f"{c['model']} {c['case']}: with matrix products that tune-gemm has measured {gain:.3f} times ftengine's rate" for c in steps["cases"] if (gain := gain_of_tuning(c))]
    refused = [f"{c['model']} {c['case']}: no peak memory: {c['peaks_refused']}" for c in steps["cases"] if "peaks_refused" in c]
    rivals = sorted({f"{name}: {s['what']}" for c in steps["cases"] for name, s in c["sides"].items() if "what" in s})
    return lines + ["", *(f"- {line}" for line in tuned + refused + rivals), ""]


def floors_table(floors):
    lines = ["## A dense step beside its floor", "", "Milliseconds: matrix products at cuBLASLt's fastest, attention at FlashAttention-2's rate, "]
    lines[-1] += "bytes of everything else at the rate of a copy."
    lines += ["", "| case | products | attention | moving | floor | side | step | step by floor |", "|---|---|---|---|---|---|---|---|"]
    for f in floors:
        s = f["seconds"]
        for side, step in f["step_seconds"].items():
            by = "-" if s["sum"] is None else f"{step / s['sum']:.2f}x"
            parts = " | ".join(milliseconds(s[key]) for key in ("products", "attention", "moving", "sum"))
            lines.append(f"| {f['model']} {f['case']} | {parts} | {side} | {milliseconds(step)} | {by} |")
    return lines + [""]


def prediction_table(rows, date):
    lines = ["## Beside the prediction", "", f"tokens/s; predicted on {date} by predict_steps.py, at the bounds of the compiled kernels (best) and as expected. ", ""]
    lines[-2] += "Above best the model is wrong; far below expected the model is, or a kernel."
    lines += ["| case | side | measured | best | expected | measured by expected | |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        word = "the model is wrong" if r["measured"] > r["best"] else "slower than expected" if r["measured"] < ALLOWED * r["expected"] else ""
        rates = " | ".join(f"{r[key]:.0f}" for key in ("measured", "best", "expected"))
        lines.append(f"| {r['model']} {r['case']} | {r['side']} | {rates} | {r['measured'] / r['expected']:.2f}x | {word} |")
    return lines + [""]


def ops_table(speed, ceilings):
    copy, attention = (ceilings or {}).get("copy_bytes_per_second"), attention_of(speed, ceilings)
    lines = ["## Ops", ""]
    if attention is not None:
        ours, theirs = attention
        beside = [f"{title} {rate(theirs[key])}" + (f" ({ours / theirs[key]:.0%} of it)" if theirs[key] else "") for key, title in KERNELS]
        lines += [f"Attention with dropout, forward and backward, texts of {ceilings['length']}: {rate(ours)}; {', '.join(beside)}.", ""]
    lines += ["| op | type | rows x cols, tokens a text | us | GB/s | of a copy's | TFLOP/s |", "|---|---|---|---|---|---|---|"]
    for c in speed["cases"]:
        if c["microseconds"] > 0:
            share = f"{c['gb_per_second'] * 1e9 / copy:.0%}" if copy else "-"
            lines.append(f"| {c['op']}{'' if c['right'] else ' (WRONG)'} | {c['type']} | {c['rows']}x{c['cols']}, {c['length']} | {c['microseconds']:.1f} | {c['gb_per_second']:.0f} | {share} | {c['tflop_per_second']:.1f} |")
    return lines + [""]


def paths_table(wgmma):
    """Both paths of attention, case by case; what was judged alone is counted."""
    cases = wgmma["cases"]
    lines = ["## Attention on warpgroups (wgmma) beside mma.sync", "", f"{len(cases)} cases, {sum(not c['right'] for c in cases)} wrong. TFLOP/s; what was predicted for "]
    lines[-1] += "dense texts stands in static_model.md."
    lines += ["", "| case | heads | dropout | mma us | wgmma us | mma | wgmma | wgmma is faster by |", "|---|---|---|---|---|---|---|---|"]
    sides = {}
    for c in cases:
        if c["microseconds"] > 0:
            title = f"| {c['case']} {c['type']}, {c['tokens']} tokens | {c['heads']} of {c['head_dim']} | {c['dropout']} |"
            sides.setdefault(title, {})[c["path"]] = c
    for title, paths in sides.items():
        us, rates = ([paths[name][key] for name in ("mma", "wgmma")] for key in ("microseconds", "tflop_per_second"))
        lines.append(f"{title} {us[0]:.1f} | {us[1]:.1f} | {rates[0]:.1f} | {rates[1]:.1f} | {us[0] / us[1]:.2f}x |")
    return lines + [""]


def table(document):
    lines = [f"# {document['chip']}", "", f"{document['date']}, driver {document['driver']}, commit {document['commit']}", "", f"    {document['command']}", ""]
    for title, key in (("FAILED", "failed"), ("Skipped", "skipped")):
        if document[key]:
            lines += [f"**{title}:**", ""] + [f"- {line}" for line in document[key]] + [""]
    stamp = {key: document[key] for key in ("date", "commit")}
    kept = [f"{key} ({of_date(date)})" for key, date in document["dates"].items() if date != stamp]
    if kept:
        lines += ["**Of an earlier run:** " + "; ".join(kept) + ".", ""]
    if document["fallen"]:
        lines += ["**More than 5% worse than what is committed:**", ""]
        lines += [f"- {name}: {now:.4g}, was {before:.4g}" for name, before, now in document["fallen"]] + [""]
    if document["not_measured"]:
        lines += ["**Not measured:** " + "; ".join(document["not_measured"]) + ".", ""]
    lines += gpu_targets.table(document["targets"])
    if document["steps"] and document["steps"]["cases"]:
        lines += steps_table(document["steps"], stamp)
    if document["floors"]:
        lines += floors_table(document["floors"])
    if document["predicted"]["steps"]:
        lines += prediction_table(document["predicted"]["steps"], document["predicted"]["date"])
    if document["ceilings"]:
        c = document["ceilings"]
        lines += ["## Ceilings, by PyTorch " + c["torch"], "", f"copy {c['copy_bytes_per_second'] / 1e9:.0f} GB/s, product {c['product_flops_per_second'] / 1e12:.0f} TFLOP/s; "]
        lines[-1] += "; ".join(
            f"attention of {a['heads']} heads with dropout, forward and backward: FlashAttention-2 {rate(a['flash_attention_2'])}, cuDNN {rate(a['cudnn'])}"
            for a in c["attention"]
        )
        lines += [""]
    if document["speed"]:
        lines += ops_table(document["speed"], document["ceilings"])
    if document["wgmma"]:
        lines += paths_table(document["wgmma"])
    return "\n".join(lines)


def rate(flops):
    return "refused" if flops is None else f"{flops / 1e12:.0f} TFLOP/s"


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True)
    parser.add_argument("--committed", default=RESULTS)
    parser.add_argument("--accept", action="store_true", help="these figures are the committed ones from now on")
    parser.add_argument("--command", default="benchmarks/gpu_check.sh")
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    speed, wgmma, steps, ceilings = (read(options.results, name) for name in PARTS)
    verdicts = read(options.results, "verdicts.json") or []
    chip, slug = chip_of(speed, wgmma, steps)
    figures, failed = figures_of(speed, wgmma, steps), failures_of(speed, wgmma, steps, verdicts)
    for line in failed:
        print(f"gpu_report.py: FAILED: {line}", file=sys.stderr)
    if not figures:
        print("gpu_report.py: nothing was measured", file=sys.stderr)
        return 1 if failed else 4
    stamp = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "commit": options.commit}
    path = os.path.join(options.committed, f"gpu_{slug}.json")
    committed = read(options.committed, f"gpu_{slug}.json") or {}
    if os.path.exists(path) and not committed:
        print(f"gpu_report.py: {path} cannot be read: mend or remove it", file=sys.stderr)
        return 1
    before = committed.get("figures", {})
    left = [f"part {v['part']} ({v['note']})" for v in verdicts if v["verdict"] == "not measured"]
    left += [f"step {name}" for name in (steps or {}).get("not_measured", [])] + sorted(name for name in before if name not in figures)
    left += [f"{name} (cut off)" for name in PARTS if read(options.results, name) is None and os.path.exists(os.path.join(options.results, name))]
    document = {"format_version": 1, "chip": chip, "driver": driver(), "command": options.command} | stamp
    document |= {"failed": failed, "skipped": [f"part {v['part']} ({v['note']})" for v in verdicts if v["verdict"] == "skipped"]}
    document |= {"fallen": fallen(figures, before), "not_measured": left, "figures": merged(figures, before, stamp)}
    document |= with_kept({"steps": steps, "ceilings": ceilings, "speed": speed, "wgmma": wgmma}, committed, stamp)
    document["floors"] = floors_of(document["steps"], document["ceilings"])
    beside = attention_of(document["speed"], document["ceilings"])
    document["targets"] = gpu_targets.targets((document["steps"] or {}).get("cases", []), document["floors"], document["speed"], document["ceilings"], beside, slug)
    predicted = read(options.committed, "predicted_steps.json") or {}
    document["predicted"] = {"date": predicted.get("date"), "steps": beside_prediction(document["steps"], predicted, slug)}
    places = [options.results]
    if (options.accept or not committed) and not failed:
        places.append(options.committed)
    for place in places:
        write(os.path.join(place, f"gpu_{slug}.json"), json.dumps(document, indent=1) + "\n")
        write(os.path.join(place, f"gpu_{slug}.md"), table(document))
    for name, was, now in document["fallen"]:
        print(f"gpu_report.py: {name}: {now:.4g}, was {was:.4g} ({before[name]['date']}, {before[name]['commit']})", file=sys.stderr)
    print(f"{len(figures)} figures, {len(document['fallen'])} more than 5% worse than the committed ones, {len(left)} not measured: gpu_{slug}.md")
    return 1 if failed or (document["fallen"] and not options.accept) else 0


if __name__ == "__main__":
    sys.exit(main())
