"""What a table must hold after each step: a dictionary of rows, and the merge rules in a few plain lines.

Nothing of Headwater's is used here, so that a mistake in its writing shows even where every reader agrees on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.interop.write_matrix.rows import Row
from tests.interop.write_matrix.specs import Spec

_DAY = 86_400_000


class Model:
    """The rows that a table has, by key."""

    def __init__(self, spec: Spec, key: Sequence[str]) -> None:
        self.spec = spec
        self.key_columns = tuple(key)
        self.rows: dict[tuple[Any, ...], Row] = {}

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key_columns)

    def place(self, row: Row) -> tuple[Any, ...]:
        """The partition of a row, as a value."""
        time = row.get("ev")
        return (row.get("part"), time[:10] if isinstance(time, str) else time and time // _DAY)

    def insert(self, rows: Iterable[Row]) -> None:
        for row in rows:
            assert self.key(row) not in self.rows, "the matrix inserts keys once"
            self.rows[self.key(row)] = dict(row)

    def upsert(self, rows: Iterable[Row], given: Sequence[str] | None = None) -> None:
        """`given` are the columns that a partial update has; it keeps the others."""
        for row in rows:
            stored = self.rows.get(self.key(row))
            merged = dict(row) if stored is None else self._merged(stored, row, given)
            if merged.get("_hoodie_is_deleted"):
                self.rows.pop(self.key(row), None)
            else:
                self.rows[self.key(row)] = merged

    def delete(self, keys: Iterable[Row]) -> None:
        for row in keys:
            self.rows.pop(self.key(row), None)

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if wanted(row)}

    def add_column(self, name: str) -> None:
        for row in self.rows.values():
            row[name] = None

    def some(self, count: int, step: int = 2) -> list[Row]:
        """Some rows, spread over all of them."""
        return [dict(row) for row in list(self.rows.values())[::step][:count]]

    def _merged(self, stored: Row, row: Row, given: Sequence[str] | None) -> Row:
        is_late = self._order(row) < self._order(stored)
        if self.spec.merge == "partial":
            older, newer = (row, stored) if is_late else (stored, row)
            return {**older, **{name: value for name, value in newer.items() if value is not None}}
        if self.spec.merge == "nondefaults":
            return {**stored, **{name: value for name, value in row.items() if value is not None}}
        if is_late and self.spec.merge in ("event", "several"):
            return stored
        return {**stored, **row} if given is None else {**stored, **{name: row[name] for name in given}}

    def _order(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.spec.ordering)
