#!/usr/bin/env python3
"""Probabilities that a token is drawn with, by transformers' processors of generate(do_sample=True): sampling.json.

    python tests/vectors/causal_lm/make_sampling_vectors.py
"""
import json
import os

import torch
from transformers import __version__
from transformers.generation import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

OUT = os.path.dirname(os.path.abspath(__file__))


def processors(temperature, top_k, top_p):
    """As generate makes them; of a model none of whose other rules apply."""
    some = LogitsProcessorList()
    if temperature != 1.0:
        some.append(TemperatureLogitsWarper(temperature))
    if top_k != 0:
        some.append(TopKLogitsWarper(top_k=top_k))
    if top_p < 1.0:
        some.append(TopPLogitsWarper(top_p=top_p))
    return some


def main():
    torch.manual_seed(5)
    logits = [(torch.randn(40) * 3).tolist(), (torch.randn(64) * 0.3).tolist(), [0.0, 2.0, 2.0, -1.0, 2.0, 0.5, 0.5, -3.0, 0.5, 1.5, -0.0, 0.0], [5.0]]
    logits = [[float(torch.tensor(x, dtype=torch.float32)) for x in row] for row in logits]
    cases = []
    for which, row in enumerate(logits):
        for temperature in (1.0, 0.5, 1.7):
            for top_k, top_p in ((0, 1.0), (1, 1.0), (3, 1.0), (50, 1.0), (0, 0.8), (5, 0.8), (20, 0.95), (4, 0.3), (7, 0.999)):
                if which == 2 and top_p < 1:
                    continue  # of equal ones it is nobody's promise which torch.sort has first
                scores = processors(temperature, top_k, top_p)(None, torch.tensor([row], dtype=torch.float64))
                p = scores.softmax(-1)[0].tolist()
                cases.append({"logits": which, "temperature": temperature, "top_k": top_k, "top_p": top_p, "p": [float(f"{x:.9g}") for x in p]})
    with open(os.path.join(OUT, "sampling.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"transformers": __version__, "logits": logits, "cases": cases}, separators=(",", ":")).replace('{"logits":', '\n{"logits":'))
        f.write("\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
