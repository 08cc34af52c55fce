#!/usr/bin/env python3
"""The PyTorch side of peak_memory.py: a few training steps of a model with random weights on the CPU, every text as long as it
may be. Prints one JSON document: bytes resident before the model was made (everything loaded, a tiny model
trained and gone) and at the peak, versions. Needs torch and transformers.

The loop is the Trainer's without what it adds: forward, backward, clipped gradients, AdamW, gradients set to None; in bf16 the
forward pass and the loss are under autocast, as with the Trainer's bf16=True.
"""

import argparse
import gc
import json

import torch
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, BertConfig


def status_bytes(name):
    with open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def train(config, batch, length, steps, attention, recompute, precision):
    """Number of parameters."""
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)
    if recompute:
        model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    for step in range(steps):
        # As many different ids as a small vocabulary has: what is measured does not depend on them.
        ids = torch.randint(5, 250, (batch, length))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            output = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.arange(batch) % 2)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not torch.isfinite(output.loss):
            raise RuntimeError(f"the loss of step {step} is {output.loss}")
        del output
    return sum(p.numel() for p in model.parameters())


def measure(arguments):
    with open(arguments.model, encoding="utf-8") as f:
        numbers = json.load(f)
    config = AutoConfig.for_model(numbers.pop("model_type"), **numbers, num_labels=2)
    torch.manual_seed(42)
    # What PyTorch loads and prepares when it first computes is the program's, not the model's.
    tiny = BertConfig(vocab_size=256, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2)
    train(tiny, 2, 16, 2, "eager", arguments.recompute, arguments.precision)
    gc.collect()
    before = status_bytes("VmRSS")
    sizes = (arguments.batch, arguments.length, arguments.steps)
    parameters = train(config, *sizes, arguments.attention, arguments.recompute, arguments.precision)
    return {
        "before_model_bytes": before,
        "peak_bytes": status_bytes("VmHWM"),
        "parameters": parameters,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a config.json with the numbers of the model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--recompute", action="store_true", help="layer checkpointing")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--attention", default="eager")
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
        f.write("1000")  # should this be too much for the machine, then it is this process that ends
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
