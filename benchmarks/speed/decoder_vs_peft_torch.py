#!/usr/bin/env python3
"""The other side of decoder_vs_peft.py: PEFT's LoRA on transformers, in a plain loop."""

import argparse
import json
import os
import time


def export(options):
    """A model of random weights, as the real ones are saved."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with open(options.config, encoding="utf-8") as f:
        keys = {key: value for key, value in json.load(f).items() if not key.startswith("_")}
    torch.manual_seed(options.seed)
    config = AutoConfig.for_model(**keys)
    config.eos_token_id = config.bos_token_id = config.pad_token_id = 0
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(options.output)


def read(path):
    """Ids as decoder_vs_peft.py numbers words."""
    with open(path, encoding="utf-8") as f:
        return [[2 + int(word[1:]) for word in json.loads(line)["text"].split()] + [0] for line in f]


def train(options):
    import peft
    import torch
    import transformers

    torch.manual_seed(0)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype, attn_implementation="sdpa")
    model.config.use_cache = False
    config = peft.LoraConfig(r=options.lora_r, lora_alpha=2 * options.lora_r, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0, fused=True)
    texts, tokens, began = read(options.train), 0, time.monotonic()
    for step in range(options.steps):
        if step == options.skip:
            began, tokens = time.monotonic(), 0
        batch = torch.tensor(texts[step * options.batch_size : (step + 1) * options.batch_size])
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        tokens += batch.numel()
    seconds = time.monotonic() - began
    all_tokens = sum(len(text) for text in texts[: options.steps * options.batch_size])
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__, "threads": torch.get_num_threads()}
    print(json.dumps({"tokens_per_second": tokens / seconds, "tokens": all_tokens, "steps": options.steps, "loss": loss.item(), "versions": versions}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("export")
    one.add_argument("--config", required=True)
    one.add_argument("--output", required=True)
    one.add_argument("--seed", type=int, default=42)
    two = commands.add_parser("train")
    for name in ("model", "train", "precision"):
        two.add_argument(f"--{name}", required=True)
    for name in ("steps", "skip", "batch-size", "lora-r"):
        two.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    export(options) if options.command == "export" else train(options)


if __name__ == "__main__":
    main()
