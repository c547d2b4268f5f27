"""A base file, written as its rows come: row groups of a size, and a footer with the keys' range and bloom filter.

What a crash leaves behind is a file without a footer, or a part of one: no commit names it, and the marker that was
made before it says that it is to be deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import InvalidArgument
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.footer_index import BLOOM_TYPE, MAX_KEY, MIN_KEY
from headwater.hudi.index.bloom import BloomBuilder
from headwater.hudi.parquet_footer import BLOOM
from headwater.hudi.write.file_ranges import FileRanges
from headwater.hudi.write.meta_columns import RECORD_KEY
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.parquet_sink import open_parquet, physical_rows, physical_schema, reported
from headwater.storage import Storage

ROW_GROUP_BYTES = 120 * 1024 * 1024
"""Hudi's `hoodie.parquet.block.size`; here it counts bytes in memory, before encoding."""


class BaseFileWriter:
    """Writes one Parquet base file.

    Parameters
    ----------
    path
        Relative to the table: the partition and a base file's name.
    schema
        Meta columns first, then the user's (`meta_columns.with_meta_schema`).
    avro_schema
        The same columns as Avro schema text; stored in the footer.
    codec, level
        By Hudi's names: snappy, gzip, zstd, lz4_raw, brotli, uncompressed.
    bloom
        Whether the footer gets a bloom filter and the range of the record keys; without meta fields there is neither.
    row_group_bytes
        At most about so much is held in memory before it is written.

    >>> import tempfile
    >>> from headwater.hudi.avro_schema import to_avro
    >>> from headwater.hudi.write.meta_columns import with_meta_columns, with_meta_schema
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> schema = with_meta_schema(pa.schema([("id", pa.int64())]))
    >>> name = "f1-0_0-0-0_20260101000000000.parquet"
    >>> rows = with_meta_columns(pa.table({"id": [1, 2]}), pa.array(["1", "2"]), instant="20260101000000000",
    ...                          partition="", file_name=name)
    >>> with BaseFileWriter(storage, name, schema, avro_schema=to_avro(schema, "t")) as writer:
    ...     writer.write(rows)
    ...     written = writer.finish(inserted=2)
    >>> written.rows, written.smallest_key, written.largest_key
    (2, '1', '2')
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        *,
        avro_schema: str,
        codec: str = "snappy",
        level: int | None = None,
        bloom: bool = True,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self.partition, _, self.name = path.rpartition("/")
        parsed = parse_base_file(self.name)
        if parsed is None:
            raise InvalidArgument(f"{self.name!r} is no base file's name: <file id>_<write token>_<instant>.parquet")
        self.file_id = parsed.file_id
        self.path = path
        self.rows = 0
        self._where = storage.describe(path)
        self._began = time.monotonic()
        self._schema = physical_schema(schema)
        self._row_group_bytes = max(row_group_bytes, 1)
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._bloom = BloomBuilder() if bloom and RECORD_KEY in schema.names else None
        self._keys = KeyRange()
        self._ranges = FileRanges(schema)
        self._collected: list[pq.FileMetaData] = []
        self._sink = storage.open_output(path)
        with reported(self._where):
            self._writer = open_parquet(
                self._sink, self._schema, avro_schema=avro_schema, codec=codec, level=level, collector=self._collected
            )

    def __enter__(self) -> BaseFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    @property
    def bytes_written(self) -> int:
        """How large the file is by now, without what is still held."""
        return int(self._sink.tell()) if not self._sink.closed else 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows; they are written once a row group is full."""
        rows = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        rows = physical_rows(rows, self._schema, self._where)
        for part in self._parts(rows):
            size = part.nbytes
            if self._pending_bytes + size > self._row_group_bytes:
                self._flush()
            self._pending.append(part)
            self._pending_bytes += size

    def finish(
        self,
        *,
        inserted: int = 0,
        updated: int = 0,
        deleted: int = 0,
        previous_instant: str | None = None,
        base_file: str | None = None,
    ) -> WrittenFile:
        """Write what is held and the footer; the file is whole when this returns."""
        with reported(self._where):
            self._flush()
            entries, bloom = self._footer()
            self._writer.add_key_value_metadata(entries)
            self._writer.close()
            size = int(self._sink.tell())
            self._sink.close()
        return WrittenFile(
            partition=self.partition,
            file_id=self.file_id,
            name=self.name,
            size=size,
            rows=self.rows,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            previous_instant=previous_instant,
            base_file=base_file,
            ranges=self._ranges.of_written(self._collected[0]),
            bloom=bloom,
            smallest_key=self._keys.smallest,
            largest_key=self._keys.largest,
            milliseconds=round((time.monotonic() - self._began) * 1000),
        )

    def abandon(self) -> None:
        """Let go of a file that is not finished; nothing is done to one that is. What was written stays there."""
        self._pending = []
        if self._sink.closed:
            return
        try:
            self._writer.close()
        except Exception:
            # The error that made this file useless is on its way already.
            self._writer.is_open = False
        finally:
            with suppress(OSError):
                self._sink.close()

    def _parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows in parts of which none is larger than a row group."""
        count = -(-rows.nbytes // self._row_group_bytes)
        if count <= 1:
            if rows.num_rows:
                yield rows
            return
        step = max(rows.num_rows // count, 1)
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step)

    def _flush(self) -> None:
        if not self._pending:
            return
        group = pa.concat_tables(self._pending)
        self._pending, self._pending_bytes = [], 0
        if RECORD_KEY in group.column_names:
            keys = group.column(RECORD_KEY)
            self._keys.add(keys)
            if self._bloom is not None:
                # They are kept until the file's end: as they are, they would keep the batches that they came in.
                self._bloom.add(keys.combine_chunks())
        self._ranges.look_at(group)
        with reported(self._where):
            # Batches with dictionaries of their own would else be spelled out one by one.
            self._writer.write_table(group.unify_dictionaries(), row_group_size=group.num_rows)
        self.rows += group.num_rows

    def _footer(self) -> tuple[dict[str, str], str | None]:
        if self._bloom is None or (self.rows and self._keys.smallest is None):
            return {}, None
        filter_ = self._bloom.finish()
        text = filter_.serialize()
        entries = {BLOOM.decode(): text, BLOOM_TYPE.decode(): filter_.kind}
        # A file without rows has no range, but a filter: Hudi asks that of every file.
        if self._keys.smallest is not None and self._keys.largest is not None:
            entries |= {MIN_KEY.decode(): self._keys.smallest, MAX_KEY.decode(): self._keys.largest}
        return entries, text


class KeyRange:
    """The smallest and the largest of a file's keys in Java's order of texts, which Hudi compares them in.

    >>> keys = KeyRange()
    >>> keys.add(pa.array(["b", "a", None]))
    >>> keys.smallest, keys.largest
    ('a', 'b')
    """

    def __init__(self) -> None:
        self.smallest: str | None = None
        self.largest: str | None = None

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Take keys into the range."""
        for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
            low, high = _java_range(chunk)
            if low is None or high is None:
                continue
            self.smallest = low if self.smallest is None else min(self.smallest, low, key=_java_order)
            self.largest = high if self.largest is None else max(self.largest, high, key=_java_order)


def _java_range(keys: pa.Array) -> tuple[str | None, str | None]:
    if len(keys) == keys.null_count:
        return None, None
    offsets, data = keys.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    text = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if data is not None else np.zeros(0, np.uint8)
    # UTF-8 and UTF-16 order alike, but for characters beyond 16 bits, which Java sorts before U+E000 and up.
    if len(text) and text.max() >= 0xEE:
        present: list[Any] = keys.drop_null().to_pylist()
        return min(present, key=_java_order), max(present, key=_java_order)
    found = pc.min_max(keys)
    return found["min"].as_py(), found["max"].as_py()


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
