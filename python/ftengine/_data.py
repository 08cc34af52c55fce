"""Texts and labels as people have them in Python: lists, columns, pandas' and Hugging Face's tables; as JSON lines for the library."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

PathLike = Union[str, "os.PathLike[str]"]


def is_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike))


def parquet(path: Any) -> Optional[dict[str, list]]:
    """The columns of a Parquet file, by pyarrow or pandas; None: it is no such file, or neither is installed (the library says then what it is)."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PAR1":
                return None
    except OSError:
        return None
    try:
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pydict()
    except ImportError:
        pass
    try:
        import pandas

        return pandas.read_parquet(path).to_dict("list")
    except ImportError:
        return None


def plain(value: Any) -> Any:
    """Numbers of NumPy and of others as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def listed(values: Iterable[Any]) -> list:
    """A list of anything that can be gone through: a column, an array, a generator."""
    if isinstance(values, (str, bytes)):
        raise TypeError("a list of texts is wanted, not one text")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _columns(data: Any) -> Optional[tuple[list[str], dict[str, Sequence]]]:
    """Names and columns of a table; None: it is none. A dict of lists, a pandas or polars frame, a Hugging Face dataset, a list of dicts."""
    names = getattr(data, "column_names", None)
    if names is None and hasattr(data, "columns") and not callable(data.columns):
        names = data.columns
    if names is None and isinstance(data, Mapping):
        names = data.keys()
    if names is not None:
        names = [str(name) for name in names]
        return names, {name: listed(data[name]) for name in names}
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        names = list(data[0])
        return names, {name: [row.get(name) for row in data] for name in names}
    return None


def _label_names(data: Any, name: str) -> Optional[list[str]]:
    """What a Hugging Face dataset calls the classes of a column."""
    feature = (getattr(data, "features", None) or {}).get(name)
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)


def rows_of(data: Any) -> Iterator[dict]:
    """Objects with "text", "label" and the like: (texts, labels), (texts, pairs, labels) or a table, whose columns keep their names."""
    table = _columns(data)
    if table is not None:
        names, columns = table
        classes = {name: _label_names(data, name) for name in names}
        for name in names:
            if len(columns[name]) != len(columns[names[0]]):
                raise ValueError(f"column {name} has {len(columns[name])} rows, {names[0]} {len(columns[names[0]])}")
        for i in range(len(columns[names[0]]) if names else 0):
            row = {name: plain(columns[name][i]) for name in names}
            for name, called in classes.items():
                if called and isinstance(row[name], int) and row[name] >= 0:
                    row[name] = called[row[name]]
            yield row
        return
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise TypeError("data are a file's path, (texts, labels), (texts, second texts, labels), or a table with named columns; got "
                        f"{type(data).__name__}")  # fmt: skip
    columns = [listed(column) for column in data]
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"{' and '.join(str(len(column)) for column in columns)} texts and labels do not go together")
    names = ("text", "label") if len(columns) == 2 else ("text", "text_pair", "label")
    for values in zip(*columns):
        yield {name: plain(value) for name, value in zip(names, values)}


def write(data: Any, folder: Path) -> Path:
    """A file of JSON lines in `folder`, named by what is in it, so that the same data are one file."""
    import hashlib  # OpenSSL is not for who imports the module
    import tempfile

    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile("wb", dir=folder, suffix=".part", delete=False) as out:
        try:
            for row in rows_of(data):
                line = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
                digest.update(line)
                out.write(line)
        except BaseException:
            os.unlink(out.name)
            raise
    path = folder / f"{digest.hexdigest()[:16]}.jsonl"
    os.replace(out.name, path)
    return path
