"""Real tables, their commits made again one by one, with the metadata table written by us."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_names import parse_log_file
from headwater.hudi.footer_index import BLOOM
from headwater.hudi.metadata_table import present_state
from headwater.hudi.metadata_table.creating import create_metadata, default_columns
from headwater.hudi.metadata_table.dropping import drop_metadata
from headwater.hudi.metadata_table.writing import update_metadata
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import WRITE_ACTIONS
from headwater.hudi.timeline.metadata import CommitMetadata, commit_metadata, decode
from headwater.hudi.write.model import RECORD_MOVES, WrittenFile
from headwater.spec.model import Instant, InstantState
from headwater.storage import Storage


class Replay:
    """A copy of a table whose timeline is empty at first; `step` brings the next commit back."""

    def __init__(self, source: Path, target: Path, indexes: Sequence[str]) -> None:
        shutil.copytree(source, target / "table")
        shutil.rmtree(target / "table" / ".hoodie" / "metadata", ignore_errors=True)
        self.storage = Storage.at(target / "table")
        self.path = target / "table"
        drop_metadata(HudiTable.open(self.storage))
        self.whole = HudiTable.open(self.storage, metadata=False)
        self.columns = default_columns(self.whole.schema.arrow)
        self._hidden = target / "hidden"
        for files in self.whole.timeline.files.values():
            for file in files.values():
                self._move(self.path / file.path, self._hidden / file.path)
        self.todo = list(self.whole.timeline.completed())
        create_metadata(self.table(), indexes, columns=self.columns)

    def table(self, *, metadata: bool = True) -> HudiTable:
        return HudiTable.open(self.storage, metadata=metadata)

    def step(self, update: Callable[..., None] = update_metadata) -> Instant:
        """Bring back the next instant: pending, then the metadata table's commit, then completed."""
        instant = self.todo.pop(0)
        before = self.table(metadata=False)
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
            self.show(instant, state)
        if instant.action in WRITE_ACTIONS:
            self.update(instant, before, update)
        self.show(instant, InstantState.COMPLETED)
        return instant

    def update(self, instant: Instant, before: HudiTable, update: Callable[..., None] = update_metadata) -> None:
        told = self.whole_metadata(instant)
        update(
            self.table(),
            instant.requested_at,
            action=instant.action,
            written=[self._written(path, size) for path, size in told],
            replaced=self._replaced(instant),
            moves=self._moves(instant, before),
            schema=self.whole.schema.arrow,
        )

    def show(self, instant: Instant, state: InstantState) -> None:
        file = self.whole.timeline.files[instant].get(state)
        if file is not None:
            self._move(self._hidden / file.path, self.path / file.path)

    def hide(self, instant: Instant, state: InstantState) -> None:
        file = self.whole.timeline.files[instant].get(state)
        if file is not None:
            self._move(self.path / file.path, self._hidden / file.path)

    def _move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)

    def whole_metadata(self, instant: Instant) -> list[tuple[str, int]]:
        return [(stat.path, stat.size) for stat in self._metadata(instant).write_stats]

    def _replaced(self, instant: Instant) -> dict[str, Sequence[str]]:
        return dict(self._metadata(instant).replaced)

    def _metadata(self, instant: Instant) -> CommitMetadata:
        file = self.whole.timeline.files[instant][InstantState.COMPLETED]
        path = self._hidden / file.path
        data = (path if path.exists() else self.path / file.path).read_bytes()
        return commit_metadata(decode(data, file.path), file.path)

    def _written(self, path: str, size: int) -> WrittenFile:
        partition, _, name = path.rpartition("/")
        log = parse_log_file(name)
        actual = (self.path / path).stat().st_size
        if log is not None:
            return WrittenFile(partition, log.file_id, name, actual, 1, is_log=True)
        file = open_base_file(self.storage, path)
        bloom = file.footer.get(BLOOM)
        return WrittenFile(
            partition,
            name.split("_")[0],
            name,
            actual,
            file.num_rows,
            ranges=tuple(present_state.column_ranges(self.storage, path, self.whole.schema.arrow)),
            bloom=None if bloom is None else bloom.decode(),
        )

    def _moves(self, instant: Instant, before: HudiTable) -> Iterator[pa.RecordBatch]:
        """What the record index must be told: the difference of both states."""
        self.show(instant, InstantState.COMPLETED)
        after = self.table(metadata=False)
        new = places(after)
        self.hide(instant, InstantState.COMPLETED)
        old = places(before)
        rows = [(key, *place, instant.requested_at, False) for key, place in new.items() if old.get(key) != place]
        rows += [(key, *place, instant.requested_at, True) for key, place in old.items() if key not in new]
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in RECORD_MOVES]
        yield pa.record_batch(columns, schema=RECORD_MOVES)


def places(table: HudiTable) -> dict[str, tuple[str, str]]:
    """Record key → partition and file group, by the files."""
    found: dict[str, tuple[str, str]] = {}
    for batch in present_state.places(table):
        for row in batch.to_pylist():
            found[row["key"]] = (row["partition"], row["file_id"])
    return found
