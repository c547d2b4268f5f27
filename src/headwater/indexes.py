"""The indexes of a table: made, dropped, checked and made anew. `headwater.open(path).index` gives one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater import arguments
from headwater.hudi.metadata_table.creating import create_metadata, rebuild_metadata
from headwater.hudi.metadata_table.dropping import drop_metadata
from headwater.hudi.table import HudiTable
from headwater.hudi.write.lock import locked

if TYPE_CHECKING:
    from headwater.table import Table
    from headwater.verify import VerifyReport


@dataclass(frozen=True)
class Indexes:
    """The metadata table of a table, and what is in it.

    `files` is the list of files, which all others need; `column_stats` and `partition_stats` are ranges of columns, by
    file and by partition; `bloom_filters` are those of the base files' keys; `record_index` is the place of each key.
    Every write keeps up to date what is there.
    """

    table: Table

    @property
    def names(self) -> tuple[str, ...]:
        """The indexes that the table has.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> headwater.open(demo_table("trips")).index.names
        ()
        """
        return self.table.hudi.config.metadata_partitions

    def create(self, *names: str, columns: Sequence[str] | None = None) -> None:
        """Make indexes of the rows that the table has; one that is there already stays as it is.

        `columns` are those that get statistics; where none are given, the first 32 whose values have an order. An index
        is used once it is complete: a crash on the way leaves the table without it.

        >>> import tempfile, headwater, pyarrow as pa
        >>> table = headwater.create(tempfile.mkdtemp(), schema=pa.schema([("id", pa.string())]), key="id")
        >>> _ = table.insert(pa.table({"id": ["a", "b"]}))
        >>> table.index.create("column_stats", "record_index")
        >>> table.index.names
        ('column_stats', 'files', 'record_index')
        """
        chosen = None if columns is None else arguments.some_columns("columns", columns)
        with locked(self.table.hudi.storage):
            create_metadata(HudiTable.open(self.table.hudi.storage), names or ("files",), columns=chosen)
        self.table.hudi = self.table.hudi.reopened()

    def drop(self, *names: str) -> None:
        """Drop indexes; without names, the whole metadata table. A crash leaves files that nobody reads."""
        with locked(self.table.hudi.storage):
            drop_metadata(HudiTable.open(self.table.hudi.storage), names or None)
        self.table.hudi = self.table.hudi.reopened()

    def rebuild(self) -> None:
        """Make all indexes anew. A crash leaves the table with fewer of them, or with none."""
        with locked(self.table.hudi.storage):
            rebuild_metadata(HudiTable.open(self.table.hudi.storage))
        self.table.hudi = self.table.hudi.reopened()

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Whether the indexes agree with the files; the files themselves are looked at too."""
        from headwater.verify import verify

        return verify(self.table, deep=deep)
