"""Base files: Parquet, ORC and Lance behind one face, read by row groups with each row's position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptFile, HeadwaterError, MissingDependency, MissingFile, StorageError, UnsupportedTable
from headwater.hudi.parquet_footer import BLOOM, check_column_chunks, read_footer
from headwater.hudi.parquet_pages import check_pages
from headwater.hudi.parquet_rows import Run, SparseGroup
from headwater.spec.statistics import ColumnStatistics
from headwater.storage import Storage

# What stays in a processor's cache while it is decoded is decoded faster; much smaller, and Python takes over.
BATCH_ROWS = 256 * 1024
BATCH_BYTES = 32 * 1024 * 1024
_BUFFER = 1024 * 1024
_LARGE = 64 * 1024 * 1024
_HELD = 16 * 1024 * 1024
# Rows of a few numbers: so many of them as a batch may have bytes are decoded at once, which saves going in and out.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}
_NARROW = 32
_NARROW_ROWS = 8 * BATCH_ROWS
# Skipping pages costs something, too: where more than this share of them is wanted, all are read.
_WORTH_SKIPPING = 0.6


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A run of rows that can be skipped as a whole."""

    index: int
    start: int
    rows: int
    only: tuple[Run, ...] | None = None
    """Where not all of its rows are wanted: those that are, counted from its first. Others may be given as well."""


class BaseFile(Protocol):
    """One open base file."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def row_groups(self) -> Sequence[RowGroup]: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def footer(self) -> Mapping[bytes, bytes]: ...

    def statistics(self, group: RowGroup) -> dict[str, ColumnStatistics]: ...

    def read(self, columns: Sequence[str], groups: Sequence[RowGroup]) -> pa.Table: ...

    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]: ...


def open_base_file(storage: Storage, path: str, *, batch_bytes: int = BATCH_BYTES) -> BaseFile:
    """Open by the file's extension; a bootstrap's skeleton together with the file that it belongs to.

    Batches have about `batch_bytes` at most where that can be chosen.
    """
    from headwater.hudi.bootstrap import is_skeleton, open_bootstrapped

    extension = path.rsplit(".", 1)[-1].lower()
    if extension in ("parquet", "orc"):
        file = ParquetBaseFile(storage, path, batch_bytes) if extension == "parquet" else OrcBaseFile(storage, path)
        return open_bootstrapped(storage, path, file) if is_skeleton(path) else file
    if extension == "lance":
        return LanceBaseFile(storage, path)
    raise UnsupportedTable(
        f"{storage.describe(path)}: base files of this kind cannot be read; known: parquet, orc, lance"
    )


class _Guard:
    """Library errors while reading a file, as one error that names the file."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, HeadwaterError):
            # The storage said no: the file itself may be sound.
            gone = isinstance(error, FileNotFoundError)
            todo = "it may have been cleaned; open the table again" if gone else "try again, or look at the storage"
            raise (MissingFile if gone else StorageError)(f"{self.where}: cannot be read ({error}); {todo}") from error
        known = (pa.ArrowException, OSError, ValueError, OverflowError, LookupError, RuntimeError)
        if isinstance(error, known) and not isinstance(error, HeadwaterError):
            raise CorruptFile(
                f"{self.where}: cannot be read ({type(error).__name__}: {error}); "
                "restore the file, or go back to an older version of the table"
            ) from error


@dataclass
class ParquetBaseFile:
    """A Parquet file; its footer is read once."""

    storage: Storage
    path: str
    batch_bytes: int = BATCH_BYTES
    row_groups: tuple[RowGroup, ...] = field(init=False)
    schema: pa.Schema = field(init=False)
    _known_sizes: dict[tuple[int, tuple[str, ...]], _Sizes] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        with _Guard(self.storage.describe(self.path)):
            self._source = self.storage.open(self.path)
            self._file = self._opened(read_footer(self._source))
            self.schema = self._file.schema_arrow.remove_metadata()
            groups, start = [], 0
            for index in range(self._file.num_row_groups):
                rows = self._file.metadata.row_group(index).num_rows
                groups.append(RowGroup(index, start, rows))
                start += rows
            self.row_groups = tuple(groups)
            if start != self._file.metadata.num_rows or any(group.rows < 0 for group in groups):
                raise ValueError(f"its row groups have {start} rows, its footer says {self._file.metadata.num_rows}")

    def _opened(self, metadata: pq.FileMetaData, buffer_size: int = 0) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._source,
            metadata=metadata,
            coerce_int96_timestamp_unit="us",
            # Fetching row groups ahead pays where each read is a request; on a disk it only holds memory.
            pre_buffer=not self.storage.is_local,
            buffer_size=buffer_size,
            page_checksum_verification=True,
        )

    @property
    def num_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @cached_property
    def footer(self) -> Mapping[bytes, bytes]:
        with _Guard(self.storage.describe(self.path)):
            known = self._file.metadata.metadata or {}
            return pq.read_metadata(self._source).metadata if known.get(BLOOM) == b"" else known

    @cached_property
    def _checked_metadata(self) -> pq.FileMetaData:
        """The footer, of which Python may see the columns."""
        check_column_chunks(self._file.metadata)
        return self._file.metadata

    @cached_property
    def _flat_columns(self) -> dict[str, int]:
        """Top-level columns of one leaf: the only ones whose statistics stand for the column itself."""
        meta = self._checked_metadata
        schema = meta.schema
        return {schema.column(i).path: i for i in range(meta.num_columns) if "." not in schema.column(i).path}

    def statistics(self, group: RowGroup) -> dict[str, ColumnStatistics]:
        meta = self._file.metadata.row_group(group.index)
        found: dict[str, ColumnStatistics] = {}
        with _Guard(self.storage.describe(self.path)):
            for name, index in self._flat_columns.items():
                column, declared = meta.column(index), self._file.metadata.schema.column(index).physical_type
                if column.physical_type != declared:
                    # Arrow ends the process when it is asked for the statistics of such a column.
                    raise ValueError(f"{name} is {column.physical_type} in a row group and {declared} in the schema")
                statistics = _column_statistics(column.statistics, group.rows)
                if statistics is not None:
                    found[name] = statistics
        return found

    def read(self, columns: Sequence[str], groups: Sequence[RowGroup]) -> pa.Table:
        with _Guard(self.storage.describe(self.path)):
            if not columns:
                return pa.table({"": pa.nulls(sum(group.rows for group in groups))}).select([])
            file = self._reader(groups, columns)
            found = file.read_row_groups([group.index for group in groups], columns=list(columns))
            _check_rows(found.num_rows, sum(group.rows for group in groups))
            return found

    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]:
        for group in groups:
            start = group.start
            if not columns:
                yield start, _rows_without_columns(group.rows)
                continue
            with _Guard(self.storage.describe(self.path)):
                for at, table in self._pages(group, columns):
                    start = at + table.num_rows
                    yield at, table
                if group.only is None or start < group.start + group.only[-1][1]:
                    yield from self._from_row(start - group.start, group, columns)

    def _from_row(self, first: int, group: RowGroup, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a group from one on."""
        at = 0
        file, size = self._reader([group], columns), self._batch_rows(group, columns)
        for batch in file.iter_batches(size, row_groups=[group.index], columns=list(columns)):
            at += batch.num_rows
            if at > first:
                wanted = batch if at - batch.num_rows >= first else batch.slice(first - at + batch.num_rows)
                yield group.start + at - wanted.num_rows, pa.Table.from_batches([wanted])
        _check_rows(at, group.rows)

    def _pages(self, group: RowGroup, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """The wanted rows of a group by the pages that hold them; less where that is not the way to read it."""
        # Where each read is a request, many small ones take longer than a large one.
        if group.only is None or not self.storage.is_local:
            return
        try:
            pages = SparseGroup(self._source, self._checked_metadata, group.index, columns)
            if pages.share(group.only) > _WORTH_SKIPPING:
                return
            for runs in pages.parts(group.only, self._batch_rows(group, columns)):
                for (first, _), table in zip(runs, pages.read(runs), strict=True):
                    yield group.start + first, table
        except (pa.ArrowException, OSError, ValueError, LookupError):
            # Unusual or damaged: the whole group is read from here on, and tells which.
            return

    def _reader(self, groups: Sequence[RowGroup], columns: Sequence[str]) -> pq.ParquetFile:
        """Who reads these columns: with a buffer where they are too large to be held as they are stored."""
        if not self.storage.is_local or self._source.size() < _LARGE:
            return self._file
        if sum(self._sizes(group, columns).stored for group in groups) <= _HELD:
            return self._file
        # A buffered stream takes as much memory as a page says it has: such pages are looked at before.
        for group in groups:
            check_pages(self.storage.absolute(self.path), self._checked_metadata, group.index, columns)
        return self._buffered

    @cached_property
    def _buffered(self) -> pq.ParquetFile:
        return self._opened(self._file.metadata, _BUFFER)

    def _batch_rows(self, group: RowGroup, columns: Sequence[str]) -> int:
        """As many rows as make a batch of the usual size; wide rows make small batches."""
        sizes = self._sizes(group, columns)
        if sizes.width is not None and 0 < sizes.width <= _NARROW:
            return max(min(self.batch_bytes // sizes.width, _NARROW_ROWS), 1024)
        per_row = max(sizes.plain // max(group.rows, 1), 1)
        return int(max(min(self.batch_bytes // per_row, BATCH_ROWS), 1024))

    def _sizes(self, group: RowGroup, columns: Sequence[str]) -> _Sizes:
        key = (group.index, tuple(columns))
        if key not in self._known_sizes:
            self._known_sizes = {key: self._measured(group, set(columns))}  # a file is read from front to back
        return self._known_sizes[key]

    def _measured(self, group: RowGroup, wanted: set[str]) -> _Sizes:
        meta = self._checked_metadata.row_group(group.index)
        stored = plain = 0
        width: int | None = 0
        for index in range(meta.num_columns):
            chunk = meta.column(index)
            path = chunk.path_in_schema
            if path in wanted or path.split(".", 1)[0] in wanted:
                stored += chunk.total_compressed_size
                plain += chunk.total_uncompressed_size
                known = _WIDTHS.get(chunk.physical_type) if chunk.num_values == group.rows else None
                width = None if width is None or known is None or path not in wanted else width + known
        return _Sizes(stored, plain, width)


class _Sizes(NamedTuple):
    """The bytes of some columns of a row group as they are stored, as they were before that, and of a row of them.

    A row's are known where all columns are numbers. Before they were stored, others may have been repeated from a
    dictionary: nobody knows what they take.
    """

    stored: int
    plain: int
    width: int | None


def _check_rows(found: int, declared: int) -> None:
    """Arrow passes over pages of a type that it does not know, as a damaged page can seem to be."""
    if found != declared:
        raise ValueError(f"{found} rows where the footer says {declared}")


def _rows_without_columns(rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(rows)}).select([])


def _column_statistics(statistics: Any, rows: int) -> ColumnStatistics | None:
    if statistics is None:
        return None
    nulls = statistics.null_count if statistics.has_null_count else None
    low = high = None
    if statistics.has_min_max:
        try:
            low, high = statistics.min, statistics.max
        except (ValueError, OverflowError, NotImplementedError, pa.ArrowException):
            low = high = None
        if isinstance(low, bytes) != isinstance(high, bytes):
            low = high = None
    return ColumnStatistics(minimum=low, maximum=high, null_count=nulls, value_count=rows, exact=False)


@dataclass
class _OneGroup(ABC):
    """A file that is read as one row group, whose statistics are not known."""

    storage: Storage
    path: str
    row_groups: tuple[RowGroup, ...] = field(init=False)
    schema: pa.Schema = field(init=False)

    def statistics(self, group: RowGroup) -> dict[str, ColumnStatistics]:
        return {}

    def read(self, columns: Sequence[str], groups: Sequence[RowGroup]) -> pa.Table:
        tables = [table for _, table in self.batches(columns, groups)]
        return pa.concat_tables(tables) if tables else self.schema.empty_table().select(list(columns))

    @abstractmethod
    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]: ...


@dataclass
class OrcBaseFile(_OneGroup):
    """An ORC file."""

    def __post_init__(self) -> None:
        from pyarrow import orc

        with _Guard(self.storage.describe(self.path)):
            self._file = orc.ORCFile(self.storage.open(self.path))
            self.schema = self._file.schema.remove_metadata()
            self.row_groups = (RowGroup(0, 0, self._file.nrows),)

    @property
    def num_rows(self) -> int:
        return int(self._file.nrows)

    @property
    def footer(self) -> Mapping[bytes, bytes]:
        return self._file.metadata.metadata if hasattr(self._file.metadata, "metadata") else {}

    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]:
        if not list(groups):
            return
        if not columns:
            yield 0, _rows_without_columns(self.num_rows)
            return
        start = 0
        with _Guard(self.storage.describe(self.path)):
            for stripe in range(self._file.nstripes):
                table = pa.Table.from_batches([self._file.read_stripe(stripe, columns=list(columns))])
                yield start, table.select(list(columns))
                start += table.num_rows


@dataclass
class LanceBaseFile(_OneGroup):
    """A Lance file, through the `lance` extra."""

    def __post_init__(self) -> None:
        try:
            from lance.file import LanceFileReader
        except ImportError as error:
            raise MissingDependency(
                f"{self.storage.describe(self.path)}: is a Lance file; install headwater[lance] to read it"
            ) from error
        with _Guard(self.storage.describe(self.path)):
            self._file = LanceFileReader(self.storage.absolute(self.path))
            metadata = self._file.metadata()
            self.schema = metadata.schema.remove_metadata()
            self.row_groups = (RowGroup(0, 0, metadata.num_rows),)

    @property
    def num_rows(self) -> int:
        return self.row_groups[0].rows

    @property
    def footer(self) -> Mapping[bytes, bytes]:
        return {}

    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]:
        if not list(groups):
            return
        start = 0
        with _Guard(self.storage.describe(self.path)):
            for batch in self._file.read_all(batch_size=BATCH_ROWS).to_batches():
                table = pa.Table.from_batches([batch]).select(list(columns))
                yield start, table
                start += batch.num_rows
