"""One cell of the matrix: what one reader found in one table in one way, beside what Headwater finds there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.fixtures.comparison import difference
from tests.fixtures.suites import Case
from tests.interop.compare import CHANGE_COLUMNS, _spark_type, _whole_images
from tests.interop.write_matrix.reads import Read
from tests.interop.write_matrix.story import Story

META_ONLY_THEIRS = ("_hoodie_file_name",)


@dataclass(frozen=True)
class Cell:
    """A cell: passed, failed, known (a difference that is not ours, with its reason) or unable (the reader cannot)."""

    table: str
    reader: str
    stage: str
    read: str
    state: str
    message: str = ""


def against_model(story: Story) -> str | None:
    """What the table holds by Headwater, against the model."""
    columns = list(story.rows.columns)
    for metadata in (True, False):
        table = type(story.table)(story.table.hudi.open(story.table.hudi.storage, metadata=metadata))
        got = table.scan(columns=columns).to_arrow().to_pylist(maps_as_pydicts="strict")
        found = {story.model.key(row): row for row in got}
        if len(found) < len(got):
            return f"{len(got) - len(found)} keys came twice"
        for key in sorted({*found, *story.model.rows}, key=str):
            if found.get(key) != story.model.rows.get(key):
                return f"{key}: {found.get(key)}, expected {story.model.rows.get(key)}"
    return None


def compare(story: Story, read: Read, rows: Sequence[Mapping[str, Any]], types: Sequence[Sequence[str]]) -> str | None:
    """What differs between the rows of a reader and ours."""
    try:
        got = read.here(story)
    except Exception as error:
        return f"here: {type(error).__name__}: {error}"
    if read.mode == "cdc":
        images = [_whole_images(row, got.schema) for row in rows]
        return difference(Case("", "cdc", {}, images, CHANGE_COLUMNS), got)
    loose = _loose(story)
    columns = tuple(name for name, _ in types if name not in _left_out(story, read))
    got = got.drop_columns([name for name in _left_out(story, read) if name in got.column_names])
    found = difference(Case("", read.mode, {}, rows, columns, loose=frozenset(loose)), got)
    if found is not None:
        return found
    theirs = {(name, kind) for name, kind in types if name in columns and name not in loose}
    ours = {(one.name, _spark_type(one.type)) for one in got.schema if one.name not in loose}
    return f"types: {sorted(ours - theirs)}, expected {sorted(theirs - ours)}" if ours != theirs else None


def _loose(story: Story) -> tuple[str, ...]:
    """Columns that Hudi takes from the path where we take what is stored."""
    return ("ev",) if story.spec.keys in ("timestamp", "custom") else ()


def _left_out(story: Story, read: Read) -> tuple[str, ...]:
    """Of versions of a base file with the same row, Hudi may read a later one; its ranges give encoded values."""
    names = ["ev"] if read.path_values and _loose(story) else []
    if read.mode == "incremental":
        names += ["_hoodie_file_name", *(["part"] if "encoded" in story.spec.style else [])]
    return tuple(names)


def from_arrow(table: pa.Table) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Rows and types of another reader that gives Arrow."""
    rows = [_plain(row) for row in table.to_pylist(maps_as_pydicts="strict")]
    return rows, [(one.name, _spark_type(one.type)) for one in table.schema]


def _plain(value: Any) -> Any:
    from datetime import date, datetime
    from decimal import Decimal

    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, (datetime, date)) else value
