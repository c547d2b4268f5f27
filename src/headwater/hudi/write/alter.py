"""ALTER TABLE: columns that come, go, change their names, places, types and comments, by a commit without files.

What any reader can follow by names alone (new columns, numbers that grow, comments) is a commit with a new schema.
Names that change, and columns that go, need ids: such a commit has Hudi's internal schema as well (`latest_schema`),
and the folder `.hoodie/.schema` gets a file with all that there ever were. Apache Hudi reads such tables with
`hoodie.schema.on.read.enable=true`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.errors import ColumnNotFound, HeadwaterError, LockLost, OutcomeUnknown, WriteRefused
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.schema import META_COLUMNS, META_SCHEMA, schema_history_text
from headwater.hudi.table import HudiTable
from headwater.hudi.write import column_tree
from headwater.hudi.write.clock import next_time
from headwater.hudi.write.column_tree import Column
from headwater.hudi.write.planning import refuse_what_cannot_be_written
from headwater.hudi.write.reconcile import evolved_avro, grows, stored_schema
from headwater.hudi.write.transaction import Transaction, begin
from headwater.spec.model import Instant

_LATEST = "latest_schema"
Path = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a column goes: behind another, or first."""

    after: str | None = None


@dataclass(frozen=True)
class AddColumn:
    path: Path
    type: pa.DataType
    nullable: bool = True
    comment: str | None = None
    place: Place | None = None


@dataclass(frozen=True)
class RenameColumn:
    path: Path
    name: str


@dataclass(frozen=True)
class DropColumn:
    path: Path
    if_exists: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """What is None stays."""

    path: Path
    type: pa.DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    place: Place | None = None


Change = AddColumn | RenameColumn | DropColumn | ChangeColumn


def alter_columns(table: HudiTable, changes: Sequence[Change]) -> Instant | None:
    """Change the columns of a table in one commit; None where nothing was to be changed.

    All changes are checked before anything is written. A crash leaves a pending commit, which the next writer rolls
    back, and perhaps a file in the schema folder that belongs to it and that nobody reads.

    >>> import tempfile
    >>> from headwater.hudi.write.create import create_table
    >>> from headwater.storage import Storage
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> create_table(storage, name="t", schema=pa.schema([("id", pa.string()), ("v", pa.int32())]), record_key=["id"])
    >>> _ = alter_columns(HudiTable.open(storage), [RenameColumn(("v",), "price"), AddColumn(("at",), pa.date32())])
    >>> HudiTable.open(storage).schema.arrow.names[5:]
    ['id', 'price', 'at']
    """
    refuse_what_cannot_be_written(table.config, table.storage.uri)
    if _altered(table, changes) is None:
        return None
    with begin(table, "deltacommit" if table.config.is_merge_on_read else "commit", "alter_schema") as write:
        made = _altered(write.table, changes)
        if made is None:
            return None
        schema = _avro(write.table, made.columns)
        if not made.by_ids:
            return write.complete([], schema=schema)
        return _complete_with_ids(write, made, schema)


@dataclass(frozen=True)
class _Altered:
    columns: tuple[Column, ...]
    """Hudi's own first."""
    before: tuple[Column, ...]
    highest: int
    by_ids: bool


def _altered(table: HudiTable, changes: Sequence[Change]) -> _Altered | None:
    """The columns after the changes."""
    schema = table.schema
    text = _internal_text(table)
    docs = {field["name"]: field.get("doc") for field in (schema.avro or {}).get("fields", ())}
    if text is not None:
        internal = json.loads(text)
        before = column_tree.of_internal(schema.arrow, internal)
        highest = int(internal.get("max_column_id", column_tree.highest_id(before)))
    else:
        before = tuple(
            replace(column, doc="" if column.name in META_COLUMNS else docs.get(column.name))
            for column in column_tree.number(schema.arrow)
        )
        highest = column_tree.highest_id(before)
    columns = before
    by_ids = text is not None
    for change in changes:
        _refuse_named_by_the_table(table, change)
        by_ids = by_ids or _needs_ids(columns, change)
        columns = _apply(columns, change, table.storage.uri)
    if columns == before:
        return None
    ids = itertools.count(highest + 1)
    columns = column_tree.with_ids(columns, ids)
    return _Altered(columns, before, max(highest, next(ids) - 1), by_ids)


def _internal_text(table: HudiTable) -> str | None:
    if table.schema.internal is None:
        return None
    for instant in reversed(table.timeline.commits):
        text = table.timeline.extra(instant).get(_LATEST)
        if text:
            return text
    return None


def _refuse_named_by_the_table(table: HudiTable, change: Change) -> None:
    """Keys, ordering and partitions are known by names that the table's properties, and every stored file, have."""
    path = ".".join(change.path)
    uri = table.storage.uri
    if change.path[0] in META_COLUMNS:
        raise WriteRefused(f"{uri}: {path} is one of Hudi's own columns, which stay as they are")
    if isinstance(change, AddColumn) or (isinstance(change, ChangeColumn) and change.type is None):
        return
    config = table.config
    for role, names in (
        ("record key", config.record_key_fields),
        ("ordering", config.ordering_fields),
        ("partition", config.partition_fields),
    ):
        if any(name == path or name.startswith(f"{path}.") for name in names):
            raise WriteRefused(
                f"{uri}: {path} is a {role} column, which can be neither renamed nor dropped nor given another type; "
                "write the rows to a new table"
            )


def _needs_ids(columns: Sequence[Column], change: Change) -> bool:
    """Whether readers that go by names would be misled."""
    if isinstance(change, RenameColumn | DropColumn):
        return True
    if isinstance(change, ChangeColumn) and change.type is not None:
        found = _find(columns, change.path)
        return found is not None and not found.children and not _same_or_grows(found.type, change.type)
    return False


def _same_or_grows(known: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(known.equals(wanted)) or grows(known, wanted)


def _find(columns: Sequence[Column], path: Path) -> Column | None:
    for column in columns:
        if column.name == path[0]:
            return column if len(path) == 1 else _find(column.children, path[1:])
    return None


def _apply(columns: tuple[Column, ...], change: Change, uri: str) -> tuple[Column, ...]:
    where = ".".join(change.path)
    parent, name = change.path[:-1], change.path[-1]
    if parent and _find(columns, parent) is None:
        raise ColumnNotFound(f"{uri}: no column {'.'.join(parent)}")
    if not isinstance(change, AddColumn) and _find(columns, change.path) is None:
        if isinstance(change, DropColumn) and change.if_exists:
            return columns
        raise ColumnNotFound(f"{uri}: no column {where}; there are: {', '.join(_siblings(columns, parent))}")

    def edit(siblings: tuple[Column, ...]) -> tuple[Column, ...]:
        if isinstance(change, AddColumn):
            return _added(siblings, change, where)
        if isinstance(change, RenameColumn):
            _refuse_taken(siblings, change.name, where, but=name)
            return tuple(replace(one, name=change.name) if one.name == name else one for one in siblings)
        if isinstance(change, DropColumn):
            left = tuple(one for one in siblings if one.name != name)
            if all(one.name in META_COLUMNS for one in left):
                raise WriteRefused(f"{uri}: {where} is the last column and stays; drop the table")
            return left
        made = tuple(_changed(one, change, where) if one.name == name else one for one in siblings)
        return made if change.place is None else _placed(made, name, change.place, where)

    if parent and not isinstance(change, ChangeColumn):
        holder = _find(columns, parent)
        if holder is not None and not pa.types.is_struct(holder.type):
            raise WriteRefused(f"{uri}: {'.'.join(parent)} is no struct; what it holds has no columns to alter")
    return _edited(columns, parent, edit)


def _siblings(columns: Sequence[Column], parent: Path) -> list[str]:
    found = columns if not parent else getattr(_find(columns, parent), "children", ())
    return [column.name for column in found if column.name not in META_COLUMNS]


def _edited(
    columns: tuple[Column, ...], parent: Path, edit: Callable[[tuple[Column, ...]], tuple[Column, ...]]
) -> tuple[Column, ...]:
    if not parent:
        return edit(columns)
    return tuple(
        replace(column, children=_edited(column.children, parent[1:], edit)) if column.name == parent[0] else column
        for column in columns
    )


def _added(siblings: tuple[Column, ...], change: AddColumn, where: str) -> tuple[Column, ...]:
    name = change.path[-1]
    _refuse_taken(siblings, name, where)
    if not change.nullable:
        raise WriteRefused(
            f"column {where!r} may be null: rows that are stored have no value for it; leave out NOT NULL"
        )
    field = stored_schema(pa.schema([pa.field(name, change.type)])).field(0)
    made = (*siblings, column_tree.of_field(field, change.comment))
    return made if change.place is None else _placed(made, name, change.place, where)


def _refuse_taken(siblings: Sequence[Column], name: str, where: str, but: str | None = None) -> None:
    stored_schema(pa.schema([pa.field(name, pa.int32())]))  # refuses a name that Avro has not
    for one in siblings:
        if one.name.lower() == name.lower() and one.name != but:
            raise WriteRefused(f"column {where!r}: there is a column {one.name!r} already; choose another name")


def _placed(columns: tuple[Column, ...], name: str, place: Place, where: str) -> tuple[Column, ...]:
    moving = next(column for column in columns if column.name == name)
    rest = [column for column in columns if column.name != name]
    if place.after is None:
        at = sum(column.name in META_COLUMNS for column in rest)
    else:
        names = [column.name for column in rest]
        if place.after not in names:
            raise ColumnNotFound(f"column {where!r} cannot go behind {place.after!r}, which is not there")
        at = names.index(place.after) + 1
        if place.after in META_COLUMNS[:-1]:
            raise WriteRefused(f"column {where!r} cannot go among Hudi's own columns")
    return (*rest[:at], moving, *rest[at:])


def _changed(column: Column, change: ChangeColumn, where: str) -> Column:
    made = column
    if change.type is not None:
        wanted = stored_schema(pa.schema([pa.field("c", change.type)])).field(0).type
        if column.children or pa.types.is_nested(wanted):
            raise WriteRefused(f"column {where!r} is {column.field.type}; change what is inside it, field by field")
        if not column.type.equals(wanted):
            if not _may_become(column.type, wanted):
                raise WriteRefused(
                    f"column {where!r} is {column.type} and cannot become {wanted}: stored values would change; add a "
                    "column instead"
                )
            made = replace(made, type=wanted, stored=None)
    if change.nullable is not None and change.nullable != column.nullable:
        if not change.nullable:
            raise WriteRefused(f"column {where!r} may be null, and stored rows may have none; it stays so")
        made = replace(made, nullable=True)
    return made if change.comment is None else replace(made, doc=change.comment)


def _may_become(known: pa.DataType, wanted: pa.DataType) -> bool:
    """What Hudi lets a column become, as far as every stored value is read the same by both."""
    if grows(known, wanted):
        return True
    numbers = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
    if wanted == pa.string():
        return known in (*numbers, pa.date32()) or bool(pa.types.is_decimal(known))
    if pa.types.is_decimal(known) and pa.types.is_decimal(wanted):
        digits = wanted.precision - wanted.scale >= known.precision - known.scale
        return bool(digits and wanted.scale >= known.scale)
    return (known, wanted) in {(pa.int32(), pa.float32()), (pa.int64(), pa.float32()), (pa.int64(), pa.float64())}


def _avro(table: HudiTable, columns: Sequence[Column]) -> str:
    """The Avro schema of the user's columns, with their comments."""
    users = [column for column in columns if column.name not in META_COLUMNS]
    text = evolved_avro(table.schema.avro, pa.schema([column.field for column in users]), table.config.name)
    avro: dict[str, Any] = json.loads(text)
    docs = {column.name: column.doc for column in users if column.doc}
    for field in avro["fields"]:
        field.pop("doc", None)
        if field["name"] in docs:
            field["doc"] = docs[field["name"]]
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


def _complete_with_ids(write: Transaction, made: _Altered, schema: str) -> Instant:
    """Write the history of schemas, then commit: a history whose commit is not there counts for nothing."""
    assert made.columns[: len(META_SCHEMA)] == made.before[: len(META_SCHEMA)]
    latest = column_tree.to_internal(made.columns, int(write.instant), made.highest)
    history = schema_history_text(write.table.timeline)
    older = json.loads(history)["schemas"] if history else [column_tree.to_internal(made.before, 0)]
    text = json.dumps({"schemas": [latest, *older]}, separators=(",", ":"), ensure_ascii=False)
    folder, instant = f"{META_FOLDER}/.schema", write.instant
    name = instant if write.table.config.layout < 2 else f"{instant}_{next_time(write.table.timeline, instant)}"
    files = {
        f"{folder}/{instant}.schemacommit.requested": b"",
        f"{folder}/{instant}.schemacommit.inflight": b"",
        f"{folder}/{name}.schemacommit": text.encode("utf-8"),
    }
    try:
        for path, data in files.items():
            write.storage.create(path, data)
        extra = {_LATEST: json.dumps(latest, separators=(",", ":"), ensure_ascii=False)}
        return write.complete([], schema=schema, extra=extra)
    except (OutcomeUnknown, LockLost):
        raise  # it may count
    except Exception:
        for path in files:
            with contextlib.suppress(HeadwaterError):
                write.storage.delete(path)
        raise
