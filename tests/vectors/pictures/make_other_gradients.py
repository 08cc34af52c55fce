#!/usr/bin/env python3
"""Gradients of pictures of another size, by transformers in float64, of the models and pictures that make_picture_models.py made.

    ../vit/, ../dinov2/        other_gradients.safetensors: losses [B] of "other_pixels", and grad.NAME of their mean, by the names of the file; that
        of the positions is of the interpolated ones, which are what is trained here
"""

import os
import tempfile

import torch
from safetensors.torch import load_file, save_file

from make_picture_models import HERE, MODELS, file_names, values

for name, (kind, _, _, other) in MODELS.items():
    if other is None:
        continue
    directory = os.path.join(HERE, name)
    model = kind.from_pretrained(directory, attn_implementation="eager").double().eval()
    expect = load_file(os.path.join(directory, "expect.safetensors"))
    with tempfile.TemporaryDirectory() as scratch:
        names = file_names(model, scratch)
    embeddings = getattr(model, name).embeddings
    interpolate, seen = embeddings.interpolate_pos_encoding, []

    def kept(*arguments, inner=interpolate, rows=seen):
        rows.append(inner(*arguments))
        rows[-1].retain_grad()
        return rows[-1]

    embeddings.interpolate_pos_encoding = kept
    more = {} if name == "dinov2" else {"interpolate_pos_encoding": True}
    logits = model(values(expect["other_pixels"], torch.float64), **more).logits
    assert (logits - expect["other_logits"]).abs().max() < 1e-6, "another model"
    losses = torch.nn.functional.cross_entropy(logits, expect["labels"].long(), reduction="none")
    losses.mean().backward()
    out = {"losses": losses} | {f"grad.{names[n]}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    positions = next(n for n in out if n.endswith("position_embeddings"))
    assert len(seen) == 1 and out[positions].shape != seen[0].grad.shape
    out[positions] = seen[0].grad
    out = {k: v.detach().float().contiguous() for k, v in out.items()}
    save_file(out, os.path.join(directory, "other_gradients.safetensors"))
    print(name, positions, tuple(out[positions].shape), sum(v.numel() * 4 for v in out.values()))
