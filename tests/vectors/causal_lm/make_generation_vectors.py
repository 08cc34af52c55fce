#!/usr/bin/env python3
"""Golden completions of the models beside this file, made with transformers (5.24) and PEFT (0.21.2).

    python tests/vectors/causal_lm/make_generation_vectors.py

Writes generated.safetensors: prompts I32 [T], prompts_cu I32 [B+1], the same for all models, and of every directory NAME here, models and adapters,
NAME I32 [B, 200]: what generate(do_sample=False, max_new_tokens=200) writes behind each prompt, alone, in float64 and with its own cache; nothing ends a text.
NAME.logits F32 [B, 97] are of the last of these steps.

Prompts at which two logits of some step come so close that another arithmetic might go another way are drawn anew.
"""

import json
import os
import sys

import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import make_model_vectors as small  # noqa: E402

MODELS = ["qwen2", "qwen2_tied", "qwen2_sliding", "llama", "qwen3"]
ADAPTERS = ["lora_qwen2", "lora_qwen3", "lora_llama"]
LENGTHS, NEW, SEED = [7, 1, 40, 13], 200, 31
LEAST = 2e-5  # between the two largest logits


def open_model(name):
    base = name
    if name in ADAPTERS:
        with open(f"{HERE}/{name}/adapter_config.json") as f:
            base = os.path.basename(json.load(f)["base_model_name_or_path"])
    model = AutoModelForCausalLM.from_pretrained(f"{HERE}/{base}", dtype=torch.float64, attn_implementation="eager")
    if name in ADAPTERS:
        model = PeftModel.from_pretrained(model, f"{HERE}/{name}").double()
    model.generation_config.eos_token_id = None
    return model.eval()


def write(model, prompt):
    """Its tokens, the logits of the last step, and how close the two largest logits ever came."""
    out = model.generate(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                         max_new_tokens=NEW, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    logits = torch.stack(out.logits)[:, 0]
    top = logits.topk(2).values
    tokens = out.sequences[0, len(prompt):].to(torch.int32)
    assert len(tokens) == NEW
    return tokens, logits[-1].float(), (top[:, 0] - top[:, 1]).min().item()


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    models = {name: open_model(name) for name in MODELS + ADAPTERS}
    prompts, written = [], {name: [] for name in models}
    for length in LENGTHS:
        while True:  # until no model is near a tie
            prompt = torch.randint(1, 97, (length,), generator=generator).tolist()
            found = {}
            for name, model in models.items():
                found[name] = write(model, prompt)
                if found[name][2] < LEAST:
                    print(f"{name}, {length} tokens: two logits are {found[name][2]:.2g} apart")
                    break
            else:
                break
        prompts.append(prompt)
        for name in models:
            written[name].append(found[name])
    ids, bounds = small.packed(prompts)
    tensors = {"prompts": ids, "prompts_cu": bounds}
    for name, rows in written.items():
        tensors[name], tensors[f"{name}.logits"] = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])
        kinds = [len(set(r[0].tolist())) for r in rows]
        print(f"{name}: tokens of a completion that differ {kinds}, the two largest logits at least {min(r[2] for r in rows):.2g} apart")
    path = f"{HERE}/generated.safetensors"
    save_file(tensors, path, metadata=small.about())
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
