"""Which files hold the rows of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from headwater.spec.expressions import Expression
from headwater.spec.model import Instant, PartitionChanges, PartitionIncrementalSnapshot, PartitionSnapshot


@runtime_checkable
class FileIndex(Protocol):
    """Lists file slices; partitions and slices that cannot hold a matching row are left out.

    Ranges exclude `start` and include `end`; None leaves a side open.
    """

    def list_files_at(
        self, instant: Instant | None = None, filters: Expression | None = None
    ) -> Sequence[PartitionSnapshot]:
        """The slices that are current at an instant: `list_files_between` with an open start."""

    def list_files_between(
        self, start: Instant | None, end: Instant | None, filters: Expression | None = None
    ) -> Sequence[PartitionIncrementalSnapshot]:
        """The slices that are current at `end`, with only what was written after `start`."""

    def list_changes_between(
        self, start: Instant | None, end: Instant | None, filters: Expression | None = None
    ) -> Sequence[PartitionChanges]:
        """Each change made after `start`, up to and with `end`, and how to read it."""
