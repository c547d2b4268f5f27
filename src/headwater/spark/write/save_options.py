"""Options of `save`: ours, Hudi's names for them, and what is accepted for the sake of scripts written for Hudi.

>>> given = parse({"hoodie.datasource.write.recordkey.field": "id", "ordering": "ts", "codec": "zstd"})
>>> given.key, given.ordering, given.write
(('id',), ('ts',), {'hoodie.parquet.compression.codec': 'zstd'})
>>> parse({"partitionby": "city"})
Traceback (most recent call last):
headwater.errors.InvalidArgument: no write option 'partitionby'; did you mean 'partition-by'? ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headwater.errors import InvalidArgument
from headwater.hudi.write.options import BUCKET_ENGINE, BUCKET_FIELDS, BUCKETS, INDEX_TYPE
from headwater.spark.options import parse_size

OPERATIONS = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "overwrite", "delete_partitions")


@dataclass(frozen=True)
class SaveOptions:
    """What a save was asked to do; None where it was not said."""

    key: tuple[str, ...] | None = None
    ordering: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    operation: str | None = None
    kind: str | None = None
    name: str | None = None
    version: int | None = None
    merge: str | None = None
    key_generator: str | None = None
    hive_style: bool | None = None
    url_encode: bool | None = None
    sort: str = "none"
    if_present: str = "keep"
    partial: bool = False
    partitions: tuple[str, ...] = ()
    write: Mapping[str, str] = field(default_factory=dict)
    """Hudi's names of write options → their values, for the operation itself."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """For the properties of a new table."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text.strip().lower() == "true"


def _word(words: Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = words.get(text.strip().lower().replace("-", "_"))
        if found is None:
            raise ValueError(f"is none of: {', '.join(dict.fromkeys(words.values()))}")
        return found

    return read


def _version(text: str) -> int:
    if text.strip() not in ("6", "8", "9"):
        raise ValueError("is none of: 6, 8, 9")
    return int(text)


def _same(*words: str) -> dict[str, str]:
    return {word: word for word in words}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: our name, Hudi's, what it takes and what it does."""

    field: str
    name: str
    values: str
    doc: str
    read: Callable[[str], Any]
    aliases: tuple[str, ...] = ()


_WRITE = "hoodie.datasource.write."

OPTIONS: tuple[Option, ...] = (
    Option("key", "key", "columns, separated by commas", "What makes up the record key.", _names,
           (f"{_WRITE}recordkey.field", "hoodie.table.recordkey.fields", "primaryKey")),
    Option("ordering", "ordering", "columns", "Which of two versions of a record is the later one.", _names,
           (f"{_WRITE}precombine.field", "hoodie.table.ordering.fields", "hoodie.table.precombine.field",
            "preCombineField", "orderingFields")),
    Option("partition_by", "partition-by", "columns", "Whose values are folders.", _names,
           (f"{_WRITE}partitionpath.field", "hoodie.table.partition.fields")),
    Option("operation", "operation", ", ".join(f"`{one}`" for one in OPERATIONS),
           "What to do with the rows. Unset: `upsert`; `insert` where the table has no record key.",
           _word({**_same(*OPERATIONS), "insert_overwrite_table": "overwrite",
                  "delete_partition": "delete_partitions"}),
           (f"{_WRITE}operation",)),
    Option("kind", "kind", "`cow`, `mor`", "Copy on write or merge on read, of a new table.",
           _word({**_same("cow", "mor"), "copy_on_write": "cow", "merge_on_read": "mor"}),
           (f"{_WRITE}table.type", "hoodie.table.type", "type")),
    Option("name", "name", "a text", "The name of a new table. Unset: its folder's.", str.strip,
           ("hoodie.table.name", f"{_WRITE}table.name")),
    Option("version", "version", "`6`, `8`, `9`", "The version of a new table.", _version,
           ("hoodie.write.table.version", "hoodie.table.version")),
    Option("merge", "merge", "`event_time`, `commit_time`", "Which of two versions of a record wins, of a new table.",
           _word({**_same("event_time", "commit_time"), "event_time_ordering": "event_time",
                  "commit_time_ordering": "commit_time"}),
           ("hoodie.record.merge.mode", "hoodie.write.record.merge.mode")),
    Option("key_generator", "key-generator", "a name or a class of Hudi's", "How keys and partition paths are made.",
           str.strip, (f"{_WRITE}keygenerator.class", f"{_WRITE}keygenerator.type", "hoodie.table.keygenerator.class",
                       "hoodie.table.keygenerator.type")),
    Option("hive_style", "hive-style", "`true`, `false`", "Folders such as `city=sf`, of a new table.", _flag,
           (f"{_WRITE}hive_style_partitioning",)),
    Option("url_encode", "url-encode", "`true`, `false`", "Whether values are escaped in folders.", _flag,
           (f"{_WRITE}partitionpath.urlencode",)),
    Option("sort", "sort", "`none`, `partition`, `global`", "The order of rows in a bulk insert.",
           _word({**_same("none", "partition", "global"), "partition_sort": "partition", "global_sort": "global"}),
           ("hoodie.bulkinsert.sort.mode",)),
    Option("if_present", "if-present", "`keep`, `drop`, `fail`", "What an insert does about keys that are stored.",
           _word({**_same("keep", "drop", "fail"), "none": "keep"}), ("hoodie.datasource.insert.dup.policy",)),
    Option("partial", "partial", "`true`, `false`", "Columns that an upsert lacks keep their stored values.", _flag),
    Option("partitions", "partitions", "paths, separated by commas", "What `delete_partitions` empties.", _names,
           (f"{_WRITE}partitions.to.delete",)),
)  # fmt: skip

PLAIN_NAMES = {
    "index": INDEX_TYPE,
    "buckets": BUCKETS,
    "bucket-fields": BUCKET_FIELDS,
    "target-file-size": "hoodie.parquet.max.file.size",
    "small-file-limit": "hoodie.parquet.small.file.limit",
    "log-format": "hoodie.logfile.data.block.format",
    "codec": "hoodie.parquet.compression.codec",
    "combine-before-insert": "hoodie.combine.before.insert",
    "combine-before-upsert": "hoodie.combine.before.upsert",
}
"""Our names of options that are checked where the write reads them."""
_FOR_THE_WRITE = frozenset(
    {
        *PLAIN_NAMES.values(),
        BUCKET_ENGINE,
        "hoodie.simple.index.update.partition.path",
        "hoodie.bloom.index.update.partition.path",
        "hoodie.record.index.update.partition.path",
        "hoodie.merge.small.file.group.candidates.limit",
        "hoodie.write.record.positions",
        "hoodie.write.complex.keygen.new.encoding",
    }
)
_FOR_KEYS = "hoodie.keygen.timebased."
_FOR_TABLES = frozenset({INDEX_TYPE, BUCKETS, BUCKET_FIELDS, BUCKET_ENGINE})
"""What a new table keeps, so that later writes need not say it again."""

BY_SPARK = frozenset({"path", "provider", "location"})
WITHOUT_EFFECT = frozenset(
    {
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.insert.shuffle.parallelism",
        "hoodie.bulkinsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.finalize.write.parallelism",
        "hoodie.markers.delete.parallelism",
        "hoodie.bloom.index.parallelism",
        "hoodie.simple.index.parallelism",
        "hoodie.global.simple.index.parallelism",
        "hoodie.embed.timeline.server",
        "hoodie.write.markers.type",
        "hoodie.bloom.index.use.metadata",
        "hoodie.bloom.index.prune.by.ranges",
        "hoodie.spark.sql.insert.into.operation",
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.metadata.enable",
        "hoodie.metadata.record.index.enable",
        "hoodie.metadata.global.record.level.index.enable",
        "hoodie.metadata.index.column.stats.enable",
        "hoodie.parquet.block.size",
        "hoodie.parquet.page.size",
        "hoodie.memory.merge.fraction",
        "hoodie.clean.automatic",
        "hoodie.archive.automatic",
        "hoodie.compact.inline",
        "hoodie.datasource.compaction.async.enable",
    }
)
"""Hudi's options that say how to go about a write, not what it writes: accepted, and not needed here."""


def parse(given: Mapping[str, str]) -> SaveOptions:
    """The options by our names or Hudi's; a name that does not exist is refused, with the nearest one that does."""
    known = {alias.lower(): option for option in OPTIONS for alias in (option.name, *option.aliases)}
    found: dict[str, Any] = {}
    said: dict[str, str] = {}
    write: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, value in given.items():
        option = known.get(name.lower())
        if option is not None:
            try:
                read = option.read(str(value))
            except ValueError as error:
                raise InvalidArgument(f"option {name}={value} {error}") from None
            if option.field in found and found[option.field] != read:
                raise InvalidArgument(f"options {said[option.field]} and {name} say different things; leave one out")
            found[option.field], said[option.field] = read, name
            continue
        plain = PLAIN_NAMES.get(name.lower(), name)
        if plain in _FOR_THE_WRITE:
            write[plain] = _size(name, value) if plain.endswith((".file.size", ".file.limit")) else str(value)
        elif name.startswith(_FOR_KEYS):
            properties[name] = write[name] = str(value)
        elif name.lower() == "hoodie.datasource.write.insert.drop.duplicates":
            found["if_present"] = "drop" if _flag(str(value)) else "keep"
        elif name.lower() not in BY_SPARK and name not in WITHOUT_EFFECT:
            raise InvalidArgument(_unknown(name, known))
    properties |= {name: value for name, value in write.items() if name in _FOR_TABLES}
    assert set(found) <= {one.name for one in fields(SaveOptions)}
    return SaveOptions(**found, write=write, properties=properties)


def _size(name: str, value: str) -> str:
    try:
        return str(parse_size(str(value)))
    except ValueError as error:
        raise InvalidArgument(f"option {name}={value} {error}") from None


def _unknown(name: str, known: Mapping[str, Option]) -> str:
    names = [*known, *PLAIN_NAMES, *_FOR_THE_WRITE, *WITHOUT_EFFECT]
    near = difflib.get_close_matches(name.lower(), names, 1, 0.75)
    near = near or [option for option in names if name.lower() in option][:1]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    ours = ", ".join([*(option.name for option in OPTIONS), *PLAIN_NAMES])
    return f"no write option {name!r}{hint} There are, besides Hudi's own names: {ours}"
