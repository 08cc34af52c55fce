"""Fine-tunes BERT-style transformers and searches their hyper-parameters: libftengine for Python.

    import ftengine
    run = ftengine.train(train=(texts, labels), model="models/all-MiniLM-L6-v2", epochs=2)
    run.load().predict(["a new text"])

Options are those of the program (`ftengine config`), by their names with or without the section, or by the Trainer's.
"""

from __future__ import annotations

import json
import os
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from . import _data
from ._library import (
    DivergedError,
    Engine,
    Error,
    Interrupted,
    InvalidError,
    NoDeviceError,
    OutOfMemoryError,
)
from ._library import version as _version
from ._model import Model
from ._options import resolve, space_words, table, words_of
from ._results import Plan, Quote, Run, Study
from ._show import Progress

__all__ = [
    "DivergedError", "Error", "Interrupted", "InvalidError", "Model", "NoDeviceError", "OutOfMemoryError", "Plan", "Quote", "Run", "Study",
    "best_device", "config", "devices", "load", "options", "plan", "quote", "resume", "study", "train", "tune",
]  # fmt: skip

Listener = Callable[[dict], Any]
Watching = Union[bool, Listener, None]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name == "from_training_arguments":
        from .trainer import from_training_arguments

        return from_training_arguments
    if name in ("FtengineClassifier", "FtengineRegressor"):  # only who asks for one needs scikit-learn
        from . import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module 'ftengine' has no attribute {name!r}")


# ---- what is asked for ----------------------------------------------------------------------------------------------


def _folder_of(options: Mapping[str, Any]) -> Path:
    """Where data that are in memory are kept, so that a run can be resumed and repeated: `data` beside the run directories."""
    for name, value in options.items():
        if value is not None and resolve(name) == "output.dir":
            return Path(value).parent / "data"
    return Path("runs") / "data"


def _words(configs: Iterable[Any], sets: Mapping[str, Any], options: Mapping[str, Any], space: Optional[Mapping[str, Any]] = None) -> list[str]:
    """Files, data and options as words of a command line."""
    words = [os.fspath(config) for config in configs]
    given = dict(options)
    for name, data in sets.items():
        if data is None:
            continue
        columns = _data.parquet(data) if _data.is_path(data) else None
        data = data if columns is None else columns
        if not _data.is_path(data):
            if isinstance(data, tuple) and len(data) == 3 and "text_pair" not in given:
                given.setdefault("data.text_pair", "text_pair")
            data = _data.write(data, _folder_of(options))
        given[f"data.{name}"] = data
    return words + words_of(given) + (space_words(space) if space else [])


def _watched(name: str, words: list[str], progress: Watching, verbose: bool) -> Any:
    """A call that takes its time."""
    shown = Progress() if progress is True else None
    listener = shown if shown is not None else progress if callable(progress) else None
    with Engine(2 if verbose else 1) as engine:
        engine.listen(listener, print if verbose else None)
        if name == "tune":
            engine.use_program()
        try:
            return engine.document(name, words)
        except (Error, Interrupted) as error:
            if isinstance(error.document, dict) and "run" in error.document:
                error.run = Run(error.document["run"], error.document)  # type: ignore[union-attr]
            raise
        finally:
            if shown is not None:
                shown.end()


# ---- work -----------------------------------------------------------------------------------------------------------


def plan(*configs: Any, train: Any = None, validation: Any = None, test: Any = None, memory: Optional[str] = None, gpu: Optional[str] = None,
         labels: Optional[int] = None, **options: Any) -> Plan:  # fmt: skip
    """The memory of a run, to the byte, without running it: `if ftengine.plan(model="bert-base-uncased", gpu="4090"): ...`

    memory: what it is to fit into ("24GiB"); gpu: that of a well-known card; labels: classes, where there are no data."""
    words = _words(configs, {"train": train, "validation": validation, "test": test}, options)
    for flag, value in (("--memory", memory), ("--gpu", gpu), ("--labels", labels)):
        if value is not None:
            words += [flag, str(value)]
    try:
        with Engine() as engine:
            return Plan(engine.document("plan", words))
    except (OutOfMemoryError, NoDeviceError) as error:
        if error.document is None:
            raise
        return Plan(error.document)


def quote(*configs: Any, train: Any = None, validation: Any = None, test: Any = None, seconds: float = 10,
          space: Optional[Mapping[str, Any]] = None, **options: Any) -> Quote:  # fmt: skip
    """What a run, or a study of a space, will take: bytes exactly, seconds from a few steps that are made for it here, for about `seconds`."""
    words = _words(configs, {"train": train, "validation": validation, "test": test}, options, space)
    with Engine() as engine:
        return Quote(engine.document("quote", [*words, "--seconds", str(seconds)]))


def train(*configs: Any, train: Any = None, validation: Any = None, test: Any = None, progress: Watching = True, verbose: bool = False,
          **options: Any) -> Run:  # fmt: skip
    """Fine-tunes a model, and returns its run.

    configs: INI files. train, validation, test: a file, (texts, labels), (texts, second texts, labels), or a table with columns (a dict of
    lists, pandas, Hugging Face datasets). progress: True draws a line, a function is called with every step's news (returning True stops).
    verbose: prints what the program would. Ctrl-C saves and raises Interrupted, whose run can be resumed."""
    words = _words(configs, {"train": train, "validation": validation, "test": test}, options)
    document = _watched("train", words, progress, verbose)
    return Run(document["run"], document)


def resume(run: Union[Run, str, "os.PathLike[str]"], progress: Watching = True, verbose: bool = False, **options: Any) -> Run:
    """Goes on with a run that was stopped, with the same bits as if it had not been."""
    path = run.path if isinstance(run, Run) else run
    document = _watched("train", [os.fspath(path), *words_of(options)], progress, verbose)
    return Run(document["run"], document)


def tune(*configs: Any, train: Any = None, validation: Any = None, test: Any = None, space: Optional[Mapping[str, Any]] = None,
         study: Optional[str] = None, trials: Optional[int] = None, add: Optional[int] = None, timeout: Optional[str] = None, deadline: Optional[str] = None,
         parallel: Union[int, str, None] = None, storage: Optional[str] = None, verbose: bool = False, **options: Any) -> Study:  # fmt: skip
    """Searches hyper-parameters: space={"learning_rate": "float(1e-6, 1e-4, log)", "batch_size": [8, 16]}. Trials are processes of the
    program that was installed with this module; the same call goes on with the study."""
    words = _words(configs, {"train": train, "validation": validation, "test": test}, options, space)
    for flag, value in (("--study", study), ("--trials", trials), ("--add", add), ("--timeout", timeout), ("--deadline", deadline), ("--parallel", parallel),
                        ("--storage", storage)):  # fmt: skip
        if value is not None:
            words += [flag, str(value)]
    if configs:
        return Study(_watched("tune", words, None, verbose))
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ftengine-") as folder:  # the options are all there is; a study is called as its file
        file = Path(folder) / f"{study or 'study'}.ini"
        file.write_text("; all options were given by name\n", encoding="utf-8")
        return Study(_watched("tune", [os.fspath(file), *words], None, verbose))


def load(path: Union[Run, str, "os.PathLike[str]"], base: Any = None, **options: Any) -> Model:
    """A model in memory: of a run, a directory or a name in the cache of huggingface_hub. base: the model that an adapter stands beside."""
    return Model(path.path if isinstance(path, Run) else path, base, **options)


# ---- to look up -----------------------------------------------------------------------------------------------------


def study(*words: Any) -> dict:
    """`ftengine study WORDS --json`: study("ask", "reviews"), study("tell", "reviews", 3, 0.91), study("show", "reviews")."""
    with Engine() as engine:
        return engine.document("study", [str(word) for word in words])


def devices() -> list[dict]:
    """What there is to run on, with memory, reservations and what is missing."""
    with Engine() as engine:
        pointer = c_void_p()
        return engine.call(lambda: engine.lib.ftengine_devices(engine.handle, byref(pointer)), pointer)["devices"]


def best_device(min_free: Optional[str] = None) -> str:
    """The device that a run would take: "cuda:1". min_free: with so much free, "4GiB"; NoDeviceError when there is none."""
    with Engine() as engine:
        pointer, size = c_void_p(), None if min_free is None else str(min_free).encode()
        return engine.call(lambda: engine.lib.ftengine_best_device(engine.handle, size, byref(pointer)), pointer)["device"]


def config(*configs: Any, **options: Any) -> dict[str, str]:
    """What files and options come to: every option and its value as text."""
    words = [os.fspath(path) for path in configs] + words_of(options)
    with Engine() as engine:
        return engine.document("config", words or ["train.seed=" + table()["train.seed"]["default"]])["options"]


def options() -> dict[str, dict]:
    """Every option: type, bounds, default, help, names known elsewhere."""
    return json.loads(json.dumps(table()))
