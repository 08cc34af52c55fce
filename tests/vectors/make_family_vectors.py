#!/usr/bin/env python3
"""Golden vectors whose weights nobody stores: both sides compute them from the names of the tensors.

    python tests/vectors/make_family_vectors.py [--only NAME ...]

Element i of tensor NAME (in the order of a file), with u = splitmix64(fnv1a64(NAME) + i * GOLDEN) >> 40 and
r = u / 2^23 - 1 in [-1, 1), is in double precision, rounded once to float32,

    1 + 0.25 r                    a vector whose name ends with .weight: the gain of a norm
    0.1 r                         other vectors
    r                             a table of embeddings: ...embeddings.weight
    sqrt(3 / fan in) r            other matrices, of unit gain

edges_v3/, edges_v2/, edges_v1/, edges_modernbert/: config.json and expect.safetensors of small DeBERTas whose sequences end around the
edges of buckets and tables (LENGTHS), and of a ModernBERT whose windows end within and around tiles of keys. Every sequence runs alone.
    input_ids I32 [T], cu_seqlens I32 [B+1], labels I32 [B], logits [B,C], losses [B]
    rows I32 [R], layer.0 [R,H]     positions in the packed batch, the hidden rows there behind the first layer (modernbert: and
                                    the second one's norm)
    norm.NAME [1], projection.NAME [8]   of the gradient of the mean loss: its norm, and its products with the vectors
                                    sqrt(3) r of NAME#0 ... NAME#7, whose mean square estimates a squared norm

full_size/NAME.safetensors (directory separators as --): input_ids, cu_seqlens, logits of models of the sizes in
configs/models, with three labels; deberta-v2-xlarge with its first two layers only.

The oracle is transformers' own code in float64; DeBERTa v1's LayerNorm, which goes through float32 whatever it is given,
stays in that type here.
"""

import argparse
import json
import math
import os

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.models.deberta.modeling_deberta import DebertaLayerNorm

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "configs", "models")
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LENGTHS = [1, 2, 127, 128, 129, 255, 256, 257, 510, 511, 512, 513, 700]
PROJECTIONS = 8

SMALL = dict(
    vocab_size=97,
    hidden_size=24,
    num_attention_heads=2,
    num_hidden_layers=2,
    intermediate_size=30,
    max_position_embeddings=512,
    type_vocab_size=0,
    pad_token_id=0,
    layer_norm_eps=1e-7,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    relative_attention=True,
    position_biased_input=False,
    pos_att_type=["c2p", "p2c"],
    num_labels=3,
    problem_type="single_label_classification",
)
EDGES = {
    "edges_v3": dict(type="deberta-v2", position_buckets=256, share_att_key=True, norm_rel_ebd="layer_norm"),
    "edges_v2": dict(type="deberta-v2", max_relative_positions=128, conv_kernel_size=3, conv_act="gelu"),
    "edges_v1": dict(type="deberta"),
    "edges_modernbert": dict(type="modernbert"),
}
MODERN = dict(
    vocab_size=97,
    hidden_size=24,
    num_attention_heads=2,
    num_hidden_layers=4,
    intermediate_size=30,
    max_position_embeddings=1024,
    local_attention=128,
    classifier_pooling="mean",
    pad_token_id=0,
    bos_token_id=2,
    cls_token_id=2,
    eos_token_id=3,
    sep_token_id=3,
    num_labels=3,
    problem_type="single_label_classification",
)
FULL = {
    "bert-base-uncased": {},
    "roberta-base": {},
    "xlm-roberta-base": {},
    "distilbert-base-uncased": {},
    "google/electra-base-discriminator": {},
    "microsoft/deberta-base": {},
    "microsoft/deberta-v3-base": {},
    "microsoft/deberta-v2-xlarge": dict(num_hidden_layers=2),
}
FULL_LENGTHS = [5, 130, 512]


def splitmix64(x):
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fnv1a64(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return np.uint64(h)


def draw(name, first, count):
    """Elements [first, first + count) of r, float64."""
    with np.errstate(over="ignore"):
        index = np.arange(first, first + count, dtype=np.uint64)
        bits = splitmix64(fnv1a64(name) + index * GOLDEN) >> np.uint64(40)
    return bits.astype(np.float64) / 2**23 - 1


def fill(name, parameter):
    if parameter.dim() == 1:
        base, scale = (1.0, 0.25) if name.endswith(".weight") else (0.0, 0.1)
    else:
        base, scale = 0.0, 1.0 if name.endswith("embeddings.weight") else math.sqrt(3 / parameter[0].numel())
    flat, piece = parameter.data.view(-1), 1 << 22
    for first in range(0, flat.numel(), piece):
        count = min(piece, flat.numel() - first)
        values = (base + scale * draw(name, first, count)).astype(np.float32)
        flat[first : first + count] = torch.from_numpy(values)


def make_model(config):
    config._attn_implementation = "eager"
    model = AutoModelForSequenceClassification.from_config(config).double().eval()
    for name, parameter in model.named_parameters():
        fill(name, parameter)
    return model


def make_sequences(name, lengths, vocabulary):
    ids = [(5 + (draw(f"{name}.{i}", 0, n) + 1) / 2 * (vocabulary - 5)).astype(np.int64) for i, n in enumerate(lengths)]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    packed = dict(
        input_ids=torch.from_numpy(np.concatenate(ids)).to(torch.int32), cu_seqlens=torch.from_numpy(bounds).to(torch.int32)
    )
    return [torch.from_numpy(i)[None] for i in ids], packed


def save(tensors, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    about = f"torch {torch.__version__}, transformers {transformers.__version__}, float64"
    tensors = {k: (v if v.dtype == torch.int32 else v.detach().to(torch.float32)).contiguous() for k, v in tensors.items()}
    save_file(tensors, path, metadata={"made_with": about})
    print(f"{path}: {os.path.getsize(path)} bytes")


def make_edges(name, settings):
    settings = (MODERN if settings["type"] == "modernbert" else SMALL) | settings
    config = AutoConfig.for_model(settings.pop("type"), **settings)
    model = make_model(config)
    sequences, out = make_sequences(name, LENGTHS, config.vocab_size)
    labels = torch.arange(len(LENGTHS)) % 3
    logits, losses, rows, hidden = [], [], [], []
    for i, ids in enumerate(sequences):
        result = model(input_ids=ids, labels=labels[i : i + 1], output_hidden_states=True)
        (result.loss / len(LENGTHS)).backward()
        logits.append(result.logits[0])
        losses.append(result.loss)
        n = ids.shape[1]
        chosen = sorted({0, 1, n // 2, n - 1} & set(range(n)))
        rows += [int(out["cu_seqlens"][i]) + position for position in chosen]
        behind = result.hidden_states[1][0, chosen]
        hidden.append(model.model.layers[1].attn_norm(behind) if config.model_type == "modernbert" else behind)
    out |= {
        "labels": labels.to(torch.int32),
        "logits": torch.stack(logits),
        "losses": torch.stack(losses),
        "rows": torch.tensor(rows, dtype=torch.int32),
        "layer.0": torch.cat(hidden),
    }
    for parameter_name, p in model.named_parameters():
        gradient = p.grad.view(-1).numpy()
        out[f"norm.{parameter_name}"] = p.grad.norm().reshape(1)
        out[f"projection.{parameter_name}"] = torch.tensor(
            [math.sqrt(3) * float(gradient @ draw(f"{parameter_name}#{k}", 0, gradient.size)) for k in range(PROJECTIONS)]
        )
    directory = os.path.join(HERE, name)
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    save(out, os.path.join(directory, "expect.safetensors"))
    print("   logits", out["logits"][-1].tolist(), "losses", [round(x.item(), 3) for x in losses])


def make_full(name, changes):
    with open(os.path.join(MODELS, name + ".json"), encoding="utf-8") as f:
        settings = {k: v for k, v in json.load(f).items() if not k.startswith("_")} | changes
    config = AutoConfig.for_model(settings.pop("model_type"), num_labels=3, **settings)
    model = make_model(config)
    sequences, out = make_sequences(name, FULL_LENGTHS, config.vocab_size)
    with torch.no_grad():
        out["logits"] = torch.cat([model(input_ids=ids).logits for ids in sequences])
    save(out, os.path.join(HERE, "full_size", name.replace("/", "--") + ".safetensors"))
    print("  ", sum(p.numel() for p in model.parameters()), "parameters, logits", out["logits"].tolist())


def layer_norm_in_its_dtype(self, x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*EDGES, *FULL], help="these alone")
    only = parser.parse_args().only
    DebertaLayerNorm.forward = layer_norm_in_its_dtype
    for name in only or EDGES:
        if name in EDGES:
            make_edges(name, EDGES[name])
    for name in only or FULL:
        if name in FULL:
            make_full(name, FULL[name])


if __name__ == "__main__":
    main()
