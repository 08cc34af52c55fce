#!/usr/bin/env python3
"""Training of a model family: ftengine beside transformers' Trainer, in turns, in one run: speed on mixed lengths, memory.

    python3 benchmarks/speed/families_vs_transformers.py --python /path/to/python/with/torch [--rounds 3]
    python3 benchmarks/speed/families_vs_transformers.py --merge FIRST.json SECOND.json ... [--output PATH]

A model of the shapes of --model (a file of configs/models; deberta-v3-small by default) with random weights, the same on
both sides, fp32, all cores, batches of 8. For every length S the texts of a batch have 8 to S tokens, drawn evenly; a last
case has S tokens in every text, for the memory. Words stand for tokens, one each. tokens/s count real tokens only; the
Trainer's first --skip steps are not timed, ftengine's all are. The machine's FMA peak is probed around every run.
A --model of pictures (google/vit-base-patch16-224) trains on pictures of noise in the model's size, --batch-size of them; speeds
are pictures/s. Its files are decoded before the Trainer's clock starts, and within ours. Needs Pillow and NumPy here.
--merge measures nothing: it joins the rounds of results of the same model, batches and steps, and makes their table.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import HF_TRAIN, RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402
from trec_vs_trainer import run_ftengine, run_trainer  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS, LABELS, SHORTEST = 5000, 3, 8


def write_model(source, directory):
    """config.json of the family with dropouts as they are, and a tokenizer of words, one token each."""
    with open(source, encoding="utf-8") as f:
        config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    os.makedirs(directory)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    words = {word: i for i, word in enumerate(SPECIAL + [f"w{i}" for i in range(WORDS)])}
    around = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for i, word in enumerate(SPECIAL)
        ],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around,
            "pair": around + [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {word: {"id": word, "ids": [words[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")},
        },
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": words},
    }
    with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]} | named, f)


def write_texts(path, rows, length, mixed, seed):
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for i in range(rows):
            words = (draw.randint(SHORTEST, length) if mixed else length) - 2  # [CLS] and [SEP]
            f.write(" ".join(f"w{draw.randrange(WORDS)}" for _ in range(words)) + f"\t{i % LABELS}\n")


def write_pictures(directory, count, side, seed):
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(seed)
    for i in range(count):
        folder = os.path.join(directory, f"class{i % LABELS}")
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (side, side, 3), dtype="uint8")).save(os.path.join(folder, f"{i}.png"))


def write_picture_model(config, directory):
    os.makedirs(directory)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    size = {"height": config["image_size"], "width": config["image_size"]}
    with open(os.path.join(directory, "preprocessor_config.json"), "w", encoding="utf-8") as f:
        json.dump({"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": size, "resample": 2, "do_rescale": True,
                   "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, f)


def run_case(options, case, model, scratch, log):
    """One round of one case: both sides, `trainer` first in even rounds."""
    shared = {
        "python": options.python,
        "ftengine": options.ftengine,
        "train": case["train"],
        "task": options.task,
        "epochs": 1,
        "max_steps": options.steps,
        "batch_size": options.batch_size,
        "max_length": case["length"],
        "seed": options.seed,
        "skip": options.skip,
        "set": options.set,
        "lora_r": 0,
    }
    sides = {
        "trainer": lambda: run_trainer(SimpleNamespace(**shared), model, log),
        "ftengine": lambda: run_ftengine(SimpleNamespace(**shared), model, scratch, log, []),
    }
    pair = {"order": list(sides) if case["round"] % 2 == 0 else list(reversed(sides))}
    peak = fma_peak(options.fma_peak)
    for side in pair["order"]:
        result = sides[side]()
        if side == "ftengine":  # tokens are counted here, pictures by the Trainer
            result["tokens"] /= options.tokens_of_one
            result["tokens_per_second"] /= options.tokens_of_one
        result["fma_peak_before"], peak = peak, fma_peak(options.fma_peak)
        result["fma_peak_after"] = peak
        result["tokens_per_gflop"] = 2 * result["tokens_per_second"] / (result["fma_peak_before"] + peak)
        pair[side] = result
        print(
            f"{case['name']} round {case['round'] + 1} {side}: {result['tokens_per_second']:.1f} {options.unit}/s, "
            f"{result['resident_bytes'] / 2**20:.0f} MiB, FMA peak {peak:.0f} GFLOP/s",
            flush=True,
        )
    if pair["trainer"]["tokens"] != pair["ftengine"]["tokens"]:
        raise SystemExit(f"the sides trained on {pair['trainer']['tokens']} and {pair['ftengine']['tokens']} tokens")
    return pair


def ratios(pairs, key):
    return [pair["ftengine"][key] / pair["trainer"][key] for pair in pairs]


def table(document):
    unit = document.get("unit", "tokens")
    digits = 0 if unit == "tokens" else 2
    lines = title_lines(document, f"{document['model']}: ftengine beside the Hugging Face Trainer") + [
        f"| lengths | Trainer {unit}/s | ftengine {unit}/s | ratio (smallest to largest) | each by the FMA peak beside it "
        "| Trainer resident | ftengine resident | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    busy = False
    for case in document["cases"]:
        pairs = case["rounds"]
        speed = ratios(pairs, "tokens_per_second")

        def of(side, key):
            return median([pair[side][key] for pair in pairs])

        lines.append(
            f"| {case['name']} | {of('trainer', 'tokens_per_second'):.{digits}f} | {of('ftengine', 'tokens_per_second'):.{digits}f} | "
            f"**{median(speed):.2f}x** ({min(speed):.2f} to {max(speed):.2f}) | "
            f"{median(ratios(pairs, 'tokens_per_gflop')):.2f}x | {of('trainer', 'resident_bytes') / 2**30:.2f} GiB | "
            f"{of('ftengine', 'resident_bytes') / 2**30:.2f} GiB | **{median(ratios(pairs, 'resident_bytes')):.2f}x** |"
        )
        busy = busy or any(pair[side]["others_share"] > 0.05 for pair in pairs for side in pair["order"])
    if busy:
        lines += ["", "**Other processes used the cores meanwhile: the speeds are no results.** Memory does not depend on them."]
    versions = document["cases"][0]["rounds"][0]["trainer"]["versions"]
    lines += ["", f"Batches of {document['batch_size']}, {document['steps']} steps. Trainer: {versions}.", ""]
    if "merged" in document:
        lines += [f"Rounds of {', '.join(document['merged'])} together; the line above names the first of them.", ""]
    return "\n".join(lines)


def merge(paths):
    """One document of several: rounds of cases of the same name one after the other, everything else that of the first."""
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            documents.append(json.load(f))
    whole = documents[0] | {"merged": [os.path.basename(path) for path in paths]}
    for path, document in zip(paths[1:], documents[1:]):
        for key in ("model", "batch_size", "steps"):
            if document[key] != whole[key]:
                raise SystemExit(f"{path} has {key} {document[key]}, {paths[0]} has {whole[key]}")
        for case in document["cases"]:
            same = [c for c in whole["cases"] if c["name"] == case["name"]]
            if same:
                same[0]["rounds"] += case["rounds"]
            else:
                whole["cases"].append(case)
    return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python with torch and transformers")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="results to join, instead of measuring")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", default="microsoft/deberta-v3-small", help="a name in configs/models")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--mixed-only", action="store_true", help="leave out the last case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--skip", type=int, default=2, help="first steps of the Trainer that are not timed")
    parser.add_argument("--output", default=os.path.join(RESULTS, "families_vs_transformers"), help="without extension")
    options = parser.parse_args()
    if options.merge:
        document = merge(options.merge)
        return write_results(options.output, document, table(document))
    if not options.python:
        parser.error("--python: a Python with torch and transformers is needed")
    options.fma_peak, options.ftengine = os.path.abspath(options.fma_peak), os.path.abspath(options.ftengine)
    source = os.path.join(ROOT, "configs", "models", options.model + ".json")
    for path in (options.ftengine, source):
        if not os.path.exists(path):
            parser.error(f"{path} does not exist")
    if options.steps < options.skip + 2:
        parser.error(f"--steps: at least {options.skip + 2}, to leave out {options.skip}")
    build_probe(options.fma_peak)
    with open(source, encoding="utf-8") as f:
        side = json.load(f).get("image_size")
    options.task, options.unit, options.tokens_of_one, options.set = "single_label_classification", "tokens", 1, []
    cases = [{"name": f"8 to {n}", "length": n, "mixed": True} for n in options.lengths]
    if side is not None:
        options.task, options.unit, options.set = "image_classification", "pictures", ["train.task=single_label", "data.max_length=auto"]
        cases = [{"name": f"{side} x {side}", "length": side}]
    elif not options.mixed_only:
        cases.append({"name": f"all {max(options.lengths)}", "length": max(options.lengths), "mixed": False})
    document = provenance() | {"model": options.model, "unit": options.unit, "batch_size": options.batch_size, "steps": options.steps, "cases": []}
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(tempfile.gettempdir(), "families_vs_transformers.log")
        drawn, model = os.path.join(scratch, "drawn"), os.path.join(scratch, "model")
        if side is None:
            write_model(source, drawn)
        else:
            with open(source, encoding="utf-8") as f:
                config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
            options.tokens_of_one = (side // config["patch_size"]) ** 2 + 1
            write_picture_model(config, drawn)
        command = [options.python, HF_TRAIN, "export", "--model", drawn, "--labels", str(LABELS), "--task", options.task]
        measured(command + ["--seed", str(options.seed), "--output", model], log)
        for case in cases:
            path = os.path.join(scratch, case["name"] + (".tsv" if side is None else ""))
            if side is None:
                write_texts(path, options.batch_size * options.steps, case["length"], case["mixed"], options.seed)
            else:
                write_pictures(path, options.batch_size * options.steps, side, options.seed)
            pairs = [run_case(options, case | {"round": r, "train": path}, model, scratch, log) for r in range(options.rounds)]
            document["cases"].append(case | {"rounds": pairs})
    return write_results(options.output, document, table(document))


if __name__ == "__main__":
    main()
