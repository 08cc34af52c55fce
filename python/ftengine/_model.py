"""A trained model in memory."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import threading
import weakref
from ctypes import byref, c_double, c_void_p
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional

from . import _data
from ._library import BUSY, Engine, Error, InvalidError, encoded, strings, texts_of
from ._options import words_of


def _numpy() -> Any:
    """NumPy, where it is installed."""
    try:
        import numpy

        return numpy
    except ImportError:
        return None


class Model:
    """What `load` returns. With NumPy results are arrays, without it lists."""

    def __init__(self, path: Any, base: Any = None, **options: Any):
        self._engine = Engine()
        handle, words = c_void_p(), words_of(options)
        list_ = strings(words)
        lib, engine = self._engine.lib, self._engine
        place, beside = encoded(path), None if base is None else encoded(base)
        self._engine.call(lambda: lib.ftengine_load(engine.handle, place, beside, len(words), list_, byref(handle)))
        self._handle = handle
        self._lock = threading.Lock()  # a model that is used is not closed
        self._close = weakref.finalize(self, _close, engine, handle)
        document = c_void_p()
        self.info: dict[str, Any] = engine.call(lambda: lib.ftengine_model_info(handle, byref(document)), document)
        self._path, self._options, self._base = path, words, base
        self._outputs = lib.ftengine_model_outputs(handle)

    @property
    def classes(self) -> list[str]:
        """Names of the outputs, in the order of probabilities."""
        return list(self.info["classes"])

    @property
    def task(self) -> str:
        """single_label, multi_label, regression, ranking, token_classification, question_answering or causal_lm."""
        return self.info["task"]

    def close(self) -> None:
        """Gives its memory back; the object does so, too, when it is gone. An Error while another thread uses it."""
        with self._alone():
            self._close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model({self.info['path']!r}, {self.task}, {self._outputs} outputs)"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise Error(BUSY)
        try:
            yield
        finally:
            self._lock.release()

    def _call(self, work: Callable[[], int]) -> None:
        with self._alone():
            if not self._close.alive:
                raise ValueError("the model is closed")
            self._engine.call(work)

    def _texts(self, texts: Iterable[str], pairs: Optional[Iterable[str]]) -> tuple[int, Any, Any]:
        if not self._close.alive:
            raise ValueError("the model is closed")
        list_ = _data.listed(texts)
        second = None if pairs is None else _data.listed(pairs)
        if second is not None and len(second) != len(list_):
            raise ValueError(f"{len(list_)} texts and {len(second)} second texts do not go together")
        return len(list_), texts_of(list_), None if second is None else texts_of(second, "second text")

    def _numbers(self, texts: Iterable[str], pairs: Optional[Iterable[str]], decided: bool) -> tuple[Any, Any]:
        """Values [texts][outputs], and what is decided."""
        count, list_, second = self._texts(texts, pairs)
        numpy, size = _numpy(), count * self._outputs
        lib = self._engine.lib
        if numpy is not None:
            values = numpy.zeros((count, self._outputs))
            said = numpy.zeros((count, self._outputs), dtype=numpy.int8)
            places = values.ctypes.data, said.ctypes.data
        else:
            values, said = (c_double * size)(), (ctypes.c_int8 * size)()
            places = ctypes.addressof(values), ctypes.addressof(said)
        self._call(lambda: lib.ftengine_predict(self._handle, count, list_, second, places[0], places[1] if decided else None))
        if numpy is None:
            values, said = (
                [list(array[i * self._outputs : (i + 1) * self._outputs]) for i in range(count)] for array in (values, said)
            )
        return values, said

    def predict_proba(self, texts: Iterable[str], pairs: Optional[Iterable[str]] = None) -> Any:
        """Probabilities [texts, classes], in the order of `classes`; of a regression the numbers."""
        return self._numbers(texts, pairs, False)[0]

    def predict(self, texts: Iterable[str], pairs: Optional[Iterable[str]] = None) -> Any:
        """A label a text; a list of labels where a text may have several; numbers of a regression or a ranking. Of words and questions what
        `answers` gives, of a language model what it writes (`generate`)."""
        if self.info["reads"] in ("words", "questions"):
            return self.answers(texts, pairs)
        if self.info["reads"] == "prompts" and pairs is None:
            return self.generate(texts)
        values, said = self._numbers(texts, pairs, True)
        numpy, classes = _numpy(), self.classes
        if self.task == "multi_label":
            return [[classes[k] for k in range(self._outputs) if row[k]] for row in said]
        if self.task == "single_label":
            labels = [classes[list(row).index(1)] for row in said]
            return numpy.array(labels) if numpy is not None else labels
        if self._outputs > 1:
            return values
        return values[:, 0] if numpy is not None else [row[0] for row in values]

    def generate(
        self,
        prompts: Iterable[Any],
        *,
        max_new_tokens: Optional[int] = None,
        sample: bool = False,
        temperature: Optional[float] = None,
        top_p: Optional[float] = None,
        top_k: Optional[int] = None,
        seed: Optional[int] = None,
        details: bool = False,
    ) -> list:
        """What a language model writes behind each prompt: a text, or a chat (a list of {"role", "content"}), all of them of one kind. Greedy unless
        `sample` or a temperature is given; what else is not said is the model's (generation_config.json). details: the dicts of `ftengine predict --json`
        (completion, finish_reason, prompt_tokens, completion_tokens) instead of texts."""
        if isinstance(prompts, str):
            raise TypeError("prompts is a str: give a list of prompts")
        list_ = list(prompts)
        chats = bool(list_) and not isinstance(list_[0], str)
        if any(isinstance(prompt, str) == chats for prompt in list_):
            raise TypeError("prompts are texts or chats, not both")
        if chats:
            list_ = [json.dumps(list(prompt), ensure_ascii=False) for prompt in list_]
        flags = {"max-new-tokens": max_new_tokens, "temperature": temperature, "top-p": top_p, "top-k": top_k, "seed": seed}
        words = [f"--{name}={value}" for name, value in flags.items() if value is not None] + (["--sample"] if sample else [])
        count, texts, _ = self._texts(list_, None)
        lib = self._engine.lib
        given = strings(words)
        lines = self._lines(lambda pointer: lib.ftengine_generate(self._handle, count, texts, int(chats), len(words), given, pointer))
        return lines if details else [line["completion"] for line in lines]

    def answers(self, texts: Iterable[str], pairs: Optional[Iterable[str]] = None) -> list[dict]:
        """What `ftengine predict --json` would write, a dict a text; of questions `pairs` are the contexts."""
        count, list_, second = self._texts(texts, pairs)
        lib = self._engine.lib
        return self._lines(lambda pointer: lib.ftengine_answers(self._handle, count, list_, second, pointer))

    def _lines(self, call: Any) -> list[dict]:
        """The JSON lines of a call that is given a char **."""
        pointer = c_void_p()
        code_text: list[Optional[str]] = []

        def work() -> int:
            code = call(byref(pointer))
            code_text.append(self._engine.take(pointer) if code == 0 else None)
            return code

        self._call(work)
        return [json.loads(line) for line in (code_text[0] or "").splitlines()]

    def eval(self, data: Any, intervals: bool = False, **options: Any) -> dict[str, Any]:
        """Metrics on labelled data: a file, (texts, labels) or a table. intervals: 95% by bootstrap. The document of `ftengine eval --json`."""
        words = [os.fspath(self._path), *self._options, *words_of(options)] + (["--ci"] if intervals else [])
        if self._base is not None:
            words += ["--base", os.fspath(self._base)]
        if _data.is_path(data):
            return self._eval_file(words, os.fspath(data))
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ftengine-") as folder:
            return self._eval_file(words, os.fspath(_data.write(data, Path(folder))))

    def _eval_file(self, words: list[str], path: str) -> dict[str, Any]:
        with Engine() as engine:
            return engine.document("eval", [*words, "--data", path])


def _close(engine: Engine, handle: c_void_p) -> None:
    if engine.lib.ftengine_unload(handle) >= 0:  # busy: the program ends while a thread still uses it
        engine.close()


def label_of(value: Any) -> str:
    """How a label is written in data: 1 and 1.0 are different, True is true."""
    value = _data.plain(value)
    if value is None:
        raise InvalidError("a label is None")
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
