"""What merging found out about slices, kept for the next query that reads them.

The files of a slice never change, so neither does the outcome of merging them: which rows of the base file go, and
which rows come. A process that serves one query after the other keeps the outcomes that were asked for last, as many
as fit the bytes that it was given.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

import pyarrow as pa

from headwater.hudi.log import LogBlock
from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.slice_merge import Merged
from headwater.spec.model import FileSlice
from headwater.storage import Storage


@dataclass
class _Outcome:
    dropped: Rows
    rows: int
    # Whether this process is the one to keep it, and not one that only happened to need it.
    primary: bool
    # Of each column by its name and type: a later query may ask for other columns, or for other fields of a struct.
    columns: dict[tuple[str, str], pa.ChunkedArray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return int(self.dropped.nbytes + sum(column.nbytes for column in self.columns.values()))


class MergeMemo:
    """The outcomes of merging slices, the latest ones within so many bytes.

    >>> import numpy as np
    >>> memo = MergeMemo(1000)
    >>> memo.keep("a slice", Merged(np.array([3]), pa.table({"x": [1], "y": [2]})))
    >>> memo.find("a slice", pa.schema({"x": pa.int64()})).added.to_pydict()
    {'x': [1]}
    >>> memo.find("a slice", pa.schema({"z": pa.int64()})) is None
    True
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._outcomes: OrderedDict[Hashable, _Outcome] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable, wanted: Iterable[pa.Field]) -> Merged | None:
        """The outcome for a slice, if it is known with all these columns."""
        with self._lock:
            known = self._outcomes.get(key)
            if known is None:
                return None
            self._outcomes.move_to_end(key)
            fields = list(wanted)
            columns = [known.columns.get(_name_of(one)) for one in fields]
            if not fields or any(column is None for column in columns):
                return None
            return Merged(known.dropped, pa.table(columns, schema=pa.schema(fields)))

    def keep(self, key: Hashable, merged: Merged, *, primary: bool = True) -> None:
        """Remember an outcome, beside the columns that are known of it already; the oldest ones go where need be.

        An outcome that another process keeps as well is not `primary`: it takes what room is left, and goes first.
        """
        table = merged.added
        with self._lock:
            known = self._outcomes.pop(key, None)
            if known is not None:
                self._size -= known.size
            if known is None or known.rows != table.num_rows or len(known.dropped) != len(merged.dropped):
                known = _Outcome(merged.dropped, table.num_rows, primary)
            known.primary = known.primary or primary
            known.columns.update(zip(map(_name_of, table.schema), table.columns, strict=True))
            if self._make_room(known.size, for_primary=known.primary):
                self._outcomes[key] = known
                self._size += known.size

    def _make_room(self, size: int, *, for_primary: bool) -> bool:
        if size > self._most:
            return False
        oldest = sorted(self._outcomes, key=lambda key: self._outcomes[key].primary)  # keeps the order among equals
        for key in oldest:
            if self._size + size <= self._most or (not for_primary):
                break
            self._size -= self._outcomes.pop(key).size
        return self._size + size <= self._most


@cache
def shared_memo(most_bytes: int) -> MergeMemo | None:
    """What the tables of this process keep that were opened with as many bytes, or None for none.

    >>> shared_memo(1000) is shared_memo(1000), shared_memo(0)
    (True, None)
    """
    return MergeMemo(most_bytes) if most_bytes else None


def key_of_files(storage: Storage, slice_: FileSlice, blocks: Sequence[LogBlock]) -> tuple[Hashable, ...]:
    """What a slice is made of, by names that tell of each change.

    A log file may grow, and a block of it begin to count when its commit completes: so blocks are named, not files,
    and with their instants: after a rollback a new one may stand in the place of an old one. A writer never changes a
    file under its name; a restore from a backup or a damaged disk may, which a local disk tells.
    """
    base = None if slice_.base_file is None else (slice_.base_file.path, slice_.base_file.size)
    named = tuple((block.file, block.offset, block.length, block.instant_time) for block in blocks)
    written_at = tuple(_written_at(storage, path) for path in slice_.paths) if storage.is_local else ()
    return storage.uri, base, named, written_at


def _written_at(storage: Storage, path: str) -> int | None:
    found = storage.find(path)
    return None if found is None else found.modified_at


def _name_of(one: pa.Field) -> tuple[str, str]:
    return one.name, str(one.type)
