"""Killing writers for real, and looking at the table that they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.reliability.crash_walk import check_clean, verified
from tests.reliability.kill_steps import found, state, take

import headwater

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("HEADWATER_KILLS", "1"))
"""How many times as many kills as there are in a usual run."""


class Victim:
    """A writer in a process of its own, in a group of its own: with all processes that it starts."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        )
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._drain, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # a kill cut it off: what it would have said is not known
            with self._heard:
                self.lines.append(line.strip())
                self._heard.notify_all()
        with self._heard:
            self.lines.append("end")
            self._heard.notify_all()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def wait_for(self, word: str, seconds: float = 180) -> None:
        """Until it has said this, or is gone."""
        with self._heard:
            self._heard.wait_for(lambda: self._has_said(word) or "end" in self.lines, seconds)
        assert self._has_said(word), self.told()

    def _has_said(self, word: str) -> bool:
        return any(line.startswith(word) for line in self.lines)

    def steps(self, word: str) -> list[int]:
        with self._heard:
            return [int(line.split()[1]) for line in self.lines if line.split()[0] == word]

    def told(self) -> str:
        return "\n".join([*self.lines[-5:], *self.errors[-30:]])

    def kill(self, processes: Sequence[int] = ()) -> None:
        """`kill -9` the writer, and then others."""
        for process in (self.process.pid, *processes):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        # What it said last lies in the pipe; processes that it started may keep that open.
        time.sleep(0.2)

    def bury(self) -> None:
        """Make sure that nothing of it is alive, and that all that it said was heard."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for thread in self._threads:
            thread.join()


def children(parent: int, word: bytes = b"") -> list[int]:
    """Processes below another one, at any depth, whose command line has a word."""
    above: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    known, added = {parent}, True
    while added:
        more = {process for process, one in above.items() if one in known} - known
        known, added = known | more, bool(more)
    return sorted(process for process in known - {parent} if word in commands.get(process, b""))


def check(path: Path, done: int, *, began: bool = True) -> int:
    """The table is at the last step that was done, or at the one that had begun; it is clean after the next write.

    Returns the step that the table is at then.
    """
    rows, plain = found(path), found(path, metadata=False)
    assert rows == plain, "with and without the metadata table"
    possible = [done, done + 1] if began else [done]
    at = [step for step in possible if state(step) == rows]
    assert at, f"neither step {done} nor the next one: {rows}"
    now = max(at) + 1
    take(headwater.open(path), now)
    assert found(path) == found(path, metadata=False) == state(now)
    check_clean(verified(path))
    return now
