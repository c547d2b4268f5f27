"""The columns that rows bring against those of the table: what the table has after the write (facts 14.2, 15.9).

Columns are matched by name, in structs too. New ones are added behind the others, and numbers grow where every stored
value stays what it is; whatever would change stored values, or the meaning of new ones, is refused before anything is
written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.errors import CorruptFile, WriteRefused
from headwater.hudi.avro_schema import parse, to_arrow, to_avro
from headwater.hudi.evolution import convert

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STORED = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    pa.time64("ns"): pa.time64("us"),
}
# What a stored column may become, every stored value staying what it is.
_GROWS = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}
# What incoming values may be turned into, each looked at on the way.
_FITS = {
    *_GROWS,
    (pa.int64(), pa.int32()),
    (pa.int32(), pa.float32()),
    (pa.int64(), pa.float32()),
    (pa.int64(), pa.float64()),
    (pa.time32("ms"), pa.time64("us")),
}


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in the types that Hudi tables store: int for short, string for whatever form of text, micros.

    >>> stored_schema(pa.schema([("a", pa.int16()), ("at", pa.timestamp("ns", "UTC"))]))
    a: int32
    at: timestamp[us, tz=UTC]
    """
    _check_names([field.name for field in schema], "")
    return pa.schema([_stored_field(field, field.name) for field in schema])


def grows(known: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a stored column may become of another type, every stored value staying what it is.

    >>> grows(pa.int32(), pa.int64()), grows(pa.int64(), pa.int32())
    (True, False)
    """
    return (known, wanted) in _GROWS


def reconcile(known: pa.Schema, incoming: pa.Schema, *, promote: bool = True) -> pa.Schema:
    """The table's columns after rows with the incoming ones are written; both without meta columns.

    Without `promote` the table's types stay, and incoming numbers of a wider type must fit (`fit_rows` looks at them).

    >>> known = pa.schema([("id", pa.int32()), ("name", pa.string())])
    >>> reconcile(known, pa.schema([("new", pa.int8()), ("id", pa.int64())]))
    id: int64
    name: string
    new: int32
    """
    return pa.schema(_fields(list(known), list(incoming), "", promote))


def fit_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in exactly the columns and types of a reconciled schema; columns that they lack are null.

    Refused: a value that the stored type cannot hold, a null where the table has none.

    >>> schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    >>> fit_rows(pa.table({"b": pa.array([1], pa.int8())}), schema).to_pylist()
    [{'a': None, 'b': 1}]
    """
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        given = rows.column(at) if at >= 0 else pa.chunked_array([pa.nulls(rows.num_rows)])
        column = _fitted(given, field)
        if not field.nullable and column.null_count:
            raise WriteRefused(
                f"column {field.name!r} may not be null in this table, and {column.null_count} of {rows.num_rows} rows "
                "are; fill them or leave them out"
            )
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def evolved_avro(written: Mapping[str, Any] | None, schema: pa.Schema, table: str) -> str:
    """The Avro schema text for a table's columns; columns that are as they were keep what is written down of them.

    That is more than their type: defaults, which partial updates go by, docs, names of records.

    >>> old = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long", "default": 5}]}
    >>> evolved_avro(old, pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())]), "t")
    '{"type":"record","name":"r","fields":[{"name":"a","type":"long","default":5},{"name":"b","type":["null","string"],"default":null}]}'
    """
    made = json.loads(to_avro(schema, table))
    if written is None:
        return to_avro(schema, table)
    old = {field["name"]: field for field in written["fields"]}
    types = {field.name: field for field in to_arrow(written)}
    fields = [
        old[new["name"]] if new["name"] in old and types[new["name"]].equals(schema.field(new["name"])) else new
        for new in made["fields"]
    ]
    text = json.dumps({**written, "fields": fields}, separators=(",", ":"), ensure_ascii=False)
    try:
        parse(text)
    except CorruptFile:
        # A type that was named in one column and used in another: the first of them has changed.
        return to_avro(schema, table)
    return text


def _check_names(names: Sequence[str], where: str) -> None:
    at = f" in {where!r}" if where else ""
    seen: dict[str, str] = {}
    for name in names:
        if not _NAME.fullmatch(name):
            raise WriteRefused(
                f"column {name!r}{at}: a name in a Hudi table begins with a letter or an underscore and goes on with "
                "letters, digits and underscores; rename it"
            )
        if (other := seen.get(name.lower())) is not None:
            raise WriteRefused(f"columns {other!r} and {name!r}{at} have the same name to Spark; rename one of them")
        seen[name.lower()] = name


def _fields(known: list[pa.Field], incoming: list[pa.Field], where: str, promote: bool) -> list[pa.Field]:
    given = {field.name: field for field in incoming}
    _check_names([field.name for field in incoming], where)
    spelled = {field.name.lower(): field.name for field in known}
    made = []
    for field in known:
        here = f"{where}.{field.name}".lstrip(".")
        if field.name in given:
            made.append(field.with_type(_type(field.type, given[field.name].type, here, promote)))
            continue
        if not field.nullable:
            raise WriteRefused(f"column {here!r} may not be null in this table and the rows do not have it; add it")
        made.append(field)
    for field in incoming:
        here = f"{where}.{field.name}".lstrip(".")
        if field.name in {known_field.name for known_field in known}:
            continue
        if field.name.lower() in spelled:
            raise WriteRefused(
                f"column {here!r} is {spelled[field.name.lower()]!r} in the table; spell it as the table does"
            )
        # Rows that are there already have no value for it.
        made.append(_stored_field(field, here).with_nullable(True))
    return made


def _stored_field(field: pa.Field, where: str) -> pa.Field:
    return pa.field(field.name, _stored(field.type, where), nullable=field.nullable)


def _stored(kind: pa.DataType, where: str) -> pa.DataType:
    """The type that a new column of some type is stored in."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored(kind.storage_type, where)
    if pa.types.is_null(kind):
        raise WriteRefused(
            f"column {where!r} has no type: all of its values are null; cast it to the type it should have"
        )
    if pa.types.is_dictionary(kind):
        return _stored(kind.value_type, where)
    if kind in _STORED:
        return _STORED[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal(kind):
        if kind.precision > 38 or kind.scale < 0:
            raise WriteRefused(
                f"column {where!r} is {kind}; a table stores up to 38 digits, some of them behind the point"
            )
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            raise WriteRefused(f"column {where!r} is a struct without fields, which Parquet cannot store; give it one")
        _check_names([child.name for child in kind], where)
        return pa.struct([_stored_field(child, f"{where}.{child.name}") for child in kind])
    if pa.types.is_map(kind):
        key = _stored(kind.key_type, f"{where}.key")
        if not pa.types.is_string(key):
            raise WriteRefused(f"column {where!r} is a map with keys of type {kind.key_type}; a table's are texts")
        return pa.map_(key, _stored_field(kind.item_field, f"{where}.value").with_name("value"))
    if _is_list(kind):
        return pa.list_(_stored_field(kind.value_field, f"{where}.element").with_name("element"))
    if kind in _PLAIN or pa.types.is_fixed_size_binary(kind):
        return kind
    raise WriteRefused(f"column {where!r} is {kind}, which a Hudi table cannot store; cast it")


_PLAIN = frozenset(
    {
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.time32("ms"),
        pa.time64("us"),
    }
)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _type(known: pa.DataType, incoming: pa.DataType, where: str, promote: bool) -> pa.DataType:
    """The type of a column that the table has, after rows with the incoming type."""
    if pa.types.is_null(incoming) or known.equals(incoming):
        return known
    given = _stored(incoming, where)
    if known.equals(given):
        return known
    if pa.types.is_struct(known) and pa.types.is_struct(given):
        return pa.struct(_fields(list(known), list(given), where, promote))
    if pa.types.is_map(known) and pa.types.is_map(given):
        value = _type(known.item_type, given.item_type, f"{where}.value", promote)
        return pa.map_(known.key_type, known.item_field.with_type(value))
    if _is_list(known) and _is_list(given):
        item = _type(known.value_type, given.value_type, f"{where}.element", promote)
        return pa.list_(known.value_field.with_type(item))
    if promote and (known, given) in _GROWS:
        return given
    if (given, known) in _FITS or _same_time(known, given) or _holds(known, given):
        return known
    if pa.types.is_timestamp(known) and pa.types.is_timestamp(given):
        raise WriteRefused(
            f"column {where!r} is {known} and the rows have {incoming}: one is a moment, the other a time of day in no "
            "zone; give the values a zone, or take it away"
        )
    raise WriteRefused(f"column {where!r} is {known} in the table and {incoming} in the rows; {_advice(known, given)}")


def _same_time(known: pa.DataType, given: pa.DataType) -> bool:
    """Whether both are times of the same kind; a table written by Flink may count milliseconds."""
    times = pa.types.is_timestamp(known) and pa.types.is_timestamp(given)
    return bool(times and (known.tz is None) == (given.tz is None))


def _holds(known: pa.DataType, given: pa.DataType) -> bool:
    """Whether every value of one decimal type is a value of the other."""
    if not pa.types.is_decimal(known):
        return False
    if pa.types.is_integer(given):
        digits, scale = (10 if pa.types.is_int32(given) else 19), 0
    elif pa.types.is_decimal(given):
        digits, scale = given.precision - given.scale, given.scale
    else:
        return False
    return bool(known.scale >= scale and known.precision - known.scale >= digits)


def _advice(known: pa.DataType, given: pa.DataType) -> str:
    numbers = pa.types.is_integer(known) or pa.types.is_floating(known)
    if numbers and (pa.types.is_floating(given) or pa.types.is_decimal(given)):
        return f"the stored values would lose digits: cast the rows to {known}, or write another column"
    return f"cast the rows to {known}"


def _fitted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type.equals(field.type):
        return column
    chunks = []
    for chunk in column.chunks:
        plain = _plain(chunk)
        _refuse_loss(plain, field.type, field.name)
        chunks += convert(pa.chunked_array([plain]), field.type, (field.name,)).chunks
    return pa.chunked_array(chunks, field.type)


def _plain(array: pa.Array) -> pa.Array:
    """The array without extension types, dictionaries and lists of fixed length, as far as they stand on top."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_field))
    return array


def _refuse_loss(array: pa.Array, target: pa.DataType, where: str) -> None:
    """Look at values whose type is not simply contained in the target's."""
    source = array.type
    if source.equals(target) or pa.types.is_null(source):
        return
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        for index, child in enumerate(array.flatten()):
            name = source.field(index).name
            at = target.get_field_index(name)
            if at >= 0:
                _refuse_loss(_plain(child), target.field(at).type, f"{where}.{name}")
    elif pa.types.is_map(source) and pa.types.is_map(target):
        _refuse_loss(_plain(array.items), target.item_type, f"{where}.value")
    elif _is_list(source) and _is_list(target):
        _refuse_loss(_plain(array.flatten()), target.value_type, f"{where}.element")
    elif _may_lose(source, target):
        try:
            array.cast(pa.timestamp(target.unit, source.tz) if pa.types.is_timestamp(target) else target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise WriteRefused(f"column {where!r}: a value of type {source} does not fit {target}: {error}") from error


def _may_lose(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return bool(source.unit != target.unit)
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_time, pa.types.is_date64)
    return any(test(source) for test in kinds)
