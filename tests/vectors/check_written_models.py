#!/usr/bin/env python3
"""Do models that ftengine wrote give the same logits in transformers?

    check_written_models.py TEXTS NAME=MODEL_DIR=PREDICTIONS ...

TEXTS has a text a line, of words that stand in MODEL_DIR/vocab.txt; PREDICTIONS are the JSON lines of `ftengine predict MODEL_DIR
--data TEXTS --json --logits`. Called by tests/model/test_transformers.sh with small models of every family: they are opened
as anybody would, by AutoModelForSequenceClassification.from_pretrained, which must find all its tensors and no other.
"""

import json
import os
import sys

import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging

TOLERANCE = 1e-5


def ids_of(text, vocabulary):
    return [vocabulary["[CLS]"], *(vocabulary[word] for word in text.split()), vocabulary["[SEP]"]]


def worst_difference(texts, directory, predictions):
    with open(os.path.join(directory, "vocab.txt"), encoding="utf-8") as f:
        vocabulary = {word.rstrip("\n"): i for i, word in enumerate(f)}
    with open(predictions, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    model, report = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    assert len(lines) == len(texts), f"{len(lines)} predictions of {len(texts)} texts"
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    worst = 0.0
    for text, line in zip(texts, lines):
        with torch.no_grad():
            want = model.eval()(input_ids=torch.tensor([ids_of(text, vocabulary)])).logits[0]
        got = torch.tensor([line["logits"][name] for name in names])
        assert torch.isfinite(got).all() and torch.isfinite(want).all()
        worst = max(worst, (got - want).abs().max().item())
    return worst


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    with open(sys.argv[1], encoding="utf-8") as f:
        texts = [line.rstrip("\n") for line in f]
    failures = 0
    for argument in sys.argv[2:]:
        name, directory, predictions = argument.split("=")
        try:
            worst = worst_difference(texts, directory, predictions)
        except (AssertionError, KeyError, OSError, RuntimeError, ValueError) as error:
            print(f"{name}: {error}")
            failures += 1
            continue
        print(f"{name}: logits within {worst:.1e}{'' if worst <= TOLERANCE else ', FAILED'}")
        failures += worst > TOLERANCE
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
