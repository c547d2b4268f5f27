"""Base files that Spark's own reader will not be able to read, told beforehand by the schema of their commit.

The footer decides, on the executors ("The file decides" in docs/spark-connector.md): these are the same rules, so that
`explain` can say what will come of them. Where a commit says nothing, or is not at hand, nothing is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.hudi.schema import schema_written
from headwater.hudi.timeline import HudiTimeline
from headwater.spark.types import spark_type

# Commits that planning reads for this alone; those that it has read anyway cost nothing.
_MOST_COMMITS = 16
_WIDER = ("byte", "short", "integer", "long", "float", "double")
_SHOWN = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

Renames = Mapping[tuple[str, ...], str | None]


class StoredTypes:
    """The schemas that files were written with, by the instant of their commit."""

    def __init__(self, timeline: HudiTimeline, instants: Iterable[str]) -> None:
        commits = {instant.requested_at: instant for instant in timeline.commits}
        wanted = sorted({text for text in instants if text in commits}, reverse=True)[:_MOST_COMMITS]

        def load(text: str) -> pa.Schema | None:
            try:
                return schema_written(timeline, commits[text])
            except HeadwaterError:
                return None  # no row depends on it

        if len(wanted) > 1:
            with ThreadPoolExecutor(min(8, len(wanted))) as pool:
                self._schemas = dict(zip(wanted, pool.map(load, wanted), strict=True))
        else:
            self._schemas = {text: load(text) for text in wanted}

    def why_not(self, instant: str, wanted: Mapping[str, Any], renames: Renames, constants: Collection[str]) -> str:
        """Why files of an instant are left to the sidecar, or nothing."""
        stored = self._schemas.get(instant)
        return "" if stored is None else why_not(wanted, stored, renames, constants)


def why_not(
    wanted: Mapping[str, Any], stored: pa.Schema, renames: Renames | None = None, constants: Collection[str] = ()
) -> str:
    """Why Spark's reader cannot give columns of these types from a file with those, or nothing where it can.

    >>> asked = {"fields": [{"name": "qty", "type": "string"}]}
    >>> why_not(asked, pa.schema([("qty", pa.int32())])), why_not(asked, pa.schema([("id", pa.int32())]))
    ('column qty is stored as int, the table says string', '')
    """
    for field in wanted["fields"]:
        name = field["name"]
        if name in constants:
            continue
        place = _find(list(stored), name, (name,), renames or {})
        if place is None:
            continue
        reason = _judge(field["type"], place.type, (name,), renames or {}, may_widen=True)
        if reason == _DIFFER:
            return f"column {name} is stored as {_shown(place.type)}, the table says {_shown_json(field['type'])}"
        if reason:
            return reason
    return ""


_DIFFER = "differ"


def _find(fields: list[pa.Field], name: str, path: tuple[str, ...], renames: Renames) -> pa.Field | None:
    called = renames.get(path, name)
    exact = [field for field in fields if field.name == called]
    return exact[0] if exact else None


def _judge(wanted: Any, stored: pa.DataType, path: tuple[str, ...], renames: Renames, *, may_widen: bool) -> str:
    if pa.types.is_time(stored) or pa.types.is_duration(stored):
        return f"column {path[0]}: Spark's reader does not know its stored type ({stored})"
    if isinstance(wanted, Mapping) and wanted["type"] == "struct" and pa.types.is_struct(stored):
        return _judge_struct(wanted, stored, path, renames)
    if isinstance(wanted, Mapping) and wanted["type"] == "array" and _is_list(stored):
        return _judge(wanted["elementType"], stored.value_type, (*path, "element"), renames, may_widen=False)
    if isinstance(wanted, Mapping) and wanted["type"] == "map" and pa.types.is_map(stored):
        key = _judge(wanted["keyType"], stored.key_type, (*path, "key"), renames, may_widen=False)
        return key or _judge(wanted["valueType"], stored.item_type, (*path, "value"), renames, may_widen=False)
    found = spark_type(stored)
    if wanted == found:
        return ""
    widened = may_widen and wanted in _WIDER and found in _WIDER and _WIDER.index(wanted) > _WIDER.index(found)
    return "" if widened else _DIFFER


def _judge_struct(wanted: Mapping[str, Any], stored: pa.DataType, path: tuple[str, ...], renames: Renames) -> str:
    found = False
    for field in wanted["fields"]:
        inner = (*path, field["name"])
        place = _find(list(stored), field["name"], inner, renames)
        if place is None:
            if inner in renames:
                return f"field {'.'.join(inner)} was replaced since the file was written"
            continue
        found = True
        reason = _judge(field["type"], place.type, inner, renames, may_widen=False)
        if reason:
            return reason
    return "" if found else f"field {'.'.join(path)}: none of the fields asked for is in the file"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _shown(kind: pa.DataType) -> str:
    return _shown_json(spark_type(kind))


def _shown_json(kind: Any) -> str:
    """A Spark type as SQL has it.

    >>> _shown_json({"type": "array", "elementType": "integer"})
    'array<int>'
    """
    if isinstance(kind, str):
        return _SHOWN.get(kind, kind)
    if kind["type"] == "struct":
        return "struct<" + ",".join(f"{f['name']}:{_shown_json(f['type'])}" for f in kind["fields"]) + ">"
    if kind["type"] == "map":
        return f"map<{_shown_json(kind['keyType'])},{_shown_json(kind['valueType'])}>"
    return f"array<{_shown_json(kind['elementType'])}>"
