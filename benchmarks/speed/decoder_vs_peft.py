#!/usr/bin/env python3
"""LoRA on a decoder, on a CPU: ftengine beside PEFT and transformers, in turns, in one run: tokens/s and peak resident memory.

    python3 benchmarks/speed/decoder_vs_peft.py --python /path/to/python/with/torch+peft [--rounds 2]

Qwen2.5-0.5B's shapes (configs/models) with random weights, saved in bf16 as the real ones are and read by both sides; LoRA r = 16 on all linear layers,
AdamW, batches of 4 texts of 256 tokens, every token learned. Sides:

transformers  decoder_vs_peft_torch.py: a plain loop, sdpa, no padding, nothing recomputed, in the faster of --precisions (tried at first, --trial-steps each)
ftengine      as it comes: fp32, weights made fp32 in memory
mapped        model.storage=bf16: weights are read where the file lies (memory.map_weights), and made fp32 matrix by matrix

tokens/s count the steps behind --skip for transformers, all steps for ftengine. Resident memory is the kernel's peak for the process, mapped pages of
files among it. The machine's FMA peak is probed around every run.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import RESULTS, ROOT, build_probe, fma_peak, measured, median, provenance, title_lines, write_results  # noqa: E402

TORCH = os.path.join(ROOT, "benchmarks", "speed", "decoder_vs_peft_torch.py")
WORDS, END = 5000, 0  # the end token is the word table's first row


def write_tokenizer(directory):
    """Words, one token each, and a token that ends a text."""
    vocabulary = {"<end>": END, "<unk>": 1} | {f"w{i}": 2 + i for i in range(WORDS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for word, i in (("<end>", END), ("<unk>", 1))
        ],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    }
    with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "pad_token": "<end>", "unk_token": "<unk>"}, f)


def write_texts(path, rows, length, seed):
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(rows):
            f.write(json.dumps({"text": " ".join(f"w{draw.randrange(WORDS)}" for _ in range(length - 1))}) + "\n")  # and the end token


def run_torch(options, scratch, precision, steps, log):
    command = [options.python, TORCH, "train", "--model", os.path.join(scratch, "model"), "--train", os.path.join(scratch, "texts.jsonl"), "--precision", precision]
    command += ["--steps", str(steps), "--skip", str(min(options.skip, steps - 1)), "--batch-size", str(options.batch_size), "--lora-r", str(options.lora_r)]
    text, process = measured(command, log)
    return json.loads(text.strip().splitlines()[-1]) | process


def run_ftengine(options, scratch, more, log):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    command = [options.ftengine, "train", f"model.path={scratch}/model", f"data.train={scratch}/texts.jsonl", "train.task=causal_lm", "data.learn=all"]
    command += ["adapter.type=lora", "adapter.targets=all-linear", f"adapter.r={options.lora_r}", f"adapter.alpha={2 * options.lora_r}", "eval.strategy=no"]
    command += [f"data.max_length={options.length}", f"train.batch_size={options.batch_size}", f"train.max_steps={options.steps}", "train.learning_rate=2e-4"]
    command += ["data.cache_dir=none", f"output.dir={run}", *more, *options.set]
    _, process = measured(command, log)
    with open(os.path.join(run, "run.json"), encoding="utf-8") as f:
        result = json.load(f)
    kept = {key: result[key] for key in ("tokens_per_second", "tokens", "steps", "versions", "memory")}
    kept["host"] = {key: value for key, value in result.get("host", {}).items() if key in ("peak_bytes", "mapped_weights_bytes", "held_bytes")}
    return kept | process


def table(document):
    lines = title_lines(document, "Qwen2.5-0.5B's shapes, LoRA: ftengine beside PEFT and transformers on a CPU") + [
        "| round | side | tokens/s | peak resident | FMA peak before / after, GFLOP/s | cores taken by others / the host |",
        "|---|---|---|---|---|---|",
    ]
    busy = False
    for number, sides in enumerate(document["rounds"], 1):
        for side in sides["order"]:
            r = sides[side]
            busy = busy or r["others_share"] > 0.05
            lines.append(
                f"| {number} | {side} | {r['tokens_per_second']:.1f} | {r['resident_bytes'] / 2**30:.2f} GiB | {r['fma_peak_before']:.0f} / {r['fma_peak_after']:.0f} | "
                f"{r['others_share']:.0%} / {r['stolen_share']:.0%} |"
            )
    if busy:
        lines += ["", "**Other processes used the cores meanwhile: the speeds are no results.**"]
    lines += ["", f"Beside transformers, median of {len(document['rounds'])} rounds (smallest to largest):", ""]
    for side in ("ftengine", "mapped"):
        pairs = [sides for sides in document["rounds"] if side in sides]
        if not pairs:
            continue
        speed = [p[side]["tokens_per_second"] / p["transformers"]["tokens_per_second"] for p in pairs]
        memory = [p[side]["resident_bytes"] / p["transformers"]["resident_bytes"] for p in pairs]
        lines.append(f"- {side}: tokens/s **{median(speed):.2f}x** ({min(speed):.2f} to {max(speed):.2f}), peak resident **{median(memory):.2f}x**")
    trials = ", ".join(f"{name} {value['tokens_per_second']:.1f} tokens/s" for name, value in document["trials"].items())
    lines += [
        "",
        f"transformers in {document['precision']}" + (f", the faster of {trials}" if len(document["trials"]) > 1 else "") + f": {document['rounds'][0]['transformers']['versions']}. "
        f"LoRA r {document['lora_r']} on all linear layers, batches of {document['batch_size']} texts of {document['length']} tokens, {document['steps']} steps.",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with torch, transformers and peft")
    parser.add_argument("--ftengine", default=os.path.join(ROOT, "build", "ftengine"))
    parser.add_argument("--fma-peak", default=os.path.join(ROOT, "build", "benchmarks", "bench_peak"))
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B", help="a name in configs/models, or a config.json")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], help="that transformers is tried in")
    parser.add_argument("--sides", nargs="+", default=["ftengine", "mapped"], choices=["ftengine", "mapped"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--trial-steps", type=int, default=2)
    parser.add_argument("--skip", type=int, default=1, help="first steps of transformers that are not timed")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--lora-r", type=int, default=16)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--set", action="append", default=[], metavar="section.key=value", help="an option for ftengine alone")
    parser.add_argument("--output", default=os.path.join(RESULTS, "decoder_vs_peft"), help="without extension")
    options = parser.parse_args()
    options.fma_peak, options.ftengine = os.path.abspath(options.fma_peak), os.path.abspath(options.ftengine)
    source = options.model if os.path.exists(options.model) else os.path.join(ROOT, "configs", "models", options.model + ".json")
    for path in (options.ftengine, source):
        if not os.path.exists(path):
            parser.error(f"{path} does not exist")
    if min(options.steps, options.trial_steps) < 2:
        parser.error("--steps, --trial-steps: at least 2, to leave out one")
    build_probe(options.fma_peak)
    more = {"ftengine": [], "mapped": ["model.storage=bf16", "memory.map_weights=on"]}
    document = provenance() | {"model": options.model, "batch_size": options.batch_size, "length": options.length, "lora_r": options.lora_r, "steps": options.steps}
    document |= {"trials": {}, "precision": options.precisions[0], "rounds": []}
    log = os.path.join(tempfile.gettempdir(), "decoder_vs_peft.log")
    with tempfile.TemporaryDirectory() as scratch:
        measured([options.python, TORCH, "export", "--config", source, "--output", f"{scratch}/model", "--seed", str(options.seed)], log)
        write_tokenizer(f"{scratch}/model")
        write_texts(f"{scratch}/texts.jsonl", options.batch_size * options.steps, options.length, options.seed)
        for precision in options.precisions if len(options.precisions) > 1 else []:
            document["trials"][precision] = run_torch(options, scratch, precision, options.trial_steps, log)
            print(f"trial, transformers in {precision}: {document['trials'][precision]['tokens_per_second']:.1f} tokens/s", flush=True)
        if document["trials"]:
            document["precision"] = max(document["trials"], key=lambda name: document["trials"][name]["tokens_per_second"])
        for number in range(options.rounds):
            order = ["transformers", *options.sides]
            sides = {"order": order if number % 2 == 0 else order[::-1]}
            peak = fma_peak(options.fma_peak)
            for side in sides["order"]:
                if side == "transformers":
                    result = run_torch(options, scratch, document["precision"], options.steps, log)
                else:
                    result = run_ftengine(options, scratch, more[side], log)
                result["fma_peak_before"], peak = peak, fma_peak(options.fma_peak)
                sides[side] = result | {"fma_peak_after": peak}
                print(f"round {number + 1} {side}: {result['tokens_per_second']:.1f} tokens/s, {result['resident_bytes'] / 2**30:.2f} GiB", flush=True)
            document["rounds"].append(sides)
            tokens = {side: sides[side]["tokens"] for side in order}
            if len(set(tokens.values())) != 1:
                raise SystemExit(f"the sides trained on {tokens} tokens")
    return write_results(options.output, document, table(document))


if __name__ == "__main__":
    main()
