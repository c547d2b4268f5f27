"""The five columns that Hudi puts before the user's: made as whole columns, where the file is written (facts 6.6)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.schema import META_COLUMNS, META_SCHEMA

COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
# A column of few values costs next to nothing as a dictionary, in memory and on its way into Parquet.
TEXT_OF_FEW = pa.dictionary(pa.int32(), pa.string())
FEW_VALUES = frozenset({COMMIT_TIME, PARTITION_PATH, FILE_NAME})


def with_meta_columns(
    rows: pa.Table,
    keys: pa.Array | pa.ChunkedArray,
    *,
    instant: str,
    partition: str,
    file_name: str,
    task: int = 0,
    first_row: int = 0,
) -> pa.Table:
    """The rows behind their meta columns; meta columns that they had are replaced.

    Parameters
    ----------
    keys
        The record key of each row.
    file_name
        The base file's name; in a log file the file id.
    task, first_row
        Make `_hoodie_commit_seqno` (`<instant>_<task>_<row>`) one of its kind within the commit.

    >>> made = with_meta_columns(pa.table({"id": [7]}), pa.array(["7"]), instant="20260101000000000",
    ...                          partition="", file_name="f-0_0-0-0_20260101000000000.parquet", task=2)
    >>> made.column("_hoodie_commit_seqno").to_pylist(), made.column_names[-1]
    (['20260101000000000_2_0'], 'id')
    """
    count = rows.num_rows
    user = rows.select([name for name in rows.column_names if name not in META_COLUMNS])
    numbers = pa.array(np.arange(first_row, first_row + count)).cast(pa.string())
    meta = {
        COMMIT_TIME: constant(instant, count),
        COMMIT_SEQNO: pc.binary_join_element_wise(f"{instant}_{task}_", numbers, ""),
        RECORD_KEY: keys,
        PARTITION_PATH: constant(partition, count),
        FILE_NAME: constant(file_name, count),
    }
    return _before(meta, user)


def with_file_name(rows: pa.Table, file_name: str) -> pa.Table:
    """The rows, meta columns among them, as those of another file: what copied rows of a rewritten file need.

    >>> old = with_meta_columns(pa.table({"id": [7]}), pa.array(["7"]), instant="1", partition="", file_name="a")
    >>> with_file_name(old, "b").column("_hoodie_file_name").to_pylist()
    ['b']
    """
    at = rows.schema.get_field_index(FILE_NAME)
    return rows.set_column(at, pa.field(FILE_NAME, TEXT_OF_FEW), constant(file_name, rows.num_rows))


def with_empty_meta_columns(rows: pa.Table) -> pa.Table:
    """The rows behind meta columns of nulls, for tables with `hoodie.populate.meta.fields=false`.

    >>> with_empty_meta_columns(pa.table({"id": [7]})).column("_hoodie_record_key").to_pylist()
    [None]
    """
    user = rows.select([name for name in rows.column_names if name not in META_COLUMNS])
    return _before({name: pa.nulls(rows.num_rows, pa.string()) for name in META_COLUMNS}, user)


def with_meta_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a file: the meta columns, then the user's.

    >>> with_meta_schema(pa.schema([("id", pa.int64())])).names[4:]
    ['_hoodie_file_name', 'id']
    """
    return pa.schema([*META_SCHEMA, *(field for field in schema if field.name not in META_COLUMNS)])


def constant(value: str, count: int) -> pa.DictionaryArray:
    """A column that has one value.

    >>> constant("a", 2).to_pylist()
    ['a', 'a']
    """
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value], pa.string()))


def _before(meta: dict[str, pa.Array | pa.ChunkedArray], user: pa.Table) -> pa.Table:
    fields = [pa.field(name, column.type) for name, column in meta.items()]
    return pa.Table.from_arrays([*meta.values(), *user.columns], schema=pa.schema([*fields, *user.schema]))
