"""Options by the names that people know: the program's table says what each is called here and elsewhere."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Mapping

from ._library import Engine, InvalidError

# Names of Python's that are no key of the table.
_SHORT = {"model": "model.path", "output_dir": "output.dir", "output": "output.dir", "device": "device.name", "adapter": "adapter.type"}
_FIRST = "train"  # whose option is meant where sections share a key


@lru_cache(maxsize=None)
def table() -> dict[str, dict]:
    """{"train.epochs": {...}} as `ftengine config --json` has it."""
    with Engine() as engine:
        return {option["name"]: option for option in engine.document("config")["options"]}


@lru_cache(maxsize=None)
def _names() -> dict[str, list[str]]:
    """Keys without their section, and names known elsewhere, each with the options that are called so."""
    names: dict[str, list[str]] = {}
    for name in table():
        names.setdefault(name.split(".", 1)[1], []).append(name)
    known = set(names)
    for name, option in table().items():
        for other in option["elsewhere"]:
            if other not in known:
                names.setdefault(other, []).append(name)
    return names


def resolve(name: str) -> str:
    """The option's name with its section: epochs, num_train_epochs and train.epochs are train.epochs."""
    if name in table():
        return name
    if name in _SHORT:
        return _SHORT[name]
    options = _names().get(name, [])
    first = [option for option in options if option.startswith(_FIRST + ".")]
    if len(options) == 1 or len(first) == 1:
        return (first or options)[0]
    if options:
        raise InvalidError(f"{name} may be {' or '.join(options)}", f"{name} is the name of several options", name,
                           [f"**{{'{options[0]}': ...}} says which"])  # fmt: skip
    import difflib  # where something is wrong, and not for everybody

    near = difflib.get_close_matches(name, [*table(), *_names(), *_SHORT], 1)
    hint = f"did you mean {near[0]}?" if near else "ftengine.options() lists all of them"
    raise InvalidError(f"unknown option {name}; {hint}", f"unknown option {name}", name, [hint])


def text_of(value: Any) -> str:
    """A value as a configuration has it."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(text_of(v) for v in value)
    if isinstance(value, float) or (hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0):
        return repr(value.item() if hasattr(value, "item") else value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def words_of(options: Mapping[str, Any]) -> list[str]:
    """section.key=value for every option; None is left out, as the default."""
    return [f"{resolve(name)}={text_of(value)}" for name, value in options.items() if value is not None]


def space_words(space: Mapping[str, Any]) -> list[str]:
    """Lines of [space]: a text as it is written there, a list or tuple of choices."""
    words = []
    for name, range_ in space.items():
        text = f"choice({', '.join(text_of(v) for v in range_)})" if isinstance(range_, (list, tuple)) else str(range_)
        words.append(f"space.{resolve(name)}={text}")
    return words
