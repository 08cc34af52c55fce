#!/usr/bin/env python3
"""Golden vectors of question answering, made with PyTorch and transformers (5.23) in float64.

    python tests/vectors/questions/make_question_model_vectors.py

NAME/: small random models of make_model_vectors.py's kind as ...ForQuestionAnswering: config.json, model.safetensors and expect.safetensors. T tokens
and B sequences, each computed alone, as padding would take part in transformers' softmax.
    input_ids I32 [T], cu_seqlens I32 [B+1]
    labels I32 [T]            1 where the answer begins, 2 where it ends, 3 where it does both
    logits [T,2], losses [T]  half a sequence's cross-entropy of the beginning in its row, and of the end
    grad.NAME                 of the mean over the sequences of the model's own loss
    train.batches, train.batch_cu, train.learning_rates, train.losses, train.grad_norms, after.logits   50 steps, as there
"""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import make_model_vectors as small  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoModelForQuestionAnswering, Trainer, get_linear_schedule_with_warmup  # noqa: E402

NAMES = ["bert_gelu", "roberta", "distilbert", "electra", "albert", "deberta_v1", "deberta_v3", "modernbert"]
STEPS = 50
small.AutoModelForSequenceClassification = AutoModelForQuestionAnswering


def forward(model, sequences, answers):
    """Logits of all tokens, and the mean of the model's own losses."""
    logits, loss = [], 0
    for ids, (start, end) in zip(sequences, answers):
        result = model(input_ids=torch.tensor([ids]), start_positions=torch.tensor([start]), end_positions=torch.tensor([end]))
        logits.append(torch.stack([result.start_logits[0], result.end_logits[0]], dim=-1))
        loss = loss + result.loss / len(sequences)
    return logits, loss


def train(model, sequences, answers, batches):
    decay = set(Trainer.get_decay_parameter_names(None, model))
    groups = [
        {"params": [p for n, p in model.named_parameters() if (n in decay) == kept], "weight_decay": rate}
        for kept, rate in ((True, small.WEIGHT_DECAY), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=small.PEAK_LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    schedule = get_linear_schedule_with_warmup(optimizer, small.WARMUP, len(batches))
    rows = []
    for batch in batches:
        loss = forward(model, [sequences[i] for i in batch], [answers[i] for i in batch])[1]
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), small.MAX_GRAD_NORM)
        rows.append((schedule.get_last_lr()[0], loss.item(), norm.item()))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return torch.tensor(rows, dtype=torch.float64).T


def make(name):
    spec = dict(small.MODELS[name], num_labels=2, names=["LABEL_0", "LABEL_1"])
    directory = os.path.join(HERE, name)
    shutil.rmtree(directory, ignore_errors=True)
    model, generator = small.make_model(spec)
    model.config.problem_type = None
    if hasattr(model.config, "qa_dropout"):
        model.config.qa_dropout = 0.0
    model.save_pretrained(directory)
    sequences = small.make_sequences(generator, model.config.pad_token_id)
    answers, marks = [], []
    for i, s in enumerate(sequences):
        start = int(torch.randint(0, len(s), (1,), generator=generator)) if i % 3 else 0  # 0: not in this window
        end = int(torch.randint(start, len(s), (1,), generator=generator)) if i % 3 else 0
        answers.append((start, end))
        marks.append([(k == start) + 2 * (k == end) for k in range(len(s))])
    batches = [torch.randperm(len(sequences), generator=generator)[: 1 + step % 7].tolist() for step in range(STEPS)]

    exact = AutoModelForQuestionAnswering.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    logits, loss = forward(exact, sequences, answers)
    loss.backward()
    losses = [torch.zeros(len(s), dtype=torch.float64) for s in sequences]
    for own, x, (start, end) in zip(losses, logits, answers):
        p = x.log_softmax(dim=0)
        own[start] -= p[start, 0] / 2
        own[end] -= p[end, 1] / 2
    ids, bounds = small.packed(sequences)
    labels, _ = small.packed(marks)
    out = {f"grad.{n}": p.grad.clone() for n, p in exact.named_parameters() if p.grad is not None}
    out |= {"logits": torch.cat(logits), "losses": torch.cat(losses)}
    exact.zero_grad()
    out["train.learning_rates"], out["train.losses"], out["train.grad_norms"] = train(exact, sequences, answers, batches)
    out["after.logits"] = torch.cat(forward(exact, sequences, answers)[0])
    batch_ids, batch_bounds = small.packed(batches)
    tensors = {k: v.detach().to(torch.float32).contiguous() for k, v in out.items()}
    tensors |= {"input_ids": ids, "cu_seqlens": bounds, "labels": labels, "train.batches": batch_ids, "train.batch_cu": batch_bounds}
    path = os.path.join(directory, "expect.safetensors")
    save_file(tensors, path, metadata=small.about())
    print(f"{name}: {os.path.getsize(path)} bytes, losses {out['train.losses'][0]:.3f} to {out['train.losses'][-1]:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in NAMES:
        make(each)
