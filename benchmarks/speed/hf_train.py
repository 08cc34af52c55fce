#!/usr/bin/env python3
"""The Hugging Face side of the comparisons: one fine-tuning run of the Trainer on the CPU, as a program.

Prints one JSON document: tokens_per_second (real tokens, first --skip steps left out), seconds, steps, tokens,
accuracy on --test after the last step (of --task regression: pearson and mse; of token_classification: seqeval's f1_micro), versions.

    hf_train.py export --model DIRECTORY --labels N --seed N --output DIRECTORY     a checkpoint with a drawn head
    hf_train.py train  --model DIRECTORY --train FILE [--test FILE] [options]

--lora-r R: PEFT's LoRA on queries and values (--lora-all: on all linear layers), the head trained in full, in place of all parameters.
--task regression: one number a text, num_labels=1 and problem_type="regression", whose loss is the mean squared error.
--task token_classification: files of words and tags (CoNLL's columns); the first token of a word has its tag, as in transformers' run_ner.
--task image_classification: folders with one for every class; pictures are converted to RGB and go through the model's image processor (Pillow's).
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import label_names, read_conll, read_folder, read_tsv  # noqa: E402

TASKS = ("single_label_classification", "regression", "token_classification", "image_classification")


def model_class(task):
    others = {"token_classification": AutoModelForTokenClassification, "image_classification": AutoModelForImageClassification}
    return others.get(task, AutoModelForSequenceClassification)


def export(arguments):
    """Both sides start from this: transformers draws the head, and its weights reach ftengine as a file. A directory
    without weights has all of them drawn."""
    set_seed(arguments.seed)
    if any(name.endswith((".safetensors", ".bin")) for name in os.listdir(arguments.model)):
        model = model_class(arguments.task).from_pretrained(arguments.model, num_labels=arguments.labels, dtype=torch.float32)
    else:
        config = AutoConfig.from_pretrained(arguments.model, num_labels=arguments.labels)
        model = model_class(arguments.task).from_config(config, dtype=torch.float32)
    if arguments.task not in ("token_classification", "image_classification"):
        model.config.problem_type = arguments.task
    model.save_pretrained(arguments.output)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "preprocessor_config.json"):
        source = os.path.join(arguments.model, name)
        if os.path.exists(source):
            shutil.copy(source, arguments.output)


class Clock(TrainerCallback):
    """When each optimizer step ended."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.monotonic())


class CountingTrainer(Trainer):
    """The Trainer, counting real tokens (or pictures) by step."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.tokens = []

    def training_step(self, model, inputs, *arguments, **keywords):
        self.tokens.append(int(inputs["attention_mask"].sum()) if "attention_mask" in inputs else len(inputs["labels"]))
        return super().training_step(model, inputs, *arguments, **keywords)


def encode(tokenizer, rows, names, max_length):
    """names None: labels are numbers."""
    value = float if names is None else {name: i for i, name in enumerate(names)}.get
    return [dict(tokenizer(text, truncation=True, max_length=max_length), labels=value(label)) for text, label in rows]


def encode_pictures(processor, rows, names, _):
    from PIL import Image

    pictures = [processor(images=Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"][0] for path, _ in rows]
    return [{"pixel_values": picture, "labels": names.index(label)} for picture, (_, label) in zip(pictures, rows)]


def split_words(tokenizer, words, max_length):
    """A tokenised text, and for each of its tokens which word begins with it, or None."""
    encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=max_length)
    word = encoded.word_ids()
    return encoded, [w if w != before else None for w, before in zip(word, [None] + word[:-1])]


def encode_words(tokenizer, rows, names, max_length):
    """The first token of every word has the word's tag."""
    examples = []
    for words, tags in rows:
        encoded, begins = split_words(tokenizer, words, max_length)
        examples.append(dict(encoded, labels=[-100 if w is None else names.index(tags[w]) for w in begins]))
    return examples


def judge_words(model, tokenizer, rows, names, max_length):
    """seqeval's figures; a word without a token, or cut off, is predicted O."""
    from seqeval.metrics import f1_score, precision_score, recall_score

    model.eval()
    collate, truth, said = DataCollatorWithPadding(tokenizer), [tags for _, tags in rows], []
    with torch.no_grad():
        for i in range(0, len(rows), 64):
            texts = [split_words(tokenizer, words, max_length) for words, _ in rows[i : i + 64]]
            best = model(**collate([dict(encoded) for encoded, _ in texts])).logits.argmax(-1)
            for (words, _), (_, begins), row in zip(rows[i : i + 64], texts, best):
                tags = ["O"] * len(words)
                for token, w in enumerate(begins):
                    if w is not None:
                        tags[w] = names[row[token]]
                said.append(tags)
    return {"f1_micro": f1_score(truth, said), "precision": precision_score(truth, said), "recall": recall_score(truth, said)}


def judge(model, collate, test, regression):
    model.eval()
    outputs, labels = [], []
    with torch.no_grad():
        for i in range(0, len(test), 64):
            batch = collate(test[i : i + 64])
            labels.append(batch["labels"])
            outputs.append(model(**batch).logits)
    outputs, labels = torch.cat(outputs), torch.cat(labels)
    if not regression:
        return {"accuracy": float((outputs.argmax(-1) == labels).double().mean())}
    x, y = outputs.squeeze(-1).double(), labels.double()
    pearson = torch.corrcoef(torch.stack([x, y]))[0, 1]
    return {"pearson": float(pearson), "mse": float(((x - y) ** 2).mean())}


def adapted(model, arguments):
    from peft import LoraConfig, get_peft_model

    targets = "all-linear" if arguments.lora_all else None
    kind = "TOKEN_CLS" if arguments.task == "token_classification" else "SEQ_CLS"
    return get_peft_model(model, LoraConfig(task_type=kind, r=arguments.lora_r, lora_alpha=arguments.lora_alpha, lora_dropout=arguments.lora_dropout,
                                            target_modules=targets))


def train(arguments):
    pictures = arguments.task == "image_classification"
    tokenizer = (AutoImageProcessor if pictures else AutoTokenizer).from_pretrained(arguments.model)
    regression, tagged = arguments.task == "regression", arguments.task == "token_classification"
    read = read_folder if pictures else read_conll if tagged else read_tsv
    encode_all = encode_pictures if pictures else encode_words if tagged else encode
    collate = default_data_collator if pictures else (DataCollatorForTokenClassification if tagged else DataCollatorWithPadding)(tokenizer)
    rows = read(arguments.train)
    names = None if regression else label_names(tag for _, tags in rows for tag in (tags if tagged else [tags]))
    dataset = encode_all(tokenizer, rows, names, arguments.max_length)
    kind = {} if tagged or pictures else {"problem_type": arguments.task}
    model = model_class(arguments.task).from_pretrained(
        arguments.model, num_labels=1 if regression else len(names), dtype=torch.float32, **kind
    )
    if arguments.lora_r > 0:
        model = adapted(model, arguments)
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = CountingTrainer(
            model=model,
            train_dataset=dataset,
            callbacks=[clock],
            data_collator=collate,
            args=TrainingArguments(
                output_dir=scratch,
                num_train_epochs=arguments.epochs,
                max_steps=arguments.max_steps,
                per_device_train_batch_size=arguments.batch_size,
                learning_rate=arguments.learning_rate,
                warmup_steps=arguments.warmup_steps,
                weight_decay=arguments.weight_decay,
                seed=arguments.seed,
                save_strategy="no",
                logging_steps=50,
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
            ),
        )
        trainer.train()
    if len(clock.ends) <= arguments.skip + 1:
        sys.exit(f"hf_train.py: {len(clock.ends)} steps are too few to leave out {arguments.skip}")
    seconds = clock.ends[-1] - clock.ends[arguments.skip - 1]
    result = {
        "tokens_per_second": sum(trainer.tokens[arguments.skip :]) / seconds,
        "seconds": seconds,
        "steps": len(clock.ends),
        "tokens": sum(trainer.tokens),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    if arguments.test and tagged:
        result |= judge_words(model, tokenizer, read_conll(arguments.test), names, arguments.max_length)
    elif arguments.test:
        result |= judge(model, collate, encode_all(tokenizer, read(arguments.test), names, arguments.max_length), regression)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export")
    command.add_argument("--model", required=True)
    command.add_argument("--labels", type=int, required=True)
    command.add_argument("--seed", type=int, required=True)
    command.add_argument("--output", required=True)
    command.add_argument("--task", choices=TASKS, default=TASKS[0])
    command = commands.add_parser("train")
    command.add_argument("--task", choices=TASKS, default=TASKS[0])
    command.add_argument("--model", required=True)
    command.add_argument("--train", required=True)
    command.add_argument("--test")
    command.add_argument("--epochs", type=float, default=1.0)
    command.add_argument("--max-steps", type=int, default=-1)
    command.add_argument("--batch-size", type=int, default=32)
    command.add_argument("--learning-rate", type=float, default=5e-5)
    command.add_argument("--weight-decay", type=float, default=0.0)
    command.add_argument("--warmup-steps", type=int, default=0)
    command.add_argument("--max-length", type=int, default=128)
    command.add_argument("--seed", type=int, default=42)
    command.add_argument("--lora-r", type=int, default=0)
    command.add_argument("--lora-alpha", type=float, default=16)
    command.add_argument("--lora-dropout", type=float, default=0.0)
    command.add_argument("--lora-all", action="store_true")
    command.add_argument("--skip", type=int, default=5, help="steps at the start that are not timed (at least 1)")
    arguments = parser.parse_args()
    if arguments.command == "export":
        export(arguments)
        return
    # The Trainer prints its log on standard output, which belongs to the result.
    result_file, sys.stdout = sys.stdout, sys.stderr
    json.dump(train(arguments), result_file)
    print(file=result_file)


if __name__ == "__main__":
    main()
