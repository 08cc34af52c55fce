#!/usr/bin/env python3
"""Golden vectors of low-rank adapters, made with PEFT (0.21.2), transformers and PyTorch.

    python tests/vectors/make_adapter_vectors.py [--only NAME ...]

Writes adapters/NAME/ beside this file: adapter_config.json and adapter_model.safetensors as PEFT saves them, and expect.safetensors.
The base is tests/vectors/BASE; its texts, labels and batches are those of its own expect.safetensors. Adapters are drawn with
init_lora_weights = False, so that B is not 0, and what is saved beside them is moved away from the base's values.

The oracle is PEFT's own code in float64 (fp32 files, widened), dropout off. expect.safetensors holds
    logits [B,C], losses [B]                    of the base's texts
    grad.NAME                                   of the mean loss, of every trained parameter, by its name in adapter_model.safetensors
    train.losses [50], after.logits [B,C]       50 steps of AdamW (0.9, 0.999, 1e-8) at RATE, weight decay 0.01 on the Trainer's decay group,
                                                clip 1.0, constant rate, batches as the base's train.batches, round and round
    merged.logits [B,C]                         after merge_and_unload, of the adapter as saved
Beside a trunk of few bits (QUANTISED) the base's linear layers, but for the head, are what bitsandbytes makes of its own bytes of them; there is no merged model.
"""

import argparse
import os
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification
from transformers.models.deberta.modeling_deberta import DebertaLayerNorm

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, RATE, WEIGHT_DECAY = 50, 1e-3, 0.01

ATTENTION = ["query", "key", "value"]
CASES = {
    "bert_qv": ("bert_gelu", dict(r=4, lora_alpha=8)),
    "bert_rslora": ("bert_gelu", dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["query", "output.dense"])),
    "bert_all": ("bert_gelu", dict(r=5, lora_alpha=7, target_modules="all-linear", exclude_modules=["pooler.dense"])),
    "bert_expression": ("bert_gelu", dict(r=2, lora_alpha=3, target_modules=r".*\.layer\.1\..*(query|dense)", bias="lora_only")),
    "bert_bias_all": ("bert_gelu", dict(r=4, lora_alpha=8, bias="all")),
    "bert_saved": ("bert_gelu", dict(r=4, lora_alpha=8, modules_to_save=["pooler", "LayerNorm"], target_modules=ATTENTION)),
    "bert_layers": ("bert_gelu", dict(r=4, lora_alpha=8, target_modules=ATTENTION, layers_to_transform=[1])),
    "bert_patterns": ("bert_gelu", dict(r=4, lora_alpha=8, target_modules=ATTENTION + ["intermediate.dense"],
                                        rank_pattern={"query": 2, r"layer\.1\.attention\.self\.key": 6}, alpha_pattern={"value": 3})),
    "roberta_qv": ("roberta", dict(r=4, lora_alpha=8)),
    "roberta_all": ("roberta", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "distilbert": ("distilbert", dict(r=4, lora_alpha=8, target_modules=["q_lin", "v_lin", "lin1", "lin2"], modules_to_save=["pre_classifier"])),
    "electra_all": ("electra", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "albert_all": ("albert", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "deberta_v1": ("deberta_v1", dict(r=4, lora_alpha=8, modules_to_save=["pooler"])),
    "deberta_v1_all": ("deberta_v1", dict(r=4, lora_alpha=8, modules_to_save=["pooler"], target_modules="all-linear")),
    "deberta_v3_qv": ("deberta_v3", dict(r=4, lora_alpha=8, modules_to_save=["pooler"])),
    "deberta_v3_all": ("deberta_v3", dict(r=4, lora_alpha=8, modules_to_save=["pooler"], target_modules="all-linear")),
    "bert_dora": ("bert_gelu", dict(r=4, lora_alpha=8, use_dora=True)),
    "bert_dora_all": ("bert_gelu", dict(r=5, lora_alpha=7, use_dora=True, use_rslora=True, bias="all", target_modules="all-linear")),
    "roberta_dora": ("roberta", dict(r=4, lora_alpha=8, use_dora=True, target_modules="all-linear")),
    "distilbert_dora": ("distilbert", dict(r=4, lora_alpha=8, use_dora=True, target_modules=["q_lin", "lin1", "lin2"], modules_to_save=["pre_classifier"])),
    "electra_dora": ("electra", dict(r=4, lora_alpha=8, use_dora=True, target_modules="all-linear")),
    "deberta_v1_dora": ("deberta_v1", dict(r=4, lora_alpha=8, use_dora=True, modules_to_save=["pooler"], target_modules="all-linear")),
    "deberta_v3_dora": ("deberta_v3", dict(r=4, lora_alpha=8, use_dora=True, modules_to_save=["pooler"], target_modules="all-linear")),
    "deberta_v2_dora": ("deberta_v2_unshared", dict(r=4, lora_alpha=8, use_dora=True, modules_to_save=["pooler"], target_modules="all-linear")),
    "modernbert_dora": ("modernbert", dict(r=4, lora_alpha=8, use_dora=True, target_modules="all-linear")),
    "deberta_v2_unshared": ("deberta_v2_unshared", dict(r=4, lora_alpha=8, modules_to_save=["pooler"], target_modules="all-linear")),
    "modernbert_all": ("modernbert", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "eurobert_all": ("eurobert", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "mpnet_all": ("mpnet", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "rembert_all": ("rembert", dict(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=["pooler.dense"])),
    "xlm_roberta_xl_all": ("xlm_roberta_xl", dict(r=4, lora_alpha=8, target_modules="all-linear")),
}
QUANTISED = {"bert_dora_nf4": "nf4", "deberta_v3_dora_int8": "int8", "bert_qv_nf4": "nf4"}
CASES |= {
    "bert_dora_nf4": ("bert_gelu", dict(r=4, lora_alpha=8, use_dora=True, target_modules="all-linear", exclude_modules=["pooler.dense"])),
    "deberta_v3_dora_int8": ("deberta_v3", dict(r=4, lora_alpha=8, use_dora=True, modules_to_save=["pooler"], target_modules="all-linear")),
    "bert_qv_nf4": ("bert_gelu", dict(r=4, lora_alpha=8)),
}


def of_few_bits(weight, form):
    """bitsandbytes' bytes of a matrix as numbers again; those of 4 bits by the formula, as its kernel for CPUs has another for narrow matrices."""
    from bitsandbytes import functional

    if form == "int8":
        codes, scales, _ = functional.int8_vectorwise_quant(weight.clone())
        return torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, scales)
    codes, state = functional.quantize_4bit(weight, quant_type=form, compress_statistics=False)
    codes = torch.stack([codes.reshape(-1) >> 4, codes.reshape(-1) & 15], 1).reshape(-1)[:weight.numel()].long()
    return (state.code[codes] * state.absmax.repeat_interleave(64)[:weight.numel()]).reshape(weight.shape)


def quantise(model, form):
    for name, module in model.named_modules():
        saved = any(part in name for part in ("classifier", "pooler")) and not (form == "nf4" and "pooler" in name)
        if isinstance(module, torch.nn.Linear) and not saved:
            module.weight.data = of_few_bits(module.weight.data, form)


def decays(name):
    return not ("bias" in name or "norm" in name.lower())


def batch_of(base, indices):
    ids, cu = base["input_ids"], base["cu_seqlens"]
    texts = [ids[cu[i]:cu[i + 1]].long() for i in indices]
    longest = max(len(t) for t in texts)
    return texts, longest


def logits_of(model, base, indices, pad):
    """Every text alone: no padding, as the base's own vectors have it."""
    out = []
    for text in batch_of(base, indices)[0]:
        out.append(model(input_ids=text[None], attention_mask=torch.ones_like(text[None])).logits[0])
    return torch.stack(out)


def file_names(model, directory):
    """Trained parameters by their name in the file."""
    names = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or ".original_module." in name:
            continue
        plain = name.replace(".default.", ".").replace(".modules_to_save.default", "").replace(".modules_to_save", "")
        names[plain.removesuffix(".default").replace(".lora_magnitude_vector.weight", ".lora_magnitude_vector")] = parameter
    saved = load_file(f"{directory}/adapter_model.safetensors")
    missing = {n for n in saved if "original_module" not in n and "modules_to_save" not in n} - set(names)
    assert not missing, missing
    return names


def float64(model):
    model.double()
    for module in model.modules():
        if isinstance(module, DebertaLayerNorm):  # goes through float32 whatever it is given
            module.forward = (lambda m: lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.variance_epsilon))(module)
    return model


def make(name, base_name, options):
    base_dir, out = f"{HERE}/{base_name}", f"{HERE}/adapters/{name}"
    shutil.rmtree(out, ignore_errors=True)
    base = load_file(f"{base_dir}/expect.safetensors")
    torch.manual_seed(len(name) * 7 + 1)
    plain = AutoModelForSequenceClassification.from_pretrained(base_dir, dtype=torch.float32)
    if name in QUANTISED:
        quantise(plain, QUANTISED[name])
    model = get_peft_model(plain, LoraConfig(task_type="SEQ_CLS", init_lora_weights=False, base_model_name_or_path=base_name, **options))
    model.peft_config["default"].base_model_name_or_path = base_name
    with torch.no_grad():
        for n, p in model.named_parameters():
            if p.requires_grad and "lora_" not in n:
                p += 0.05 * torch.randn_like(p)
    model.save_pretrained(out)
    os.remove(f"{out}/README.md")
    model.eval()
    float64(model)
    labels, everything = base["labels"].long(), range(len(base["labels"]))
    loss_of = torch.nn.CrossEntropyLoss(reduction="none")
    names = file_names(model, out)
    expect = {}
    logits = logits_of(model, base, everything, 0)
    losses = loss_of(logits, labels)
    losses.mean().backward()
    expect["logits"], expect["losses"] = logits.detach(), losses.detach()
    for n, p in names.items():
        expect[f"grad.{n}"] = p.grad.detach().clone()
    groups = [{"params": [p for n, p in names.items() if decays(n)], "weight_decay": WEIGHT_DECAY},
              {"params": [p for n, p in names.items() if not decays(n)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    batches, cu = base["train.batches"].long(), base["train.batch_cu"].long()
    trained = []
    for step in range(STEPS):
        k = step % (len(cu) - 1)
        chosen = batches[cu[k]:cu[k + 1]].tolist()
        optimizer.zero_grad()
        loss = loss_of(logits_of(model, base, chosen, 0), labels[chosen]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], 1.0)
        optimizer.step()
        trained.append(loss.detach())
    expect["train.losses"] = torch.stack(trained)
    with torch.no_grad():
        expect["after.logits"] = logits_of(model, base, everything, 0)
    if name in QUANTISED:
        save_file({k: v.float().contiguous() for k, v in expect.items()}, f"{out}/expect.safetensors")
        return
    from peft import PeftModel
    fresh = PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(base_dir, dtype=torch.float32), out)
    merged = float64(fresh.merge_and_unload()).eval()
    with torch.no_grad():
        expect["merged.logits"] = logits_of(merged, base, everything, 0)
    save_file({k: v.float().contiguous() for k, v in expect.items()}, f"{out}/expect.safetensors")
    print(f"{name}: {sum(p.numel() for p in names.values())} trained, merged apart by {(expect['merged.logits'] - expect['logits']).abs().max():.2g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*")
    chosen = parser.parse_args().only
    for case, (base, settings) in CASES.items():
        if not chosen or case in chosen:
            make(case, base, settings)
