#!/usr/bin/env python3
"""Models that bitsandbytes quantised, as transformers' save_pretrained leaves them.

    PYTHON tests/vectors/quantised/make_bitsandbytes_vectors.py      (torch, transformers, bitsandbytes 0.50)

Writes nf4/, nf4_double/, fp4/ and int8/ beside this file: config.json and model.safetensors of one small BERT (the same in all), and
expect.safetensors: input_ids I32 [T], cu_seqlens I32 [B+1], labels I32 [B], logits [B,C], in float64, of a model with the weights that bitsandbytes makes of
its bytes again. Its products of 8 bits round what they read too; ours and these do not. Widths are multiples of 64: of
others bitsandbytes' kernels for CPUs make something else of the bytes than its back end for GPUs does."""
import pathlib
import shutil
import tempfile

import bitsandbytes
import torch
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, BitsAndBytesConfig

HERE = pathlib.Path(__file__).parent
FORMS = {
    "nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    "nf4_double": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
    "fp4": dict(load_in_4bit=True, bnb_4bit_quant_type="fp4"),
    "int8": dict(load_in_8bit=True),
}


def numbers(module):
    if isinstance(module, bitsandbytes.nn.Linear4bit):
        return bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    codes, scales = module.weight.data, module.weight.SCB
    return torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, scales)


def plain_of(model, config):
    plain = BertForSequenceClassification(config)
    state = {n: p for n, p in model.state_dict().items() if n in plain.state_dict() and p.is_floating_point()}
    for name, module in model.named_modules():
        if isinstance(module, (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)):
            state[f"{name}.weight"] = numbers(module)
    missing = plain.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all(k.endswith("position_ids") for k in missing.missing_keys), missing
    return plain.double().eval()


torch.manual_seed(28)
config = BertConfig(vocab_size=24, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128, max_position_embeddings=12,
                    type_vocab_size=1, num_labels=3, initializer_range=0.3)
texts = [[2, 5, 6, 7, 3], [2, 9, 3], [2, 20, 11, 8, 23, 10, 5, 3]]
with tempfile.TemporaryDirectory() as scratch:
    BertForSequenceClassification(config).save_pretrained(scratch)
    for form, options in FORMS.items():
        out = HERE / form
        shutil.rmtree(out, ignore_errors=True)
        model = AutoModelForSequenceClassification.from_pretrained(scratch, quantization_config=BitsAndBytesConfig(**options), device_map="cpu", dtype=torch.float32)
        model.save_pretrained(out)
        plain = plain_of(model, config)
        with torch.no_grad():
            logits = torch.cat([plain(input_ids=torch.tensor([t])).logits for t in texts])
        cu = torch.tensor([0] + [len(t) for t in texts]).cumsum(0)
        save_file({"input_ids": torch.tensor(sum(texts, []), dtype=torch.int32), "cu_seqlens": cu.int(), "labels": torch.tensor([0, 1, 2], dtype=torch.int32),
                   "logits": logits.float()}, out / "expect.safetensors")
        print(form, logits)
