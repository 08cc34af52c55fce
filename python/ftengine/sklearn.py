"""Estimators of scikit-learn: FtengineClassifier and FtengineRegressor, texts in.

    from ftengine.sklearn import FtengineClassifier
    GridSearchCV(FtengineClassifier("models/all-MiniLM-L6-v2"), {"learning_rate": [2e-5, 5e-5]}, n_jobs=2).fit(texts, labels)

A fitted estimator holds the files of its model, so that it can be pickled and moved to another machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Mapping

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import type_of_target, unique_labels
from sklearn.utils.validation import check_consistent_length

from . import _data, load, train
from ._model import Model
from ._options import resolve

_FITTED = ("_files", "_kept", "classes_", "run_")


def _column(values: Any) -> list:
    """A list of what scikit-learn takes as a column: also what only knows how to become an array."""
    return _data.listed(numpy.asarray(values) if hasattr(values, "__array__") else values)


def _target(y: Any) -> Any:
    """y as an array of one number or label a text."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if hasattr(y, "toarray"):
        raise TypeError("y is a column of labels or numbers, not a sparse matrix")
    y = numpy.asarray(_column(y))
    return column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y


class _Kept:
    """The model that a fitted estimator has asked once. No part of what is pickled or copied, and none of a child process."""

    def __init__(self) -> None:
        self.model: Any = None
        self.owner = 0

    def __reduce__(self) -> Any:
        return _Kept, ()


class _Estimator(BaseEstimator):
    """What both have in common. Nothing happens before fit; more options of the program go into `options`."""

    _task = ""

    def __init__(self, model="models/all-MiniLM-L6-v2", *, epochs=3, batch_size=8, learning_rate=5e-5, weight_decay=0.0, warmup_ratio=0.0,
                 max_length=None, class_weights=None, seed=42, validation_split=None, precision=None, threads=None, device=None,
                 options=None, verbose=False):  # fmt: skip
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warmup_ratio = warmup_ratio
        self.max_length = max_length
        self.class_weights = class_weights
        self.seed = seed
        self.validation_split = validation_split
        self.precision = precision
        self.threads = threads
        self.device = device
        self.options = options
        self.verbose = verbose

    # ---- fitting

    def _device_options(self) -> dict[str, Any]:
        return {"device.name": self.device, "device.threads": self.threads}

    def _run_options(self) -> dict[str, Any]:
        return {
            "model.path": self.model, "train.epochs": self.epochs, "train.batch_size": self.batch_size,
            "train.learning_rate": self.learning_rate, "train.weight_decay": self.weight_decay, "train.warmup_ratio": self.warmup_ratio,
            "data.max_length": self.max_length, "train.seed": self.seed,
            "data.validation_split": self.validation_split, "train.precision": self.precision, **self._device_options(),
            "data.cache_dir": "none", "memory.timeline": False,
            "model.ignore_mismatched_sizes": True,  # labels are those of y, whatever the model had
        }  # fmt: skip

    def _train(self, texts: list[str], labels: list, weights: Any = None) -> None:
        self._forget()
        with tempfile.TemporaryDirectory(prefix="ftengine-") as folder:
            options = {**self._run_options(), **({} if weights is None else {"train.class_weights": weights})}
            options.update({resolve(name): value for name, value in (self.options or {}).items()})
            options.update({"output.dir": os.path.join(folder, "run"), "train.task": self._task})
            run = train(train=(texts, labels), progress=bool(self.verbose), **options)
            self.run_ = {"metrics": run.metrics, "memory": run.memory, "peak_memory": run.peak_memory, "json": run.json}
            model = run.model_dir
            self._files = {
                os.path.join(model.name, str(path.relative_to(model))): path.read_bytes() for path in sorted(model.rglob("*")) if path.is_file()
            }
            self._kept = _Kept()

    def _forget(self) -> None:
        for name in _FITTED:
            self.__dict__.pop(name, None)

    # ---- a model to ask: not a part of what is pickled

    def __sklearn_is_fitted__(self) -> bool:
        return "_files" in self.__dict__

    def _loaded(self) -> Model:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before using it.")
        kept = self.__dict__.setdefault("_kept", _Kept())
        if kept.model is None or kept.owner != os.getpid():
            folder = tempfile.mkdtemp(prefix="ftengine-")
            for place, data in self._files.items():
                path = Path(folder) / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            adapter = any(place.startswith("adapter") for place in self._files)
            kept.model = load(folder, base=self.model if adapter else None, **self._device_options())
            kept.owner = os.getpid()
            weakref.finalize(kept.model, shutil.rmtree, folder, True)
        return kept.model

    @staticmethod
    def _texts(X: Any) -> list[str]:
        """Texts of a list, a column or a frame of one column."""
        if hasattr(X, "toarray"):
            raise TypeError("texts are wanted, not a sparse matrix")
        if hasattr(X, "columns") and not callable(X.columns):
            if len(X.columns) != 1:
                raise ValueError(f"texts are one column, and there are {len(X.columns)}: give X['text']")
            X = X[X.columns[0]]
        list_ = _column(X)
        if list_ and isinstance(list_[0], list) and all(isinstance(row, list) and len(row) == 1 for row in list_):
            list_ = [row[0] for row in list_]
        for i, text in enumerate(list_):
            if not isinstance(text, str):
                raise TypeError(f"text {i} of X is no str but a {type(text).__name__}")
        if not list_:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return list_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


class FtengineClassifier(ClassifierMixin, _Estimator):
    """One class a text. Labels may be texts, numbers or booleans; class_weights: "balanced", {class: weight} or weights in the order of classes_."""

    _task = "single_label"

    def fit(self, X: Any, y: Any) -> "FtengineClassifier":
        texts = self._texts(X)
        labels = self._labels(y)
        check_consistent_length(texts, labels)
        classes = unique_labels(labels)
        if len(classes) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {classes[0]!r}")
        numbers = numpy.searchsorted(classes, labels)
        width = len(str(len(classes) - 1))
        # Names whose order is that of classes_, and that are no number: that would be the id of a class of a model that has some.
        weights = self.class_weights
        if isinstance(weights, Mapping):  # as scikit-learn has them: 1 for who is not named
            weights = [float(weights.get(c, 1)) for c in classes.tolist()]
        self._train(texts, [f"c{number:0{width}}" for number in numbers], weights)
        self.classes_ = classes
        return self

    @staticmethod
    def _labels(y: Any) -> Any:
        labels = _target(y)
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {kind}. Maybe you are trying to fit a classifier, which expects discrete classes on a "
                             "regression target with continuous values.")  # fmt: skip
        return labels

    def _columns(self, model: Model) -> Any:
        """Where each of classes_ stands among the model's outputs."""
        return numpy.argsort([int(name[1:]) for name in model.classes])

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [texts, classes], in the order of classes_."""
        model = self._loaded()
        return numpy.asarray(model.predict_proba(self._texts(X)))[:, self._columns(model)]

    def predict(self, X: Any) -> Any:
        model = self._loaded()
        return self.classes_[[int(name[1:]) for name in model.predict(self._texts(X))]]


class FtengineRegressor(RegressorMixin, _Estimator):
    """A number a text."""

    _task = "regression"

    def fit(self, X: Any, y: Any) -> "FtengineRegressor":
        texts = self._texts(X)
        numbers = numpy.asarray(_target(y), dtype=float)
        if numbers.ndim != 1:
            raise ValueError(f"y is one number a text, and has the shape {numbers.shape}")
        assert_all_finite(numbers, input_name="y")
        check_consistent_length(texts, numbers)
        self._train(texts, numbers.tolist())
        return self

    def predict(self, X: Any) -> Any:
        return numpy.asarray(self._loaded().predict(self._texts(X)))

