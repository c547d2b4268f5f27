"""A table's history as a picture: a lane for each kind of action, time from left to right, pending actions hollow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind of action: its name, its glyphs where it is done and where it is pending, its colour."""

    name: str
    done: str
    pending: str
    letter: str
    style: str

    def glyph(self, *, done: bool, plain: bool) -> str:
        if plain:
            return self.letter.upper() if done else self.letter.lower()
        return self.done if done else self.pending


LANES = {
    lane.name: lane
    for lane in (
        Lane("commit", "●", "○", "c", "green"),
        Lane("delta commit", "◆", "◇", "d", "cyan"),
        Lane("replace", "■", "□", "r", "blue"),
        Lane("compaction", "▲", "△", "p", "yellow"),
        Lane("log compaction", "▴", "▵", "l", "yellow"),
        Lane("clustering", "⬢", "⬡", "u", "yellow"),
        Lane("clean", "▼", "▽", "x", "magenta"),
        Lane("rollback", "◀", "◁", "b", "red"),
        Lane("restore", "◉", "◎", "o", "red"),
        Lane("savepoint", "★", "☆", "s", "bright_blue"),
        Lane("indexing", "▶", "▷", "i", "magenta"),
    )
}

_BY_OPERATION = {
    "COMPACT": "compaction",
    "LOG_COMPACT": "log compaction",
    "CLUSTER": "clustering",
    "BUCKET_RESCALE": "clustering",
}
_BY_ACTION = {"deltacommit": "delta commit", "replacecommit": "replace", "logcompaction": "log compaction"}
_BARS = "▁▂▃▄▅▆▇█"


def lane_of(action: str, operation: str | None) -> Lane:
    """The lane of an action. A compaction completes as a commit, a clustering as a replace commit: they stay apart.

    >>> lane_of("commit", "COMPACT").name, lane_of("compaction", None).name, lane_of("deltacommit", "UPSERT").name
    ('compaction', 'compaction', 'delta commit')
    """
    name = _BY_OPERATION.get(operation or "") or _BY_ACTION.get(action, action)
    return LANES.get(name, LANES["commit"])


def picture(history: pa.Table, *, width: int = 80, plain: bool = False) -> Text:
    """A history (as `Inspect.history` gives it) drawn in so many columns; `plain` draws with letters alone.

    Actions stand where their time puts them, pushed apart where they would touch. With more actions than columns,
    neighbours share a column, and a digit says how many.

    >>> import headwater
    >>> from headwater.demo import demo_table
    >>> print(picture(headwater.open(demo_table("trips")).inspect.history(), width=50).plain)
    2026-11-15 07:31:46 → 07:32:06 · 5 done · 1 pending
    ◆ delta commit ◆·········◆········◆······◆·······◆
    ▲ compaction   ························△··········
      rows changed █         ▂        ▂      ▂       ▂
                   ┴─────────┴────────┴──────────────┴
                   07:31:46  :52      :57     07:32:06
    """
    rows = history.to_pylist()
    if not rows:
        return Text("no action yet", style="dim")
    placed = _place(rows, width, plain)
    lines = [_title(rows, placed.moments, plain)]
    for lane in [lane for lane in LANES.values() if lane.name in {p.name for p in placed.lanes}]:
        lines.append(_lane_line(lane, rows, placed, plain))
    if not plain:
        lines += _bars(rows, placed)
    lines += _axis(rows, placed, plain)
    return Text("\n").join(lines)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where each action stands."""

    lanes: Sequence[Lane]
    columns: Sequence[int]
    moments: Sequence[datetime] | None
    label: int
    track: int


def _place(rows: Sequence[Mapping[str, Any]], width: int, plain: bool) -> _Placed:
    lanes = [lane_of(row["action"], row["operation"]) for row in rows]
    names = [lane.name for lane in lanes] + ([] if plain else ["rows changed"])
    label = max(map(len, names)) + 3
    track = max(width - label, 10)
    found = [_moment(row["requested_at"]) for row in rows]
    moments = [moment for moment in found if moment is not None]
    if len(moments) < len(rows):
        columns = _spread([index / max(len(rows) - 1, 1) for index in range(len(rows))], track)
        return _Placed(lanes, columns, None, label, track)
    span = (moments[-1] - moments[0]) / timedelta(milliseconds=1)
    columns = _spread([(m - moments[0]) / timedelta(milliseconds=1) / (span or 1) for m in moments], track)
    return _Placed(lanes, columns, moments, label, track)


def _spread(shares: Sequence[float], track: int) -> list[int]:
    """Columns for rising shares of the track, apart where there is room.

    >>> _spread([0, 0.01, 0.02, 1], 11)
    [0, 2, 4, 10]
    """
    columns = [round(share * (track - 1)) for share in shares]
    gap = 2 if len(columns) * 2 - 1 <= track else 1
    if len(columns) > track:
        return columns
    for index in range(1, len(columns)):
        columns[index] = max(columns[index], columns[index - 1] + gap)
    columns[-1] = min(columns[-1], track - 1)
    for index in range(len(columns) - 2, -1, -1):
        columns[index] = min(columns[index], columns[index + 1] - gap)
    return columns


def _title(rows: Sequence[Mapping[str, Any]], moments: Sequence[datetime] | None, plain: bool) -> Text:
    pending = sum(1 for row in rows if row["state"] != "completed")
    if moments is None:
        first, last = rows[0]["requested_at"], rows[-1]["requested_at"]
    else:
        first = f"{moments[0]:%Y-%m-%d %H:%M:%S}"
        form = "%H:%M:%S" if moments[0].date() == moments[-1].date() else "%Y-%m-%d %H:%M:%S"
        last = moments[-1].strftime(form)
    text = Text(f"{first} {'to' if plain else '→'} {last}", style="bold")
    dot = "," if plain else " ·"
    text.append(f"{dot} {len(rows) - pending} done", style="not bold dim")
    if pending:
        text.append(f"{dot} {pending} pending", style="not bold dim")
    return text


def _lane_line(lane: Lane, rows: Sequence[Mapping[str, Any]], placed: _Placed, plain: bool) -> Text:
    cells: dict[int, list[bool]] = {}
    for row, mine, column in zip(rows, placed.lanes, placed.columns, strict=True):
        if mine is lane:
            cells.setdefault(column, []).append(row["state"] == "completed")
    line = Text(no_wrap=True)
    line.append(f"{lane.glyph(done=True, plain=plain)} ", style=lane.style)
    line.append(f"{lane.name:<{placed.label - 2}}")
    for column in range(placed.track):
        states = cells.get(column)
        if states is None:
            line.append("." if plain else "·", style="dim")
        elif len(states) == 1:
            line.append(lane.glyph(done=states[0], plain=plain), style=f"bold {lane.style}")
        else:
            line.append(str(len(states)) if len(states) < 10 else "+", style=f"bold {lane.style}")
    return line


def _bars(rows: Sequence[Mapping[str, Any]], placed: _Placed) -> list[Text]:
    """How many rows each write changed, the greatest full height."""
    changed = [0] * placed.track
    for row, column in zip(rows, placed.columns, strict=True):
        if row["operation"] not in _BY_OPERATION:
            changed[column] += sum(row[name] or 0 for name in ("rows_inserted", "rows_updated", "rows_deleted"))
    most = max(changed)
    if not most:
        return []
    bars = "".join(_BARS[min((count * 8 - 1) // most, 7)] if count else " " for count in changed)
    return [Text(f"  {'rows changed':<{placed.label - 2}}", style="dim").append(bars.rstrip(), style="not dim white")]


def _axis(rows: Sequence[Mapping[str, Any]], placed: _Placed, plain: bool) -> list[Text]:
    """A rule with ticks at the actions that have room for a label, and the labels."""
    texts = _labels(rows, placed.moments)
    ticks: list[tuple[int, str]] = []
    free, before, last = 0, "", placed.columns[-1]
    end = max(last - len(texts[-1]) + 1, 0) if last + len(texts[-1]) > placed.track + 6 else last
    for full, column in zip(texts[:-1], placed.columns[:-1], strict=True):
        text = full[5:] if full[2:3] == ":" and full[:5] == before[:5] else full
        if column >= free and column + len(text) + 1 <= end:
            ticks.append((column, text))
            free, before = column + len(text) + 1, full
    ticks.append((last, texts[-1]))
    rule = ["-" if plain else "─"] * (last + 1)
    labels = ""
    for column, text in ticks:
        rule[column] = "+" if plain else "┴"
        labels = labels.ljust(end if column == last else column) + text
    pad = " " * placed.label
    return [Text(pad + "".join(rule), style="dim"), Text(pad + labels, style="dim")]


def _labels(rows: Sequence[Mapping[str, Any]], moments: Sequence[datetime] | None) -> list[str]:
    """Each action's time, no longer than the span of the history demands."""
    if moments is None:
        return [row["requested_at"].lstrip("0") or "0" for row in rows]
    span = moments[-1] - moments[0]
    form = "%H:%M:%S" if span < timedelta(hours=12) else "%m-%d %H:%M" if span < timedelta(days=300) else "%Y-%m-%d"
    return [moment.strftime(form) for moment in moments]


def _moment(instant: str) -> datetime | None:
    try:
        return datetime.strptime(instant[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(instant[14:17] or 0))
    except ValueError:
        return None
