"""The part of peak_memory.py that runs nothing: what ran out of memory elsewhere, and a whole space of settings, planned."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import ROOT  # noqa: E402

SEVEN = [
    "bert-base-uncased",
    "bert-large-uncased",
    "roberta-base",
    "roberta-large",
    "microsoft/deberta-v3-base",
    "microsoft/deberta-v3-large",
    "xlm-roberta-base",
]
# Batches, accumulation and lengths of configs/spaces/seven_models.ini: 7 x 6 x 13 = 546 points.
BATCHES, ACCUMULATIONS, LENGTHS = [8, 12, 16, 24, 32, 48, 64], [1, 2, 3, 4, 6, 8], list(range(128, 513, 32))
CARD = 24 * 2**30 - 600 * 2**20  # 24 GiB less what engine/plan/cards.h assumes for context and modules
PRECISIONS = ("fp32", "bf16")


def plan_json(ftengine, words):
    """The document (which also says when a run does not fit), or None and the error."""
    run = subprocess.run([ftengine, "plan", *words, "--json"], capture_output=True, text=True, check=False, cwd=ROOT)
    if run.returncode not in (0, 3) or not run.stdout:
        return None, run.stderr.strip()
    return json.loads(run.stdout), None


def planned_row(ftengine, name, words):
    plan, error = plan_json(ftengine, words)
    if plan is None:
        sys.exit(f"{name}: {error}")
    fit, resolved = plan["autofit"], plan["resolved"]
    return {
        "name": name,
        "precision": plan["precision"],
        "fits": plan["fits"],
        "budget_bytes": plan["budget_bytes"],
        "planned_bytes": plan["memory"]["peak_reserved_bytes"],
        "whole_batch_bytes": fit["ideal"]["peak_reserved_bytes"] if fit else plan["memory"]["peak_reserved_bytes"],
        "micro_batch_tokens": resolved["micro_batch_tokens"],
        "gradient_checkpointing": resolved["gradient_checkpointing"],
        "slowdown": fit["choice"]["step_seconds"] / fit["ideal"]["step_seconds"] if fit else 1.0,
    }


def out_of_memory_rows(ftengine):
    directory = os.path.join(ROOT, "configs", "oom")
    files = sorted(file for file in os.listdir(directory) if file.endswith(".ini"))
    return [planned_row(ftengine, file.removesuffix(".ini"), [os.path.join(directory, file), "--labels", "2"]) for file in files]


def points_of(ftengine, model, precision):
    """All points of a model by one command."""
    words = [ftengine, "plan", f"model.path={model}", "--labels", "2", f"memory.limit={CARD}", f"train.precision={precision}"]
    words += ["train.gradient_checkpointing=auto", "model.head.hidden=512,704,448", "--json"]
    for option, values in (("train.batch_size", BATCHES), ("train.gradient_accumulation_steps", ACCUMULATIONS), ("data.max_length", LENGTHS)):
        words += ["--sweep", f"{option}={','.join(map(str, values))}"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    if run.returncode not in (0, 3) or not run.stdout:
        sys.exit(f"{model}, {precision}: {run.stderr.strip()}")
    for row in json.loads(run.stdout)["rows"]:
        fit, planned = row["autofit"], row["peak_reserved_bytes"]
        slowdown = fit["choice"]["step_seconds"] / fit["ideal"]["step_seconds"] if fit else 1.0
        yield {"fits": row["fits"], "planned_bytes": planned, "slowdown": slowdown,
               "whole_batch_bytes": fit["ideal"]["peak_reserved_bytes"] if fit else planned}


def seven_models(ftengine):
    """A row a model and precision: how many points were planned, how many fit, the largest and the slowest of them."""
    rows = []
    for precision in PRECISIONS:
        for model in SEVEN:
            plans = list(points_of(ftengine, model, precision))
            fit = [p for p in plans if p["fits"]]
            rows.append({
                "model": model,
                "precision": precision,
                "points": len(plans),
                "fit": len(fit),
                "whole_batch": sum(p["whole_batch_bytes"] <= CARD for p in plans),
                "largest_bytes": max((p["planned_bytes"] for p in fit), default=None),
                "largest_whole_batch_bytes": max(p["whole_batch_bytes"] for p in plans),
                "slowest": max((p["slowdown"] for p in fit), default=None),
            })
            print(f"{model}, {precision}: {len(fit)} of {len(plans)} fit", file=sys.stderr)
    return rows
