#!/usr/bin/env python3
"""What sentence-transformers makes of texts with random small models (tests/vectors) and files as they are on the hub: every pooling, the names of
today and of before version 6, dense layers, prompts with and without their tokens, lengths and lower case. Writes the folders here.

    make_sentence_vectors.py      with sentence-transformers 6.2.0, torch, transformers 5.24"""
import json
import os
import shutil
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(92)]
MODULE = "sentence_transformers.models."


def before(*modes, **more):  # of a pooling before version 6
    keys = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    return {"word_embedding_dimension": None, **{"pooling_mode_" + k: k in modes for k in keys}, **more}


def dense(inputs, outputs, activation, bias=True):
    return {"in_features": inputs, "out_features": outputs, "bias": bias, "activation_function": activation}


# name: model, directory of the transformer, pooling, then (class, dense configuration) ..., sentence_bert_config, prompts, prompt name or ""
PROMPTS = {"prompts": {"query": "w5 w6 w7 ", "none": ""}, "default_prompt_name": None}
CASES = {
    "mean_unit": ("bert_gelu", "", before("mean_tokens"), [("Normalize", None)], {"max_seq_length": 12, "do_lower_case": False}, None, ""),
    "cls_dense": ("bert_gelu", "", before("cls_token"), [("Dense", dense(None, 24, "torch.nn.modules.activation.Tanh")), ("Normalize", None)], None, None, ""),
    "side_by_side": ("roberta", "0_Transformer", before("cls_token", "max_tokens", "lasttoken"), [("Dropout", {"dropout": 0.3})], {"max_seq_length": 20}, None, ""),
    "sqrt_relu": ("deberta_v3", "", {"embedding_dimension": None, "pooling_mode": "mean_sqrt_len_tokens", "include_prompt": True},
                  [("Dense", dense(None, 50, "torch.nn.modules.activation.ReLU", bias=False)), ("Dense", dense(50, 9, "torch.nn.modules.linear.Identity"))], None, PROMPTS, "query"),
    "weighted_prompt": ("electra", "", {"embedding_dimension": None, "pooling_mode": ["weightedmean", "mean"], "include_prompt": False}, [], None, PROMPTS, "query"),
    "cls_prompt": ("bert_gelu", "", before("cls_token", include_prompt=False), [("Normalize", None)], None, {**PROMPTS, "default_prompt_name": "query"}, ""),
    "lower": ("bert_gelu", "", before("max_tokens"), [("Dense", dense(None, 7, "torch.nn.modules.activation.GELU"))], {"max_seq_length": 16, "do_lower_case": True}, None, ""),
}


def texts():
    state = np.random.default_rng(7)
    for length in [1, 2, 3, 5, 8, 11, 13, 17, 21, 29, 30, 4, 1]:
        yield " ".join(("W" if state.random() < 0.3 else "w") + str(state.integers(0, 95)) for _ in range(length))


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def tokenizer(folder):
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(WORDS) + "\n")
    write(os.path.join(folder, "tokenizer_config.json"), {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 30})


def make(name, case, lines):
    model, inside, pooling, behind, bert_config, prompts, _ = case
    source, out = os.path.join(HERE, "..", model), os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    hidden = json.load(open(os.path.join(source, "config.json"))).get("hidden_size")
    fill = lambda d: {k: hidden if v is None and k.endswith(("dimension", "in_features")) else v for k, v in d.items()}
    modules = [{"idx": 0, "name": "0", "path": inside, "type": MODULE + "Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": MODULE + "Pooling"}]
    write(os.path.join(out, "1_Pooling/config.json"), fill(pooling))
    generator = torch.Generator().manual_seed(11)
    width = hidden * (sum(v is True for k, v in pooling.items() if k.startswith("pooling_mode_")) or (len(pooling["pooling_mode"]) if isinstance(pooling["pooling_mode"], list) else 1))
    for i, (kind, config) in enumerate(behind, 2):
        folder = f"{i}_{kind}"
        modules.append({"idx": i, "name": str(i), "path": folder, "type": MODULE + kind})
        if config is None:
            continue
        config = {k: width if v is None else v for k, v in config.items()}
        write(os.path.join(out, folder, "config.json"), config)
        if kind == "Dense":
            tensors = {"linear.weight": torch.randn(config["out_features"], config["in_features"], generator=generator) / 5}
            if config["bias"]:
                tensors["linear.bias"] = torch.randn(config["out_features"], generator=generator) / 5
            save_file(tensors, os.path.join(out, folder, "model.safetensors"))
            width = config["out_features"]
    write(os.path.join(out, "modules.json"), modules)
    if bert_config:
        write(os.path.join(out, inside, "sentence_bert_config.json"), bert_config)
    if prompts:
        write(os.path.join(out, "config_sentence_transformers.json"), prompts)
    with tempfile.TemporaryDirectory() as scratch:
        whole = os.path.join(scratch, "model")
        shutil.copytree(out, whole)
        os.makedirs(os.path.join(whole, inside), exist_ok=True)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(source, file), os.path.join(whole, inside))
        tokenizer(os.path.join(whole, inside))
        for folder in os.listdir(whole):
            if folder.endswith("_Normalize"):
                os.makedirs(os.path.join(whole, folder), exist_ok=True)
        found = SentenceTransformer(whole, device="cpu", model_kwargs={"dtype": torch.float32}).eval()
        vectors = found.encode(lines, batch_size=1, prompt_name=case[6] or None)
    assert vectors.dtype == np.float32 and vectors.shape == (len(lines), width), vectors.shape
    np.save(os.path.join(out, "expect.npy"), vectors)
    return vectors


def main():
    lines = list(texts())
    with open(os.path.join(HERE, "texts.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    with open(os.path.join(HERE, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(WORDS) + "\n")
    with open(os.path.join(HERE, "cases.txt"), "w", encoding="utf-8") as f:
        for name, case in CASES.items():
            vectors = make(name, case, lines)
            f.write(f"{name} {case[0]} {case[1] or '.'} {case[6] or '-'}\n")
            print(name, vectors.shape, float(np.abs(vectors).max()))


if __name__ == "__main__":
    main()
