"""Record keys and partition paths: how key generators spelled them, and back (facts 4.4, 4.5, 15.3, 15.6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import ColumnNotFound
from headwater.hudi.java_text import java_text
from headwater.hudi.properties import KeyGenerator, TableConfig
from headwater.spec.model import PartitionDescriptor

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_OLD_NULL_PARTITION = "default"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def record_keys(config: TableConfig, table: pa.Table) -> pa.ChunkedArray:
    """The record key of each row from its key columns, for tables that do not store it.

    >>> from headwater.hudi.properties import check_config
    >>> config = check_config({"hoodie.table.name": "t", "hoodie.table.version": "9",
    ...                        "hoodie.table.recordkey.fields": "a,b"}, "here")
    >>> record_keys(config, pa.table({"a": [1], "b": ["x"]})).to_pylist()
    ['a:1,b:x']
    """
    missing = [name for name in config.record_key_fields if name not in table.column_names]
    if missing or not config.record_key_fields:
        raise ColumnNotFound(
            f"table {config.name}: record keys are made of {', '.join(config.record_key_fields) or 'no columns'}, "
            f"and the rows lack {', '.join(missing) or 'them'}"
        )
    texts = [_chunked_text(table.column(name)) for name in config.record_key_fields]
    if len(texts) == 1:
        return texts[0]
    parts: list[Any] = []
    for name, text in zip(config.record_key_fields, texts, strict=True):
        value = pc.if_else(pc.equal(text, ""), "__empty__", text)
        parts += [f"{',' if parts else ''}{name}:", pc.fill_null(value, "__null__")]
    return pc.binary_join_element_wise(*parts, "")


def key_columns(config: TableConfig) -> tuple[str, ...]:
    """The columns that a record's key is read from."""
    return ("_hoodie_record_key",) if config.populate_meta_fields else config.record_key_fields


def _chunked_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([java_text(chunk) for chunk in column.chunks], pa.string())


def unescape(text: str) -> str:
    """Undo the escapes of url-encoded partition paths.

    >>> unescape("x%2Fy")
    'x/y'
    """
    if "%" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def path_values(config: TableConfig, path: str) -> dict[str, str | None]:
    """Partition column → its text in the path; columns whose value the path does not hold are left out.

    A time-based key generator writes a formatted time into the path, which is not the column's value; so may one that
    the table does not name.
    """
    fields = config.partition_fields
    unknown = config.key_generator in (KeyGenerator.TIMESTAMP, KeyGenerator.OTHER) or not config.names_key_generator
    if not fields or (unknown and not config.drop_partition_columns):
        return {}
    segments = path.split("/")
    if len(segments) != len(fields):
        return {}
    found: dict[str, str | None] = {}
    for name, kind, segment in zip(fields, config.partition_kinds, segments, strict=True):
        if config.key_generator is KeyGenerator.CUSTOM and kind != "SIMPLE":
            continue
        prefix = f"{name}=" if config.hive_style else ""
        if segment.startswith(prefix):
            text = segment[len(prefix) :]
            found[name] = None if text == NULL_PARTITION else unescape(text) if config.url_encoded else text
    return found


def describe_partition(config: TableConfig, path: str, schema: pa.Schema) -> PartitionDescriptor:
    """The typed values of a partition, as far as its path tells them."""
    names: list[str] = []
    values: list[Any] = []
    for name, text in path_values(config, path).items():
        index = schema.get_field_index(name)
        kind = schema.field(index).type if index >= 0 else pa.string()
        if text is None and _is_text(kind) and not config.drop_partition_columns:
            continue  # null and the empty text share a folder
        typed, value = _typed(text, kind)
        if typed:
            names.append(name)
            values.append(value)
    return PartitionDescriptor(path, tuple(names), tuple(values))


@dataclass(frozen=True, slots=True)
class PathValues:
    """Partition path → the columns whose values it tells."""

    config: TableConfig
    schema: pa.Schema

    def __call__(self, partition: str) -> dict[str, Any]:
        return describe_partition(self.config, partition, self.schema).as_mapping()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _typed(text: str | None, kind: pa.DataType) -> tuple[bool, Any]:
    if text is None:
        return True, None
    if _is_text(kind):
        return True, text
    if pa.types.is_timestamp(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind):
        # Written as a number or as a text, depending on the writer's settings: the file holds the value.
        return False, None
    try:
        return True, pa.scalar(text).cast(kind).as_py()
    except pa.ArrowInvalid:
        return False, None
