#!/usr/bin/env python3
"""A hundred steps of the real transformers Trainer (5.23), to be followed by `ftengine train follow.ini`.

    python tests/vectors/make_trainer_vectors.py

Writes trainer/ beside this file:
    model/            the common starting checkpoint: a random BERT (hidden 32, 2 layers) with its WordPiece vocabulary
    train.tsv, validation.tsv    short labelled texts from a toy grammar (with upper case, accents, unknown words,
                                 words in pieces, and some texts longer than max_length)
    follow.ini        the same run for ftengine
    expect.json       steps: per optimizer step the loss of its batch (mean), the examples visited (row numbers of
                      train.tsv from 0, header not counted), learning rate, gradient norm before clipping;
                      logits, loss and accuracy on validation.tsv after the last step;
                      float64_distance: how far the same Trainer in float64 ends from these float32 numbers, which
                      says how much of a difference is rounding.
Everything of the Trainer that follow.ini does not name is its default; dropout is 0 because torch's generator cannot be
matched.
"""

import json
import os
import random
import shutil
import tempfile

import torch
import transformers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers import DataCollatorWithPadding

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer")
LABELS = ["food", "music", "travel"]  # sorted: ftengine numbers label names in byte order
SEED, STEPS, WARMUP, BATCH, RATE, DECAY, MAX_LENGTH = 7, 100, 10, 8, 3e-3, 0.01, 24

TOPIC = {
    "food": "apple bread butter cheese soup garlic pepper salt oven kitchen recipe cook bake taste sweet sour lunch dinner "
    "supper plate spoon knife rice bean onion sauce café pâté crème menu waiter honey lemon grill roast flour".split(),
    "music": "song piano violin drum guitar choir melody rhythm concert singer album note chord opera tempo band flute tune "
    "listen sing dance stage orchestra harp jazz ballad lyric bass treble encore étude solo cello trumpet".split(),
    "travel": "train ticket airport hotel map border passport journey road harbour ship island coast mountain bridge station "
    "luggage guide tourist flight sail ride walk museum village river lake tent camp bus ferry compass valley".split(),
}
COMMON = (
    "the a an of and to in on with for from at by is was are were be it this that we they i you he she my our their "
    "some many few very quite really never always often today yesterday tomorrow morning evening night good bad new "
    "old long short small big quiet loud warm cold after before while because although but or so then there here "
    "found lost liked hated saw heard made took gave kept bought sold near far again only still almost"
).split()
NOT_IN_VOCABULARY = "Zürich ☃ 42nd ninety xylograph 東京 foo_bar".split()
PIECES = ["##s", "##ed", "##er", "##ing", "##ly", "##y", "##ful", "##less"]
PUNCTUATION = list(".,!?'-:;()")


def make_vocabulary():
    # The words stand in the vocabulary as the tokenizer sees them: without accents.
    plain = str.maketrans("éâè", "eae")
    words = sorted({w.translate(plain) for w in COMMON + sum(TOPIC.values(), [])})
    letters = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in "qxz"]  # so that some words are [UNK] as a whole
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + PUNCTUATION + list("0123456789") + letters
    vocabulary += ["##" + c for c in letters] + [p for p in PIECES if len(p) > 3] + words
    return list(dict.fromkeys(vocabulary))


def make_text(rng):
    label = rng.choice(LABELS)
    words = []
    for _ in range(rng.choice([1, 3, 4, 6, 8, 10, 14, 26])):
        kind = rng.random()
        if kind < 0.55:
            word = rng.choice(TOPIC[label]) + rng.choice(["", "", "", "s", "ing", "less"])
        elif kind < 0.63:
            word = rng.choice(TOPIC[rng.choice(LABELS)])
        elif kind < 0.67:
            word = rng.choice(NOT_IN_VOCABULARY)
        else:
            word = rng.choice(COMMON)
        word = rng.choice([word] * 8 + [word.capitalize(), word.upper()])
        words.append(word + rng.choice([""] * 9 + PUNCTUATION))
    if rng.random() < 0.08:
        label = rng.choice(LABELS)  # noise: the loss must not go to zero
    return " ".join(words), label


def write_tsv(name, rows):
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as f:
        f.write("text\tlabel\n")
        f.writelines(f"{text}\t{label}\n" for text, label in rows)


def encode(tokenizer, rows):
    return [
        dict(tokenizer(text, truncation=True, max_length=MAX_LENGTH), labels=LABELS.index(label), example=i)
        for i, (text, label) in enumerate(rows)
    ]


class Recorder(TrainerCallback):
    """The learning rate of an update and the norm the Trainer saw; losses come from compute_loss below."""

    def __init__(self):
        self.rates, self.norms = [], []

    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "grad_norm" in logs:
            self.norms.append(float(logs["grad_norm"]))


class RecordingTrainer(Trainer):
    """The Trainer, which also writes down what went into each step. It changes nothing of the computation."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.losses, self.examples = [], []

    def compute_loss(self, model, inputs, *arguments, **keywords):
        example = inputs.pop("example")
        result = super().compute_loss(model, inputs, *arguments, **keywords)
        if model.training:
            self.losses.append((result[0] if isinstance(result, tuple) else result).item())
            self.examples.append(example.tolist())
        return result


def run(train, validation, tokenizer, dtype):
    model = BertForSequenceClassification.from_pretrained(
        os.path.join(HERE, "model"), dtype=dtype, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            warmup_steps=WARMUP,
            weight_decay=DECAY,
            seed=SEED,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            remove_unused_columns=False,
            disable_tqdm=True,
        )
        trainer = RecordingTrainer(
            model=model,
            args=arguments,
            train_dataset=train,
            callbacks=[recorder],
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.train()
    model.eval()
    with torch.no_grad():
        batch = DataCollatorWithPadding(tokenizer)(
            [{k: v for k, v in row.items() if k != "example"} for row in validation]
        )
        result = model(**batch)
    accuracy = (result.logits.argmax(-1) == batch["labels"]).float().mean().item()
    return {
        "losses": trainer.losses,
        "examples": trainer.examples,
        "learning_rates": recorder.rates,
        "grad_norms": recorder.norms,
        "logits": result.logits.double().tolist(),
        "loss": result.loss.item(),
        "accuracy": accuracy,
    }


def main():
    torch.set_num_threads(1)
    shutil.rmtree(HERE, ignore_errors=True)
    os.makedirs(os.path.join(HERE, "model"))
    rng = random.Random(20261121)
    rows = [make_text(rng) for _ in range(300 + 60)]
    write_tsv("train.tsv", rows[:300])
    write_tsv("validation.tsv", rows[300:])
    vocabulary = make_vocabulary()
    with open(os.path.join(HERE, "model", "vocab.txt"), "w", encoding="utf-8") as f:
        f.writelines(token + "\n" for token in vocabulary)
    tokenizer = BertTokenizer.from_pretrained(os.path.join(HERE, "model"))

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=48,
        initializer_range=0.1,
        problem_type="single_label_classification",
        id2label=dict(enumerate(LABELS)),
        label2id={n: i for i, n in enumerate(LABELS)},
    )
    BertForSequenceClassification(config).save_pretrained(os.path.join(HERE, "model"))
    os.chmod(os.path.join(HERE, "model", "model.safetensors"), 0o644)

    train, validation = encode(tokenizer, rows[:300]), encode(tokenizer, rows[300:])
    single = run(train, validation, tokenizer, torch.float32)
    double = run(train, validation, tokenizer, torch.float64)
    assert single["examples"] == double["examples"] and len(single["losses"]) == len(single["grad_norms"]) == STEPS
    distance = {
        "loss": max(abs(a - b) for a, b in zip(single["losses"], double["losses"])),
        "logits": (torch.tensor(single["logits"]) - torch.tensor(double["logits"])).abs().max().item(),
    }
    expect = {
        "made_with": f"torch {torch.__version__}, transformers {transformers.__version__}, float32",
        "labels": LABELS,
        "steps": [
            {"loss": float(f"{l:.9g}"), "learning_rate": r, "grad_norm": float(f"{n:.9g}"), "examples": e}
            for l, r, n, e in zip(single["losses"], single["learning_rates"], single["grad_norms"], single["examples"])
        ],
        "validation": {
            "loss": single["loss"],
            "accuracy": single["accuracy"],
            "logits": [[float(f"{x:.9g}") for x in row] for row in single["logits"]],
        },
        "float64_distance": {k: float(f"{v:.2g}") for k, v in distance.items()},
    }
    with open(os.path.join(HERE, "expect.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(expect).replace('{"loss"', '\n{"loss"').replace('"validation"', '\n"validation"') + "\n")
    with open(os.path.join(HERE, "follow.ini"), "w", encoding="utf-8") as f:
        f.write(f"""\
# The run of make_trainer_vectors.py, for ftengine: expect.json says what the Trainer computed.
# eval.strategy = no, so that model/ of the run directory is the model after the last step.
[model]
path = model
hidden_dropout = 0
attention_dropout = 0
classifier_dropout = 0

[data]
train = train.tsv
max_length = {MAX_LENGTH}

[train]
max_steps = {STEPS}
batch_size = {BATCH}
learning_rate = {RATE}
warmup_steps = {WARMUP}
weight_decay = {DECAY}
seed = {SEED}
logging_steps = 1

[eval]
strategy = no
""")
    lengths = [len(r["input_ids"]) for r in train]
    unknown = sum(r["input_ids"].count(tokenizer.unk_token_id) for r in train)
    assert 0 < unknown < 200
    print(
        f"vocabulary {len(vocabulary)}, lengths {min(lengths)} to {max(lengths)}, {unknown} unknown words, "
        f"{lengths.count(MAX_LENGTH)} texts at the limit"
    )
    print(
        f"losses {single['losses'][0]:.3f} ... {single['losses'][-1]:.3f}, validation {single['loss']:.3f}, "
        f"accuracy {single['accuracy']:.3f}, norms {min(single['grad_norms']):.2f} to {max(single['grad_norms']):.2f}"
    )
    print("rates", single["learning_rates"][:3], single["learning_rates"][-1], "float64 distance", distance)


if __name__ == "__main__":
    main()
