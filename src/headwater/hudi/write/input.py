"""What a caller hands in as rows, as Arrow: pyarrow's tables and streams, frames of Polars and pandas, lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import WrongType

_TODO = "give a pyarrow Table or RecordBatchReader, a Polars or pandas data frame, or a list of dictionaries"


def to_table(data: Any) -> pa.Table:
    """All rows as one Arrow table.

    >>> to_table([{"id": 1, "name": "a"}]).to_pylist()
    [{'id': 1, 'name': 'a'}]
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    reader = to_reader(data)
    return reader.read_all()


def to_reader(data: Any) -> pa.RecordBatchReader:
    """The rows as a stream of Arrow batches; a stream that was handed in is not read ahead.

    >>> to_reader(pa.table({"id": [1, 2]})).read_all().num_rows
    2
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist([dict(row) for row in data]).to_reader()
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    if kind.startswith("pandas.") and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if kind.startswith("polars.") and callable(getattr(data, "collect", None)):
        data = data.collect()
    if kind.startswith("pyspark."):
        raise WrongType(
            "a Spark data frame was given to a write without Spark; write it with df.write.format('headwater'), or "
            f"hand over df.toArrow(): {_TODO}"
        )
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise WrongType(f"rows of type {kind} cannot be written; {_TODO}")


def chunks(reader: pa.RecordBatchReader, most_bytes: int) -> Iterator[pa.Table]:
    """A stream in tables of about so many bytes each."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        held.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            yield pa.Table.from_batches(held, schema=reader.schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema=reader.schema)
