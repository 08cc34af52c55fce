#!/usr/bin/env python3
"""Golden vectors of sequence classification by models of BERT's kind, made with PyTorch and transformers (5.23).

    python tests/vectors/make_model_vectors.py [--only NAME ...] [--minilm DIRECTORY]

Writes beside this file:

bert_gelu/, bert_gelu_new/, bert_relu/   small random BertForSequenceClassification models of odd sizes: config.json,
bert_old_names/                          model.safetensors, expect.safetensors. bert_old_names stores the same kind of
                                         model as files of 2018 do: LayerNorm.gamma / LayerNorm.beta, position_ids and
                                         the pre-training heads in the file.
roberta/, xlm_roberta/, distilbert/,     small models of the other families, made and stored the same way. A literal
electra*/, deberta_v*/, modernbert*/,    padding token stands in a text: RoBERTa counts positions without it.
camembert/, data2vec_text/, ernie/,
albert*/, nomic_bert/, gte*/, mpnet/, rembert/, xlm_roberta_xl/, eurobert*/, qwen2*/, qwen3/, llama*/
minilm/                                  only with --minilm: expectations for all-MiniLM-L6-v2, whose weights are not
                                         committed (the test runs where FT_MINILM names the directory).

The oracle is transformers' own code run in float64 and rounded once to float32, so that a tolerance judges the engine
alone; how far the same code is from it in float32 is printed and stored in the metadata of expect.safetensors. DeBERTa
v1's own LayerNorm goes through float32 whatever it is given: here it stays in the model's dtype.

expect.safetensors of a small model. T tokens and B sequences, packed without padding; dropout is off everywhere.
    input_ids I32 [T], cu_seqlens I32 [B+1], labels I32 [B]
    embeddings [T,H], layer.0 ... layer.N-1 [T,H] (modernbert: behind the next layer's norm), pooled [B,H] (bert: after tanh), logits [B,C], losses [B], loss [1]
    grad.NAME             gradient of the mean loss over the B sequences, for every parameter NAME
    train.batches I32     indices of sequences, batch after batch; train.batch_cu I32 [31] their bounds (newer ones: 51, and 50 steps)
    train.learning_rates, train.losses, train.grad_norms [30]     by optimizer step; the norm is the one before clipping
    after.NAME, after.logits [B,C]                                parameters and logits after the 30 steps
The 30 steps: AdamW (0.9, 0.999, 1e-8), weight decay 0.01 on the Trainer's decay group, clip 1.0, linear schedule from
PEAK_LEARNING_RATE with 5 warm-up steps. The key bias (in DeBERTa without p2c; always the bias of pos_key_proj, and without p2c
that of encoder.LayerNorm) has no gradient in exact arithmetic: float64 leaves it all but still, float32 noise may move
it, so that it is to be compared after the steps by its effect (the logits) only.
"""

import argparse
import json
import os
import shutil
from types import SimpleNamespace

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    Trainer,
    get_linear_schedule_with_warmup,
)
from transformers.models.deberta.modeling_deberta import DebertaLayerNorm

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, WARMUP, PEAK_LEARNING_RATE, WEIGHT_DECAY, MAX_GRAD_NORM = 30, 5, 2e-3, 0.01, 1.0
CLS, SEP = 2, 3
DECODERS = ("qwen2", "qwen3", "llama")

# The settings of the small models, under BERT's names.
with open(os.path.join(HERE, "model_cases.json")) as cases:
    MODELS = json.load(cases)
# Configuration keys by family, where they are not BERT's.
KEYS = {
    "distilbert": dict(
        hidden_size="dim",
        num_attention_heads="n_heads",
        intermediate_size="hidden_dim",
        num_hidden_layers="n_layers",
        hidden_act="activation",
        hidden_dropout_prob="dropout",
        attention_probs_dropout_prob="attention_dropout",
    ),
    "modernbert": dict(
        hidden_act="hidden_activation",
        hidden_dropout_prob="mlp_dropout",
        attention_probs_dropout_prob="attention_dropout",
    ),
}

MINILM_SENTENCES = [
    "a stirring , funny and finally transporting re-imagining of beauty and the beast",
    "No.",
    "The quick brown fox jumps over the lazy dog!",
    "what sex with strangers actually shows may put you off the idea forever .",
    "Café Zürich – naïve façade, 東京タワー 2026",
    "it's slow -- very, very slow .",
    "How far is it from Denver to Aspen ?",
    "an utterly compelling 'who wrote it' in which the reputation of the most famous author who ever lived comes into "
    "question, and in which nobody, least of all the audience, is sure of the answer until the last of its many scenes",
]


def layer_norm_in_its_dtype(self, x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)


DebertaLayerNorm.forward = layer_norm_in_its_dtype


def make_model(spec, kind=AutoModelForSequenceClassification):
    """A model whose every parameter matters: large weights, random biases, LayerNorms far from identity."""
    names = spec["names"]
    family = spec.get("family", "bert")
    settings = dict(
        vocab_size=97,
        max_position_embeddings=40,
        pad_token_id=0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=spec["num_labels"],
        problem_type="single_label_classification",
    )
    tokens = dict(bos_token_id=CLS, cls_token_id=CLS, eos_token_id=SEP, sep_token_id=SEP)
    own = {"distilbert": {"seq_classif_dropout": 0.0}, "modernbert": tokens}
    settings |= own.get(family, dict(type_vocab_size=2, layer_norm_eps=1e-12))
    if family == "albert":
        settings["classifier_dropout_prob"] = 0.0
    for key in ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers", "hidden_act"):
        settings[key] = spec[key]
    settings |= spec.get("extra", {})
    names_of_keys = KEYS.get(family, {})
    config = AutoConfig.for_model(family, **{names_of_keys.get(k, k): v for k, v in settings.items()})
    if names:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: i for i, name in enumerate(names)}
    model = kind.from_config(config).eval()
    generator = torch.Generator().manual_seed(spec["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32)
            if p.dim() == 1 and name.endswith(".weight"):  # the gain of a norm
                p.copy_(1.0 + 0.3 * noise)
            else:
                p.copy_(0.2 * noise)
    return model, generator


# Of models whose files have other names and shapes than their modules: what becomes of a module's name, and which are one matrix in the file.
FILE_NAMES = {
    "nomic_bert": (
        {"embeddings.LayerNorm": "emb_ln", ".layers.": ".encoder.layers.", "self_attn.o_proj": "attn.out_proj", "mlp.up_proj": "mlp.fc11", "mlp.gate_proj": "mlp.fc12",
         "mlp.down_proj": "mlp.fc2", "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2"},
        {"attn.Wqkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]},
    ),
    "gte": (
        {".layers.": ".encoder.layer.", "self_attn.o_proj": "attention.o_proj", "post_attention_layernorm": "attn_ln", "post_mlp_layernorm": "mlp_ln"},
        {"attention.qkv_proj": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "mlp.up_gate_proj": ["mlp.up_proj", "mlp.gate_proj"]},
    ),
}


def as_in_file(model, tensors):
    """Parameters or their gradients, by module name, as the model's files name and join them."""
    renamed, joined = FILE_NAMES.get(model.config.model_type, ({}, {}))
    out = {}
    for name, tensor in tensors.items():
        for whole, parts in joined.items():
            if parts[0] in name:
                tensor = torch.cat([tensors[name.replace(parts[0], part)] for part in parts])
                name = name.replace(parts[0], whole)
        if any(part in name for parts in joined.values() for part in parts[1:]):
            continue
        for old, new in renamed.items():
            name = name.replace(old, new)
        out[name] = tensor
    return out


def make_sequences(generator, pad):
    """24 sequences of 2 to 40 tokens; one holds a literal `pad`, whose row of the table must get no gradient."""
    lengths = [7, 2, 40, 13, 3, 21, 2, 9] + torch.randint(2, 41, (16,), generator=generator).tolist()
    sequences = []
    for n in lengths:
        body = torch.randint(4, 97, (n - 2,), generator=generator).tolist()
        sequences.append([CLS] + body + [SEP])
    sequences[3][5] = pad
    return sequences


def pad(sequences, pad_id):
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), pad_id)
    mask = torch.zeros((len(sequences), longest), dtype=torch.long)
    for i, s in enumerate(sequences):
        ids[i, : len(s)] = torch.tensor(s)
        mask[i, : len(s)] = 1
    return ids, mask


def forward_alone(model, sequences, labels):
    """One after the other: a padded query whose window has no token but padding makes NaNs of the whole text in eager attention."""
    results = [model(input_ids=torch.tensor([s]), output_hidden_states=True) for s in sequences]
    logits = torch.cat([r.logits for r in results])
    hidden = [torch.cat([r.hidden_states[i][0] for r in results]) for i in range(len(results[0].hidden_states))]
    loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
    return SimpleNamespace(logits=logits, loss=loss, hidden_states=hidden), slice(None)


def runs_alone(model):
    return model.config.model_type == "modernbert" or getattr(model.config, "use_sliding_window", False)


def forward(model, sequences, labels=None):
    if runs_alone(model):
        return forward_alone(model, sequences, labels)
    ids, mask = pad(sequences, model.config.pad_token_id)
    return model(input_ids=ids, attention_mask=mask, labels=labels, output_hidden_states=True), mask.bool()


def norms_behind_layers(model):
    """Of a model with its norms in front of blocks: a layer's rows are here what the next one reads. Where sums begin with the embeddings
    these have a norm too, the first one."""
    if model.config.model_type == "xlm-roberta-xl":
        encoder = model.roberta.encoder
        return [layer.attention.self_attn_layer_norm for layer in encoder.layer] + [encoder.LayerNorm]
    if model.config.model_type in ("eurobert", *DECODERS):
        return [layer.input_layernorm for layer in model.model.layers] + [model.model.norm]
    if model.config.model_type != "modernbert":
        return []
    return [layer.attn_norm for layer in model.model.layers[1:]] + [model.model.final_norm]


def expectations(model, sequences, labels, batches):
    """Everything in the model's own dtype. Changes the model (30 steps)."""
    out = {}
    seen = []
    hooks = [norm.register_forward_hook(lambda _, __, rows: seen.append(rows)) for norm in norms_behind_layers(model)]
    result, real = forward(model, sequences, labels)
    for hook in hooks:
        hook.remove()
    names = ["embeddings"] + [f"layer.{i}" for i in range(len(result.hidden_states) - 1)]
    if runs_alone(model):
        rows = [torch.cat([rows[0] for rows in seen[i :: len(hooks)]]) for i in range(len(hooks))]
        rows = [result.hidden_states[0]] * (len(names) - len(rows)) + rows
    else:
        rows = seen if hooks else result.hidden_states
    for name, hidden in zip(names, rows):
        out[name] = hidden[real]  # row-major selection: sequence after sequence
    if model.base_model_prefix == "bert":
        out["pooled"] = model.bert.pooler(result.hidden_states[-1])
    out["logits"] = result.logits
    out["losses"] = torch.nn.functional.cross_entropy(result.logits, labels, reduction="none")
    out["loss"] = result.loss.reshape(1)
    result.loss.backward()
    for name, gradient in as_in_file(model, {name: p.grad for name, p in model.named_parameters()}).items():
        out[f"grad.{name}"] = gradient.clone()
    model.zero_grad()

    decay = set(Trainer.get_decay_parameter_names(None, model))
    groups = [
        {"params": [p for n, p in model.named_parameters() if n in decay], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in model.named_parameters() if n not in decay], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, WARMUP, len(batches))
    rates, losses, norms = [], [], []
    for batch in batches:
        loss = forward(model, [sequences[i] for i in batch], labels[batch])[0].loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        rates.append(schedule.get_last_lr()[0])
        losses.append(loss.item())
        norms.append(norm.item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    out["train.learning_rates"] = torch.tensor(rates, dtype=torch.float64)
    out["train.losses"] = torch.tensor(losses, dtype=torch.float64)
    out["train.grad_norms"] = torch.tensor(norms, dtype=torch.float64)
    for name, p in as_in_file(model, dict(model.named_parameters())).items():
        out[f"after.{name}"] = p
    out["after.logits"] = forward(model, sequences)[0].logits
    return {k: v.detach().clone() for k, v in out.items()}


def packed(sequences):
    bounds = [0]
    for s in sequences:
        bounds.append(bounds[-1] + len(s))
    return (torch.tensor([t for s in sequences for t in s], dtype=torch.int32), torch.tensor(bounds, dtype=torch.int32))


def relative(a, b):
    return ((a.double() - b).norm() / b.norm().clamp_min(1e-300)).item()


def to_old_names(path, generator):
    """Rewrites model.safetensors with the names and the extra tensors of files from the time of BERT's release."""
    tensors = {}
    for name, tensor in load_file(path).items():
        tensors[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = (
            tensor
        )
    tensors["bert.embeddings.position_ids"] = torch.arange(40).reshape(1, 40)
    tensors["cls.predictions.bias"] = torch.randn(97, generator=generator)
    tensors["cls.predictions.transform.LayerNorm.gamma"] = torch.randn(21, generator=generator)
    tensors["cls.seq_relationship.weight"] = torch.randn(2, 21, generator=generator)
    save_file(tensors, path, metadata={"format": "pt"})


def about(**facts):
    """One key: the library writes several in random order, and the files should come out the same each time."""
    made_with = f"torch {torch.__version__}, transformers {transformers.__version__}, float64"
    return {"about": json.dumps({"made_with": made_with, **facts})}


def make_small(name, spec):
    directory = os.path.join(HERE, name)
    shutil.rmtree(directory, ignore_errors=True)
    model, generator = make_model(spec)
    model.save_pretrained(directory)
    pad_id = model.config.pad_token_id
    sequences = make_sequences(generator, pad_id)
    labels = torch.randint(0, spec["num_labels"], (len(sequences),), generator=generator)
    batches = []
    for step in range(spec.get("steps", STEPS)):  # sizes 1 to 7, drawn with replacement between batches
        size = 1 + step % 7
        batches.append(torch.randperm(len(sequences), generator=generator)[:size].tolist())

    exact_model = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    float_model = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    if name == "bert_old_names":  # after loading: what is compared is the engine's reading of them, not transformers'
        to_old_names(os.path.join(directory, "model.safetensors"), generator)
        again = BertForSequenceClassification.from_pretrained(directory, dtype=torch.float64)
        assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), exact_model.state_dict().values()))
    saved = load_file(os.path.join(directory, "model.safetensors"))
    if spec.get("family") in FILE_NAMES:
        named = as_in_file(float_model, dict(float_model.named_parameters()))
        assert saved.keys() == named.keys() and all(torch.equal(saved[name], named[name]) for name in saved)
    exact = expectations(exact_model, sequences, labels, batches)
    single = expectations(float_model, sequences, labels, batches)

    words = {"modernbert": "embeddings.tok_embeddings"} | dict.fromkeys(("eurobert", *DECODERS), "embed_tokens")
    words = words.get(spec.get("family"), "embeddings.word_embeddings")
    assert exact[f"grad.{exact_model.base_model_prefix}.{words}.weight"][pad_id].abs().max() == 0
    errors = {}
    for key in exact:
        kind = key.split(".")[0] if key.split(".")[0] in ("grad", "after", "layer") and key != "after.logits" else key
        if not key.endswith(("key.bias", "k_lin.bias", "key_proj.bias", "attn.k.bias")):
            errors[kind] = max(errors.get(kind, 0.0), relative(single[key], exact[key]))
    ids, bounds = packed(sequences)
    batch_ids, batch_bounds = packed(batches)
    tensors = {k: v.to(torch.float32).contiguous() for k, v in exact.items()}
    tensors |= {
        "input_ids": ids,
        "cu_seqlens": bounds,
        "labels": labels.to(torch.int32),
        "train.batches": batch_ids,
        "train.batch_cu": batch_bounds,
    }
    path = os.path.join(directory, "expect.safetensors")
    save_file(tensors, path, metadata=about(float32_relative_errors={k: float(f"{v:.2g}") for k, v in errors.items()}))
    norms, losses = exact["train.grad_norms"], exact["train.losses"]
    print(
        f"{name}: {os.path.getsize(path)} bytes, {len(ids)} tokens, loss {exact['loss'].item():.4f}, norms "
        f"{norms.min():.2f} to {norms.max():.2f}, losses {losses[0]:.3f} to {losses[-1]:.3f}"
    )
    print("   float32 against float64:", {k: f"{v:.1e}" for k, v in errors.items()})


def make_minilm(source):
    directory = os.path.join(HERE, "minilm")
    os.makedirs(directory, exist_ok=True)
    tokenizer = transformers.BertTokenizer.from_pretrained(source)
    sequences = [tokenizer(s, truncation=True, max_length=64)["input_ids"] for s in MINILM_SENTENCES]
    assert sequences[1] == [101, 2053, 1012, 102]  # "No."
    with open(os.path.join(directory, "sentences.txt"), "w", encoding="utf-8") as f:
        f.writelines(s + "\n" for s in MINILM_SENTENCES)
    model = BertForSequenceClassification.from_pretrained(
        source, dtype=torch.float64, num_labels=3, attn_implementation="eager"
    ).eval()
    generator = torch.Generator().manual_seed(11)
    head = {
        "classifier.weight": 0.5 * torch.randn(3, model.config.hidden_size, generator=generator),
        "classifier.bias": 0.5 * torch.randn(3, generator=generator),
    }
    with torch.no_grad():
        model.classifier.weight.copy_(head["classifier.weight"])
        model.classifier.bias.copy_(head["classifier.bias"])
        result, real = forward(model, sequences)
    ids, bounds = packed(sequences)
    tensors = {
        "input_ids": ids,
        "cu_seqlens": bounds,
        **head,
        "pooled": model.bert.pooler(result.hidden_states[-1]),
        "logits": result.logits,
    }
    for i, hidden in enumerate(result.hidden_states):
        name = "embeddings" if i == 0 else f"layer.{i - 1}"
        tensors[f"{name}.first8"] = hidden[real][:, :8]
        tensors[f"{name}.norms"] = hidden[real].norm(dim=1)
    tensors = {
        k: (v if v.dtype == torch.int32 else v.detach().to(torch.float32)).contiguous() for k, v in tensors.items()
    }
    path = os.path.join(directory, "expect.safetensors")
    save_file(tensors, path, metadata=about(max_length=64))
    print(f"minilm: {os.path.getsize(path)} bytes, {len(ids)} tokens, lengths {[len(s) for s in sequences]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minilm", help="directory of all-MiniLM-L6-v2")
    parser.add_argument("--only", nargs="+", choices=MODELS, help="these models alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only or MODELS:
        make_small(name, MODELS[name])
    if arguments.minilm:
        make_minilm(arguments.minilm)


if __name__ == "__main__":
    main()
