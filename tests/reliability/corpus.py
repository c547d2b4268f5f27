"""The files that are damaged, each with the narrowest reader of its format and the bytes that a checksum covers.

A reader gives a value that is equal for equal content, so that a silent change can be told from none.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import random
import re
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.reliability.tables import files_of
from tests.reliability.thrift import page_bodies

from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_index import HudiFileIndex
from headwater.hudi.hfile import BytesSource, HFileReader
from headwater.hudi.index.bloom import DYNAMIC, SIMPLE, BloomFilter
from headwater.hudi.index.bucket import HashRing
from headwater.hudi.listing import FolderListing
from headwater.hudi.log import (
    BlockType,
    Wrapper,
    data_schema,
    read_data_block,
    read_delete_block,
    read_deletes,
    scan_buffer,
    select_blocks,
    write_deletes,
)
from headwater.hudi.merge import merge_rules
from headwater.hudi.metadata_table import column_statistics, decode_records, live, merge, record_locations
from headwater.hudi.properties import load_config
from headwater.hudi.schema import META_SCHEMA, TableSchema, load_schema_history, resolve_schema
from headwater.hudi.timeline import load_timeline
from headwater.hudi.timeline.history import load_history
from headwater.spec.expressions import bind, to_expression
from headwater.storage import Storage

Region = tuple[int, int]
LOG_NAME = re.compile(r"(^|/)\.[^/]*_[^/]*\.log\.\d+_[^/]*$")
# A file larger than this costs more time than it finds.
LARGEST = 64 << 10


@dataclass(frozen=True)
class Item:
    """One file to damage."""

    kind: str
    name: str
    data: bytes = field(repr=False)
    read: Callable[[bytes], object] = field(repr=False)
    checked: Callable[[], Sequence[Region]] = field(default=tuple, repr=False)
    """Where a flipped byte must give an error, a report or the same value."""
    where: str = ""
    """What a message must name: the file, or for texts what they are."""


@cache
def scratch() -> Path:
    """A folder in memory where there is one; the process that made it removes it."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="headwater-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def digest(*values: object) -> str:
    """A short text that is equal for equal values."""
    return hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def table_digest(table: pa.Table) -> str:
    try:
        return digest(table.schema.to_string(), table.to_pydict())
    except (ValueError, OverflowError) as error:
        # Text that is no UTF-8 and times past the year 9999 are values that Python has not got.
        return digest(table.schema.to_string(), table.num_rows, str(error))


# Log files

LOG_TABLES = (
    "cdc_data_before_after_mor_v6_0150",
    "cdc_data_before_after_cow_v9_120",
    "cdc_op_key_only_mor_v9_120",
    "corrupt_mid_mor_v9_120",
    "log_compaction_mor_v9_120",
    "log_parquet_mor_v6_120",
    "log_parquet_mor_v8_120",
    "log_positions_mor_v8_120",
    "ord_types_mor_v6_120",
    "ord_types_mor_v8_120",
    "partial_merge_mor_v9_120",
    "rb_real_mor_v6_0150",
    "types_all_mor_v6_0150",
    "types_all_mor_v9_111",
    "types_parquetlog_mor_v6_0150",
    "idx_stats_mor_v9_120",
    "idx_secondary_mor_v8_102",
    "idx_rli_moves_mor_v6_0150",
    "mdt_stale_mor_v6_0150",
)


def read_log(data: bytes, name: str = "fuzz.log") -> object:
    """(whether a part of the file was reported as corrupt, what the rest holds)"""
    blocks = list(scan_buffer(data, name))
    values: list[object] = []
    for block in blocks:
        values.append((block.type, sorted(block.headers.items()), block.compacted_times, block.is_partial))
        if block.type is BlockType.DELETE:
            values.append(_deletes(read_delete_block(block)))
        elif block.type.is_data:
            data_schema(block)
            values.append(table_digest(read_data_block(block)))
        positions = block.positions
        values.append(None if positions is None else positions.tolist())
    select_blocks(blocks, is_valid_instant=lambda instant: True)
    return any(block.type is BlockType.CORRUPT for block in blocks), digest(values)


def _deletes(deletes: Any) -> object:
    # Dates past the year 9999 are values that Python has not got: `str` shows the numbers.
    groups = [(group.rows.tolist(), str(group.values)) for group in deletes.groups]
    return deletes.key.to_pylist(), deletes.partition.to_pylist(), deletes.is_default.to_pylist(), groups


def _block_frames(data: bytes) -> list[Region]:
    """The magic and the two sizes of each block: what a reader can check of a log block."""
    found: list[Region] = []
    for block in scan_buffer(data, ""):
        if block.type is not BlockType.CORRUPT:
            found += [(block.offset, block.offset + 14), (block.offset + block.length - 8, block.offset + block.length)]
    return found


def logs() -> Iterator[Item]:
    for table in LOG_TABLES:
        chosen = [(n, d) for n, d in files_of(table).items() if LOG_NAME.search(n) and 100 < len(d) <= LARGEST]
        chosen = [(n, d) for n, d in chosen if "/bloom_filters/" not in n]
        # The files of a metadata table resemble each other: some of each partition will do.
        for name, data in chosen if len(chosen) < 12 else chosen[:: len(chosen) // 12]:
            yield Item("log", f"{table}/{name}", data, read_log, partial(_block_frames, data), "fuzz.log")


# HFiles


def read_hfile(data: bytes, probes: Sequence[bytes] = ()) -> object:
    reader = HFileReader(BytesSource(data), "fuzz.hfile")
    found = [reader.entry_count, reader.first_key, reader.last_key, list(reader.scan())]
    columns = [(keys.to_pylist(), values.to_pylist()) for keys, values in reader.scan_columns()]
    found += [columns, list(reader.get_many(probes)), list(reader.scan_prefix([probe[:3] for probe in probes]))]
    return digest(found, [reader.meta_block(name) for name in reader.meta_names], sorted(reader.file_info.items()))


def _checked_blocks(data: bytes) -> list[Region]:
    """Blocks under a CRC of their own, and gzip streams, which end with one."""
    found: list[Region] = []
    at = 0
    while at + 33 <= len(data) - 4096:
        _magic, on_disk, _size, _previous, kind, _per, with_header = struct.unpack_from(">8siiqBii", data, at)
        if kind:
            found.append((at, at + with_header))
        elif data[at + 33 : at + 35] == b"\x1f\x8b":
            found.append((at + 33, at + with_header))
        at += 33 + on_disk
    return found


def hfiles() -> Iterator[Item]:
    for table in (
        "idx_mdt_all_cow_v6_0150",
        "idx_stats_cow_v8_102",
        "idx_stats_evo_mor_v9_120",
        "idx_secondary_mor_v8_102",
    ):
        for name, data in files_of(table).items():
            if "/bloom_filters/" in name:
                # Some hundred bytes of half a megabyte of zeros each: `blooms` damages such texts at less cost.
                continue
            if name.endswith(".hfile") and len(data) <= LARGEST:
                yield _hfile(f"{table}/{name}", data)
            elif "/metadata/" in name and LOG_NAME.search(name):
                for block in scan_buffer(data, name):
                    if block.type is BlockType.HFILE_DATA and len(data) <= LARGEST:
                        yield _hfile(f"{table}/{name}@{block.offset}", bytes(block.content()))
    yield from _written_hfiles()


def _written_hfiles() -> Iterator[Item]:
    """Many blocks in one file, in every codec, as metadata tables of real size have them."""
    from headwater.hudi.hfile import write_hfile

    rng = random.Random(5)
    entries = [(f"key-{i:05d}".encode(), rng.randbytes(rng.randrange(60))) for i in range(120)]
    for codec in ("NONE", "GZ", "SNAPPY", "LZ4", "ZSTD", "BZIP2"):
        data = write_hfile(
            entries, codec=codec, block_size=600, meta={"bloomFilter": b"x" * 90}, info={b"schema": b"{}"}
        )
        yield _hfile(f"written/{codec}", data)


def _hfile(name: str, data: bytes) -> Item:
    keys = [key for key, _ in HFileReader(BytesSource(data), name).scan()]
    probes = [*keys[:: max(len(keys) // 8, 1)], b"", b"\xff\xff", b"not there"]
    read = partial(read_hfile, probes=probes)
    return Item("hfile", name, data, read, partial(_checked_blocks, data), "fuzz.hfile")


# Records of the metadata table: the bytes within an HFile, which nothing covers once it is not compressed


def read_record(data: bytes, key: bytes, schema: str, kind: str) -> object:
    """By the decoder of single records and by that of whole columns."""
    values = pa.array([data], pa.binary())
    columns = {"record_index": record_locations, "column_stats": column_statistics}.get(kind)
    table = None if columns is None else columns(pa.array([key], pa.binary()), values, schema, name="metadata table")
    found = list(decode_records([(key, data)], schema))
    for _, payload in found:
        merge(None, payload)
        live(payload)
    return digest(found), None if table is None else table_digest(table)


def records() -> Iterator[Item]:
    for table in ("idx_mdt_all_cow_v6_0150", "idx_stats_evo_mor_v9_120", "idx_secondary_mor_v8_102"):
        seen: Counter[str] = Counter()
        for name, data in files_of(table).items():
            kind = name.split("/")[2] if name.startswith(".hoodie/metadata/") else ""
            if not LOG_NAME.search(name) or seen[kind] >= 8 or kind in ("", "bloom_filters"):
                continue
            for block in scan_buffer(data, name):
                if block.type is BlockType.HFILE_DATA:
                    for key, value in list(HFileReader(BytesSource(block.content()), name).scan())[:4]:
                        seen[kind] += 1
                        read = partial(read_record, key=key, schema=block.schema or "", kind=kind)
                        yield Item("record", f"{table}/{name} {key!r}", value, read, where="metadata table")


# Everything that is read from a storage: the damaged bytes are put where the table has them


class Place:
    """A folder with the few files that a reader needs beside the damaged one."""

    def __init__(self, name: str, path: str, beside: dict[str, bytes]) -> None:
        self.folder = scratch() / hashlib.blake2b(f"{name}/{path}".encode(), digest_size=8).hexdigest()
        self.path = self.folder / path
        self.where = str(self.folder)
        for other, content in beside.items():
            self._write(self.folder / other, content)

    def put(self, data: bytes) -> Storage:
        self._write(self.path, data)
        return Storage.at(self.folder)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


PROPERTIES = ".hoodie/hoodie.properties"
TIMELINE_TABLES = (
    "archive_mor_v9_120",
    "clean_cow_v9_120",
    "clean_mor_v6_0150",
    "clus_done_cow_v6_0150",
    "clus_mor_mor_v9_120",
    "clus_pending_cow_v6_0150",
    "comp_pending_inflight_mor_v6_0150",
    "comp_pending_mor_v8_102",
    "evo_types_mor_v6_0150",
    "idx_mdt_all_cow_v6_0150",
    "idx_stats_mor_v9_120",
    "ow_table_cow_v6_0150",
    "rb_done_mor_v6_0150",
    "rb_done_mor_v9_120",
    "savepoint_restore_cow_v9_120",
    "savepoint_restore_mor_v6_0150",
    "sor_cow_v9_120",
    "sor_mor_v6_0150",
)
_INSTANT = re.compile(r"^(?:\.hoodie|\.hoodie/timeline)/\d+(?:_\d+)?\.([a-z.]+)$")


def read_instant(data: bytes, place: Place) -> object:
    storage = place.put(data)
    timeline = load_timeline(storage, load_config(storage))
    index = HudiFileIndex(timeline, FolderListing(storage, timeline.config), TableSchema(META_SCHEMA))
    found: list[object] = [index.earliest_retained, timeline.replaced_groups]
    for instant in timeline.instants:
        found += [timeline.read(instant, state) for state in timeline.files[instant]]
    found += [(timeline.metadata(instant), timeline.is_rewrite(instant)) for instant in timeline.commits]
    schema = resolve_schema(timeline)
    return digest(found, None if schema is None else (schema.arrow.to_string(), schema.defaults, schema.internal))


def instants() -> Iterator[Item]:
    """Of each table one file for every action and state."""
    for table in TIMELINE_TABLES:
        files = files_of(table)
        seen: set[str] = set()
        for name, data in reversed(files.items()):
            match = _INSTANT.match(name)
            if match and data and match[1] not in seen:
                seen.add(match[1])
                place = Place(table, name, {PROPERTIES: files[PROPERTIES]})
                read = partial(read_instant, place=place)
                yield Item("instant", f"{table}/{name}", data, read, where=place.where)


def read_properties(data: bytes, place: Place) -> object:
    config = load_config(place.put(data))
    rules = merge_rules(config)
    return digest(config.timeline_folder, config.history_folder, config.partial_update_mode, rules, config)


def _table_name(data: bytes) -> list[Region]:
    """What `hoodie.table.checksum` covers."""
    start = data.index(b"hoodie.table.name=") + len(b"hoodie.table.name=")
    return [(start, data.index(b"\n", start))]


def properties() -> Iterator[Item]:
    for table in ("archive_mor_v9_120", "cdc_clus_cow_v6_0150", "kg_custom_mor_v6_0150", "sor_mor_v8_102"):
        yield _properties(table, Place(table, PROPERTIES, {}), "")
    for table in ("evo_types_cow_v6_0150", "pay_partialupdate_mor_v9_120"):
        backup = {f"{PROPERTIES}.backup": files_of(table)[PROPERTIES]}
        yield _properties(table, Place(f"{table} with backup", PROPERTIES, backup), " (with a backup)")


def _properties(table: str, place: Place, note: str) -> Item:
    data = files_of(table)[PROPERTIES]
    read = partial(read_properties, place=place)
    return Item("properties", f"{table}/{PROPERTIES}{note}", data, read, partial(_table_name, data), place.where)


def read_history(data: bytes, place: Place) -> object:
    storage = place.put(data)
    found = load_history(storage, load_config(storage))
    return digest([(a, a.metadata()) for a in found])


def histories() -> Iterator[Item]:
    """The history of 1.x, and the archive of releases before."""
    for table in ("archive_mor_v9_120", "archive_mor_v8_102", "archive_cow_v9_120", "cow_archived_mdt__v6_to_v8"):
        files = files_of(table)
        beside = {n: d for n, d in files.items() if n.startswith(".hoodie/timeline/history/") or n == PROPERTIES}
        for name in [n for n in beside if n != PROPERTIES]:
            place = Place(table, name, beside)
            pages = partial(page_bodies, beside[name]) if name.endswith(".parquet") else tuple
            yield Item(
                "history", f"{table}/{name}", beside[name], partial(read_history, place=place), pages, place.where
            )
    for table in ("cow_archived_mdt__v6", "cow_archived_mdt__v9_to_v6"):
        files = files_of(table)
        for name, data in files.items():
            # Every block brings a schema of 13 kB along: the files with one block only are damaged at less cost.
            if name.startswith(".hoodie/archived/.commits_.archive.") and len(data) < 25_000:
                place = Place(table, name, {PROPERTIES: files[PROPERTIES]})
                read, frames = partial(read_history, place=place), partial(_block_frames, data)
                yield Item("history", f"{table}/{name}", data, read, frames, place.where)


# Base files


def read_base(data: bytes, place: Place) -> object:
    file = open_base_file(place.put(data), place.path.name)
    statistics = [file.statistics(group) for group in file.row_groups]
    parts = [table for _, table in file.batches(file.schema.names, file.row_groups)]
    whole = file.read(file.schema.names[:2], file.row_groups)
    footer = sorted(file.footer.items())
    return digest(statistics, footer), digest(
        file.num_rows, [table_digest(part) for part in parts], table_digest(whole)
    )


def base_files() -> Iterator[Item]:
    for table in ("nometa_mor_v9_120", "nometa_mor_v6_120", "types_all_cow_v9_120", "orc_cow_v9_120"):
        found = [
            (n, d) for n, d in files_of(table).items() if n.endswith((".parquet", ".orc")) and "/.hoodie/" not in n
        ]
        for name, data in found[:2]:
            if not name.startswith(".hoodie/"):
                yield _base_file(f"{table}/{name}", data)
    for name, data in _written_parquet():
        yield _base_file(f"written/{name}.parquet", data)


def _base_file(name: str, data: bytes) -> Item:
    extension = name.rsplit(".", 1)[-1]
    place = Place(name, f"f.{extension}", {})
    pages = partial(page_bodies, data) if extension == "parquet" else tuple
    return Item(extension, name, data, partial(read_base, place=place), pages, place.where)


def _written_parquet() -> Iterator[tuple[str, bytes]]:
    rng = random.Random(9)
    rows = 300
    table = pa.table(
        {
            "key": [f"k{i}" for i in range(rows)],
            "color": pa.array([rng.choice(["red", "blue", None]) for _ in range(rows)]).dictionary_encode(),
            "amount": [rng.random() for _ in range(rows)],
            "at": pa.array(range(rows), pa.timestamp("us")),
            "tags": [[i] * (i % 3) for i in range(rows)],
            "pair": [{"a": i, "b": str(i)} if i % 5 else None for i in range(rows)],
        }
    )
    for codec, version in (("snappy", "1.0"), ("zstd", "2.0"), ("none", "1.0"), ("lz4", "2.0"), ("gzip", "1.0")):
        sink = io.BytesIO()
        pq.write_table(
            table,
            sink,
            compression=codec,
            row_group_size=120,
            data_page_version=version,
            data_page_size=1024,
            write_page_checksum=True,
            store_schema=False,
        )
        yield f"{codec}-{version}", sink.getvalue()


# The small ones


def read_bloom(data: bytes, kind: str) -> object:
    found = BloomFilter.parse(data, kind)
    return digest(found.bits, found.hashes, found.rows, found.might_contain(pa.array(["a", "key-1", None])).to_pylist())


def blooms() -> Iterator[Item]:
    keys = pa.array([f"key-{i}" for i in range(40)])
    for kind, size in ((SIMPLE, 50), (DYNAMIC, 12)):
        text = BloomFilter.sized(size, kind=kind).add(keys).serialize().encode()
        yield Item("bloom", kind, text, partial(read_bloom, kind=kind), where="bloom filter")


def delete_blocks() -> Iterator[Item]:
    several = [(Wrapper.LONG, 5), (Wrapper.STRING, "x"), (Wrapper.DATE, 19000)]
    forms: dict[str, Any] = {
        "default": None,
        "int": (Wrapper.INT, 7),
        "long": (Wrapper.LONG, 2**40),
        "double": (Wrapper.DOUBLE, 0.5),
        "string": (Wrapper.STRING, "late"),
        "bytes": (Wrapper.BYTES, b"\1\2"),
        "decimal": (Wrapper.DECIMAL, 12345),
        "timestamp": (Wrapper.TIMESTAMP_MICROS, 10**15),
        "several": (Wrapper.ARRAY, several),
    }

    def read(data: bytes) -> object:
        return digest(_deletes(read_deletes(data)))

    for name, value in forms.items():
        for count in (3, 1100) if name in ("default", "long", "string") else (5,):
            data = write_deletes([(f"k{i}", f"p{i % 2}", value) for i in range(count)])
            yield Item("delete", f"{name} × {count}", data, read, where="delete block")


def read_schemas(data: bytes, place: Place) -> object:
    storage = place.put(data)
    history = load_schema_history(load_timeline(storage, load_config(storage)))
    newest = history.versions[-1] if history.versions else None
    return digest(history, [history.renames(newest, f"{version.version:017d}") for version in history.versions])


def schema_files() -> Iterator[Item]:
    for table in ("sor_cow_v9_120", "sor_mor_v6_0150", "sor_mor_v8_102"):
        files = files_of(table)
        beside = {n: d for n, d in files.items() if n == PROPERTIES or _INSTANT.match(n)}
        names = [n for n, d in files.items() if n.startswith(".hoodie/.schema/") and d]
        for name in names[-2:]:
            place = Place(f"{table} schema", name, beside)
            yield Item("schema", f"{table}/{name}", files[name], partial(read_schemas, place=place), where=place.where)


def rings() -> Iterator[Item]:
    def read(data: bytes) -> object:
        ring = HashRing.parse(data)
        return digest(ring, ring.nodes_of(pa.array(["a", "b"])).tolist())

    yield Item("ring", "hashing_meta", HashRing.initial("p", 8).serialize(), read, where="hashing metadata")


_FILTER_SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC"))]
)
_FILTERS = (
    "id > 5 AND name = 'x' OR NOT (price <= 1.25)",
    "at >= TIMESTAMP '2026-01-01 00:00:00' AND name LIKE 'a%_b' AND id IN (1, 2, 3)",
    'id BETWEEN 1 AND 10 AND name IS NOT NULL AND `name` <> "q"',
    "id < -3 AND price >= 1.5 AND id <> 9223372036854775807",
)


def filters() -> Iterator[Item]:
    def read(data: bytes) -> object:
        return str(bind(to_expression(data.decode("utf-8", "replace")), _FILTER_SCHEMA))

    for text in _FILTERS:
        yield Item("filter", text, text.encode(), read)


WEIGHTS: dict[str, tuple[int, Callable[[], Iterator[Item]]]] = {
    "log": (28, logs),
    "hfile": (20, hfiles),
    "record": (8, records),
    "instant": (22, instants),
    "properties": (7, properties),
    "history": (7, histories),
    "base": (12, base_files),
    "bloom": (3, blooms),
    "delete": (5, delete_blocks),
    "schema": (3, schema_files),
    "ring": (1, rings),
    "filter": (4, filters),
}


@cache
def corpus() -> dict[str, tuple[Item, ...]]:
    """Kind → its items, in an order that does not change between runs."""
    return {kind: tuple(make()) for kind, (_, make) in WEIGHTS.items()}
