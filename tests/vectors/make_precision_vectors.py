#!/usr/bin/env python3
"""The hundred steps of make_trainer_vectors.py once more, in mixed precision: how far PyTorch itself goes from fp32.

    python tests/vectors/make_precision_vectors.py

Reads trainer/ (model, texts, expect.json with the batches in their order) and writes trainer/precision.json: for bf16 and
fp16 `gap`, the distances of the losses (of 50 steps, of all) and of the logits on validation.tsv after the last step from
those in float32: the root mean square, and the largest. Where a run in 16 bits goes is partly chance, so it is done sixteen
times, with the examples of every batch in other orders, which changes nothing but rounding (1e-6 in float32): a gap is the
root mean square of these. The loop is the Trainer's (AdamW, linear schedule with warm-up, clipping at 1)
with torch.autocast as bf16=True and fp16=True have it, and for fp16 torch.amp.GradScaler with its defaults; in float32 it
must give the losses of expect.json, which the Trainer itself wrote. `overflow` are 12 steps in fp16 behind the first of
which the loss scale is set to 2^24: some overflow, and the schedule waits for them; the scale is that after each step.
"""

import copy
import json
import os
import random

import torch
from transformers import BertForSequenceClassification, BertTokenizer, get_linear_schedule_with_warmup

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer")
LABELS = ["food", "music", "travel"]
RATE, WARMUP, STEPS, DECAY, MAX_LENGTH = 3e-3, 10, 100, 0.01, 24


def read_tsv(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f][1:]


def encode(tokenizer, rows):
    batch = tokenizer([t for t, _ in rows], truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
    batch["labels"] = torch.tensor([LABELS.index(label) for _, label in rows])
    return batch


def groups(model):
    decayed = {id(p) for m in model.modules() if isinstance(m, (torch.nn.Linear, torch.nn.Embedding)) for n, p in
               m.named_parameters(recurse=False) if n != "bias"}
    return [{"params": [p for p in model.parameters() if id(p) in decayed], "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if id(p) not in decayed], "weight_decay": 0.0}]


def run(model, batches, validation, dtype, second_scale=None):
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(groups(model), lr=RATE)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    losses, rates, scales = [], [], []
    for batch in batches:
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update(second_scale if second_scale is not None and not scales else None)
        scales.append(scaler.get_scale())
        if scaler.get_scale() >= before:  # as accelerate tells a skipped step from others
            schedule.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        logits = model(**{k: v for k, v in validation.items() if k != "labels"}).logits.float()
    return losses, logits, rates, scales


def distance(a, b):
    difference = (torch.as_tensor(a).double() - torch.as_tensor(b).double()).abs()
    return {"rms": difference.square().mean().sqrt().item(), "max": difference.max().item()}


def gap(runs, single, logits):
    """Of runs [(losses, logits)]."""
    def over_runs(distances):
        return {k: float(f"{(sum(d[k] ** 2 for d in distances) / len(distances)) ** 0.5:.4g}") for k in ("rms", "max")}

    return {"first_50": over_runs([distance(r[0][:50], single[:50]) for r in runs]),
            "losses": over_runs([distance(r[0], single) for r in runs]),
            "logits": over_runs([distance(r[1], logits) for r in runs])}


def orders_of(steps):
    """The batches, and fifteen times in another order inside."""
    for number in range(16):
        rng = random.Random(number)
        yield [rng.sample(s["examples"], len(s["examples"])) if number else s["examples"] for s in steps]


def digits(values):
    return [float(f"{x:.9g}") for x in values]


def main():
    torch.set_num_threads(1)
    with open(os.path.join(HERE, "expect.json"), encoding="utf-8") as f:
        expect = json.load(f)
    tokenizer = BertTokenizer.from_pretrained(os.path.join(HERE, "model"))
    train, validation = read_tsv("train.tsv"), encode(tokenizer, read_tsv("validation.tsv"))
    orders = [[encode(tokenizer, [train[i] for i in batch]) for batch in order] for order in orders_of(expect["steps"])]
    batches = orders[0]
    model = BertForSequenceClassification.from_pretrained(
        os.path.join(HERE, "model"), dtype=torch.float32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    single, logits, _, _ = run(model, batches, validation, None)
    worst = max(abs(a - step["loss"]) for a, step in zip(single, expect["steps"]))
    assert worst < 1e-4, f"this is not the Trainer's loop: a loss differs by {worst}"
    out = {"made_with": f"torch {torch.__version__}"}
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        out[name] = {"gap": gap([run(model, order, validation, dtype) for order in orders], single, logits)}
        print(name, out[name])
    losses, _, rates, scales = run(model, batches[:12], validation, torch.float16, second_scale=2.0**24)
    out["overflow"] = {"losses": digits(losses), "learning_rates": rates, "scales": scales}
    print("overflow", scales, rates)
    with open(os.path.join(HERE, "precision.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(out).replace('"bf16"', '\n"bf16"').replace('"fp16"', '\n"fp16"').replace('"overflow"', '\n"overflow"') + "\n")


if __name__ == "__main__":
    main()
