"""Progress in a terminal and in a notebook, and pieces of HTML."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional


def escape(text: str) -> str:
    import html  # and its thousands of entities

    return html.escape(text)


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return ""


def figure(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def table_html(rows: list[tuple[str, Any]], title: str = "") -> str:
    cells = "".join(f"<tr><td>{escape(str(k))}</td><td style='text-align:right'>{escape(figure(v))}</td></tr>" for k, v in rows)
    return (f"<b>{escape(title)}</b>" if title else "") + f"<table>{cells}</table>"


def memory_html(categories: dict[str, int]) -> str:
    """A bar for each category of memory."""
    most = max(categories.values(), default=0) or 1
    bars = "".join(
        f"<tr><td>{escape(name)}</td><td><div style='background:#2a6fdb;height:0.8em;width:{200 * count / most:.0f}px'></div></td>"
        f"<td style='text-align:right'>{bytes_text(count)}</td></tr>"
        for name, count in sorted(categories.items(), key=lambda item: -item[1])
        if count > 0
    )
    return f"<table>{bars}</table>"


def _notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """A line that redraws itself: on a terminal, or in a notebook's cell; nothing elsewhere."""

    EVERY = 0.1

    def __init__(self) -> None:
        self.handle: Any = None
        self.shown, self.width, self.scores = 0.0, 0, ""
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        if _notebook():
            from IPython.display import HTML, display  # type: ignore[import-not-found]

            self.html, self.terminal = HTML, False
            self.handle = display(HTML(""), display_id=True)

    def __call__(self, news: dict) -> Optional[bool]:
        if news["event"] == "evaluated":
            self.scores = "  ".join(f"{k} {v:.4f}" for k, v in news["metrics"].items() if k in ("loss", "accuracy", "f1_macro", "pearson", "mse"))
        if news["steps"] == 0 or (time.monotonic() - self.shown < self.EVERY and news["step"] < news["steps"]):
            return None
        self.shown = time.monotonic()
        line = (
            f"step {news['step']}/{news['steps']}  loss {news['loss']:.4f}  {news['tokens_per_second']:.0f} tokens/s  "
            f"{bytes_text(news['bytes'])}  {news['seconds_left']:.0f} s left  {self.scores}"
        ).rstrip()
        if self.handle is not None:
            share = 100 * news["step"] / news["steps"]
            self.handle.update(self.html(f"<progress max=100 value={share:.1f}></progress> <code>{escape(line)}</code>"))
        elif self.terminal:
            sys.stderr.write("\r" + line.ljust(self.width)[:250])
            sys.stderr.flush()
            self.width = len(line)
        return None

    def end(self) -> None:
        if self.terminal and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
