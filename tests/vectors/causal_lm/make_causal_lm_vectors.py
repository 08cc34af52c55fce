#!/usr/bin/env python3
"""Golden vectors of causal language modelling, made with transformers (5.24) and PEFT (0.21.2).

    python tests/vectors/causal_lm/make_causal_lm_vectors.py [--only NAME ...]

Writes beside this file NAME/: config.json, model.safetensors (as ForCausalLM) and expect.safetensors, and lora_NAME/: adapter_config.json and
adapter_model.safetensors as PEFT saves them, of all linear layers, B not 0, and expect.safetensors.

The oracle is the libraries' own code in float64, every text alone: nothing is padded. Some tokens of a text have no label (a prompt: the first ones; others
here and there), a text has none at all, and one has a single token. Loss: the mean over the tokens that count, of the whole batch.
    input_ids I32 [T], cu_seqlens I32 [B+1]
    read_position I32 [R], first_read I32 [B+1]     tokens whose next one counts, in their text
    labels I32 [R]                                  that next one
    losses [R], grad.NAME                           of all texts
    train.batches, train.batch_cu I32, train.learning_rates, train.losses, train.grad_norms [50], after.losses [R]    fifty steps of AdamW
of lora_NAME the gradients and steps are those of the adapter, by name in adapter_model.safetensors.
"""

import argparse
import os
import shutil
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, get_linear_schedule_with_warmup

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import make_model_vectors as small  # noqa: E402

STEPS, WARMUP, RATE, DECAY = 50, 5, 2e-3, 0.01
CASES = {
    "qwen2": "qwen2",
    "qwen2_tied": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2_sliding": "qwen2_sliding",
    "llama": "llama",
    "qwen3": "qwen3",
}
ADAPTERS = {"lora_qwen2": ("qwen2", dict(r=4, lora_alpha=8, target_modules="all-linear")),
            "lora_qwen3": ("qwen3", dict(r=4, lora_alpha=8, target_modules="all-linear")),
            "lora_llama": ("llama", dict(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear"))}


def texts_of(generator):
    lengths = [7, 2, 40, 13, 3, 21, 1, 9, 30] + torch.randint(2, 41, (7,), generator=generator).tolist()
    texts = [torch.randint(1, 97, (n,), generator=generator).tolist() for n in lengths]
    counts = []
    for i, text in enumerate(texts):
        counted = torch.rand(len(text), generator=generator) < 0.8
        counted[0] = False  # nothing is before it
        if i % 3 == 1:
            counted[: len(text) // 2] = False  # a prompt
        if i == 4:
            counted[:] = False
        counts.append(counted.tolist())
    return texts, counts


def losses_of(model, texts, counts, chosen):
    """Of every counted token, text after text."""
    out = []
    for i in chosen:
        positions = [k - 1 for k, counted in enumerate(counts[i]) if counted]
        if not positions:
            continue
        ids = torch.tensor(texts[i])
        logits = model(input_ids=ids[None]).logits[0]
        labels = ids[torch.tensor(positions) + 1]
        out.append(torch.nn.functional.cross_entropy(logits[positions], labels, reduction="none"))
    return torch.cat(out)


def steps(model, named, texts, counts, batches, rates):
    decay = [p for n, p in named.items() if not (n.endswith("bias") or "norm" in n)]
    rest = [p for n, p in named.items() if n.endswith("bias") or "norm" in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}], lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, len(batches)) if rates else None
    rows = []
    for batch in batches:
        loss = losses_of(model, texts, counts, batch).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([*decay, *rest], 1.0)
        rows.append([optimizer.param_groups[0]["lr"], loss.item(), norm.item()])
        optimizer.step()
        if schedule is not None:
            schedule.step()
        optimizer.zero_grad()
    return torch.tensor(rows, dtype=torch.float64).T


def expectations(model, named, texts, counts, batches):
    everything = range(len(texts))
    losses = losses_of(model, texts, counts, everything)
    losses.mean().backward()
    out = {f"grad.{n}": p.grad.clone() for n, p in named.items()} | {"losses": losses}
    for p in named.values():
        p.grad = None
    out["train.learning_rates"], out["train.losses"], out["train.grad_norms"] = steps(model, named, texts, counts, batches, True)
    out["after.losses"] = losses_of(model, texts, counts, everything)
    return {k: v.detach().to(torch.float32).contiguous() for k, v in out.items()}


def draw_batches(generator, texts, counts):
    batches = []
    for step in range(STEPS):
        batch = torch.randperm(len(texts), generator=generator)[: 1 + step % 7].tolist()
        batches.append(batch if any(any(counts[i]) for i in batch) else [0])
    return batches


def spec_of(case):
    name, extra = CASES[case] if isinstance(CASES[case], tuple) else (CASES[case], {})
    spec = dict(small.MODELS[name], names=None)
    return dict(spec, extra=spec["extra"] | extra)


def write(path, tensors, texts, counts, batches):
    positions = [[k - 1 for k, counted in enumerate(c) if counted] for c in counts]
    labels = [t[k + 1] for t, p in zip(texts, positions) for k in p]
    ids, bounds = small.packed(texts)
    read_position, first_read = small.packed(positions)
    batch_ids, batch_bounds = small.packed(batches)
    tensors |= {"input_ids": ids, "cu_seqlens": bounds, "first_read": first_read, "read_position": read_position,
                "labels": torch.tensor(labels, dtype=torch.int32), "train.batches": batch_ids, "train.batch_cu": batch_bounds}
    save_file(tensors, path, metadata=small.about())
    print(f"{path}: {os.path.getsize(path)} bytes, {len(labels)} labels, losses {tensors['train.losses'][0]:.3f} to {tensors['train.losses'][-1]:.3f}")


def make(case):
    directory = os.path.join(HERE, case)
    shutil.rmtree(directory, ignore_errors=True)
    model, generator = small.make_model(spec_of(case), AutoModelForCausalLM)
    for key in ("problem_type", "id2label", "label2id"):
        model.config.__dict__.pop(key, None)
    model.save_pretrained(directory)
    if os.path.exists(f"{directory}/generation_config.json"):
        os.remove(f"{directory}/generation_config.json")
    texts, counts = texts_of(generator)
    batches = draw_batches(generator, texts, counts)
    exact = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    write(f"{directory}/expect.safetensors", expectations(exact, dict(exact.named_parameters()), texts, counts, batches), texts, counts, batches)


def make_adapter(case):
    base, options = ADAPTERS[case]
    directory = os.path.join(HERE, case)
    shutil.rmtree(directory, ignore_errors=True)
    generator = small.make_model(spec_of(base), AutoModelForCausalLM)[1]
    texts, counts = texts_of(generator)
    batches = draw_batches(generator, texts, counts)
    torch.manual_seed(len(case) * 7 + 1)
    plain = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, base), dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(plain, LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **options))
    model.peft_config["default"].base_model_name_or_path = f"causal_lm/{base}"
    model.save_pretrained(directory)
    os.remove(f"{directory}/README.md")
    model.eval().double()
    named = {n.replace(".default.", "."): p for n, p in model.named_parameters() if p.requires_grad}
    write(f"{directory}/expect.safetensors", expectations(model, named, texts, counts, batches), texts, counts, batches)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    for each in CASES:
        if not only or each in only:
            make(each)
    for each in ADAPTERS:
        if not only or each in only:
            make_adapter(each)
