"""What long tests counted, told at the end of a run: crash points, kills, steps of the model.

A test records what it did as a property of its report, which reaches the process that prints from every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

Record = Callable[[str, object], None]
_KEY = "headwater count"


def count(record: Record, what: str, done: int, *, of: int | None = None, wrong: int = 0) -> None:
    """Note that so many were done, of how many there are, and how many of them went wrong.

    `record` is pytest's fixture `record_property`.
    """
    record(_KEY, (what, done, done if of is None else of, wrong))


def lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """One line for each thing counted."""
    sums: dict[str, list[int]] = {}
    for report in reports:
        if getattr(report, "when", None) != "call":
            continue
        for key, value in report.user_properties:
            if key == _KEY:
                what, *numbers = value  # type: ignore[misc]
                known = sums.setdefault(str(what), [0, 0, 0])
                for at, number in enumerate(numbers):
                    known[at] += int(number)
    found = []
    for what, (done, there, wrong) in sums.items():
        some = f"{done:,}" if done == there else f"{done:,} of {there:,}"
        found.append(f"{what}: {some}, {wrong:,} wrong")
    return found
