"""How Parquet is written here, in base files and in log blocks: one set of choices for both.

Pages carry checksums and the page index that readers skip by; lists and maps are in the standard three-level form,
which every release of Hudi reads; no Arrow schema is stored: the Avro schema in the footer is the one that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import InvalidArgument, StorageError, WrongType
from headwater.hudi.write.meta_columns import COMMIT_SEQNO, FEW_VALUES, RECORD_KEY, TEXT_OF_FEW

CODECS = ("snappy", "gzip", "zstd", "lz4_raw", "brotli", "uncompressed")
_NAMES = {"uncompressed": "none", "lz4_raw": "lz4"}
# Arrow's own default for gzip is the slowest level there is: fifty times snappy's time for a file that is no smaller.
_LEVELS = {"gzip": 1, "zstd": 1}


def codec_name(codec: str) -> str:
    """A codec by Hudi's name (`hoodie.parquet.compression.codec`), as Arrow names it.

    >>> codec_name("GZIP"), codec_name("UNCOMPRESSED")
    ('gzip', 'none')
    """
    known = codec.lower()
    if known not in CODECS:
        raise InvalidArgument(f"compression codec {codec!r} is not known; known: {', '.join(CODECS)}")
    return _NAMES.get(known, known)


def physical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that is handed to Parquet: meta columns of few values as dictionaries, all else as it is.

    >>> physical_schema(pa.schema([("_hoodie_file_name", pa.string()), ("id", pa.int64())])).types
    [DictionaryType(dictionary<values=string, indices=int32, ordered=0>), DataType(int64)]
    """
    return pa.schema([field.with_type(TEXT_OF_FEW) if field.name in FEW_VALUES else field for field in schema])


def physical_rows(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The rows in the physical schema; only texts may come in another form (dictionaries, views, large)."""
    if rows.column_names != schema.names:
        raise InvalidArgument(
            f"{where}: the rows have the columns {', '.join(rows.column_names)}; the file has {', '.join(schema.names)}"
        )
    columns = []
    for field, column in zip(schema, rows.columns, strict=True):
        if not column.type.equals(field.type):
            column = _same_values(column, field, where)
        if not field.nullable and column.null_count:
            raise InvalidArgument(f"{where}: column {field.name!r} may not be null and {column.null_count} rows are")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _same_values(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(field.type):
        if pa.types.is_dictionary(column.type):
            return column.cast(field.type)
        return column.cast(pa.string()).dictionary_encode()
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise WrongType(
            f"{where}: column {field.name!r} is {column.type} and the file has {field.type}: {error}; bring the rows "
            "into the table's schema first"
        ) from error


def open_parquet(
    sink: Any,
    schema: pa.Schema,
    *,
    avro_schema: str,
    codec: str = "snappy",
    level: int | None = None,
    collector: list[pq.FileMetaData] | None = None,
) -> pq.ParquetWriter:
    """A Parquet writer for rows in the physical schema, with Hudi's entries in the footer."""
    name = codec_name(codec)
    writer = pq.ParquetWriter(
        sink,
        schema,
        compression=name,
        compression_level=_LEVELS.get(name) if level is None else level,
        use_dictionary=_dictionary_columns(schema),
        store_schema=False,
        write_page_index=True,
        write_page_checksum=True,
        metadata_collector=collector if collector is not None else [],
    )
    writer.add_key_value_metadata({"writer.model.name": "avro", "parquet.avro.schema": avro_schema})
    return writer


def _dictionary_columns(schema: pa.Schema) -> list[str] | bool:
    """All but the columns whose values are all different: there a dictionary is made in vain."""
    without = {RECORD_KEY, COMMIT_SEQNO} & set(schema.names)
    if not without:
        return True
    return [path for field in schema if field.name not in without for path in _leaves(field.type, field.name)]


def _leaves(kind: pa.DataType, path: str) -> list[str]:
    """The paths of a column's leaves, as Parquet spells them."""
    if pa.types.is_struct(kind):
        return [leaf for child in kind for leaf in _leaves(child.type, f"{path}.{child.name}")]
    if pa.types.is_map(kind):
        return [
            leaf
            for child, name in ((kind.key_type, "key"), (kind.item_type, "value"))
            for leaf in _leaves(child, f"{path}.key_value.{name}")
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _leaves(kind.value_type, f"{path}.list.element")
    return [path]


@contextmanager
def reported(where: str) -> Iterator[None]:
    """A failure of the storage, as one error that names the file."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"{where}: cannot be written: {error}; check that the storage has room and that you may write there"
        ) from error
