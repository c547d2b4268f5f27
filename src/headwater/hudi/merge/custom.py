"""Mergers of the user's own, on Arrow data."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Merger(Protocol):
    """Decides what two versions of the same records become.

    Both tables have the same columns and the same number of rows, and row i of one is the same record as row i of the
    other. The result has those columns again, row for row; a row whose `_hoodie_is_deleted` is true (or that is null in
    the boolean column `__deleted`) is dropped.
    """

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """The merged versions."""


_REGISTERED: dict[str, Merger] = {}


def register_merger(name: str, merger: Merger) -> None:
    """Use a merger wherever a table names it: by payload class or by merge strategy id.

    >>> class KeepOldest:
    ...     def merge(self, older, newer):
    ...         return older
    >>> register_merger("com.example.KeepOldest", KeepOldest())
    """
    _REGISTERED[name] = merger


def find_merger(*names: str | None) -> Merger | None:
    """The first registered merger among these names."""
    return next((_REGISTERED[name] for name in names if name and name in _REGISTERED), None)
