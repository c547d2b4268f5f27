"""A log file: the rows and the deletes that one commit adds to a file slice (facts 5).

Each file is written once and never appended to. What a crash leaves behind is a file that ends within a block: no
commit names it (from version 8) or its blocks' instant is not complete (version 6), and the marker that was made before
it says that it is to be deleted.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidArgument
from headwater.hudi.file_names import parse_log_file
from headwater.hudi.log.blocks import AVRO_CONTENT_VERSION
from headwater.hudi.log.format import BlockType, Header, block_frame, write_positions
from headwater.hudi.properties import KeyGenerator, TableConfig
from headwater.hudi.write.avro_encoder import encode_rows
from headwater.hudi.write.delete_block import encode_deletes
from headwater.hudi.write.file_ranges import merge_ranges, ranges_of_rows
from headwater.hudi.write.model import ColumnRange, WrittenFile
from headwater.hudi.write.parquet_sink import open_parquet, physical_rows, physical_schema, reported
from headwater.storage import Storage

LogFormat = Literal["avro", "parquet"]
Positions = npt.NDArray[np.int64]

BLOCK_BYTES = 128 * 1024 * 1024
"""Rows of about so many bytes in memory make a block; Hudi's own limit is 256 MB."""


def default_format(version: int, ordering: Iterable[pa.DataType]) -> LogFormat:
    """What rows are stored as where nobody says: what the readers of the table's version read right.

    Parquet from version 8 on, whose readers all take it; Avro before, which every release reads, and where the table
    is ordered by text: Hudi 1.1.1 and 1.2.0 let the wrong row win in Parquet blocks then, 1.2.0 in blocks that it wrote
    itself as well.

    >>> default_format(9, [pa.int64()]), default_format(9, [pa.string()]), default_format(6, [])
    ('parquet', 'avro', 'avro')
    """
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    by_text = any(is_text(kind) for kind in ordering for is_text in texts)
    return "avro" if version < 8 or by_text else "parquet"


def takes_partial_logs(config: TableConfig) -> bool:
    """Whether logs may hold some columns only; else what a partial update leaves out is looked up.

    Logs of version 6 hold whole rows. Where a timestamp makes up the path, Hudi takes its column for the text in the
    path when it puts rows together column by column, and fails.
    """
    return config.version >= 8 and config.key_generator is not KeyGenerator.TIMESTAMP


class LogFileWriter:
    """Writes one log file, block by block.

    Parameters
    ----------
    path
        Relative to the table: the partition and a log file's name.
    instant
        Of the commit that writes, whatever the file's name says.
    avro_schema
        The schema text of the rows, meta columns included; those that the rows have, where they are partial.
    format
        What rows are stored as. Every reader of Hudi takes Avro; Parquet is read by 0.11 and later, and by hudi-rs.
    base_instant
        Of the base file that positions count rows of. From version 8 on only.
    partial
        Whether the rows hold the changed columns alone. From version 8 on only.

    >>> import tempfile
    >>> from headwater.hudi.avro_schema import to_avro
    >>> from headwater.hudi.write.meta_columns import with_meta_columns, with_meta_schema
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> schema = with_meta_schema(pa.schema([("id", pa.int64())]))
    >>> rows = with_meta_columns(pa.table({"id": [1]}), pa.array(["1"]), instant="20260101000000000", partition="",
    ...                          file_name="f1-0")
    >>> with LogFileWriter(storage, ".f1-0_20260101000000000.log.1_0-0-0", "20260101000000000",
    ...                    avro_schema=to_avro(schema, "t")) as writer:
    ...     writer.append(rows)
    ...     writer.delete(pa.table({"key": ["2"], "partition": [""]}))
    ...     written = writer.finish(updated=1)
    >>> written.rows, written.blocks, written.deleted
    (2, 2, 1)
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        instant: str,
        *,
        avro_schema: str,
        format: LogFormat = "parquet",
        codec: str = "snappy",
        base_instant: str | None = None,
        partial: bool = False,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.partition, _, self.name = path.rpartition("/")
        parsed = parse_log_file(self.name)
        if parsed is None:
            raise InvalidArgument(f"{self.name!r} is no log file's name: .<file id>_<instant>.log.<version>_<token>")
        if format not in ("avro", "parquet"):
            raise InvalidArgument(f"log block format {format!r} is not known; known: avro, parquet")
        self.file_id, self.log_version = parsed.file_id, parsed.version
        self.rows = self.deletes = self.blocks = 0
        self._avro_schema, self._format, self._codec = avro_schema, format, codec
        self._base_instant, self._block_bytes = base_instant, max(block_bytes, 1)
        self._headers: dict[int, str] = {Header.INSTANT_TIME: instant, Header.SCHEMA: avro_schema}
        self._partial = partial
        self._ranges: tuple[ColumnRange, ...] = ()
        self._where = storage.describe(path)
        self._began = time.monotonic()
        self._sink = storage.open_output(path)

    def __enter__(self) -> LogFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One that is finished is closed already. Of the others nobody reads a byte, and their error is on its way.
        with suppress(OSError):
            self._sink.close()

    def append(self, rows: pa.Table, positions: Positions | None = None) -> None:
        """Write rows as blocks, each of a bounded size; with their positions in the base file, where all have one."""
        rows, positions = _by_position(rows, positions)
        step = max(rows.num_rows * self._block_bytes // max(rows.nbytes, 1), 1)
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            content = self._content(part)
            headers = self._with_positions(None if positions is None else positions[start : start + step])
            if self._partial:
                headers[Header.IS_PARTIAL] = "true"
            type_ = BlockType.AVRO_DATA if self._format == "avro" else BlockType.PARQUET_DATA
            self._write(type_, headers, content)
            self._ranges = merge_ranges(self._ranges, ranges_of_rows(part))
            self.rows += part.num_rows

    def delete(self, deletes: pa.Table, positions: Positions | None = None) -> None:
        """Write deletes as a block.

        Columns: `key` and `partition`; `ordering` where deletes have an ordering value, a struct of one field for each
        ordering column where there are several. Without one, or with a null, a delete wins over all before it.
        """
        if not deletes.num_rows:
            return
        deletes, positions = _by_position(deletes, positions)
        self._write(BlockType.DELETE, self._with_positions(positions), [encode_deletes(deletes)])
        self.deletes += deletes.num_rows

    def finish(
        self,
        *,
        inserted: int = 0,
        updated: int = 0,
        previous_instant: str | None = None,
        base_file: str | None = None,
        earlier_logs: tuple[str, ...] = (),
    ) -> WrittenFile:
        """Close the file; it is whole when this returns."""
        with reported(self._where):
            size = int(self._sink.tell())
            self._sink.close()
        return WrittenFile(
            partition=self.partition,
            file_id=self.file_id,
            name=self.name,
            size=size,
            rows=self.rows + self.deletes,
            inserted=inserted,
            updated=updated,
            deleted=self.deletes,
            previous_instant=previous_instant,
            base_file=base_file,
            is_log=True,
            log_version=self.log_version,
            earlier_logs=earlier_logs,
            ranges=self._ranges,
            blocks=self.blocks,
            milliseconds=round((time.monotonic() - self._began) * 1000),
        )

    def _content(self, rows: pa.Table) -> Sequence[Any]:
        """The content of a block of rows, in parts."""
        if self._format == "avro":
            head = struct.pack(">ii", AVRO_CONTENT_VERSION, rows.num_rows)
            return [head, *encode_rows(self._avro_schema, rows, length_prefixed=True)]
        schema = physical_schema(rows.schema)
        sink = pa.BufferOutputStream()
        with open_parquet(sink, schema, avro_schema=self._avro_schema, codec=self._codec) as writer:
            rows = physical_rows(rows, schema, self._where).unify_dictionaries()
            writer.write_table(rows, row_group_size=rows.num_rows)
        return [sink.getvalue()]

    def _with_positions(self, positions: Positions | None) -> dict[int, str]:
        headers = dict(self._headers)
        if positions is not None and self._base_instant is not None:
            headers[Header.RECORD_POSITIONS] = write_positions(positions)
            headers[Header.BASE_INSTANT_OF_POSITIONS] = self._base_instant
        return headers

    def _write(self, type_: BlockType, headers: dict[int, str], content: Sequence[Any]) -> None:
        before, after = block_frame(type_, headers, sum(map(len, content)))
        with reported(self._where):
            for part in (before, *content, after):
                self._sink.write(part)
        self.blocks += 1


def write_log_file(
    storage: Storage,
    path: str,
    instant: str,
    rows: pa.Table | None,
    deletes: pa.Table | None = None,
    *,
    avro_schema: str,
    format: LogFormat = "parquet",
    codec: str = "snappy",
    positions: Positions | None = None,
    delete_positions: Positions | None = None,
    base_instant: str | None = None,
    partial: bool = False,
    inserted: int = 0,
    updated: int = 0,
    previous_instant: str | None = None,
    base_file: str | None = None,
    earlier_logs: tuple[str, ...] = (),
    block_bytes: int = BLOCK_BYTES,
) -> WrittenFile:
    """Write a log file of rows, then deletes, as Hudi orders them; see `LogFileWriter`.

    >>> import tempfile
    >>> written = write_log_file(Storage.at(tempfile.mkdtemp()), ".f1-0_2.log.1_0-0-0", "2", None,
    ...                          pa.table({"key": ["a"], "partition": [""]}), avro_schema='{"type":"record"}')
    >>> written.file_id, written.deleted, written.log_version
    ('f1-0', 1, 1)
    """
    writer = LogFileWriter(
        storage,
        path,
        instant,
        avro_schema=avro_schema,
        format=format,
        codec=codec,
        base_instant=base_instant,
        partial=partial,
        block_bytes=block_bytes,
    )
    with writer:
        if rows is not None:
            writer.append(rows, positions)
        if deletes is not None:
            writer.delete(deletes, delete_positions)
        return writer.finish(
            inserted=inserted,
            updated=updated,
            previous_instant=previous_instant,
            base_file=base_file,
            earlier_logs=earlier_logs,
        )


def _by_position(rows: pa.Table, positions: Positions | None) -> tuple[pa.Table, Positions | None]:
    """The rows in the order of their positions; no positions where two rows share one, as Hudi has it."""
    if positions is None:
        return rows, None
    if len(positions) != rows.num_rows:
        raise InvalidArgument(f"{rows.num_rows} rows with {len(positions)} positions; give one for each")
    steps = np.diff(positions)
    if (steps > 0).all():
        return rows, positions
    order = np.argsort(positions, kind="stable")
    positions = positions[order]
    if (np.diff(positions) == 0).any():
        return rows, None
    return rows.take(pa.array(order)), positions
