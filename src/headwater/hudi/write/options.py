"""How a write behaves: index, file sizes, log format, de-duplication. Hudi's option names, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.properties import TableConfig

INDEX_TYPE = "hoodie.index.type"
BUCKETS = "hoodie.bucket.index.num.buckets"
BUCKET_FIELDS = "hoodie.bucket.index.hash.field"
BUCKET_ENGINE = "hoodie.index.bucket.engine"


_OF_KEYS = (
    "hoodie.keygen.timebased.",
    "hoodie.write.complex.keygen.new.encoding",
    "hoodie.datasource.write.partitionpath.field",
)


class IndexKind(Enum):
    """How a writer finds out where a record key is."""

    SIMPLE = "SIMPLE"
    """Key columns of the partitions that the batch names."""
    BLOOM = "BLOOM"
    """The same, less the files that bloom filters and key ranges rule out."""
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    BUCKET = "BUCKET"
    """The key's hash is the file group's number."""
    RECORD_INDEX = "RECORD_INDEX"
    """The metadata table knows each key's place."""

    @property
    def is_global(self) -> bool:
        """Whether a key is one record in all of the table, and not one in each partition."""
        return self in (IndexKind.GLOBAL_SIMPLE, IndexKind.GLOBAL_BLOOM, IndexKind.RECORD_INDEX)


_INDEX_NAMES = {
    **{kind.value: kind for kind in IndexKind},
    "GLOBAL_RECORD_LEVEL_INDEX": IndexKind.RECORD_INDEX,
    "RECORD": IndexKind.RECORD_INDEX,
}
# Hudi's own defaults: a record keeps its partition with the record index, and moves with the others.
_MOVES = {IndexKind.GLOBAL_SIMPLE: True, IndexKind.GLOBAL_BLOOM: True, IndexKind.RECORD_INDEX: False}
_MOVE_OPTIONS = {
    IndexKind.GLOBAL_SIMPLE: "hoodie.simple.index.update.partition.path",
    IndexKind.GLOBAL_BLOOM: "hoodie.bloom.index.update.partition.path",
    IndexKind.RECORD_INDEX: "hoodie.record.index.update.partition.path",
}


def index_kind(name: str) -> IndexKind:
    """An index by the name that Hudi or we give it.

    >>> index_kind("global_simple")
    <IndexKind.GLOBAL_SIMPLE: 'GLOBAL_SIMPLE'>
    """
    found = _INDEX_NAMES.get(name.strip().upper())
    if found is None:
        known = ", ".join(kind.value.lower() for kind in IndexKind)
        raise InvalidArgument(f"index={name!r}; known: {known}")
    return found


def index_properties(index: str | Mapping[str, Any] | None) -> dict[str, str]:
    """What a new table's properties say about its index, so that every later write uses the same one.

    Hudi itself keeps an index in no table property; it reads past these.

    >>> index_properties({"bucket": 8})
    {'hoodie.index.type': 'BUCKET', 'hoodie.index.bucket.engine': 'SIMPLE', 'hoodie.bucket.index.num.buckets': '8'}
    """
    if index is None:
        return {}
    if isinstance(index, Mapping):
        if len(index) != 1 or next(iter(index)) != "bucket":
            raise InvalidArgument(f"index={dict(index)!r}; the one index with a setting is {{'bucket': how many}}")
        count = index["bucket"]
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidArgument(f"index={{'bucket': {count!r}}}; give the number of buckets, 1 or more")
        return {INDEX_TYPE: IndexKind.BUCKET.value, BUCKET_ENGINE: "SIMPLE", BUCKETS: str(count)}
    if not isinstance(index, str):
        raise InvalidArgument(f"index={index!r}; give a name such as 'bloom', or {{'bucket': 8}}")
    kind = index_kind(index)
    if kind is IndexKind.BUCKET:
        raise InvalidArgument("index='bucket': give the number of buckets as well: index={'bucket': 8}")
    return {INDEX_TYPE: kind.value}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write may choose. Defaults are Hudi's, but for the codec: snappy takes a third of the time of gzip.

    >>> WriteOptions().with_values({"hoodie.parquet.max.file.size": "1048576"}).target_file_size
    1048576
    """

    index: IndexKind | None = None
    """None: the record index where the table has one, buckets where it is hashed, else bloom filters and keys."""
    buckets: int | None = None
    bucket_fields: tuple[str, ...] = ()
    moves_partition: bool | None = None
    target_file_size: int = 120 * 1024 * 1024
    small_file_limit: int = 100 * 1024 * 1024
    small_files_in_merge_on_read: int = 1
    """Of how many small groups of a partition a merge-on-read table may rewrite the base file for new rows."""
    log_format: str | None = None
    """`parquet` or `avro`; None: Parquet where the table version's readers take it."""
    codec: str = "snappy"
    combine_before_insert: bool = False
    combine_before_upsert: bool = True
    record_positions: bool = True
    memory: int = 10**9
    key_options: Mapping[str, str] = field(default_factory=dict)
    """What the key generator must know and the table does not say."""

    @classmethod
    def of(cls, config: TableConfig, given: Mapping[str, Any] | None = None) -> WriteOptions:
        """What the table's own properties say, and then the caller."""
        own = {key: value for key, value in config.properties.items() if key in _READERS}
        return cls().with_values(own).with_values(given or {})

    def with_values(self, values: Mapping[str, Any]) -> WriteOptions:
        """These options with some of Hudi's set; an option that has no meaning here is refused."""
        for_keys = {key: str(value) for key, value in values.items() if key.startswith(_OF_KEYS)}
        unknown = sorted(set(values) - _READERS.keys() - for_keys.keys())
        if unknown:
            raise InvalidArgument(
                f"option {', '.join(unknown)} is not known to writes without Spark; known: "
                f"{', '.join(sorted(_READERS))}"
            )
        found = replace(self, key_options={**self.key_options, **for_keys})
        for key in sorted(values.keys() - for_keys.keys()):
            found = replace(found, **_READERS[key](key, str(values[key])))
        return found

    def moves_with(self, index: IndexKind) -> bool:
        """Whether a record of another partition than before leaves its old one."""
        return self.moves_partition if self.moves_partition is not None else _MOVES.get(index, False)


def _whole(name: str) -> Any:
    def read(key: str, text: str) -> dict[str, Any]:
        if not text.strip().isdigit():
            raise InvalidArgument(f"{key}={text}; give a whole number")
        return {name: int(text)}

    return read


def _flag(name: str) -> Any:
    def read(key: str, text: str) -> dict[str, Any]:
        if text.strip().lower() not in ("true", "false"):
            raise InvalidArgument(f"{key}={text}; give true or false")
        return {name: text.strip().lower() == "true"}

    return read


def _word(name: str, *known: str) -> Any:
    def read(key: str, text: str) -> dict[str, Any]:
        if text.strip().lower() not in known:
            raise InvalidArgument(f"{key}={text}; known: {', '.join(known)}")
        return {name: text.strip().lower()}

    return read


def _index(key: str, text: str) -> dict[str, Any]:
    return {"index": index_kind(text)}


def _fields(key: str, text: str) -> dict[str, Any]:
    return {"bucket_fields": tuple(part.strip() for part in text.split(",") if part.strip())}


def _engine(key: str, text: str) -> dict[str, Any]:
    if text.strip().upper() != "SIMPLE":
        raise UnsupportedTable(f"{key}={text}: only SIMPLE buckets can be written; write with Apache Hudi")
    return {}


_READERS = {
    INDEX_TYPE: _index,
    BUCKETS: _whole("buckets"),
    BUCKET_FIELDS: _fields,
    BUCKET_ENGINE: _engine,
    **{option: _flag("moves_partition") for option in _MOVE_OPTIONS.values()},
    "hoodie.parquet.max.file.size": _whole("target_file_size"),
    "hoodie.parquet.small.file.limit": _whole("small_file_limit"),
    "hoodie.merge.small.file.group.candidates.limit": _whole("small_files_in_merge_on_read"),
    "hoodie.logfile.data.block.format": _word("log_format", "parquet", "avro"),
    "hoodie.parquet.compression.codec": _word("codec", "gzip", "snappy", "zstd", "uncompressed"),
    "hoodie.combine.before.insert": _flag("combine_before_insert"),
    "hoodie.combine.before.upsert": _flag("combine_before_upsert"),
    "hoodie.write.record.positions": _flag("record_positions"),
}

DOCUMENTED: dict[str, tuple[str, str]] = {
    INDEX_TYPE: (
        ", ".join(f"`{kind.value.lower()}`" for kind in IndexKind),
        "How writers find the place of a record. Unset: the table's own, else its record index, else `bloom`.",
    ),
    BUCKETS: (
        "a number",
        "How many file groups a partition's keys are hashed to; as the table was first written with.",
    ),
    BUCKET_FIELDS: ("columns", "The columns of the key that are hashed. Unset: all of them."),
    BUCKET_ENGINE: ("`SIMPLE`", "The kind of buckets; others are refused."),
    **{
        option: (
            "`true`, `false`",
            f"Whether a record of another partition leaves its old one ({kind.value.lower()}). Unset: {_MOVES[kind]}.",
        )
        for kind, option in _MOVE_OPTIONS.items()
    },
    "hoodie.parquet.max.file.size": ("bytes", "The size that new base files aim at. Unset: 120 MiB."),
    "hoodie.parquet.small.file.limit": (
        "bytes",
        "Base files below this take new rows until they have the target size; 0: none does. Unset: 100 MiB.",
    ),
    "hoodie.merge.small.file.group.candidates.limit": (
        "a number",
        "Of how many small groups of a partition a merge-on-read table rewrites the base file for new rows. Unset: 1.",
    ),
    "hoodie.logfile.data.block.format": (
        "`parquet`, `avro`",
        "What log files hold. Unset: Parquet where the readers of the table's version take it.",
    ),
    "hoodie.parquet.compression.codec": (
        "`gzip`, `snappy`, `zstd`, `uncompressed`",
        "How base files are compressed. Unset: `snappy`.",
    ),
    "hoodie.combine.before.insert": ("`true`, `false`", "Whether an insert takes one row of each key. Unset: `false`."),
    "hoodie.combine.before.upsert": (
        "`true`, `false`",
        "Whether an upsert takes the later one of a key's rows; else keys that come twice are refused. Unset: `true`.",
    ),
    "hoodie.write.record.positions": (
        "`true`, `false`",
        "Whether log blocks note the rows of the base file that they replace. Unset: `true`.",
    ),
}
"""Of each option what it takes and what it does, for the reference."""
