"""Rows of a file slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
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


@dataclass(frozen=True, slots=True)
class MergePart:
    """What merging a part of the delta files changes: rows of the base file that go, and rows that come."""

    dropped: npt.NDArray[np.int64]
    """Positions in the base file, rising; no other part has any of them."""
    added: pa.Table
    is_last: bool


@runtime_checkable
class PositionalSliceReader(FileSliceReader, Protocol):
    """Readers of formats whose slices are a base file, less rows by position, plus other rows.

    An engine with a fast reader of base files reads those itself and asks only for the difference.
    """

    def merge_over_base(self, slice_: FileSlice) -> Iterator[MergePart]:
        """The difference, in one part or more; none where nothing changes. Filters concern only the added rows."""

    def with_positions(self, name: str) -> PositionalSliceReader:
        """Give one more column, the last: each row's position in the base file, null for added rows."""

    def within(self, budget: int) -> PositionalSliceReader:
        """Hold no more than so many bytes of delta files at a time."""
