"""Rows of a file slice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import pyarrow as pa

from headwater.spec.expressions import Expression
from headwater.spec.model import ChangeSlice, FileSlice, ReadingMode


@runtime_checkable
class FileSliceReader(Protocol):
    """Reads file slices as streams of Arrow batches. Readers do not change: each call returns a changed copy."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches that `open` gives."""

    def project(self, schema: pa.Schema) -> FileSliceReader:
        """Give these columns, in this order, in these types; the schema may be newer than the files."""

    def push_down_filters(self, *filters: Expression) -> FileSliceReader:
        """Give only rows that match all filters."""

    def reading_mode(self, mode: ReadingMode) -> FileSliceReader:
        """Read for another purpose."""

    def open(self, slice_: FileSlice | ChangeSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, a batch at a time."""
