"""Runs, plans and studies as objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ._show import bytes_text, escape, memory_html, table_html

if TYPE_CHECKING:
    from ._report import Plot, Report


class Run:
    """A run directory: what happened in a training."""

    def __init__(self, path: Any, document: Optional[dict] = None):
        self.path = Path(path)
        self._json = document

    @property
    def json(self) -> dict:
        """run.json."""
        if self._json is None:
            self._json = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        return self._json

    @property
    def status(self) -> str:
        """completed, interrupted, oom, diverged or failed."""
        return self.json["status"]

    @property
    def metrics(self) -> dict[str, float]:
        """Figures of the best checkpoint: eval_accuracy, test_accuracy, ..."""
        return dict(self.json.get("metrics") or {})

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of the device by category at the peak: weights, gradients, optimizer, ..."""
        return dict(self.json["memory"]["at_peak"])

    @property
    def peak_memory(self) -> int:
        """The most bytes that were allocated on the device."""
        return self.json["memory"]["peak_allocated_bytes"]

    @property
    def history(self) -> list[dict]:
        """Lines of metrics.jsonl: of logged steps and of evaluations."""
        return _lines(self.path / "metrics.jsonl")

    @property
    def predictions(self) -> list[dict]:
        """What the model says about the validation examples."""
        return _lines(self.path / "predictions.jsonl")

    @property
    def model_dir(self) -> Path:
        """The trained model, which transformers reads too; of an adapter what PEFT reads."""
        model = self.path / "model"
        return model if model.exists() else self.path / "adapter"

    def load(self, **options: Any) -> Any:
        """The model, to predict with."""
        from . import load

        return load(self.path, **options)

    def resume(self, **options: Any) -> "Run":
        """Goes on where it stopped."""
        from . import resume

        return resume(self.path, **options)

    def report(self, path: Optional[Any] = None, texts: bool = True) -> Report:
        """The page of the run, in RUN/report.html or `path`, as `ftengine report` writes it. texts: with those of the surest mistakes."""
        from ._report import report_of_run

        return report_of_run(self.path, path, texts)

    @property
    def plots(self) -> dict[str, Plot]:
        """Pictures of the report by their titles: curves of loss, figures, learning rate, memory. (It writes RUN/report.html.)"""
        return self.report().plots

    def __repr__(self) -> str:
        if not (self.path / "run.json").exists() and self._json is None:
            return f"Run({str(self.path)!r}, not ended)"
        figures = ", ".join(f"{k}={v:.4f}" for k, v in self.metrics.items() if k in ("eval_loss", "eval_accuracy", "test_accuracy"))
        return f"Run({str(self.path)!r}, {self.status}{', ' + figures if figures else ''})"

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self.path.name)}</b>: {escape(self.status)}, peak memory {bytes_text(self.peak_memory)}</p>"
        figures = [(k, v) for k, v in self.metrics.items() if isinstance(v, (int, float))]
        return head + table_html(figures) + memory_html(self.memory)


def _lines(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


class Plan:
    """The memory of a run that was not run."""

    def __init__(self, document: dict):
        self.json = document

    @property
    def fits(self) -> bool:
        return bool(self.json["fits"])

    @property
    def verdict(self) -> str:
        """fits, does_not_fit or not_supported."""
        return self.json["verdict"]

    @property
    def peak_memory(self) -> int:
        """Bytes that the run would take of the device at most, as its allocator reserves them."""
        return self.json["memory"]["peak_reserved_bytes"]

    @property
    def memory(self) -> dict[str, int]:
        """Bytes by category at the peak."""
        return dict(self.json["memory"]["at_peak"])

    @property
    def advice(self) -> Optional[dict]:
        """What would fit, where this does not; None: it fits, or nothing would."""
        return self.json.get("advice")

    def __bool__(self) -> bool:
        return self.fits

    def __repr__(self) -> str:
        return f"Plan({self.verdict}, {bytes_text(self.peak_memory)})"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.verdict)}</b>: {bytes_text(self.peak_memory)}</p>" + memory_html(self.memory)


class Quote:
    """What a run or a study will take."""

    def __init__(self, document: dict):
        self.json = document

    @property
    def seconds(self) -> float:
        """As expected."""
        return self.json["seconds"]["estimate"]

    @property
    def interval(self) -> tuple[float, float]:
        """In which the seconds lie with 95%, if the machine goes on as it did."""
        return self.json["seconds"]["low"], self.json["seconds"]["high"]

    @property
    def peak_memory(self) -> int:
        """Bytes of the device; of a study those of the trial that takes most."""
        return self.json["peak_reserved_bytes"]

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Quote({self.seconds:.1f} s from {low:.1f} to {high:.1f}, {bytes_text(self.peak_memory)})"


class Study:
    """A study of hyper-parameters, as `ftengine study show --json` has it."""

    def __init__(self, document: dict):
        self.json = document

    @property
    def path(self) -> Path:
        return Path(self.json["directory"])

    @property
    def name(self) -> str:
        return self.json["study"]

    @property
    def trials(self) -> dict[str, int]:
        """How many are complete, pruned, failed, running and waiting."""
        return dict(self.json["trials"])

    @property
    def best(self) -> list[dict]:
        """The best trial; with several objectives all that no other beats."""
        return list(self.json["best"])

    @property
    def best_params(self) -> dict[str, Any]:
        return dict(self._first()["params"])

    @property
    def best_value(self) -> float:
        return self._first()["values"][0]

    @property
    def best_config(self) -> Path:
        """The best trial as a configuration that `train` takes."""
        return self.path / "best.ini"

    @property
    def importances(self) -> dict[str, Optional[float]]:
        """Which parameters decided whether a trial was good."""
        return {p["name"]: p["importance"] for p in self.json["parameters"]}

    def report(self, path: Optional[Any] = None) -> Report:
        """The page of the study, in STUDY/report.html or `path`."""
        from ._report import report_of_study

        return report_of_study(self.path, path)

    @property
    def plots(self) -> dict[str, Plot]:
        """Pictures of the report by their titles. (It writes STUDY/report.html.)"""
        return self.report().plots

    def _first(self) -> dict:
        if not self.best:
            raise ValueError(f"no trial of {self.name} has completed")
        return self.best[0]

    def __iter__(self) -> Iterator[dict]:
        return iter(self.best)

    def __repr__(self) -> str:
        best = f", best {self.best_value:.6g}" if self.best else ""
        return f"Study({self.name!r}, {sum(self.trials.values())} trials{best})"

    def _repr_html_(self) -> str:
        rows = list(self.trials.items()) + (list(self.best_params.items()) + [("value", self.best_value)] if self.best else [])
        return table_html(rows, self.name)
