"""The history of a table, as a query engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from headwater.spec.model import Instant


@runtime_checkable
class Timeline(Protocol):
    """Ordered actions on a table. Ranges exclude their start and include their end."""

    @property
    def instants(self) -> Sequence[Instant]:
        """Every action that is still listed, in order of the time it was asked for."""

    def completed(self) -> Sequence[Instant]:
        """The completed ones among them."""

    def find_latest_completed_action_at(self, time: str | None = None) -> Instant | None:
        """The newest action that had been asked for at `time` and is completed; the newest of all without a time."""

    def requested_between(self, start: str | None, end: str | None) -> Sequence[Instant]:
        """Completed actions asked for after `start`, up to and with `end`."""

    def completed_between(self, start: str | None, end: str | None) -> Sequence[Instant]:
        """Completed actions whose completion lies after `start`, up to and with `end`."""
