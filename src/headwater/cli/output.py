"""How the command talks: consoles, numbers and times as people read them, JSON for programs."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rich.box import Box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

# Heads underlined, nothing else: what is copied out of it is clean.
HEADS = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
_PLAIN_HEADS = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
# Wide enough that nothing is cut where no terminal says how wide it is.
_NO_TERMINAL_WIDTH = 1000


class PipeConsole(Console):
    """A console that lets a broken pipe be an error: the command decides what becomes of it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def tolerate(stream: object) -> None:
    """Let a stream that cannot show a character show a question mark: names and rows may hold anything."""
    if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
        stream.reconfigure(errors="replace")


def console(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now."""
    stream = sys.stderr if stderr else sys.stdout
    tolerate(stream)
    if stream.isatty() or os.environ.get("COLUMNS"):
        return PipeConsole(file=stream, highlight=False, soft_wrap=False)
    return PipeConsole(file=stream, highlight=False, width=_NO_TERMINAL_WIDTH)


def picture_width(out: Console) -> int:
    """How wide a drawing may be."""
    return 80 if out.width == _NO_TERMINAL_WIDTH else min(out.width, 120)


def is_plain(out: Console) -> bool:
    """Whether the stream can only show ASCII."""
    return not out.encoding.lower().startswith("utf")


def grid(out: Console, *columns: str, right: str = "", widths: Sequence[int] | None = None) -> Grid:
    """A table; columns named in `right` (separated by blanks) stand flush right."""
    found = Grid(
        box=_PLAIN_HEADS if is_plain(out) else HEADS,
        header_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for index, name in enumerate(columns):
        found.add_column(
            Text(printable(name)),
            justify="right" if name in right.split() else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=None if widths is None else widths[index],
        )
    return found


def fit(naturals: Sequence[int], width: int, *, gap: int = 2, least: int = 12) -> list[int] | None:
    """Widths for columns of these natural widths: the widest give way first; None where it cannot be done decently.

    >>> fit([2, 40, 20], 60), fit([2, 40, 20], 30), fit([20] * 9, 80)
    ([2, 34, 20], [2, 12, 12], None)
    """
    widths = list(naturals)
    over = sum(widths) + gap * (len(widths) - 1) - width
    while over > 0:
        widest = max(range(len(widths)), key=lambda index: widths[index])
        if widths[widest] <= least:
            return None
        widths[widest] -= 1
        over -= 1
    return widths


def bar(*, hidden: bool = False) -> Progress:
    """A progress bar on stderr; it shows on a terminal only, and leaves nothing behind."""
    out = console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        transient=True,
        disable=hidden or not out.is_terminal,
    )


def print_json(value: Any) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(to_json(value), indent=2, ensure_ascii=False) + "\n")


def to_json(value: Any) -> Any:
    """A Python value as JSON can hold it: times in ISO form, decimals and what is not finite as text, bytes in base64.

    >>> to_json({"a": Decimal("1.50"), "b": float("nan"), "c": date(2026, 1, 2), "d": b"x"})
    {'a': '1.50', 'b': 'NaN', 'c': '2026-01-02', 'd': 'eA=='}
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    return str(value)


def cell(value: Any) -> Text:
    """A value in a table for people."""
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, str):
        return Text(printable(value))
    if isinstance(value, (bool, int, Decimal)):
        return Text(str(value))
    plain = value.isoformat(sep=" ") if isinstance(value, datetime) else to_json(value)
    return Text(printable(plain) if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def printable(text: str) -> str:
    r"""Text without what would move the cursor.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def size_text(count: int | None) -> str:
    """
    >>> size_text(435484), size_text(12), size_text(None)
    ('435 KB', '12 B', '')
    """
    if count is None:
        return ""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def duration_text(requested_at: str, completed_at: str | None) -> str:
    """How long an action took.

    >>> duration_text("20261115073146372", "20261115073151664"), duration_text("20261115073146372", None)
    ('5.3 s', '')
    """
    if completed_at is None:
        return ""
    try:
        start, end = (datetime.strptime(text.ljust(17, "0"), "%Y%m%d%H%M%S%f") for text in (requested_at, completed_at))
    except ValueError:
        return ""
    seconds = (end - start) / timedelta(seconds=1)
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
