"""From a script of transformers' Trainer: its TrainingArguments as options, and what of them has no counterpart.

    converted = ftengine.from_training_arguments(args)       # a TrainingArguments, or a dict of such settings
    ftengine.train(train=..., model=..., **converted.options)
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, NamedTuple

from ._library import InvalidError
from ._options import table


class Converted(NamedTuple):
    """options: by the names of `ftengine config`. left: settings without a counterpart, and why or what to do. ignored: settings that change no
    result here."""

    options: dict[str, Any]
    left: dict[str, str]
    ignored: list[str]


_OPTIONS = {
    "output_dir": "output.dir", "per_device_train_batch_size": "train.batch_size", "num_train_epochs": "train.epochs",
    "learning_rate": "train.learning_rate", "weight_decay": "train.weight_decay", "adam_beta1": "train.adam_beta1",
    "adam_beta2": "train.adam_beta2", "adam_epsilon": "train.adam_epsilon", "warmup_ratio": "train.warmup_ratio",
    "gradient_accumulation_steps": "train.gradient_accumulation_steps", "max_grad_norm": "train.max_grad_norm",
    "label_smoothing_factor": "train.label_smoothing", "eval_steps": "eval.steps", "per_device_eval_batch_size": "eval.batch_size",
    "save_total_limit": "output.save_total_limit", "seed": "train.seed", "data_seed": "train.data_seed",
    "dataloader_drop_last": "train.drop_last",
}  # fmt: skip
_ALWAYS = {"eval_strategy", "evaluation_strategy"}  # whose defaults are others here
_IGNORED = {
    "accelerator_config", "auto_find_batch_size", "average_tokens_across_devices", "batch_eval_metrics", "dataloader_in_order", "dataloader_num_workers",
    "dataloader_persistent_workers", "dataloader_pin_memory", "dataloader_prefetch_factor", "ddp_timeout", "disable_tqdm", "do_eval",
    "do_predict", "do_train", "eval_accumulation_steps", "eval_do_concat_batches", "full_determinism", "gradient_checkpointing_kwargs",
    "greater_is_better", "group_by_length", "include_num_input_tokens_seen", "length_column_name", "load_best_model_at_end", "local_rank",
    "log_level", "log_level_replica", "log_on_each_node", "logging_dir", "logging_first_step", "logging_nan_inf_filter", "logging_strategy",
    "prediction_loss_only", "remove_unused_columns", "run_name", "save_on_each_node", "save_safetensors", "skip_memory_metrics", "tf32",
    "torch_compile", "torch_compile_backend", "torch_compile_mode", "torch_empty_cache_steps", "use_cache", "use_liger_kernel",
}  # fmt: skip
_ADVICE = {
    "push_to_hub": "model/ of the run uploads as it is: hf upload NAME RUN/model", "hub_model_id": "see push_to_hub",
    "deepspeed": "one run uses one device; memory.offload and ftengine plan fit a model into its memory",
    "fsdp": "one run uses one device; memory.offload and ftengine plan fit a model into its memory",
    "neftune_noise_alpha": "there is no noise on embeddings", "lr_scheduler_kwargs": "train.lr_end, train.lr_power and train.lr_cycles are options of their own",
    "optim_args": "AdamW is the only optimizer", "label_names": "data.label_column names the column",
    "train_sampling_strategy": "the order of examples is random; nothing is padded, so that grouping by length gains nothing",
}  # fmt: skip


def _plain(value: Any) -> Any:
    """Enumerations as their values."""
    return getattr(value, "value", value)


def _settings(args: Any) -> dict[str, Any]:
    """What is not at its default; of a dict all of it."""
    if isinstance(args, Mapping):
        return dict(args)
    if not dataclasses.is_dataclass(args):
        raise TypeError(f"TrainingArguments or a dict of such settings are wanted, not {type(args).__name__}")
    found = {}
    for field in dataclasses.fields(args):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()  # type: ignore[misc]
        value = getattr(args, field.name, default)
        same = _plain(value) == _plain(default) or (not value and not default)  # None, False and empty lists, as __post_init__ fills them in
        if field.name in _ALWAYS or not same:
            found[field.name] = value
    return found


def _choice(option: str, value: Any, converted: Converted, name: str) -> None:
    """A value that is one of the option's, or none of them."""
    if str(value) in table()[option]["choices"]:
        converted.options[option] = str(value)
    else:
        converted.left[name] = f"{value}: {option} is {', '.join(table()[option]['choices'])}"


def _precision(name: str, value: Any, converted: Converted) -> None:
    if value:
        converted.options["train.precision"] = name


def _strategy(value: Any, converted: Converted, steps: Any) -> None:
    """When a checkpoint is written: every epoch is what 0 steps are."""
    if value == "steps":
        if steps is not None and steps >= 1:
            converted.options["output.save_steps"] = int(steps)
    elif value == "epoch":
        converted.options["output.save_steps"] = 0
    else:
        converted.left["save_strategy"] = f"{value}: a run saves at the end of each epoch, or every output.save_steps"


def _trackers(value: Any, converted: Converted) -> None:
    for name in [value] if isinstance(value, str) else list(value or []):
        if name == "tensorboard":
            converted.options["track.tensorboard"] = True
        elif name == "mlflow":
            converted.left["report_to"] = "track.mlflow = ADDRESS sends runs to MLflow"
        elif name not in ("none", "all"):
            converted.left["report_to"] = f"{name} is not known; track.tensorboard and track.mlflow are"


def _special(name: str, value: Any, settings: Mapping[str, Any], converted: Converted) -> bool:
    """Settings that are no option with the same value. False: it is none of them."""
    options = converted.options
    if name in ("fp16", "bf16"):
        _precision(name, value, converted)
    elif name == "max_steps":
        if value and value > 0:
            options["train.max_steps"] = value
    elif name == "warmup_steps":  # a share of all steps, where it is below 1
        options["train.warmup_ratio" if 0 < value < 1 else "train.warmup_steps"] = value
    elif name == "lr_scheduler_type":
        _choice("train.lr_scheduler", value, converted, name)
    elif name in ("eval_strategy", "evaluation_strategy"):
        _choice("eval.strategy", value, converted, name)
    elif name == "metric_for_best_model":
        if value:
            _choice("eval.metric", str(value).removeprefix("eval_"), converted, name)
    elif name == "save_strategy":
        _strategy(value, converted, settings.get("save_steps"))
    elif name == "save_steps":
        if "save_strategy" not in settings:
            _strategy("steps", converted, value)
    elif name == "logging_steps":
        if value >= 1:
            options["train.logging_steps"] = int(value)
        else:
            converted.left[name] = f"{value} is a share of all steps; train.logging_steps is a number of them"
    elif name in ("gradient_checkpointing", "activation_checkpointing"):
        if value:
            options["train.gradient_checkpointing"] = "on"
    elif name in ("use_cpu", "no_cuda"):
        if value:
            options["device.name"] = "cpu"
    elif name == "resume_from_checkpoint":
        if value:
            options["output.exists"] = "resume"
    elif name == "optim":
        if not str(value).startswith("adamw_torch") and value != "adamw_hf":
            converted.left[name] = f"{value}: AdamW is the only optimizer"
    elif name == "report_to":
        _trackers(value, converted)
    else:
        return False
    return True


def from_training_arguments(args: Any) -> Converted:
    """The options that a TrainingArguments (or a dict of its settings) comes to. Defaults are the Trainer's, so that only what differs is listed (and
    eval_strategy: here it is epoch by default).
    What has no counterpart is in `left`, by name, with what can be done about it. Unknown settings are an InvalidError."""
    settings = {name: _plain(value) for name, value in _settings(args).items()}
    converted = Converted({}, {}, [])
    known = {field.name for field in dataclasses.fields(args)} if dataclasses.is_dataclass(args) else set()
    for name, value in settings.items():
        if name in _OPTIONS:
            if value is not None:
                converted.options[_OPTIONS[name]] = value
        elif name in _IGNORED:
            converted.ignored.append(name)
        elif not _special(name, value, settings, converted):
            if name in _ADVICE or name in known:
                converted.left[name] = _ADVICE.get(name, "there is no such setting here")
            else:
                raise InvalidError(f"{name} is no setting of TrainingArguments", f"{name} is no setting of TrainingArguments", name)
    return converted
