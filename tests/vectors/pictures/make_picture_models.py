#!/usr/bin/env python3
"""Small models that read pictures, with random weights, and transformers' numbers of them in float64.

    ../vit/, ../deit/, ../dinov2/        config.json and model.safetensors as save_pretrained writes them; expect.safetensors:
        pixels U8 [B,H,W,3]; what the model reads is (v - 127.5) / 127.5 in fp32
        labels I32 [B]; embeddings, layer.0, layer.1, ... [B,N,H], each behind the norm that stands in front of what comes next
        logits [B,C]; losses [B]; grad.NAME of the mean loss, by the names of the file
        train.learning_rates, losses, grad_norms [S], train.batches I32, train.batch_cu I32 [S+1]: steps of AdamW as make_model_vectors.py
        has them, and after.NAME, the parameters behind them
        other_pixels U8, other_logits [B,C]     of another size, with interpolated positions
"""

import os
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (DeiTConfig, DeiTForImageClassification, Dinov2Config, Dinov2ForImageClassification, ViTConfig,
                          ViTForImageClassification)

from transformers import Trainer, get_linear_schedule_with_warmup

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(HERE)
from make_model_vectors import MAX_GRAD_NORM, PEAK_LEARNING_RATE, STEPS, WARMUP, WEIGHT_DECAY

SIZES = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=4, num_labels=5, problem_type="single_label_classification")
MODELS = {
    "vit": (ViTForImageClassification, ViTConfig(**SIZES, intermediate_size=40, image_size=12), (12, 12), (20, 8)),
    "deit": (DeiTForImageClassification, DeiTConfig(**SIZES, intermediate_size=40, image_size=(8, 12), qkv_bias=False), (8, 12), None),
    "dinov2": (Dinov2ForImageClassification, Dinov2Config(**SIZES, mlp_ratio=2, image_size=16, layerscale_value=1.0), (16, 16), (8, 12)),
}
PICTURES = 8


def fill(model, generator):
    """Numbers of unit gain, and nothing that is 0 or 1."""
    for name, p in model.named_parameters():
        r = torch.rand(p.shape, generator=generator) * 2 - 1
        if "lambda" in name or (p.dim() == 1 and name.endswith("weight")):
            p.data = 1 + 0.25 * r
        elif p.dim() == 1:
            p.data = 0.1 * r
        elif "token" in name or "position" in name:
            p.data = 0.5 * r
        else:
            p.data = r * (3 / p[0].numel()) ** 0.5


def pictures(rng, size):
    return torch.from_numpy(rng.integers(0, 256, (PICTURES, *size, 3), dtype=np.uint8))


def values(pixels, dtype):
    v = pixels.permute(0, 3, 1, 2).to(torch.float32)
    return ((v - 127.5) / 127.5).to(dtype)


def file_names(model, directory):
    """Names in memory to names in files, by saving and loading marks."""
    marked = type(model)(model.config)
    numbers = {}
    for i, (name, p) in enumerate(marked.named_parameters()):
        p.data = torch.full(p.shape, float(i))
        numbers[i] = name
    marked.save_pretrained(directory)
    return {numbers[int(t.flatten()[0])]: name for name, t in load_file(os.path.join(directory, "model.safetensors")).items()}


def train(model, pixels, labels, batches, expect, names):
    """Changes the model."""
    decay = set(Trainer.get_decay_parameter_names(None, model))
    groups = [{"params": [p for n, p in model.named_parameters() if n in decay], "weight_decay": WEIGHT_DECAY},
              {"params": [p for n, p in model.named_parameters() if n not in decay], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, len(batches))
    rates, losses, norms = [], [], []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(values(pixels[batch], torch.float64), labels=labels[batch]).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM).item())
        rates.append(schedule.get_last_lr()[0])
        losses.append(loss.item())
        optimizer.step()
        schedule.step()
    expect |= {"train.learning_rates": torch.tensor(rates), "train.losses": torch.tensor(losses), "train.grad_norms": torch.tensor(norms),
               "train.batches": torch.tensor([i for b in batches for i in b], dtype=torch.int32),
               "train.batch_cu": torch.tensor([0] + [len(b) for b in batches]).cumsum(0).to(torch.int32)}
    expect["after.logits"] = model(values(pixels, torch.float64)).logits
    for parameter, p in model.named_parameters():
        if parameter in names:
            expect[f"after.{names[parameter]}"] = p.clone()


def make(name, kind, config, size, other):
    directory = os.path.join(HERE, name)
    generator, rng = torch.Generator().manual_seed(len(name)), np.random.default_rng(len(name))
    config._attn_implementation = "eager"
    model = kind(config).eval()
    names = file_names(model, directory)
    fill(model, generator)
    model.save_pretrained(directory)
    for extra in os.listdir(directory):
        if extra not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(directory, extra))
    model = model.double()
    pixels, labels = pictures(rng, size), torch.from_numpy(rng.integers(0, config.num_labels, PICTURES))
    trunk = getattr(model, name)
    blocks = next(m for m in trunk.modules() if isinstance(m, torch.nn.ModuleList))
    before = "norm1" if name == "dinov2" else "layernorm_before"
    norms, seen = [getattr(b, before) for b in blocks] + [trunk.layernorm], []
    hooks = [n.register_forward_hook(lambda module, inputs, output: seen.append(output)) for n in norms]
    out = model(values(pixels, torch.float64))
    for hook in hooks:
        hook.remove()
    losses = torch.nn.functional.cross_entropy(out.logits, labels, reduction="none")
    losses.mean().backward()
    expect = {"pixels": pixels, "labels": labels.to(torch.int32), "logits": out.logits, "losses": losses}
    for i, hidden in enumerate(seen):
        expect["embeddings" if i == 0 else f"layer.{i - 1}"] = hidden
    for parameter, p in model.named_parameters():
        if p.grad is not None:
            expect[f"grad.{names[parameter]}"] = p.grad
    if other is not None:
        expect["other_pixels"] = pictures(rng, other)
        more = {} if name == "dinov2" else {"interpolate_pos_encoding": True}
        expect["other_logits"] = model(values(expect["other_pixels"], torch.float64), **more).logits
    batches = [torch.randperm(PICTURES, generator=generator)[: 1 + step % 7].tolist() for step in range(STEPS)]
    train(model, pixels, labels, batches, expect, names)
    expect = {k: (v if v.dtype in (torch.uint8, torch.int32) else v.to(torch.float32)).detach().contiguous() for k, v in expect.items()}
    save_file(expect, os.path.join(directory, "expect.safetensors"))
    print(name, {k: tuple(v.shape) for k, v in expect.items() if not k.startswith("grad")}, sum(v.numel() * 4 for v in expect.values()))


if __name__ == "__main__":
    for name, row in MODELS.items():
        make(name, *row)
