"""Columns with ids that survive renames, as a tree: made of a table's schema, given back as Arrow or as Hudi's internal
schema (facts 14.3).

>>> tree = number(pa.schema([("a", pa.struct([("x", pa.int32())])), ("b", pa.list_(pa.string()))]))
>>> [(column.id, column.name) for column in tree], tree[0].children[0].id, tree[1].children[0].id
([(0, 'a'), (1, 'b')], 2, 3)
>>> to_internal(tree, 7)["fields"][1]["type"]
{'type': 'array', 'element_id': 3, 'element': 'string', 'element_optional': True}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.errors import WriteRefused

_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.string(): "string",
    pa.binary(): "binary",
}


@dataclass(frozen=True)
class Column:
    """A column, a field of a struct, or what a list or a map holds."""

    name: str
    type: pa.DataType
    """Of a column that is no leaf, only its kind counts: what is inside stands in `children`."""
    nullable: bool = True
    id: int | None = None
    """None until it is numbered."""
    children: tuple[Column, ...] = ()
    """The fields of a struct; `element` of a list; `key` and `value` of a map."""
    doc: str | None = None
    stored: str | None = None
    """What an internal schema calls the type of a leaf, where there was one."""

    @property
    def field(self) -> pa.Field:
        """The column in Arrow."""
        if not self.children:
            return pa.field(self.name, self.type, self.nullable)
        inner = [child.field for child in self.children]
        if pa.types.is_struct(self.type):
            return pa.field(self.name, pa.struct(inner), self.nullable)
        if pa.types.is_map(self.type):
            return pa.field(self.name, pa.map_(inner[0].type, inner[1]), self.nullable)
        return pa.field(self.name, pa.list_(inner[0]), self.nullable)


def of_field(field: pa.Field, doc: str | None = None) -> Column:
    """A column without ids."""
    kind = field.type
    children: tuple[Column, ...] = ()
    if pa.types.is_struct(kind):
        children = tuple(of_field(child) for child in kind)
    elif pa.types.is_map(kind):
        children = (of_field(pa.field("key", kind.key_type, False)), of_field(kind.item_field.with_name("value")))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children = (of_field(kind.value_field.with_name("element")),)
    return Column(field.name, kind, field.nullable, None, children, doc)


def number(schema: pa.Schema) -> tuple[Column, ...]:
    """All columns with new ids, in the order that Hudi gives them: those of a struct before what they hold."""
    return with_ids(tuple(of_field(field) for field in schema), itertools.count())


def with_ids(columns: Sequence[Column], ids: Iterator[int]) -> tuple[Column, ...]:
    """The columns, those that have no id with the next ones."""
    numbered = [column if column.id is not None else replace(column, id=next(ids)) for column in columns]
    return tuple(replace(column, children=with_ids(column.children, ids)) for column in numbered)


def of_internal(schema: pa.Schema, internal: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns with the ids that an internal schema has for them."""
    return _paired([of_field(field) for field in schema], internal["fields"])


def _paired(columns: Sequence[Column], records: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    known = {record["name"]: record for record in records}
    made = []
    for column in columns:
        record = known.get(column.name)
        if record is None:
            raise WriteRefused(
                f"column {column.name!r} is in the table's schema and not in its internal one; the two were written by "
                "programs that do not know of each other, and columns cannot be altered"
            )
        inside, stored = _children(column, record["type"])
        made.append(replace(column, id=int(record["id"]), children=inside, doc=record.get("doc"), stored=stored))
    return tuple(made)


def _children(column: Column, kind: Any) -> tuple[tuple[Column, ...], str | None]:
    if not column.children:
        return (), kind if isinstance(kind, str) else None
    if kind["type"] == "record":
        return _paired(column.children, kind["fields"]), None
    names = ("key", "value") if kind["type"] == "map" else ("element",)
    made = []
    for child, name in zip(column.children, names, strict=True):
        number_ = kind.get(f"{name}_id", kind.get(f"{name}-id"))
        inside, stored = _children(child, kind[name])
        made.append(replace(child, id=int(number_), children=inside, stored=stored))
    return tuple(made), None


def highest_id(columns: Sequence[Column]) -> int:
    """The largest id in use; -1 where there is none."""
    return max((max(column.id or 0, highest_id(column.children)) for column in columns), default=-1)


def to_internal(columns: Sequence[Column], version: int, highest: int | None = None) -> dict[str, Any]:
    """The internal schema in JSON. `highest` is the largest id that was ever given away."""
    return {
        "max_column_id": max(highest_id(columns), -1 if highest is None else highest),
        "version_id": version,
        "type": "record",
        "fields": [_record(column, column.name) for column in columns],
    }


def _record(column: Column, where: str) -> dict[str, Any]:
    made = {"id": column.id, "name": column.name, "optional": column.nullable, "type": _type(column, where)}
    return made if column.doc is None else {**made, "doc": column.doc}


def _type(column: Column, where: str) -> Any:
    if column.children:
        inner = column.children
        if pa.types.is_struct(column.type):
            return {"type": "record", "fields": [_record(child, f"{where}.{child.name}") for child in inner]}
        if pa.types.is_map(column.type):
            key, value = inner
            return {
                "type": "map",
                "key_id": key.id,
                "key": _type(key, f"{where}.key"),
                "value_id": value.id,
                "value": _type(value, f"{where}.value"),
                "value_optional": value.nullable,
            }
        return {
            "type": "array",
            "element_id": inner[0].id,
            "element": _type(inner[0], f"{where}.element"),
            "element_optional": inner[0].nullable,
        }
    if column.stored is not None:
        return column.stored
    kind = column.type
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    raise WriteRefused(
        f"column {where!r} is {kind}, which Hudi's internal schemas have no type for: columns of this table cannot be "
        "renamed, dropped or moved; write the rows to a new table"
    )
