"""What peak_memory.py writes: a table, CSV and JSON of everything, a chart of what was measured and one of the plans."""

import csv
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from charts import grouped_bars  # noqa: E402
from common import title_lines  # noqa: E402
from peak_memory_plans import CARD  # noqa: E402

GIB = 2.0**30
CELL_COLUMNS = ["model", "batch", "length", "precision", "recompute", "vocabulary", "planned_bytes", "metered_bytes", "allocated_bytes"]
CELL_COLUMNS += ["process_bytes", "torch_bytes", "torch_process_bytes", "ratio", "not_run", "torch_not_run"]
PLAN_COLUMNS = ["name", "precision", "budget_bytes", "whole_batch_bytes", "planned_bytes", "fits", "micro_batch_tokens"]
PLAN_COLUMNS += ["gradient_checkpointing", "slowdown"]
SEVEN_COLUMNS = ["model", "precision", "points", "fit", "whole_batch", "largest_bytes", "largest_whole_batch_bytes", "slowest"]
# Of the issue that asked for this: beside transformers' eager attention, no layer checkpointing.
TARGETS = {(32, 512, "bf16"): 0.35, (32, 128, "bf16"): 0.5, (32, 128, "fp32"): 0.5}
RECOMPUTE_WORDS = {"none": "no", "finer": "norms", "layers": "layers"}


def name_of(cell):
    words = [cell["model"].split("/")[-1], f"{cell['batch']}x{cell['length']}", cell["precision"]]
    return " ".join(words + [RECOMPUTE_WORDS[cell["recompute"]]] * (cell["recompute"] != "none") + ["whole vocabulary"] * (cell["vocabulary"] == "off"))


def write_csv(path, columns, rows):
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, columns, extrasaction="ignore", restval="")
        out.writeheader()
        out.writerows(rows)


def gib(row, key):
    return row[key] / GIB if row.get(key) is not None else None


def write_cells_chart(path, document):
    cells = [c for c in document["cells"] if "process_bytes" in c]
    if not cells:
        return
    groups = [(name_of(c), [gib(c, "torch_process_bytes"), gib(c, "process_bytes")]) for c in cells]
    chart = grouped_bars(
        "Peak memory of training: the whole process",
        f"on the CPU, AdamW, batch x length, all texts at full length; {document['date']}",
        "GiB resident at the peak",
        groups,
        [("PyTorch + transformers", "#b8b8b8"), ("ftengine", "#3572b0")],
        ("planned by ftengine", [gib(c, "planned_bytes") for c in cells]),
    )
    with open(path, "w", encoding="utf-8") as f:
        f.write(chart)


def write_plans_chart(path, document):
    rows = document["out_of_memory"]
    groups = [(f"{r['name']} {r['precision']}", [gib(r, "whole_batch_bytes"), gib(r, "planned_bytes") if r["fits"] else None]) for r in rows]
    chart = grouped_bars(
        "What ran out of memory in practice",
        f"planned peak of training, configs/oom; no bar of the plan: it does not fit; {document['date']}",
        "GiB",
        groups,
        [("the whole batch at once, as planned without a limit", "#b8b8b8"), ("as it fits", "#3572b0")],
        ("there is", [gib(r, "budget_bytes") for r in rows]),
        "does not fit",
    )
    with open(path, "w", encoding="utf-8") as f:
        f.write(chart)


# ---- tables -----------------------------------------------------------------------------------------------------------


def gib_text(row, key):
    return f"{row[key] / GIB:.3f}" if row.get(key) is not None else "-"


def row_of(*fields):
    return "| " + " | ".join(str(f) for f in fields) + " |"


def cells_table(cells):
    lines = ["| model | batch x length | precision | recompute | rows of the word table | planned GiB | metered - planned | process | torch | torch process | ratio |"]
    lines += ["|---|---|---|---|---|---:|---:|---:|---:|---:|---:|"]
    for c in cells:
        difference = str(c["metered_bytes"] - c["planned_bytes"]) + " B" if "metered_bytes" in c else "not run"
        ratio = f"{c['ratio']:.2f}" if "ratio" in c else "-"
        shape, recompute = f"{c['batch']} x {c['length']}", RECOMPUTE_WORDS[c["recompute"]]
        rows = f"{c['trained_rows']} of {c['table_rows']}"
        figures = [gib_text(c, "process_bytes")]
        figures += [gib_text(c, key) if key in c else "not run" if "torch_not_run" in c else "-" for key in ("torch_bytes", "torch_process_bytes")]
        lines.append(row_of(c["model"], shape, c["precision"], recompute, rows, gib_text(c, "planned_bytes"), difference, *figures, ratio))
    return lines


def not_run(cells):
    lines = [f"- {name_of(c)}: {c['not_run']}" for c in cells if "not_run" in c]
    lines += [f"- {name_of(c)}, PyTorch: {c['torch_not_run']}" for c in cells if "torch_not_run" in c]
    return ["Not run here:", ""] + lines + [""] if lines else []


def targets_table(cells):
    """The cells that the issue's targets speak of, and which meet them."""
    judged = [(c, TARGETS.get((c["batch"], c["length"], c["precision"]))) for c in cells if c["recompute"] != "layers" and "ratio" in c]
    judged = [(c, target) for c, target in judged if target is not None]
    if not judged:
        return []
    lines = ["Targets (no layer checkpointing; planned by ftengine / PyTorch's process less what it held before the model):", ""]
    lines += ["| configuration | target | ratio | met |", "|---|---:|---:|---|"]
    lines += [row_of(name_of(c), f"{target:.2f}", f"{c['ratio']:.3f}", "yes" if c["ratio"] <= target else "no") for c, target in judged]
    return lines + [""]


def plans_table(rows):
    lines = ["| configuration | precision | budget GiB | whole batch at once | planned | fits | as | predicted slowdown | throughput kept |"]
    lines += ["|---|---|---:|---:|---:|---|---|---:|---:|"]
    for r in rows:
        every = r["gradient_checkpointing"]
        recompute = {0: "", 1: ", recomputing every layer"}.get(every, f", recomputing {every} layers at a time")
        figures = [gib_text(r, key) for key in ("budget_bytes", "whole_batch_bytes", "planned_bytes")]
        slowdown = f"{r['slowdown']:.2f}" if r["fits"] else "-"
        kept = f"{100 / r['slowdown']:.0f}%" if r["fits"] else "-"
        how = f"{r['micro_batch_tokens']} tokens at once{recompute}"
        lines.append(row_of(r["name"], r["precision"], *figures, "yes" if r["fits"] else "no", how, slowdown, kept))
    return lines


def seven_table(rows):
    lines = ["| model | precision | points | fit | whole batch, no recompute | largest planned GiB | largest whole batch | slowest |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        figures = [gib_text(r, key) for key in ("largest_bytes", "largest_whole_batch_bytes")]
        slowest = f"{r['slowest']:.2f}" if r["slowest"] is not None else "-"
        lines.append(row_of(r["model"], r["precision"], r["points"], r["fit"], r["whole_batch"], *figures, slowest))
    return lines


def origins(document):
    """When and of which commit each part is, which need not be one run of the script."""
    cells, lines = document["cells"], []
    if cells:
        dates, commits = sorted(c["date"] for c in cells), sorted({c["commit"] for c in cells})
        lines.append(f"- measured cells: {dates[0]} to {dates[-1]}, commit {', '.join(commits)}")
    for part, what in (("oom", "what ran out of memory"), ("seven", "seven models")):
        if part in document["parts"]:
            lines.append(f"- {what}: {document['parts'][part]['date']}, commit {document['parts'][part]['commit']}")
    return lines + [""]


def markdown(document):
    lines = title_lines(document, "Peak memory, planned and measured")
    lines += ["What the columns are: benchmarks/memory/peak_memory.py.", ""] + origins(document)
    cells = document["cells"]
    if cells:
        versions = next((c["versions"] for c in cells if "versions" in c), None)
        if versions:
            lines += [f"PyTorch {versions['torch']}, transformers {versions['transformers']}, attention {document['attention']}.", ""]
        if document.get("interrupted"):
            lines += [f"Stopped by hand after {len(cells)} cells.", ""]
        lines += cells_table(cells) + [""] + targets_table(cells) + not_run(cells)
    if document["out_of_memory"]:
        lines += ["## Ran out of memory in practice (planned only)", ""] + plans_table(document["out_of_memory"]) + [""]
        lines += ["Throughput kept: beside a device with unlimited memory; of four trials at once, all four together beside one"]
        lines += ["after the other, each with the device to itself.", ""]
    if document["seven_models"]:
        lines += [f"## Seven models on {CARD / GIB:.3f} GiB (24 GiB less 600 MiB), head 512, 704, 448, all 546 points (planned only)", ""]
        lines += seven_table(document["seven_models"]) + [""]
    return "\n".join(lines)


def write_all(output, document):
    """`output` has no extension. Returns the text of the table."""
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    text = markdown(document)
    with open(output + ".json", "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    with open(output + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    write_csv(output + ".csv", CELL_COLUMNS, document["cells"])
    write_cells_chart(output + ".svg", document)
    if document["out_of_memory"]:
        write_csv(output + "_plans.csv", PLAN_COLUMNS, document["out_of_memory"])
        write_plans_chart(output + "_plans.svg", document)
    if document["seven_models"]:
        write_csv(output + "_seven_models.csv", SEVEN_COLUMNS, document["seven_models"])
    return text
