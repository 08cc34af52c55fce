#!/usr/bin/env python3
"""The Hugging Face side of the comparisons: one fine-tuning run of the Trainer on the CPU, as a program.

Prints one JSON document: tokens_per_second (real tokens, first --skip steps left out), seconds, steps, tokens,
accuracy on --test after the last step (of --task regression: pearson and mse), versions.

    hf_train.py export --model DIRECTORY --labels N --seed N --output DIRECTORY     a checkpoint with a drawn head
    hf_train.py train  --model DIRECTORY --train FILE [--test FILE] [options]

--lora-r R: PEFT's LoRA on queries and values (--lora-all: on all linear layers), the head trained in full, in place of all parameters.
--task regression: one number a text, num_labels=1 and problem_type="regression", whose loss is the mean squared error.
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
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import read_tsv, label_names  # noqa: E402

TASKS = ("single_label_classification", "regression")


def export(arguments):
    """Both sides start from this: transformers draws the head, and its weights reach ftengine as a file. A directory
    without weights has all of them drawn."""
    set_seed(arguments.seed)
    if any(name.endswith((".safetensors", ".bin")) for name in os.listdir(arguments.model)):
        model = AutoModelForSequenceClassification.from_pretrained(
            arguments.model, num_labels=arguments.labels, dtype=torch.float32
        )
    else:
        config = AutoConfig.from_pretrained(arguments.model, num_labels=arguments.labels)
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    model.config.problem_type = arguments.task
    model.save_pretrained(arguments.output)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
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
    """The Trainer, counting real tokens by step."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.tokens = []

    def training_step(self, model, inputs, *arguments, **keywords):
        self.tokens.append(int(inputs["attention_mask"].sum()))
        return super().training_step(model, inputs, *arguments, **keywords)


def encode(tokenizer, rows, names, max_length):
    """names None: labels are numbers."""
    value = float if names is None else {name: i for i, name in enumerate(names)}.get
    return [dict(tokenizer(text, truncation=True, max_length=max_length), labels=value(label)) for text, label in rows]


def judge(model, tokenizer, test, regression):
    model.eval()
    collate, outputs, labels = DataCollatorWithPadding(tokenizer), [], []
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
    return get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=arguments.lora_r, lora_alpha=arguments.lora_alpha, lora_dropout=arguments.lora_dropout,
                                            target_modules=targets))


def train(arguments):
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    rows, regression = read_tsv(arguments.train), arguments.task == "regression"
    names = None if regression else label_names(label for _, label in rows)
    dataset = encode(tokenizer, rows, names, arguments.max_length)
    model = AutoModelForSequenceClassification.from_pretrained(
        arguments.model, num_labels=1 if regression else len(names), problem_type=arguments.task, dtype=torch.float32
    )
    if arguments.lora_r > 0:
        model = adapted(model, arguments)
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = CountingTrainer(
            model=model,
            train_dataset=dataset,
            callbacks=[clock],
            data_collator=DataCollatorWithPadding(tokenizer),
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
    if arguments.test:
        test = encode(tokenizer, read_tsv(arguments.test), names, arguments.max_length)
        result |= judge(model, tokenizer, test, regression)
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
