"""Reads where Headwater does not give what Hudi gives, each with the reason. Everything else that differs is a bug.

Left out of the stories instead, because whole columns would differ: partition values that a path cannot hold (null,
'', 'a=b', '%20'; docs/reader-spec.md, last part), and null ordering values, which Hudi cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Story = Mapping[str, Any]
Read = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """A kind of difference: when it applies to a read, and to the message that says what differs."""

    reason: str
    applies: Callable[[Story, Read, str], bool]


KNOWN: tuple[Known, ...] = ()


def known_difference(story: Story, read: Read, message: str) -> str | None:
    """Why this difference is not a bug of ours, if it is none."""
    return next((known.reason for known in KNOWN if known.applies(story, read, message)), None)
