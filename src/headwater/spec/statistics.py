"""What is known of a column's values without reading them: bounds and counts, of one file or of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Bounds and counts of one column.

    Every value that is neither NULL nor NaN lies between `minimum` and `maximum`; None is an unknown bound. Bounds
    with `exact=False` may be looser than the values (truncated text, rounded timestamps), but never tighter.

    >>> ColumnStatistics(1, 5, null_count=3, value_count=3).all_null
    True
    """

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None
    value_count: int | None = None
    """Rows, those with NULL included."""
    exact: bool = False
    may_have_nan: bool = True
    """Whether a floating column may hold NaN, which no bound covers."""

    @property
    def all_null(self) -> bool:
        """Whether it is known that no row has a value."""
        return self.null_count is not None and self.null_count == self.value_count

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """The statistics of the rows of both.

        >>> a = ColumnStatistics(1, 5, null_count=0, value_count=10, exact=True, may_have_nan=False)
        >>> b = ColumnStatistics(None, None, null_count=2, value_count=2, exact=True, may_have_nan=False)
        >>> a.merge(b)
        ColumnStatistics(minimum=1, maximum=5, null_count=2, value_count=12, exact=True, may_have_nan=False)
        """
        null_count = _sum(self.null_count, other.null_count)
        value_count = _sum(self.value_count, other.value_count)
        if self.all_null:
            return replace(other, null_count=null_count, value_count=value_count)
        if other.all_null:
            return replace(self, null_count=null_count, value_count=value_count)
        return ColumnStatistics(
            minimum=_extreme(self.minimum, other.minimum, largest=False),
            maximum=_extreme(self.maximum, other.maximum, largest=True),
            null_count=null_count,
            value_count=value_count,
            exact=self.exact and other.exact,
            may_have_nan=self.may_have_nan or other.may_have_nan,
        )


Statistics: TypeAlias = Mapping[str, ColumnStatistics]
"""Statistics by column; a field inside structs has its dotted path as name."""


def merge_statistics(left: Statistics, right: Statistics) -> dict[str, ColumnStatistics]:
    """The statistics of the rows of both; a column that only one side knows is not known.

    >>> a = {"x": ColumnStatistics(1, 2), "y": ColumnStatistics(0, 0)}
    >>> merged = merge_statistics(a, {"x": ColumnStatistics(5, 9)})
    >>> list(merged), merged["x"].minimum, merged["x"].maximum
    (['x'], 1, 9)
    """
    return {name: statistics.merge(right[name]) for name, statistics in left.items() if name in right}


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _extreme(left: Any, right: Any, *, largest: bool) -> Any:
    """The wider bound, or None when one is unknown or the two cannot be compared."""
    if left is None or right is None or left != left or right != right:
        return None
    try:
        return max(left, right) if largest else min(left, right)
    except TypeError:
        return None
