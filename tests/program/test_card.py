#!/usr/bin/env python3
"""model/README.md: what the Hub would read of it, held against run.json; no path of this machine; never in the way of a card that somebody wrote.
huggingface_hub's own reader has the last word where it is installed; the front matter itself is read here, too, by a reader of the few forms it has."""
# ctest: timeout=300

import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

SOURCE, PROGRAM = Path(os.environ["SOURCE_DIR"]), os.environ["FTENGINE"]
VECTORS = SOURCE / "tests/vectors"
folder = tempfile.TemporaryDirectory(prefix="ftengine-card-")
os.chdir(folder.name)
os.environ["XDG_CACHE_HOME"], os.environ["FTENGINE_LEDGER_DIR"] = f"{folder.name}/cache", f"{folder.name}/ledger"

try:
    from huggingface_hub import ModelCard
except ImportError:
    ModelCard = None


def ftengine(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def scalar(text):
    if text.startswith('"'):
        return json.loads(text)
    return float(text) if re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", text) else text


def parse(lines, indent=0):
    """Of YAML: mappings, lists and scalars, by their indents."""
    result = None
    while lines:
        line = lines[0]
        depth = len(line) - len(line.lstrip())
        if depth < indent:
            break
        body = line.strip()
        if body.startswith("- "):
            result = [] if result is None else result
            if ":" not in body or body.startswith('- "'):
                result.append(scalar(body[2:]))
                lines.pop(0)
            else:
                lines[0] = " " * (depth + 2) + body[2:]
                result.append(parse(lines, depth + 2))
            continue
        if isinstance(result, list):
            break
        result = {} if result is None else result
        key, _, value = body.partition(":")
        lines.pop(0)
        if value.strip():
            result[key] = scalar(value.strip())
        else:
            deeper = len(lines[0]) - len(lines[0].lstrip())
            result[key] = parse(lines, max(deeper, depth))
    return result


def card_of(run, result="model"):
    path = Path(run) / result / "README.md"
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    first, *lines = front.splitlines()
    found = re.fullmatch(r"# made by ftengine, which renews it until somebody changes it: ([0-9a-f]{64})", first)
    assert found and hashlib.sha256(text[len("---\n" + first + "\n") :].encode()).hexdigest() == found[1], first
    meta = parse(lines)
    assert folder.name not in text and str(SOURCE) not in text, "a path of this machine"
    if ModelCard is not None:
        read = ModelCard(text)
        assert read.data.to_dict()["library_name"] == meta["library_name"] and read.data.pipeline_tag == meta["pipeline_tag"]
        assert read.data.tags == meta["tags"] and read.data.base_model == meta.get("base_model")
        ours = [(m["type"], m["value"]) for r in meta.get("model-index", [{"results": []}])[0]["results"] for m in r["metrics"]]
        assert [(e.metric_type, e.metric_value) for e in read.data.eval_results or []] == ours
    return meta, body


TRAINER = VECTORS / "trainer"
FOLLOW = [TRAINER / "follow.ini", "train.max_steps=6", "train.warmup_steps=1", "data.cache_dir=none", "device.threads=1"]
JUDGED = ["eval.strategy=steps", "eval.steps=3", f"data.validation={TRAINER}/validation.tsv", f"data.test={TRAINER}/validation.tsv"]

# ---- what it says ---------------------------------------------------------------------------------------------------

ftengine("train", *FOLLOW, *JUDGED, "output.dir=reviews")
meta, body = card_of("reviews")
run = json.loads(Path("reviews/run.json").read_text())
assert "base_model" not in meta, meta  # a path is no name on the Hub
assert (meta["library_name"], meta["pipeline_tag"], meta["tags"]) == ("transformers", "text-classification", ["ftengine", "bert"]), meta
(index,) = meta["model-index"]
assert index["name"] == "reviews" and [r["dataset"]["split"] for r in index["results"]] == ["validation", "test"]
for result, split, prefix in zip(index["results"], ("validation", "test"), ("eval_", "test_")):
    assert result["task"]["type"] == "text-classification"
    assert result["dataset"] == {"name": "validation.tsv", "type": "csv", "split": split, "args": {"sha256": run["data"][split]["sha256"]}}, result
    figures = {m["name"]: m["value"] for m in result["metrics"]}
    theirs = {k[len(prefix) :]: v for k, v in run["metrics"].items() if k.startswith(prefix)}
    assert set(figures) == set(theirs) and all(math.isclose(figures[k], theirs[k], rel_tol=1e-5, abs_tol=1e-12) for k in figures)
    assert {m["name"]: m["type"] for m in result["metrics"]}["f1_macro"] == "f1"
assert {"accuracy", "f1", "matthews_correlation"} <= set(meta["metrics"]) and len(set(meta["metrics"])) == len(meta["metrics"])
for words in ("Not stated.", "Classes: food, music, travel.", "| train.learning_rate | 0.003 |", "| train.seed | 7 |", "6 of 6 steps",
              f"({run['memory']['peak_allocated_bytes']} bytes)", f"| train | train.tsv | {run['data']['train']['examples']} | `{run['data']['train']['sha256'][:16]}"):  # fmt: skip
    assert words in body, (words, body)

# ---- names of the Hub, adapters, other tasks ------------------------------------------------------------------------

snapshot = Path("hub/models--some-owner--tiny-bert/snapshots/0123456789012345678901234567890123456789")
snapshot.parent.mkdir(parents=True)
snapshot.symlink_to(TRAINER / "model")
ftengine("train", *FOLLOW, f"model.path={snapshot.absolute()}", "output.dir=named")
meta, body = card_of("named")
assert (meta["base_model"], meta["base_model_relation"]) == ("some-owner/tiny-bert", "finetune") and "model-index" not in meta, meta
assert "fine-tuned from some-owner/tiny-bert for single" in body
ftengine("train", *FOLLOW, *JUDGED, f"model.path={snapshot.absolute()}", "adapter.type=lora", "output.dir=adapted")
meta, _ = card_of("adapted", "adapter")
assert (meta["library_name"], meta["base_model_relation"]) == ("peft", "adapter") and "lora" in meta["tags"], meta

# ---- a person's own stays -------------------------------------------------------------------------------------------

card = Path("reviews/model/README.md")
old = card.read_bytes()
ftengine("train", "reviews", "--deadline", "1h")  # it has ended: nothing is trained, and the card is renewed
assert card_of("reviews")[0]["model-index"] == [index]
card.write_bytes(old.replace(b"Not stated.", b"For the reviews of our shop."))
changed = card.read_bytes()
ftengine("train", *FOLLOW, *JUDGED, "output.dir=reviews", "output.exists=resume")
assert card.read_bytes() == changed
ftengine("train", *FOLLOW, "eval.strategy=no", "output.save_steps=2", "output.dir=own", "--deadline", "0.000001s")
own = Path("own/model/README.md")
own.write_text("# mine\n")
ftengine("train", "own", "--deadline", "")  # goes on, and saves another model over that one
assert own.read_text() == "# mine\n" and json.loads(Path("own/run.json").read_text())["steps"] == 6
