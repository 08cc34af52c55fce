#!/usr/bin/env python3
"""The PyTorch side of everyday.py, as a program that prints one JSON document. Needs torch and transformers.

    everyday_torch.py train   --model DIRECTORY --batch N --length N --steps N --skip N      tokens a second of a plain loop
    everyday_torch.py predict --model DIRECTORY --data FILE --batch-sizes 1,8,32             texts a second of the pipeline

train: the model of transformers as it comes, every text exactly as long, AdamW (fused, the Trainer's default), gradients
clipped at 1 as the Trainer does; nothing of the Trainer's own. predict: pipeline("text-classification") over a list of texts;
the first texts of each batch size are predicted before the clock starts.
"""

import argparse
import json
import os
import sys
import time

import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import read_tsv  # noqa: E402


def train(arguments):
    torch.manual_seed(42)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float32)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
    ends = []
    for _ in range(arguments.steps):
        ids = torch.randint(1000, 20000, (arguments.batch, arguments.length))
        labels = torch.randint(0, model.config.num_labels, (arguments.batch,))
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not torch.isfinite(output.loss):
            raise RuntimeError("the loss is not finite")
        ends.append(time.monotonic())
    seconds = ends[-1] - ends[arguments.skip - 1]
    return {"tokens_per_second": (arguments.steps - arguments.skip) * arguments.batch * arguments.length / seconds}


def predict(arguments):
    texts = [text for text, _ in read_tsv(arguments.data)]
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float32)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    rates = {}
    for size in arguments.batch_sizes.split(","):
        classify(texts[:32], batch_size=int(size), truncation=True)
        start = time.monotonic()
        answers = classify(texts, batch_size=int(size), truncation=True)
        rates[size] = len(answers) / (time.monotonic() - start)
    return {"texts": len(texts), "texts_per_second": rates, "labels": [a["label"] for a in answers]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    command.add_argument("--model", required=True)
    command.add_argument("--batch", type=int, required=True)
    command.add_argument("--length", type=int, required=True)
    command.add_argument("--steps", type=int, required=True)
    command.add_argument("--skip", type=int, required=True)
    command = commands.add_parser("predict")
    command.add_argument("--model", required=True)
    command.add_argument("--data", required=True)
    command.add_argument("--batch-sizes", default="1,8,32")
    arguments = parser.parse_args()
    result = train(arguments) if arguments.command == "train" else predict(arguments)
    result["threads"] = torch.get_num_threads()
    result["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
