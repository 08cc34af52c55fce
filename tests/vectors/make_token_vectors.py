#!/usr/bin/env python3
"""Golden vectors of token classification, made with PyTorch and transformers (5.23) in float64.

    python tests/vectors/make_token_vectors.py

tokens/NAME/: small random models of make_model_vectors.py's kind as ...ForTokenClassification: config.json, model.safetensors and
expect.safetensors. T tokens and B sequences, packed without padding; R of the tokens have a label, the others -100; one sequence has none.
    input_ids I32 [T], cu_seqlens I32 [B+1]
    first_read I32 [B+1], read_position I32 [R]   of every sequence the first of its labelled tokens among all; where each stands in it
    labels I32 [R], logits [R,C], losses [R]      of those
    grad.NAME                                     of the mean loss over the R tokens, which is the model's own
    train.batches, train.batch_cu, train.learning_rates, train.losses, train.grad_norms, after.logits   50 steps, as there
"""

import os
import shutil

import make_model_vectors as small
import torch
from safetensors.torch import save_file
from transformers import AutoModelForTokenClassification, Trainer, get_linear_schedule_with_warmup

HERE = os.path.dirname(os.path.abspath(__file__))
TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
NAMES = ["bert_gelu", "roberta", "xlm_roberta", "distilbert", "electra", "albert", "deberta_v1", "deberta_v3", "modernbert", "mpnet", "rembert", "xlm_roberta_xl", "eurobert"]
STEPS = 50
small.AutoModelForSequenceClassification = AutoModelForTokenClassification


def forward(model, sequences, tags):
    """Logits of the labelled tokens, their labels, and the mean loss, the model's own where it may see a padded batch."""
    if model.config.model_type == "modernbert":  # see forward_alone there
        logits = torch.cat([model(input_ids=torch.tensor([s])).logits[0] for s in sequences])
        labels = torch.cat([torch.tensor(t) for t in tags])
        loss = torch.nn.functional.cross_entropy(logits, labels)
    else:
        ids, mask = small.pad(sequences, model.config.pad_token_id)
        labels = torch.full_like(ids, -100)
        for i, t in enumerate(tags):
            labels[i, : len(t)] = torch.tensor(t)
        result = model(input_ids=ids, attention_mask=mask, labels=labels)
        logits, labels, loss = result.logits[mask.bool()], labels[mask.bool()], result.loss
    return logits[labels >= 0], labels[labels >= 0], loss


def train(model, sequences, tags, batches):
    decay = set(Trainer.get_decay_parameter_names(None, model))
    groups = [
        {"params": [p for n, p in model.named_parameters() if (n in decay) == kept], "weight_decay": rate}
        for kept, rate in ((True, small.WEIGHT_DECAY), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=small.PEAK_LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, small.WARMUP, len(batches))
    rows = []
    for batch in batches:
        loss = forward(model, [sequences[i] for i in batch], [tags[i] for i in batch])[2]
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), small.MAX_GRAD_NORM)
        rows.append((schedule.get_last_lr()[0], loss.item(), norm.item()))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return torch.tensor(rows, dtype=torch.float64).T


def make(name):
    spec = dict(small.MODELS[name], num_labels=len(TAGS), names=TAGS)
    directory = os.path.join(HERE, "tokens", name)
    shutil.rmtree(directory, ignore_errors=True)
    model, generator = small.make_model(spec)
    model.config.problem_type = None
    model.save_pretrained(directory)
    sequences = small.make_sequences(generator, model.config.pad_token_id)
    tags = []
    for i, s in enumerate(sequences):
        drawn = torch.randint(0, len(TAGS), (len(s),), generator=generator)
        drawn[torch.rand(len(s), generator=generator) < 0.35] = -100
        drawn[0] = drawn[-1] = -100  # [CLS] and [SEP]
        if i == 4:
            drawn[:] = -100
        tags.append(drawn.tolist())
    labelled = [i for i, t in enumerate(tags) if max(t) >= 0]
    batches = []
    for step in range(STEPS):  # each has a labelled token: without one the model's own loss is NaN
        size = 1 + step % 7
        batch = torch.randperm(len(sequences), generator=generator)[:size].tolist()
        batches.append(batch if any(i in labelled for i in batch) else [labelled[0]])

    exact = AutoModelForTokenClassification.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    logits, labels, loss = forward(exact, sequences, tags)
    loss.backward()
    positions = [[k for k, tag in enumerate(t) if tag >= 0] for t in tags]
    ids, bounds = small.packed(sequences)
    read_position, first_read = small.packed(positions)
    out = {f"grad.{n}": p.grad.clone() for n, p in exact.named_parameters()}
    out |= {"logits": logits, "losses": torch.nn.functional.cross_entropy(logits, labels, reduction="none")}
    exact.zero_grad()
    out["train.learning_rates"], out["train.losses"], out["train.grad_norms"] = train(exact, sequences, tags, batches)
    out["after.logits"] = forward(exact, sequences, tags)[0]
    batch_ids, batch_bounds = small.packed(batches)
    tensors = {k: v.detach().to(torch.float32).contiguous() for k, v in out.items()}
    tensors |= {"input_ids": ids, "cu_seqlens": bounds, "first_read": first_read, "read_position": read_position,
                "labels": labels.to(torch.int32), "train.batches": batch_ids, "train.batch_cu": batch_bounds}
    path = os.path.join(directory, "expect.safetensors")
    save_file(tensors, path, metadata=small.about())
    print(f"{name}: {os.path.getsize(path)} bytes, {len(labels)} labels, losses {out['train.losses'][0]:.3f} to {out['train.losses'][-1]:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in NAMES:
        make(each)
