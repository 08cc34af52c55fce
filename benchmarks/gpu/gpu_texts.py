"""What gpu_steps.py trains on: lengths as real data has them (gpu_lengths.json), batches of them, and a model's files and texts."""

import json
import os
import random

import gpu_counts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def draw_lengths(kind, count, most, seed):
    draw = random.Random(seed)
    if kind.isdigit():
        return [min(int(kind), most)] * count
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_lengths.json"), encoding="utf-8") as f:
        histogram = json.load(f)[kind]["histogram"]
    return [min(int(n), most) for n in draw.choices(list(histogram), list(histogram.values()), k=count)]


def grouped(lengths, batch, seed):
    """Batches as the Trainer's group_by_length makes them of much data: shuffled, in pieces of 50 batches, each sorted by length. The
    batches are then shuffled: whoever ends early has had short and long ones alike."""
    shuffled, draw = list(lengths), random.Random(seed)
    draw.shuffle(shuffled)
    piece = 50 * batch
    ordered = [n for i in range(0, len(shuffled), piece) for n in sorted(shuffled[i : i + piece], reverse=True)]
    batches = [ordered[i : i + batch] for i in range(0, len(ordered), batch)]
    draw.shuffle(batches)
    return batches


def write_model(config, directory):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    with open(os.path.join(directory, "vocab.txt"), "w", encoding="utf-8") as f:
        f.writelines(word + "\n" for word in SPECIAL + [f"w{i}" for i in range(config["vocab_size"] - len(SPECIAL))])
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "BertTokenizer"}, f)


def write_texts(path, lengths, vocabulary, seed):
    draw = random.Random(seed)
    words = vocabulary - len(SPECIAL)
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        for i, n in enumerate(lengths):
            f.write(" ".join(f"w{draw.randrange(words)}" for _ in range(n - 2)) + f"\t{i % gpu_counts.LABELS}\n")
