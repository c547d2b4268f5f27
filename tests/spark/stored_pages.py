"""Base files with pages of a chosen kind, whatever Headwater would choose by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq


@contextmanager
def pages_of(options: Mapping[str, Any], rows: int = 1000) -> Iterator[None]:
    """Files that are written meanwhile have these options of Arrow's writer, and row groups of so many rows."""

    class Writer(pq.ParquetWriter):
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*args, **{**given, **options})

        def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
            super().write_table(table, row_group_size=rows)

    with mock.patch("headwater.hudi.write.parquet_sink.pq.ParquetWriter", Writer):
        yield
