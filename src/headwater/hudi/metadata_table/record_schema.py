"""The Avro schema of the metadata table's records, as the releases of each table version write it (facts 8.3)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

_NAMESPACE = "org.apache.hudi.avro.model"
_TEXT: Any = {"type": "string", "avro.java.string": "String"}
_META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_WRAPPED: tuple[tuple[str, Any], ...] = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", _TEXT),
    ("DateWrapper", "int"),
    ("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicrosWrapper", "long"),
    ("LocalDateWrapper", "int"),
)


@cache
def record_schema(version: int, *, meta_fields: bool = True) -> str:
    """The schema of a table version, as JSON; commits name it without the meta fields, which files have.

    Later releases read the schemas of earlier ones, and not the other way round: each version has its own.

    >>> names = [field["name"] for field in json.loads(record_schema(6))["fields"]]
    >>> names[5:7], names[-1]
    (['key', 'type'], 'recordIndexMetadata')
    """
    meta = _META_FIELDS if meta_fields else ()
    fields = [
        *({"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in meta),
        {"name": "key", "type": _TEXT},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", _listing()]},
        _optional("BloomFilterMetadata", _bloom()),
        _optional("ColumnStatsMetadata", _statistics(version)),
        _optional("recordIndexMetadata", _location(version)),
    ]
    if version >= 8:
        deleted = _record("HoodieSecondaryIndexInfo", [{"name": "isDeleted", "type": "boolean"}])
        fields.append(_optional("SecondaryIndexMetadata", deleted))
    schema = {**_record("HoodieMetadataRecord", fields), "namespace": _NAMESPACE}
    return json.dumps(schema, separators=(",", ":"))


def same_bytes(one: str | bytes, other: str | bytes) -> bool:
    """Whether two schemas give a record the same bytes: they differ in what is written beside names and types only.

    >>> same_bytes(record_schema(9), record_schema(9).replace('"doc":""', '"doc":"a field"')), same_bytes(
    ...     record_schema(6), record_schema(9))
    (True, False)
    """
    return one == other or _plain(one) == _plain(other)


@cache
def _plain(schema: str | bytes) -> Any:
    return _shape(json.loads(schema))


def _shape(part: Any) -> Any:
    if isinstance(part, list):
        return tuple(_shape(item) for item in part)
    if isinstance(part, dict):
        kept = {key: _shape(value) for key, value in part.items() if key not in ("doc", "default", "avro.java.string")}
        # {"type": "string"} is "string"
        return kept["type"] if kept.keys() == {"type"} else tuple(sorted(kept.items(), key=lambda item: item[0]))
    return part


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _listing() -> dict[str, Any]:
    file = [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}]
    return {"type": "map", "values": _record("HoodieMetadataFileInfo", file), "avro.java.string": "String"}


def _bloom() -> dict[str, Any]:
    fields = [
        {"name": "type", "type": _TEXT},
        {"name": "timestamp", "type": _TEXT},
        {"name": "bloomFilter", "type": "bytes"},
        {"name": "isDeleted", "type": "boolean"},
    ]
    return _record("HoodieMetadataBloomFilter", fields)


def _statistics(version: int) -> dict[str, Any]:
    wrapped = _WRAPPED if version >= 8 else _WRAPPED[:-1]
    names: list[Any] = ["null", *(name for name, _ in wrapped)]
    bounds: list[Any] = ["null", *(_record(name, [{"name": "value", "type": kind}]) for name, kind in wrapped)]
    if version >= 9:
        inner = {"type": "array", "items": list(names)}
        bounds.append(_record("ArrayWrapper", [_optional("wrappedValues", inner)]))
        names.append("ArrayWrapper")
    fields = [
        _optional("fileName", _TEXT),
        _optional("columnName", _TEXT),
        {"name": "minValue", "type": bounds, "default": None},
        {"name": "maxValue", "type": names, "default": None},
        *(_optional(name, "long") for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")),
        {"name": "isDeleted", "type": "boolean"},
    ]
    if version >= 8:
        fields.append({"name": "isTightBound", "type": "boolean", "default": False})
    if version >= 9:
        kind = [{"name": "typeOrdinal", "type": "int"}, _optional("additionalInfo", _TEXT)]
        fields.append(_optional("valueType", _record("HoodieValueTypeInfo", kind)))
    return _record("HoodieMetadataColumnStats", fields)


def _location(version: int) -> dict[str, Any]:
    fields = [
        _optional("partitionName", _TEXT),
        _optional("fileIdHighBits", "long"),
        _optional("fileIdLowBits", "long"),
        _optional("fileIndex", "int"),
        _optional("fileId", _TEXT),
        _optional("instantTime", "long"),
        {"name": "fileIdEncoding", "type": "int", "default": 0},
    ]
    if version >= 8:
        fields.append(_optional("position", "long"))
    return _record("HoodieRecordIndexInfo", fields)
