"""Stopping a writer at each of its calls to storage, and looking at what is left.

A crash before a call leaves what a crash after the call before it leaves, so each call is walked thus: the process dies
after it; it dies with half of the bytes written (`torn`); the call lands, its answer is lost, and the process lives on.
The first call is also walked with a crash before it.

What must hold each time: a reader sees the state before or the state after, the same one in every mode of reading; who
got a result sees the state after, and who got an error that does not leave it open the state before; the next writer
succeeds, loses nothing and doubles nothing; `verify` is clean; nothing of the dead writer is left lying about.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
from tests.reliability.crash_tables import COLUMNS, Operation, Row, frame

import headwater
from headwater.errors import HeadwaterError, OutcomeUnknown, TableNotFound
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.storage import Storage, writing
from headwater.storage.faults import Fault, FaultyStorage, SimulatedCrash
from headwater.verify import VerifyReport, verify

DEADLY: tuple[Fault, ...] = ("before", "after", "torn")
ALWAYS = 10**9
BUFFER = 1 << 10
"""So little is gathered of a stream that these small files too are many calls."""
NEXT = "bkz"
"""The keys that the next writer upserts: stored ones, and one that is new."""


@dataclass(frozen=True)
class Point:
    """Where a writer dies."""

    number: int
    call: str
    fault: Fault
    times: int = 1

    def __str__(self) -> str:
        return f"{self.fault} call {self.number}: {self.call}"


@dataclass(frozen=True)
class State:
    """What readers see. `since` are the rows that changed since the table was made, by key."""

    rows: tuple[Row, ...] | None
    since: tuple[Row, ...] = ()


class Wrong(AssertionError):
    """A table that is not as it must be."""


@dataclass
class Walk:
    """One operation on one table: `kept` is the table before it, `work` where it is done again and again.

    Where it is done is a folder, or a URI of fsspec's store in memory, which makes files as object stores do.
    """

    operation: Operation
    kind: str
    version: int
    kept: Path
    work: Path | str

    def run(self, storage: Storage) -> None:
        with mock.patch.object(writing, "OUTPUT_BUFFER_BYTES", BUFFER):
            self.operation.start(storage, self.kind, self.version)

    def points(self) -> list[Point]:
        """Every point at which the operation can be stopped, found by running it."""
        self.again()
        storage = FaultyStorage.over(Storage.at(self.work))
        self.run(storage)
        calls = storage.faults.calls
        # Of a call that writes nothing, or all at once, half is as good as a crash before it.
        tearable = ("write", "create", "replace") if storage.is_local else ("write",)
        found = [Point(0, calls[0], "before")]
        for number, call in enumerate(calls):
            found.append(Point(number, call, "after"))
            if call.split(" ")[0] in tearable:
                found.append(Point(number, call, "torn"))
            found.append(Point(number, call, "lost"))
        return found

    def failures(self) -> list[Point]:
        """Every call that may fail: alone, or with all that come after it, or for want of room."""
        calls = [(point.number, point.call) for point in self.points() if point.fault == "after"]
        found = []
        for number, call in calls:
            found += [Point(number, call, "failed"), Point(number, call, "failed", ALWAYS)]
            found.append(Point(number, call, "full", ALWAYS))
        return found

    def again(self) -> None:
        if isinstance(self.work, str):
            _copy_to_store(self.kept, self.work)
            return
        shutil.rmtree(self.work, ignore_errors=True)
        if self.kept.exists():
            shutil.copytree(self.kept, self.work)

    def states(self) -> tuple[State, State]:
        """Before and after, when nothing goes wrong."""
        self.again()
        before = look(self.work, self.start)
        self.run(Storage.at(self.work))
        after = look(self.work, self.start)
        check_clean(verified(self.work))
        return before, after

    @property
    def start(self) -> str | None:
        """The newest commit before the operation, from which changes are read."""
        if not self.kept.exists():
            return None
        commits = headwater.open(self.kept).hudi.timeline.commits
        return commits[-1].requested_at if len(commits) and not self.operation.may_end_later else None

    def stop(self, point: Point, before: State, after: State) -> None:
        """Stop the operation there and look. Raises `Wrong`."""
        self.again()
        storage = FaultyStorage.over(Storage.at(self.work), at=point.number, fault=point.fault, times=point.times)
        told: State | None = None
        try:
            self.run(storage)
            told = after
        except SimulatedCrash:
            if point.fault not in DEADLY:
                raise Wrong("the process lives on") from None
        except OutcomeUnknown as error:
            if point.times == 1:
                raise Wrong(f"reading back tells: {error}") from error
        except HeadwaterError:
            told = before
        seen = look(self.work, self.start)
        if seen not in (before, after):
            raise Wrong(f"a reader sees neither state: {seen}\nbefore {before}\nafter {after}")
        if told is not None and seen != told and not self.operation.may_end_later:
            raise Wrong(f"the caller was told {'after' if told == after else 'before'} and a reader sees the other")
        self.go_on(seen, [seen, after] if self.operation.may_end_later else [seen])

    def go_on(self, seen: State, may_be: list[State]) -> None:
        """The next writer, and the table after it."""
        if seen.rows is None:
            self.run(Storage.at(self.work))
        table = headwater.open(self.work)
        result = table.upsert(frame(NEXT, 9, "next"))
        now = look(self.work, None)
        expected = [_upserted(state.rows or ()) for state in may_be]
        if now.rows not in expected:
            raise Wrong(f"after the next writer: {now.rows}\nexpected {expected}")
        changed = rows_of(headwater.open(self.work).incremental(_before(result.instant), None, columns=COLUMNS))
        if [row[0] for row in changed] != sorted(NEXT):
            raise Wrong(f"the next writer's changes: {changed}")
        check_clean(verified(self.work))
        left = list(left_behind(self.work))
        if left:
            raise Wrong(f"left behind: {left}")


def _copy_to_store(kept: Path, uri: str) -> None:
    store, root = fsspec.core.url_to_fs(uri)
    if store.exists(root):
        store.rm(root, recursive=True)
    for path in kept.rglob("*"):
        if path.is_file():
            store.pipe_file(f"{root}/{path.relative_to(kept)}", path.read_bytes())


def _before(instant: Any) -> str:
    """A time before an instant, and after all others that matter."""
    return str(int(instant.requested_at) - 1)


def _upserted(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    new = {str(row["id"]): tuple(row[name] for name in COLUMNS) for row in frame(NEXT, 9, "next").to_pylist()}
    return tuple(sorted({**{str(row[0]): row for row in rows}, **new}.values(), key=repr))


def rows_of(scan: headwater.Scan) -> tuple[Row, ...]:
    found = scan.to_arrow().to_pylist()
    return tuple(sorted((tuple(row[name] for name in COLUMNS) for row in found), key=repr))


def look(folder: Path | str, start: str | None) -> State:
    """What readers see: with the metadata table, without it, and of what changed."""
    try:
        opened = headwater.open(folder)
    except TableNotFound:
        return State(None)
    rows = rows_of(opened.scan(columns=COLUMNS))
    plain = rows_of(headwater.open(folder, metadata=False).scan(columns=COLUMNS))
    if rows != plain:
        raise Wrong(f"with the metadata table: {rows}\nwithout it: {plain}")
    if any("CORRUPT block" not in warning or opened.version >= 8 for warning in opened.warnings):
        # Before version 8 the name of a log file does not tell whether it counts: readers look into a torn one.
        raise Wrong(f"a reader warns: {opened.warnings}")
    if not opened.hudi.timeline.commits:
        return State(rows)
    return State(rows, rows_of(opened.incremental(start, None, columns=COLUMNS)))


def verified(folder: Path | str) -> VerifyReport:
    return verify(headwater.open(folder), deep=True)


def check_clean(report: VerifyReport) -> None:
    # A log file of version 6 that ends within a block stays, taken back by the block behind it.
    found = [finding for finding in report.findings if "no whole block" not in finding.what]
    if found:
        raise Wrong("verify: " + "; ".join(map(str, found)))


def left_behind(folder: Path | str) -> Iterator[str]:
    """Files that nobody needs: of dead writers, or without a name."""
    hudi = headwater.open(folder).hudi
    timeline = hudi.timeline
    yield from (f"pending {instant}" for instant in timeline.instants if not instant.is_completed)
    known = {instant.requested_at for instant in timeline.completed()}
    for path in hudi.storage.list("", recursive=True):
        text = path.path
        if path.is_directory or _is_of_an_unfinished_index(text, hudi.config.metadata_partitions):
            continue
        if path.name.endswith(".tmp") or text.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")):
            yield text
        if text.startswith(".hoodie/"):
            continue
        name = parse_base_file(path.name) or parse_log_file(path.name)
        if name is not None and name.instant not in known:
            yield text


def _is_of_an_unfinished_index(path: str, ready: tuple[str, ...]) -> bool:
    """Files of an index that nobody reads stay until it is made again."""
    if not path.startswith(".hoodie/metadata/"):
        return False
    return not ready or path.split("/")[2] not in (".hoodie", *ready)


def sample(points: list[Point], limit: int | None, seed: str) -> list[Point]:
    """So many points, spread evenly over the operation and the faults; which ones, the seed decides."""
    if limit is None or len(points) <= limit:
        return points
    dice = random.Random(seed)
    step = len(points) / limit
    return [points[min(int((at + dice.random()) * step), len(points) - 1)] for at in range(limit)]
