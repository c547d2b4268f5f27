"""The wire schema: simpler Avro types that have the same bytes as those of a schema.

| type | same bytes as |
|---|---|
| logical types | the type without them (but decimals of up to 16 fixed bytes, which Polars decodes as they are) |
| enum | int |
| map of V | array of records of a string and a V |
| union of one type | record of an int and that type |
| null, fixed of size 0, records of nothing else | nothing at all: the field is left out |
| union of several types | for fastavro, a union of records of one field each, so that the branch can be told |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headwater.errors import UnsupportedTable
from headwater.hudi.avro_schema import (
    ARROW_OF_PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    is_null,
)


def varint(number: int) -> bytes:
    """A long as Avro writes it: zigzag, then seven bits a byte.

    >>> varint(-65).hex()
    '8101'
    """
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number & ~0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def smallest(node: AvroType) -> int:
    """The fewest bytes that a value takes; 0 means that no value takes any."""
    match node:
        case Primitive():
            return {"null": 0, "float": 4, "double": 8}.get(node.kind, 1)
        case Fixed():
            return node.size
        case Record():
            return sum(smallest(field.type) for field in node.fields)
        case Union():
            return 1 + min(smallest(branch) for branch in node.branches)
    return 1


def is_general_union(node: AvroType) -> bool:
    """Whether the node is a union that Polars cannot be told about."""
    if not isinstance(node, Union):
        return False
    members = node.members
    # A nullable type of no bytes would need a null that is told from a value by the branch alone.
    return len(members) > 1 or len(node.branches) > 2 or (bool(members) and node.nullable and not smallest(members[0]))


def has_general_union(node: AvroType) -> bool:
    match node:
        case Record():
            return any(has_general_union(field.type) for field in node.fields)
        case Array():
            return has_general_union(node.items)
        case Map():
            return has_general_union(node.values)
        case Union():
            return is_general_union(node) or any(has_general_union(branch) for branch in node.branches)
    return False


class Names:
    """Writes wire schemas, giving each named type a name of its own."""

    def __init__(self, *, native_decimals: bool = True) -> None:
        self._native_decimals = native_decimals
        self._count = 0

    def wire(self, node: AvroType, where: str) -> Any:
        """The wire schema of a node that takes bytes; `where` names the column in messages."""
        match node:
            case Primitive():
                return node.kind
            case Fixed():
                fixed = {"type": "fixed", "name": self._next(), "size": node.size}
                if self._native_decimals and is_native_decimal(node):
                    fixed |= {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
                return fixed
            case Enum():
                return "int"
            case Array():
                if not smallest(node.items):
                    raise UnsupportedTable(f"column {where!r} is an array of items that take no bytes")
                return {"type": "array", "items": self.wire(node.items, where)}
            case Map():
                return {"type": "array", "items": self._record([("k", Primitive("string")), ("v", node.values)], where)}
            case Record():
                return self._record([(f"f{i}", field.type) for i, field in enumerate(node.fields)], where)
        if is_general_union(node):
            return [
                "null" if is_null(branch) else self._record([("m", branch)], where, name=f"b{index}_{self._next()}")
                for index, branch in enumerate(node.branches)
            ]
        if len(node.branches) == 1:
            return self._record([("i", Primitive("int")), ("m", node.branches[0])], where)
        return ["null" if is_null(branch) else self.wire(branch, where) for branch in node.branches]

    def _record(self, fields: list[tuple[str, AvroType]], where: str, name: str | None = None) -> Any:
        return {
            "type": "record",
            "name": name or self._next(),
            "fields": [{"name": key, "type": self.wire(node, where)} for key, node in fields if smallest(node)],
        }

    def _next(self) -> str:
        self._count += 1
        return f"t{self._count}"


def is_native_decimal(node: Fixed) -> bool:
    return node.logical == "decimal" and node.precision <= 38 and 0 < node.size <= 16


def arrow_type(node: AvroType) -> pa.DataType:
    """The Arrow type of what fastavro gives for the wire schema."""
    match node:
        case Primitive():
            return ARROW_OF_PRIMITIVES[node.kind]
        case Fixed():
            return pa.binary()
        case Enum():
            return pa.int32()
        case Array():
            return pa.list_(arrow_type(node.items))
        case Map():
            return pa.list_(_struct([("k", Primitive("string")), ("v", node.values)]))
        case Record():
            return _struct([(f"f{index}", field.type) for index, field in enumerate(node.fields)])
    if is_general_union(node):
        return pa.struct([(f"m{i}", arrow_type(member)) for i, member in enumerate(node.members)])
    if len(node.branches) == 1:
        return _struct([("i", Primitive("int")), ("m", node.branches[0])])
    return arrow_type(node.members[0]) if node.members else pa.null()


def _struct(fields: list[tuple[str, AvroType]]) -> pa.DataType:
    return pa.struct([(key, arrow_type(node)) for key, node in fields if smallest(node)])


def plain_values(node: AvroType) -> Callable[[Any], Any] | None:
    """What turns fastavro's value into one that Arrow takes, or None where it is one already.

    fastavro gives a union's value as a pair of the branch's name and the record around the value.
    """
    match node:
        case Array():
            items = plain_values(node.items)
            return None if items is None else lambda value: value and [items(item) for item in value]
        case Map():
            values = plain_values(node.values)
            return None if values is None else lambda value: value and [e | {"v": values(e["v"])} for e in value]
        case Record():
            return _plain_fields({f"f{i}": plain_values(field.type) for i, field in enumerate(node.fields)})
        case Union():
            if is_general_union(node):
                return _plain_member(node)
            if len(node.branches) == 1:
                return _plain_fields({"m": plain_values(node.branches[0])})
            return plain_values(node.members[0]) if node.members else None
    return None


def _plain_fields(parts: dict[str, Callable[[Any], Any] | None]) -> Callable[[Any], Any] | None:
    changed = {key: plain for key, plain in parts.items() if plain is not None}
    if not changed:
        return None
    return lambda value: value and value | {key: plain(value[key]) for key, plain in changed.items()}


def _plain_member(node: Union) -> Callable[[Any], Any]:
    members = [(index, branch) for index, branch in enumerate(node.branches) if not is_null(branch)]
    plains = {f"b{index}": (f"m{at}", branch, plain_values(branch)) for at, (index, branch) in enumerate(members)}

    def plain(value: Any) -> Any:
        if value is None:
            return None
        # fastavro names the branch only where there is more than one.
        name, wrapped = value if isinstance(value, tuple) else (f"b{members[0][0]}", value)
        key, branch, inner = plains[name.split("_", 1)[0]]
        # A branch of no bytes has no field.
        member = wrapped["m"] if "m" in wrapped else b"" if isinstance(branch, Fixed) else {}
        return {key: member if inner is None else inner(member)}

    return plain
