"""What a check of a table found."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being checked, how much of it is done, and how much there is."""

_READERS = 8


class Severity(Enum):
    """An error makes some read fail or give wrong rows; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: how bad, where, what, and what to do."""

    severity: Severity
    where: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.where}: {self.what}; {self.todo}"


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found, and how much it looked at."""

    table: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def __str__(self) -> str:
        looked = ", ".join(f"{count} {what}" for what, count in self.checked.items() if count)
        head = f"{self.table}: {'fine' if self.ok else 'damaged'} ({looked})"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


@dataclass
class Notes:
    """Findings in the making, and the counts of what was looked at. May be written to from several threads."""

    progress: Progress
    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.checked[what] += number

    def error(self, where: str, what: str, todo: str) -> None:
        self.findings.append(Finding(Severity.ERROR, where, what, todo))

    def warn(self, where: str, what: str, todo: str) -> None:
        self.findings.append(Finding(Severity.WARNING, where, what, todo))

    def run(self, what: str, todo: Sequence[Callable[[], None]]) -> None:
        """Checks side by side: most of their time is waiting for storage."""
        pool = ThreadPoolExecutor(_READERS)
        try:
            for done, _ in enumerate(pool.map(lambda check: check(), todo), 1):
                self.progress(what, done, len(todo))
        finally:
            pool.shutdown(cancel_futures=True)
