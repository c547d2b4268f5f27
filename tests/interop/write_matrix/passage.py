"""What one release of Hudi does with one table: reads it, writes it, reads it again after us, and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.interop.write_matrix import hudi_options
from tests.interop.write_matrix.cells import Cell, against_model, compare, from_arrow
from tests.interop.write_matrix.known import BARE_KEYS, known_difference, makes_other_keys
from tests.interop.write_matrix.reads import Read, reads_of
from tests.interop.write_matrix.rows import Row
from tests.interop.write_matrix.rust import NAME as RUST
from tests.interop.write_matrix.rust import CannotRead, read_with_rust, takes
from tests.interop.write_matrix.sessions import HudiFailed, HudiSession
from tests.interop.write_matrix.story import Story

import headwater
from headwater.verify import verify

HERE = "Headwater"
BY_US, BY_HUDI, BY_US_AGAIN, BY_HUDI_AGAIN = "written here", "after Hudi", "after us", "Hudi again"


def checked_here(story: Story, stage: str, reader: str = HERE) -> Iterator[Cell]:
    """Whether the rows are those of the model, and whether the table's metadata agrees with its files."""
    if story.model_is_exact:
        yield _cell(story, reader, stage, "rows as they must be", lambda: against_model(story))
    yield _cell(story, reader, stage, "verify", lambda: _verified(story))


def read_by_rust(story: Story, stage: str, reads: list[Read]) -> Iterator[Cell]:
    for read in filter(takes, reads):
        yield _cell(story, RUST, stage, read.name, lambda read=read: _compare_rust(story, read), read)


class Passage:
    """One table and one release."""

    def __init__(self, hudi: HudiSession, story: Story) -> None:
        self.hudi = hudi
        self.story = story

    def run(self) -> Iterator[Cell]:
        """Cell by cell; where Hudi cannot write the table, the stages after that are not made."""
        yield from self._reads(BY_US, all_modes=True)
        if makes_other_keys(self.story.spec, self.hudi.release):
            yield Cell(self.story.name, self.hudi.release, BY_HUDI, "write", "known", BARE_KEYS)
            return
        yield from self._in_turn(self.go_on)

    def run_from_nothing(self) -> Iterator[Cell]:
        """The same where Hudi makes the table."""
        yield from self._in_turn(self.begin, all_modes=True)

    def _in_turn(self, first: Callable[[], None], *, all_modes: bool = False) -> Iterator[Cell]:
        story, spec = self.story, self.story.spec
        try:
            first()
        except HudiFailed as error:
            yield self._failed(BY_HUDI, "write", error)
            return
        yield from checked_here(story, BY_HUDI, self.hudi.release)
        yield from self._reads(BY_HUDI, all_modes=all_modes)
        yield from self._rust(BY_HUDI)
        story.go_on()
        yield from checked_here(story, BY_US_AGAIN, self.hudi.release)
        yield from self._reads(BY_US_AGAIN)
        yield from self._rust(BY_US_AGAIN)
        if spec.keys != "auto":
            # Keys that both wrote: none may be there twice, by whatever index the writer found them.
            try:
                rows = story.changed_rows()
                self._write("upsert", rows)
            except HudiFailed as error:
                yield self._failed(BY_HUDI_AGAIN, "write", error)
                return
            story.model.upsert(rows)
            yield from checked_here(story, BY_HUDI_AGAIN, self.hudi.release)
            yield from self._reads(BY_HUDI_AGAIN, few=True)

    # ------------------------------------------------------------------------------------------------- Hudi's writes

    def begin(self) -> None:
        """Make the table, and change it once."""
        story = self.story
        story.is_made_by_hudi = True
        rows = story.rows.new(12)
        self._write("bulk_insert" if story.spec.keys == "auto" else "insert", rows, mode="overwrite")
        story.model.insert(rows)
        if story.spec.keys != "auto":
            rows = story.changed_rows()
            self._write("upsert", rows)
            story.model.upsert(rows)

    def go_on(self) -> None:
        """An upsert with compaction; a delete with cleaning, clustering, archiving; one that fails, if wanted."""
        story, spec = self.story, self.story.spec
        if spec.keys == "auto":
            rows = story.rows.new(3)
            self._write("insert", rows, hudi_options.CLEANING)
            story.model.insert(rows)
            return
        rows = story.changed_rows()
        self._write("upsert", rows, hudi_options.COMPACTION if spec.is_merge_on_read else {})
        story.model.upsert(rows)
        rows = story.rows.again(story.model.some(2, 4), late=False)
        services = hudi_options.CLEANING | (hudi_options.CLUSTERING if self._clusters() else {})
        self._write("delete", rows, services | (hudi_options.ARCHIVING if spec.columns == "rich" else {}))
        story.model.delete(rows)
        if spec.failure == "theirs":
            try:
                self._write("upsert", story.rows.again(story.model.some(4), late=False), hudi_options.FAILING)
            except HudiFailed:
                return
            raise AssertionError("Hudi's write was to fail")

    def _clusters(self) -> bool:
        spec = self.story.spec
        # Where a path is made of a time, the clustering of 0.15.0 stores the path's value in place of the row's.
        is_safe = self.hudi.release != "0.15.0" or spec.keys not in ("timestamp", "custom")
        some = spec.operations in ("load", "rows", "merge") and spec.index != "bucket"
        return is_safe and some and not spec.is_merge_on_read

    def _write(
        self, operation: str, rows: list[Row], more: Mapping[str, str] | None = None, mode: str = "append"
    ) -> None:
        story = self.story
        options = hudi_options.write_options(story.name, story.spec, self.hudi.release, operation)
        self.hudi.write(story.path, story.rows.for_spark(rows), {**options, **(more or {})}, mode)

    # -------------------------------------------------------------------------------------------------------- reads

    def _reads(self, stage: str, *, all_modes: bool = False, few: bool = False) -> Iterator[Cell]:
        reads = reads_of(self.story, self.hudi.release, all_modes=all_modes)
        for read in reads[:2] if few else reads:
            yield _cell(
                self.story, self.hudi.release, stage, read.name, lambda read=read: self._compare_hudi(read), read
            )

    def _rust(self, stage: str) -> Iterator[Cell]:
        yield from read_by_rust(self.story, stage, reads_of(self.story, RUST, all_modes=False))

    def _compare_hudi(self, read: Read) -> str | None:
        found = self.hudi.read(self.story.path, read.options, read.where)
        return compare(self.story, read, found["rows"], found["types"])

    def _failed(self, stage: str, read: str, error: HudiFailed) -> Cell:
        reason = known_difference(self.story.spec, self.hudi.release, stage, None, str(error))
        state = "known" if reason else "failed"
        message = f"{reason}: {error}" if reason else f"Hudi: {error}"
        return Cell(self.story.name, self.hudi.release, stage, read, state, message)


def _compare_rust(story: Story, read: Read) -> str | None:
    return compare(story, read, *from_arrow(read_with_rust(story, read)))


def _verified(story: Story) -> str | None:
    report = verify(headwater.open(story.path), deep=True)
    return None if report.ok else "; ".join(str(finding) for finding in report.findings)[:500]


def _cell(
    story: Story, reader: str, stage: str, name: str, look: Callable[[], str | None], read: Read | None = None
) -> Cell:
    try:
        message = look()
    except CannotRead as error:
        return Cell(story.name, reader, stage, name, "unable", str(error))
    except HudiFailed as error:
        message = f"Hudi: {error}"
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    if message is None:
        return Cell(story.name, reader, stage, name, "passed")
    reason = known_difference(story.spec, reader, stage, read, message)
    if reason is not None:
        return Cell(story.name, reader, stage, name, "known", f"{reason}: {message}")
    return Cell(story.name, reader, stage, name, "failed", message)
