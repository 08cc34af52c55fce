#!/usr/bin/env python3
"""Settings of transformers' TrainingArguments as options: of a dict, of a dataclass, and of the real class where transformers is installed."""
# ctest: sanitize=leave

import dataclasses
import os
import sys
import tempfile
import unittest
from pathlib import Path

import wheel_site

SOURCE = Path(os.environ["SOURCE_DIR"])
wheel_site.use()

import ftengine  # noqa: E402

SETTINGS = {
    "output_dir": "out", "per_device_train_batch_size": 16, "per_device_eval_batch_size": 32, "num_train_epochs": 2, "max_steps": -1,
    "learning_rate": 3e-5, "lr_scheduler_type": "cosine", "warmup_steps": 0.1, "weight_decay": 0.01, "label_smoothing_factor": 0.1, "bf16": True,
    "gradient_checkpointing": True, "eval_strategy": "steps", "eval_steps": 50, "save_strategy": "epoch", "save_steps": 500, "save_total_limit": 2,
    "load_best_model_at_end": True, "metric_for_best_model": "eval_f1_macro", "seed": 1, "report_to": ["tensorboard", "wandb"], "optim": "adafactor",
    "use_cpu": True, "push_to_hub": True, "dataloader_num_workers": 4, "logging_steps": 10,
}  # fmt: skip
OPTIONS = {
    "output.dir": "out", "train.batch_size": 16, "eval.batch_size": 32, "train.epochs": 2, "train.learning_rate": 3e-5, "train.lr_scheduler": "cosine",
    "train.warmup_ratio": 0.1, "train.weight_decay": 0.01, "train.label_smoothing": 0.1, "train.precision": "bf16", "train.gradient_checkpointing": "on",
    "eval.strategy": "steps", "eval.steps": 50, "output.save_steps": 0, "output.save_total_limit": 2, "eval.metric": "f1_macro", "train.seed": 1,
    "track.tensorboard": True, "device.name": "cpu", "train.logging_steps": 10,
}  # fmt: skip


@dataclasses.dataclass
class Arguments:
    output_dir: str = "trainer_output"
    learning_rate: float = 5e-5
    warmup_steps: float = 0
    ddp_backend: str = None
    include_for_metrics: list = dataclasses.field(default_factory=list)


class Settings(unittest.TestCase):
    def test_a_dict(self):
        converted = ftengine.from_training_arguments(SETTINGS)
        self.assertEqual(converted.options, OPTIONS)
        self.assertEqual(set(converted.left), {"report_to", "optim", "push_to_hub"})
        self.assertIn("wandb", converted.left["report_to"])
        self.assertEqual(set(converted.ignored), {"load_best_model_at_end", "dataloader_num_workers"})
        effective = ftengine.config(**{"model.path": "m", "data.train": "t.tsv", "data.validation": "v.tsv"}, **converted.options)
        self.assertEqual((effective["train.warmup_ratio"], effective["train.precision"], effective["eval.metric"]), ("0.1", "bf16", "f1_macro"))

    def test_only_what_differs(self):
        self.assertEqual(ftengine.from_training_arguments(Arguments()), ({}, {}, []))
        converted = ftengine.from_training_arguments(Arguments(warmup_steps=20, ddp_backend="nccl", include_for_metrics=["loss"]))
        self.assertEqual(converted.options, {"train.warmup_steps": 20})
        self.assertEqual(set(converted.left), {"ddp_backend", "include_for_metrics"})

    def test_what_is_none(self):
        with self.assertRaises(ftengine.InvalidError):
            ftengine.from_training_arguments({"learning_rat": 1e-5})
        with self.assertRaises(TypeError):
            ftengine.from_training_arguments([1])
        for name, value in (("lr_scheduler_type", "no_such"), ("metric_for_best_model", "bleu"), ("logging_steps", 0.1), ("save_strategy", "best")):
            converted = ftengine.from_training_arguments({name: value})
            self.assertEqual((converted.options, list(converted.left)), ({}, [name]))

    def test_defaults_are_the_trainers(self):
        try:
            from transformers import TrainingArguments
        except ImportError:
            self.skipTest("no transformers")
        with tempfile.TemporaryDirectory() as folder:
            theirs = TrainingArguments(output_dir=folder, report_to="none", learning_rate=1e-5, lr_scheduler_type="cosine", eval_strategy="epoch")
            converted = ftengine.from_training_arguments(theirs)
            self.assertEqual(converted.options, {"output.dir": folder, "train.learning_rate": 1e-5, "train.lr_scheduler": "cosine", "eval.strategy": "epoch"})
            self.assertEqual(converted.left, {})
            self.assertEqual(ftengine.from_training_arguments(TrainingArguments(output_dir=folder, report_to="none")).options, {"output.dir": folder, "eval.strategy": "no"})
            table = ftengine.options()
            plain = TrainingArguments(output_dir=folder)
            from ftengine.trainer import _OPTIONS

            for name, option in _OPTIONS.items():
                default = getattr(plain, name, None)
                if isinstance(default, (int, float)) and not isinstance(default, bool) and not name.startswith("per_device_eval"):
                    self.assertAlmostEqual(float(table[option]["default"]), default, msg=name)


if __name__ == "__main__":
    unittest.main()
