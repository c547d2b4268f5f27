"""Which schema a read gives: the newest commit's or an instant's, and what old files call its columns (facts 14)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.errors import CorruptFile, InvalidTableConfig, UnsupportedTable
from headwater.hudi.avro_schema import to_arrow
from headwater.hudi.evolution import Renames
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.timeline import HudiTimeline
from headwater.spec.model import Instant

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
COMMIT_TIME, RECORD_KEY, PARTITION_PATH = META_COLUMNS[0], META_COLUMNS[2], META_COLUMNS[3]
META_SCHEMA = pa.schema([(name, pa.string()) for name in META_COLUMNS])

# What reading JSON of another shape than expected stumbles on, down to one that nests without end.
_NOT_THE_JSON = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_SCHEMA_FILE = re.compile(r"^(\d+)(?:_\d+)?\.schemacommit$")


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table at an instant."""

    arrow: pa.Schema
    """Meta columns first, then the user's."""
    avro: Mapping[str, Any] | None = field(default=None, repr=False)
    """The user's columns as the commit wrote them down; carries the defaults that partial updates need."""
    internal: InternalSchema | None = field(default=None, repr=False)
    """Present where columns are followed by their ids (schema on read)."""

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Column → its default, where it is not null."""
        fields = (self.avro or {}).get("fields", ())
        return {f["name"]: f["default"] for f in fields if f.get("default") is not None}


def resolve_schema(timeline: HudiTimeline, as_of: str | None = None) -> TableSchema | None:
    """The schema of the newest commit that wrote one down, else that of the table's creation; None without either."""
    for instant in reversed(timeline.commits):
        if as_of is not None and instant.requested_at > as_of:
            continue
        extra = timeline.extra(instant)
        if extra.get("schema"):
            where = f"{timeline.storage.uri}: schema of instant {instant}"
            return _from_json(extra["schema"], where, _internal_of(extra, where))
    if timeline.config.create_schema:
        return _from_json(timeline.config.create_schema, f"{timeline.storage.uri}: hoodie.table.create.schema", None)
    return None


def schema_written(timeline: HudiTimeline, instant: Instant) -> pa.Schema | None:
    """The columns of the files that a commit wrote; None where it does not say."""
    text = timeline.extra(instant).get("schema")
    return _from_json(text, f"{timeline.storage.uri}: schema of instant {instant}", None).arrow if text else None


def _from_json(text: str, where: str, internal: InternalSchema | None) -> TableSchema:
    try:
        avro = json.loads(text)
        fields = [f for f in avro["fields"] if f["name"] not in META_COLUMNS]
        avro = {**avro, "fields": fields}
        return TableSchema(pa.schema([*META_SCHEMA, *to_arrow(avro)]), avro, internal)
    except (CorruptFile, UnsupportedTable) as error:
        raise type(error)(f"{where}: {error}; restore it from a backup") from error
    except _NOT_THE_JSON as error:
        raise InvalidTableConfig(f"{where}: is no Avro record schema ({error}); restore it from a backup") from error


@dataclass(frozen=True, slots=True)
class InternalField:
    id: int
    name: str
    type: Any


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """A schema whose fields have ids that survive renames."""

    version: int
    fields: tuple[InternalField, ...]


def parse_internal(record: Mapping[str, Any], where: str) -> InternalSchema:
    """The JSON form of an internal schema (facts 14.3)."""
    try:
        version = int(record.get("version_id", record.get("version-id", 0)))
        fields = _fields(record["fields"])
        # A damaged type deep inside is told here and not by the first file that an old column is looked up in.
        for _ in _pair(fields, fields, ()):
            pass
        return InternalSchema(version, fields)
    except _NOT_THE_JSON as error:
        raise CorruptFile(f"{where}: is no internal schema ({error}); restore it from a backup") from error


def _fields(items: list[Mapping[str, Any]]) -> tuple[InternalField, ...]:
    return tuple(InternalField(int(item["id"]), str(item["name"]), item["type"]) for item in items)


def _internal_of(extra: Mapping[str, str], where: str) -> InternalSchema | None:
    text = extra.get("latest_schema") or extra.get("latestSchema")
    if not text:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{where}: its latest_schema is no JSON ({error}); restore it from a backup") from error
    return parse_internal(record, where)


@dataclass(frozen=True)
class SchemaHistory:
    """Every internal schema that the table ever had, to tell what the columns of an old file were called."""

    versions: tuple[InternalSchema, ...] = ()

    def written_at(self, instant: str) -> InternalSchema | None:
        """The schema that a file of this instant was written with."""
        text = instant[:17] if instant.isdigit() else ""
        if not text or not self.versions:
            return None
        before = [version for version in self.versions if version.version <= int(text)]
        return max(before, key=lambda version: version.version) if before else None

    def renames(self, query: InternalSchema | None, instant: str) -> Renames:
        """How the columns of a query were called in files of an instant."""
        if query is None:
            return {}
        written = self.written_at(instant)
        if written is None:
            return {}
        return dict(_pair(query.fields, written.fields, ()))


def load_schema_history(timeline: HudiTimeline) -> SchemaHistory:
    """The history that the newest valid file of the schema folder holds."""
    path = _newest_history(timeline)
    if path is None:
        return SchemaHistory()
    where = timeline.storage.describe(path)
    try:
        schemas = json.loads(timeline.storage.read_bytes(path).decode("utf-8"))["schemas"]
        return SchemaHistory(tuple(parse_internal(record, where) for record in schemas))
    except CorruptFile:
        raise
    except _NOT_THE_JSON as error:
        raise CorruptFile(f"{where}: is no schema history ({error}); restore it from a backup") from error


def schema_history_text(timeline: HudiTimeline) -> str | None:
    """The same as it is stored; None where no column was ever renamed or dropped."""
    path = _newest_history(timeline)
    return None if path is None else timeline.storage.read_bytes(path).decode("utf-8")


def _newest_history(timeline: HudiTimeline) -> str | None:
    folder = f"{META_FOLDER}/.schema"
    files = [(m[1], e) for e in timeline.storage.list(folder) if (m := _SCHEMA_FILE.match(e.name)) and e.size]
    for instant, entry in sorted(files, key=lambda file: file[0], reverse=True):
        if timeline.is_committed(instant):
            return entry.path
    return None


def _pair(
    query: tuple[InternalField, ...], written: tuple[InternalField, ...], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str | None]]:
    by_id = {f.id: f for f in written}
    for f in query:
        here = (*path, f.name)
        source = by_id.get(f.id)
        if source is None:
            yield here, None
            continue
        if source.name != f.name:
            yield here, source.name
        yield from _pair_types(f.type, source.type, here)


def _pair_types(query: Any, written: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str | None]]:
    if not isinstance(query, dict) or not isinstance(written, dict) or query.get("type") != written.get("type"):
        return
    kind = query["type"]
    if kind == "record":
        yield from _pair(_fields(query["fields"]), _fields(written["fields"]), path)
    elif kind == "array":
        yield from _pair_types(query["element"], written["element"], (*path, "element"))
    elif kind == "map":
        yield from _pair_types(query["value"], written["value"], (*path, "value"))
