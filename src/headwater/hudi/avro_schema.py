"""Avro schemas: parsed into a small tree, turned into Arrow schemas and made from them.

The tree has every named reference resolved, so that a walk over it needs no context. Arrow types are those that
Spark's Avro reader would choose: unions of several types become a struct of `member0`, `member1`, ….
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from headwater.errors import CorruptFile, UnsupportedTable

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
# A schema that repeats named types inside named types can be small as text and endless when written out.
_MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type with its logical type, if that is one we know and it fits."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: AvroType


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Array:
    items: AvroType


@dataclass(frozen=True, slots=True)
class Map:
    values: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[AvroType, ...]

    @property
    def members(self) -> tuple[AvroType, ...]:
        """The branches other than null."""
        return tuple(branch for branch in self.branches if not is_null(branch))

    @property
    def nullable(self) -> bool:
        return any(is_null(branch) for branch in self.branches)


AvroType: TypeAlias = "Primitive | Fixed | Enum | Record | Array | Map | Union"
SchemaLike: TypeAlias = "str | bytes | Mapping[str, Any] | Record"


def is_null(node: AvroType) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def parse(schema: SchemaLike) -> Record:
    """The tree of a record schema.

    >>> parse('{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}').fields[0]
    Field(name='id', type=Primitive(kind='long', logical=None, precision=0, scale=0))
    """
    if isinstance(schema, Record):
        return schema
    if isinstance(schema, bytes):
        try:
            schema = schema.decode()
        except UnicodeDecodeError as error:
            raise CorruptFile(f"an Avro schema is not UTF-8 text: {error}") from error
    return _parse_text(schema if isinstance(schema, str) else json.dumps(schema))


@lru_cache(maxsize=128)
def _parse_text(text: str) -> Record:
    try:
        node = _Parser().parse(json.loads(text), "", "")
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(f"an Avro schema is not readable JSON: {error}; it begins {text[:80]!r}") from error
    if not isinstance(node, Record):
        raise CorruptFile(f"an Avro schema must describe a record; this one begins {text[:80]!r}")
    _count_nodes(node)
    return node


class _Parser:
    """Resolves named references; `where` is the path of the field, for messages."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType | None] = {}

    def parse(self, schema: Any, namespace: str, where: str) -> AvroType:
        if isinstance(schema, str):
            return Primitive(schema) if schema in PRIMITIVES else self._reference(schema, namespace, where)
        if isinstance(schema, list):
            if not schema:
                raise CorruptFile(f"{_at(where)} is a union of nothing")
            return Union(tuple(self.parse(branch, namespace, where) for branch in schema))
        if not isinstance(schema, dict) or "type" not in schema:
            raise CorruptFile(f"{_at(where)} has no type: {str(schema)[:80]}")
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, where)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(schema, namespace, where)
        if kind == "array":
            return Array(self.parse(_key(schema, "items", where), namespace, where))
        if kind == "map":
            return Map(self.parse(_key(schema, "values", where), namespace, where))
        if kind in PRIMITIVES:
            return _primitive(kind, schema)
        return self._reference(str(kind), namespace, where)

    def _define(self, schema: dict[str, Any], namespace: str, where: str) -> AvroType:
        name = str(_key(schema, "name", where))
        # A dot in the name says the namespace and beats the attribute.
        space = name.rpartition(".")[0] if "." in name else str(schema.get("namespace") or namespace)
        full = name if "." in name else f"{space}.{name}".lstrip(".")
        node: AvroType
        if schema["type"] == "enum":
            node = Enum(tuple(map(str, _key(schema, "symbols", where))))
        elif schema["type"] == "fixed":
            node = _fixed(schema, where)
        else:
            self.named[full] = None
            fields = _key(schema, "fields", where)
            if not isinstance(fields, list):
                raise CorruptFile(f"{_at(where)}: the fields of record {full!r} are not a list")
            node = Record(full, tuple(self._field(field, space, where) for field in fields))
        self.named[full] = node
        return node

    def _field(self, field: Any, namespace: str, where: str) -> Field:
        name = str(_key(field, "name", where))
        return Field(name, self.parse(_key(field, "type", where), namespace, f"{where}.{name}".lstrip(".")))

    def _reference(self, name: str, namespace: str, where: str) -> AvroType:
        for full in (f"{namespace}.{name}", name) if namespace and "." not in name else (name,):
            if full in self.named:
                node = self.named[full]
                if node is None:
                    raise UnsupportedTable(
                        f"{_at(where)} is a record that holds itself ({full}); Arrow has no such type"
                    )
                return node
        raise CorruptFile(f"{_at(where)} has the unknown Avro type {name!r}")


def _at(where: str) -> str:
    return f"column {where!r}" if where else "the schema"


def _key(schema: Any, key: str, where: str) -> Any:
    if not isinstance(schema, dict) or key not in schema:
        raise CorruptFile(f"{_at(where)} lacks {key!r}: {str(schema)[:80]}")
    return schema[key]


_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    },
    "string": {"uuid"},
}


def _primitive(kind: str, schema: dict[str, Any]) -> Primitive:
    logical = schema.get("logicalType")
    if logical in _LOGICAL.get(kind, ()):
        return Primitive(kind, logical)
    if kind == "bytes" and logical == "decimal" and (decimal := _decimal(schema)):
        return Primitive(kind, "decimal", *decimal)
    return Primitive(kind)


def _fixed(schema: dict[str, Any], where: str) -> Fixed:
    size = _key(schema, "size", where)
    if not isinstance(size, int) or size < 0:
        raise CorruptFile(f"{_at(where)} is a fixed type of size {size!r}")
    logical = schema.get("logicalType")
    if logical == "decimal" and (decimal := _decimal(schema)):
        return Fixed(size, "decimal", *decimal)
    return Fixed(size, "duration") if logical == "duration" and size == 12 else Fixed(size)


def _decimal(schema: dict[str, Any]) -> tuple[int, int] | None:
    # The specification: a logical type that makes no sense is ignored, its bytes are plain bytes.
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
        return precision, scale
    return None


def _count_nodes(node: AvroType, limit: int = _MAX_NODES) -> int:
    """How much of the limit is left after writing this node out."""
    if limit <= 0:
        raise UnsupportedTable(f"an Avro schema of more than {_MAX_NODES} types; this reader stops there")
    match node:
        case Record():
            children: tuple[AvroType, ...] = tuple(field.type for field in node.fields)
        case Array():
            children = (node.items,)
        case Map():
            children = (node.values,)
        case Union():
            children = node.branches
        case _:
            children = ()
    limit -= 1
    for child in children:
        limit = _count_nodes(child, limit)
    return limit


def to_arrow(schema: SchemaLike) -> pa.Schema:
    """The Arrow schema of an Avro record schema.

    >>> to_arrow({"type": "record", "name": "r", "fields": [
    ...     {"name": "id", "type": "long"},
    ...     {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]}]})
    id: int64 not null
    at: timestamp[us, tz=UTC]
    """
    return _to_arrow_text(schema) if isinstance(schema, str) else _record_to_arrow(parse(schema))


@lru_cache(maxsize=128)
def _to_arrow_text(text: str) -> pa.Schema:
    return _record_to_arrow(parse(text))


def _record_to_arrow(record: Record) -> pa.Schema:
    return pa.schema([arrow_field(field.name, field.type, field.name) for field in record.fields])


def arrow_field(name: str, node: AvroType, where: str) -> pa.Field:
    nullable = node.nullable if isinstance(node, Union) else is_null(node)
    return pa.field(name, arrow_type(node, where), nullable=nullable)


ARROW_OF_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_ARROW = {
    **ARROW_OF_PRIMITIVES,
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
}


def arrow_type(node: AvroType, where: str) -> pa.DataType:
    """The Arrow type of a node; `where` names the field in messages."""
    match node:
        case Primitive(logical="decimal") | Fixed(logical="decimal"):
            if node.precision > 76:
                raise UnsupportedTable(f"{_at(where)} is decimal({node.precision}); Arrow's decimals end at 76 digits")
            make = pa.decimal128 if node.precision <= 38 else pa.decimal256
            return make(node.precision, node.scale)
        case Primitive():
            return _ARROW[node.logical or node.kind]
        case Fixed():
            return pa.binary(node.size)
        case Enum():
            return pa.string()
        case Array():
            return pa.list_(arrow_field("element", node.items, where))
        case Map():
            return pa.map_(pa.string(), arrow_field("value", node.values, where))
        case Record():
            return pa.struct([arrow_field(field.name, field.type, f"{where}.{field.name}") for field in node.fields])
    return _union_type(node, where)


def _union_type(node: Union, where: str) -> pa.DataType:
    members = node.members
    if len(members) <= 1:
        return arrow_type(members[0], where) if members else pa.null()
    if any(isinstance(member, Union) for member in members):
        raise CorruptFile(f"{_at(where)} is a union within a union")
    if (widened := widened_kind(node)) is not None:
        return _ARROW[widened]
    return pa.struct(
        [pa.field(f"member{index}", arrow_type(member, where), nullable=True) for index, member in enumerate(members)]
    )


def widened_kind(node: Union) -> str | None:
    """The primitive that Spark reads a union of two numbers as."""
    if all(isinstance(member, Primitive) and member.logical is None for member in node.members):
        kinds = {member.kind for member in node.members if isinstance(member, Primitive)}
        return {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}.get(frozenset(kinds))
    return None


_AVRO: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def from_arrow(schema: pa.Schema, *, name: str = "record", namespace: str = "") -> dict[str, Any]:
    """The Avro schema that Spark would write: nullable as `["null", T]` with default null, decimals as fixed.

    >>> from_arrow(pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]))["fields"]
    [{'name': 'id', 'type': 'long'}, {'name': 'name', 'type': ['null', 'string'], 'default': None}]
    """
    return _record_from(list(schema), name, f"{namespace}.{name}".lstrip("."), {"namespace": namespace or None})


def _record_from(fields: list[pa.Field], name: str, space: str, extra: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "record", "name": name, **{k: v for k, v in extra.items() if v is not None}}
    made["fields"] = [
        {"name": field.name, "type": _nullable_from(field, field.name, f"{space}.{field.name}")}
        | ({"default": None} if field.nullable else {})
        for field in fields
    ]
    return made


def _nullable_from(field: pa.Field, name: str, space: str) -> Any:
    made = _avro_from(field.type, name, space)
    return ["null", made] if field.nullable and made != "null" else made


def _avro_from(dtype: pa.DataType, name: str, space: str) -> Any:
    if dtype in _AVRO:
        return _AVRO[dtype]
    if pa.types.is_timestamp(dtype) and dtype.unit in _UNITS:
        return {"type": "long", "logicalType": f"{'' if dtype.tz else 'local-'}timestamp-{_UNITS[dtype.unit]}"}
    if pa.types.is_decimal(dtype):
        named = {"type": "fixed", "name": "fixed", "namespace": space, "size": decimal_width(dtype.precision)}
        return {**named, "logicalType": "decimal", "precision": dtype.precision, "scale": dtype.scale}
    if pa.types.is_fixed_size_binary(dtype):
        return {"type": "fixed", "name": "fixed", "namespace": space, "size": dtype.byte_width}
    if pa.types.is_map(dtype):
        return {"type": "map", "values": _nullable_from(dtype.item_field, name, space)}
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return {"type": "array", "items": _nullable_from(dtype.value_field, name, space)}
    if pa.types.is_struct(dtype):
        # A record's full name is its column's path; what is fixed has a name of its own below that.
        return _record_from(list(dtype), name, space, {"namespace": space.rpartition(".")[0]})
    raise UnsupportedTable(f"column {name!r} of Arrow type {dtype} has no Avro type")


def decimal_width(precision: int) -> int:
    """The fewest bytes that hold every number of so many decimal digits.

    >>> [decimal_width(p) for p in (1, 9, 10, 18, 38)]
    [1, 4, 5, 8, 16]
    """
    largest: int = 10**precision - 1
    return (largest.bit_length() + 1 + 7) // 8


_META_COLUMNS = frozenset(
    f"_hoodie_{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name", "operation")
)


def to_avro(schema: pa.Schema, table: str) -> str:
    """The Avro schema text that Hudi writes for a table's columns, into footers, block headers and commits.

    >>> to_avro(pa.schema([("id", pa.int64())]), "my trips")
    '{"type":"record","name":"my__trips_record","namespace":"hoodie.my__trips","fields":[{"name":"id","type":["null","long"],"default":null}]}'
    """
    name = _avro_name(table)
    made = from_arrow(schema, name=f"{name}_record", namespace=f"hoodie.{name}")
    made["fields"] = [_with_doc(field) if field["name"] in _META_COLUMNS else field for field in made["fields"]]
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def _avro_name(text: str) -> str:
    """A name that Avro allows: a letter or an underscore first, then digits as well; anything else becomes two."""
    if not text[:1].isascii() or not (text[:1].isalpha() or text[:1] == "_"):
        text = f"__{text[1:]}"
    return "".join(char if char.isascii() and (char.isalnum() or char == "_") else "__" for char in text)


def _with_doc(field: dict[str, Any]) -> dict[str, Any]:
    # Hudi gives its own columns an empty doc.
    return {"name": field["name"], "type": field["type"], "doc": ""} | {
        k: v for k, v in field.items() if k == "default"
    }
