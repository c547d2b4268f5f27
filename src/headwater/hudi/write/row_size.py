"""How many bytes a row takes in a base file: a sample is encoded and measured, and files that were written since."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.hudi.write.meta_columns import with_meta_columns
from headwater.hudi.write.parquet_sink import open_parquet, physical_rows, physical_schema

_SAMPLE = 20_000
# The bloom filter in a footer has room for many keys, however few there are.
_FOOTER = 440_000
_LEAST = 4.0


def row_bytes(rows: pa.Table, keys: pa.Array | pa.ChunkedArray | None, codec: str) -> float:
    """Bytes of a row, from some of the rows spread over all of them.

    Twice the sample is encoded, and the difference counts: what a file has once (dictionaries, the footer) is left out.

    >>> 8 < row_bytes(pa.table({"id": range(1000)}), pa.array(map(str, range(1000))), "uncompressed") < 80
    True
    """
    count = rows.num_rows
    if count < 2:
        return max(float(rows.nbytes), 64.0)
    chosen = pa.array(np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64)))
    sample = rows.take(chosen)
    texts = chosen.cast(pa.string()) if keys is None else keys.take(chosen)
    made = with_meta_columns(sample, texts, instant="0" * 17, partition="", file_name="f" * 60)
    half = made.num_rows // 2
    measured = (_encoded(made, codec) - _encoded(made.slice(0, half), codec)) / (made.num_rows - half)
    return float(max(measured, _LEAST))


def rows_in(size: float, each: float) -> int:
    """How many rows of so many bytes each a file of a size holds beside its footer; at least one.

    >>> rows_in(120 * 1024 * 1024, 100)
    1253891
    """
    return max(int(max(size - _FOOTER, size / 2) / each), 1)


def measured_row_bytes(size: int, rows: int) -> float:
    """What a row took in a file that was written."""
    return max((size - _FOOTER) / rows, _LEAST)


def _encoded(rows: pa.Table, codec: str) -> int:
    sink = pa.BufferOutputStream()
    schema = physical_schema(rows.schema)
    with open_parquet(sink, schema, avro_schema="", codec=codec) as writer:
        writer.write_table(physical_rows(rows, schema, "sample"))
    return int(sink.getvalue().size)
