"""The page of a run or study and its pictures, as the program draws them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Optional

from ._show import escape

_FIGURE = re.compile(r"<figure[^>]*>.*?</figure>", re.S)
_TITLE = re.compile(r"<figcaption><b>(.*?)</b>|aria-label=\"(.*?)\"", re.S)
_HEIGHT = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def _frame(page: str, height: int) -> str:
    """A page of its own within another one, whose style is another."""
    return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:{height}px;border:0"></iframe>'


class Plot:
    """A picture of a report."""

    def __init__(self, title: str, figure: str, style: str):
        self.title, self._figure, self._style = title, figure, style

    @property
    def html(self) -> str:
        """The picture and its legend, as a page that needs nothing else."""
        return f'<!doctype html><meta charset="utf-8"><title>{escape(self.title)}</title>{self._style}{self._figure}'

    @property
    def svg(self) -> str:
        """The picture alone, as a file of SVG."""
        import html

        drawing = self._figure[self._figure.index("<svg") : self._figure.index("</svg>") + 6]
        rules = self._style.removeprefix("<style>").removesuffix("</style>")
        drawing = re.sub(r"&(?!amp;|lt;|gt;|quot;|#)\w+;", lambda named: html.unescape(named[0]), drawing)  # HTML has more names than XML
        opening, rest = drawing.split(">", 1)
        return f'{opening.replace("<svg", "<svg xmlns=" + chr(34) + "http://www.w3.org/2000/svg" + chr(34), 1)}><style><![CDATA[{rules}]]></style>{rest}'

    def save(self, path: Any) -> Path:
        """Writes it: .html with its legend, else SVG."""
        path = Path(path)
        path.write_text(self.html if path.suffix in (".html", ".htm") else self.svg, encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"

    def _repr_html_(self) -> str:
        box = _HEIGHT.search(self._figure)
        return _frame(self.html, int(700 * float(box[2]) / float(box[1])) + 80 if box else 400)


class Report:
    """The page of a run or study: a file that needs nothing else."""

    def __init__(self, path: Any):
        self.path = Path(path)

    @property
    def html(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def plots(self) -> dict[str, Plot]:
        """The pictures by their titles: loss, learning rate, ..."""
        import html

        page = self.html
        style = re.search(r"<style>.*?</style>", page, re.S)
        plots = {}
        for figure in _FIGURE.findall(page):
            title = _TITLE.search(figure)
            if title and "<svg" in figure:
                name = html.unescape(re.sub(r"<[^>]*>", "", title[1] or title[2]))
                plots[name] = Plot(name, figure, style[0] if style else "")
        return plots

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return _frame(self.html, 800)


def report_of_run(run: Path, path: Optional[Any], texts: bool) -> Report:
    from ._library import Engine

    words = [os.fspath(run), *(["--output", os.fspath(path)] if path is not None else []), *([] if texts else ["--no-texts"])]
    with Engine() as engine:
        return Report(engine.document("report", words)["report"])


def report_of_study(study: Path, path: Optional[Any]) -> Report:
    from ._library import Engine

    with Engine() as engine:
        return Report(engine.document("study", ["report", os.fspath(study), *(["--output", os.fspath(path)] if path is not None else [])])["report"])
