"""libftengine through ctypes: its functions, its errors, and calls that Ctrl-C reaches."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import warnings
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

ABI = 1


class Error(Exception):
    """What the program would have said: message, where, hints; code is its exit code."""

    code = 1

    def __init__(self, text: str, message: str = "", where: str = "", hints: Sequence[str] = (), document: Any = None):
        super().__init__(text)
        self.message, self.where, self.hints, self.document = message or text, where, list(hints), document


class InvalidError(Error, ValueError):
    """An option, a configuration or input that cannot be meant."""

    code = 2


class OutOfMemoryError(Error, MemoryError):
    """It does not fit into memory; `document` is the plan, or the run as far as it came."""

    code = 3


class NoDeviceError(Error):
    """No suitable device in time."""

    code = 4


class DivergedError(Error, ArithmeticError):
    """The loss is not finite; `document` is the run."""

    code = 5


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the state was saved; `document` is the run, which `ftengine.resume` goes on with."""

    def __init__(self, text: str, document: Any = None):
        super().__init__(text)
        self.document = document


_ERRORS = {error.code: error for error in (Error, InvalidError, OutOfMemoryError, NoDeviceError, DivergedError)}
_INTERRUPTED = 130
BUSY = "the engine is busy: another call is under way"


class _Progress(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("event", c_int), ("run", c_char_p), ("step", c_int64), ("steps", c_int64), ("epoch", c_double),
        ("loss", c_double), ("learning_rate", c_double), ("gradient_norm", c_double), ("tokens_per_second", c_double),
        ("seconds_left", c_double), ("bytes", c_uint64), ("best", c_int), ("metric_count", c_int),
        ("metric_names", POINTER(c_char_p)), ("metric_values", POINTER(c_double)),
    ]  # fmt: skip


_TOLD = CFUNCTYPE(c_int, c_void_p, POINTER(_Progress))
_LINE = CFUNCTYPE(None, c_void_p, c_char_p)
_EVENTS = ("opened", "stepped", "logged", "evaluated")
_WORDS = [c_void_p, c_int, POINTER(c_char_p), POINTER(c_void_p)]
_FUNCTIONS = {  # name: result, arguments
    "version": (c_char_p, []), "abi": (c_int, []), "new": (c_int, [POINTER(c_void_p)]), "free": (None, [c_void_p]),
    "string_free": (None, [c_void_p]), "error": (c_char_p, [c_void_p]), "error_message": (c_char_p, [c_void_p]),
    "error_where": (c_char_p, [c_void_p]), "error_hint": (c_char_p, [c_void_p, c_int]), "stop": (None, [c_void_p]),
    "on_message": (c_int, [c_void_p, c_int, _LINE, c_void_p]), "on_progress": (c_int, [c_void_p, _TOLD, c_void_p]),
    "set_program": (c_int, [c_void_p, c_char_p]), "plan": (c_int, _WORDS), "quote": (c_int, _WORDS), "train": (c_int, _WORDS), "tune": (c_int, _WORDS),
    "eval": (c_int, _WORDS), "report": (c_int, _WORDS), "study": (c_int, _WORDS), "config": (c_int, _WORDS),
    "resume": (c_int, [c_void_p, c_char_p, c_int, POINTER(c_char_p), POINTER(c_void_p)]),
    "devices": (c_int, [c_void_p, POINTER(c_void_p)]), "best_device": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "load": (c_int, [c_void_p, c_char_p, c_char_p, c_int, POINTER(c_char_p), POINTER(c_void_p)]), "unload": (c_int, [c_void_p]),
    "model_info": (c_int, [c_void_p, POINTER(c_void_p)]), "model_outputs": (c_int, [c_void_p]),
    "predict": (c_int, [c_void_p, c_int64, POINTER(c_char_p), POINTER(c_char_p), c_void_p, c_void_p]),
    "answers": (c_int, [c_void_p, c_int64, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_void_p)]),
    "generate": (c_int, [c_void_p, c_int64, POINTER(c_char_p), c_int, c_int, POINTER(c_char_p), POINTER(c_void_p)]),
}  # fmt: skip


def _find_library() -> str:
    """FTENGINE_LIBRARY, else the one in the package, else the one that the loader knows (`make install`)."""
    asked = os.environ.get("FTENGINE_LIBRARY")
    inside = Path(__file__).with_name("libftengine.so")
    return asked or (str(inside) if inside.exists() else "libftengine.so.0")


_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The library, loaded once; its functions as attributes without their prefix's meaning lost: lib.ftengine_train."""
    global _loaded
    with _lock:
        if _loaded is None:
            path = _find_library()
            try:
                lib = ctypes.CDLL(path)
            except OSError as error:
                raise ImportError(f"libftengine cannot be loaded ({error}); FTENGINE_LIBRARY names its file") from None
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(lib, f"ftengine_{name}")
                function.restype, function.argtypes = result, arguments
            if lib.ftengine_abi() != ABI:
                raise ImportError(f"{path} has ABI {lib.ftengine_abi()}, this module is for {ABI}")
            _loaded = lib
    return _loaded


def program() -> Optional[str]:
    """The program `ftengine` that was installed with the module, else the one in PATH."""
    asked = os.environ.get("FTENGINE_PROGRAM")
    if asked:
        return asked
    try:
        from importlib.metadata import PackageNotFoundError, files

        try:
            for file in files("ftengine") or ():
                if file.name == "ftengine" and file.parent.name in ("bin", "Scripts"):
                    return str(Path(str(file.locate())).resolve())
        except PackageNotFoundError:
            pass
    except ImportError:
        pass
    import shutil
    import sysconfig

    beside = Path(sysconfig.get_path("scripts")) / "ftengine"
    return str(beside) if beside.exists() else shutil.which("ftengine")


def encoded(word: Any) -> bytes:
    """A word or a path as C has it, where a NUL would end it early."""
    text = os.fsencode(word)
    if b"\0" in text:
        raise ValueError(f"a NUL character in {os.fspath(word)!r}")
    return text


def strings(words: Sequence[str]) -> Any:
    """char *[] of texts."""
    return (c_char_p * len(words))(*[encoded(word) for word in words])


def texts_of(texts: Sequence[str], what: str = "text") -> Any:
    encoded = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{what} {i} is no str but a {type(text).__name__}")
        if "\0" in text:
            raise ValueError(f"{what} {i} has a NUL character")
        encoded.append(text.encode())
    return (c_char_p * len(encoded))(*encoded)


class Engine:
    """An engine of libftengine. One call at a time; every call may be stopped by Ctrl-C."""

    def __init__(self, level: int = 0):
        self.lib = library()
        handle = c_void_p()
        if self.lib.ftengine_new(byref(handle)) != 0:
            raise MemoryError("an engine of libftengine")
        self.handle: Optional[c_void_p] = handle
        self.messages: list[str] = []
        self._raised: Optional[BaseException] = None
        self._listener: Optional[Callable[[dict], Any]] = None
        self._printer: Optional[Callable[[str], Any]] = None
        self._kept = (_LINE(self._line), _TOLD(self._told))  # as long as the engine may call them
        self.lib.ftengine_on_message(handle, max(level, 0), self._kept[0], None)
        self.lib.ftengine_on_progress(handle, self._kept[1], None)

    def close(self) -> None:
        if self.handle is not None:
            self.lib.ftengine_free(self.handle)
            self.handle = None

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- from inside, in the thread that works: nothing may be raised there

    def _guard(self, work: Callable[[], Any]) -> int:
        try:
            return 1 if work() is True else 0
        except BaseException as error:  # kept, and raised by who called
            self._raised = self._raised or error
            return 1

    def _line(self, _: Any, text: bytes) -> None:
        line = text.decode(errors="replace")
        self.messages.append(line)
        if self._printer is not None:
            printer = self._printer
            self._guard(lambda: printer(line))

    def _told(self, _: Any, progress: Any) -> int:
        if self._listener is None:
            return 0
        p, listener = progress.contents, self._listener
        news = {
            "event": _EVENTS[p.event], "run": os.fsdecode(p.run), "step": p.step, "steps": p.steps, "epoch": p.epoch, "loss": p.loss,
            "learning_rate": p.learning_rate, "gradient_norm": p.gradient_norm, "tokens_per_second": p.tokens_per_second,
            "seconds_left": p.seconds_left, "bytes": p.bytes, "best": bool(p.best),
            "metrics": {p.metric_names[i].decode(): p.metric_values[i] for i in range(p.metric_count)},
        }  # fmt: skip
        return self._guard(lambda: listener(news))

    # ---- calls

    def _in_thread(self, work: Callable[[], int]) -> int:
        """A C call hears of Ctrl-C only through ftengine_stop; so it works in a thread, and this one waits."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        code: list[int] = []
        done = threading.Event()

        def run() -> None:
            try:
                code.append(work())
            except BaseException as error:
                self._raised = self._raised or error
            finally:
                done.set()

        threading.Thread(target=run, name="ftengine").start()
        asked = False
        while True:  # not join: an interrupt in it may have Python take the thread for ended
            try:
                if asked:
                    self.lib.ftengine_stop(self.handle)
                asked = False
                if done.wait(0.1):
                    return code[0] if code else -1
            except KeyboardInterrupt:
                asked = True
            except BaseException as error:  # of a handler of signals: what the call writes to has to be there until it ends
                self._raised, asked = self._raised or error, True

    def error(self, code: int, document: Any = None) -> BaseException:
        text = self.lib.ftengine_error(self.handle).decode(errors="replace")
        if code == _INTERRUPTED:
            return Interrupted(text, document)
        hints = []
        while (hint := self.lib.ftengine_error_hint(self.handle, len(hints))) is not None:
            hints.append(hint.decode(errors="replace"))
        message = self.lib.ftengine_error_message(self.handle).decode(errors="replace")
        where = self.lib.ftengine_error_where(self.handle).decode(errors="replace")
        if code < 0:
            return Error(BUSY)
        return _ERRORS.get(code, Error)(text, message, where, hints, document)

    def take(self, pointer: c_void_p) -> Optional[str]:
        """The text behind a char * of the library, which is freed."""
        if not pointer.value:
            return None
        text = ctypes.string_at(pointer.value).decode()
        self.lib.ftengine_string_free(pointer)
        return text

    def call(self, work: Callable[[], int], document: Optional[c_void_p] = None) -> Any:
        """Runs `work`, which returns a code; the document of it, or its error."""
        self._raised = None
        before = len(self.messages)
        code = self._in_thread(work)
        text = self.take(document) if document is not None else None
        result = json.loads(text) if text else None
        if self._printer is None:
            for line in self.messages[before:]:
                if line.startswith("warning: "):
                    warnings.warn(line[len("warning: ") :], stacklevel=4)
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if code != 0:
            raise self.error(code, result)
        return result

    def document(self, name: str, words: Sequence[str] = ()) -> Any:
        """The document of a function that takes words."""
        pointer, list_ = c_void_p(), strings(words)
        function = getattr(self.lib, f"ftengine_{name}")
        return self.call(lambda: function(self.handle, len(words), list_, byref(pointer)), pointer)

    def listen(self, listener: Optional[Callable[[dict], Any]] = None, printer: Optional[Callable[[str], Any]] = None) -> None:
        """listener(news): True stops. printer(line): has all messages; without one, warnings are Python's."""
        self._listener, self._printer = listener, printer

    def use_program(self) -> None:
        path = program()
        if path is not None and self.lib.ftengine_set_program(self.handle, encoded(path)) != 0:
            raise self.error(2)


def version() -> str:
    return library().ftengine_version().decode()


if sys.byteorder != "little":
    raise ImportError("ftengine is for little-endian machines")
