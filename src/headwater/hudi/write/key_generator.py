"""Record keys and partition paths from columns, as Hudi's key generators spell them (facts 4.4, 4.5, 15.3, 15.6).

`keys.py` holds the way back, for readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import ColumnNotFound, InvalidTableConfig, UnsupportedTable, WriteRefused
from headwater.hudi.java_text import java_text
from headwater.hudi.keys import NULL_PARTITION
from headwater.hudi.properties import META_FOLDER, KeyGenerator, TableConfig
from headwater.hudi.schema import PARTITION_PATH, RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.partition_time import PREFIXES, PartitionTime
from headwater.spec.model import FileSlice

NEW_ENCODING = "hoodie.write.complex.keygen.new.encoding"
_PARTITION_OPTION = "hoodie.datasource.write.partitionpath.field"
_SLASHED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_SAMPLE = 1_000
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")


@dataclass(frozen=True)
class KeyMaker:
    """Makes the keys and the partition paths of a table's rows.

    >>> from headwater.hudi.properties import check_config
    >>> config = check_config({"hoodie.table.name": "t", "hoodie.table.version": "9",
    ...     "hoodie.table.recordkey.fields": "a,b", "hoodie.table.partition.fields": "city",
    ...     "hoodie.table.keygenerator.type": "COMPLEX",
    ...     "hoodie.datasource.write.hive_style_partitioning": "true"}, "here")
    >>> maker, rows = KeyMaker.of(config), pa.table({"a": [1, 2], "b": ["x", None], "city": ["sf", None]})
    >>> maker.keys(rows).to_pylist()
    ['a:1,b:x', 'a:2,b:__null__']
    >>> maker.partitions(rows).to_pylist()
    ['city=sf', 'city=__HIVE_DEFAULT_PARTITION__']
    """

    config: TableConfig
    names_single_key: bool = False
    """Whether a key of one field is `field:value`: with a complex key generator, in most releases."""
    kinds: tuple[str, ...] = ()
    """SIMPLE or TIMESTAMP for each partition field."""
    time: PartitionTime | None = field(default=None, repr=False)
    slashed_dates: bool = False

    @classmethod
    def of_table(cls, table: HudiTable, options: Mapping[str, str] | None = None) -> KeyMaker:
        """The maker for a table, whose own rows tell what its properties do not: how a key of one field is spelled, and
        what numbers a time-based partition is made of.
        """
        config, given = table.config, dict(options or {})
        named = None if NEW_ENCODING in given else names_single_key(table)
        try:
            return cls.of(config, given, names_single_key=named)
        except InvalidTableConfig:
            stored = _some_rows(table)
            for guess in _guesses(config):
                try:
                    maker = cls.of(config, {**guess, **given}, names_single_key=named)
                    if stored is not None and _fits(maker, stored):
                        return maker
                except (InvalidTableConfig, UnsupportedTable, WriteRefused):
                    continue
            raise

    @classmethod
    def of(
        cls, config: TableConfig, options: Mapping[str, str] | None = None, *, names_single_key: bool | None = None
    ) -> KeyMaker:
        """The maker for a table's properties; what older releases did not store with it comes as write options."""
        properties = {**config.properties, **(options or {})}
        if config.key_generator in (KeyGenerator.OTHER, KeyGenerator.METADATA_TABLE):
            name = config.properties.get("hoodie.table.keygenerator.class") or config.key_generator.value
            raise UnsupportedTable(
                f"table {config.name}: its keys are made by {name}, which is not known here; write it with Apache Hudi"
            )
        kinds = _kinds(config, properties)
        if config.key_generator is not KeyGenerator.COMPLEX or len(config.record_key_fields) != 1:
            names_single_key = False
        elif names_single_key is None:
            # Version 9 knows one encoding; before, the releases from 0.14.1 to 1.0.2 wrote the value alone.
            names_single_key = config.version >= 9 or properties.get(NEW_ENCODING, "false").lower() != "true"
        return cls(
            config,
            names_single_key,
            kinds,
            PartitionTime.of(properties) if "TIMESTAMP" in kinds else None,
            properties.get(_SLASHED_DATES, "false").lower() == "true" and len(kinds) == 1,
        )

    # Record keys

    def keys(self, rows: pa.Table) -> pa.Array:
        """The record key of each row.

        Refused: no key field at all (see `auto_keys`), rows whose key is null or empty in every field.
        """
        fields = self.config.record_key_fields
        if not fields:
            raise ColumnNotFound(f"table {self.config.name} has no record key fields; its keys are made for it")
        texts = [key_text(column_at(rows, name, "record key"), name) for name in fields]
        missing = _empty(texts[0])
        for text in texts[1:]:
            missing = pc.and_(missing, _empty(text))
        count = pc.sum(missing).as_py()
        if count:
            raise WriteRefused(
                f"table {self.config.name}: {count} of {rows.num_rows} rows have no record key ({', '.join(fields)} "
                "null or empty); give them one or leave them out"
            )
        if len(fields) == 1:
            return pc.binary_join_element_wise(f"{fields[0]}:", texts[0], "") if self.names_single_key else texts[0]
        parts: list[pa.Array | str] = []
        for name, text in zip(fields, texts, strict=True):
            filled = pc.fill_null(text, "__null__") if text.null_count else text
            parts += [f"{',' if parts else ''}{name}:", pc.if_else(pc.equal(filled, ""), "__empty__", filled)]
        return pc.binary_join_element_wise(*parts, "")

    # Partition paths

    def partitions(self, rows: pa.Table) -> pa.Array:
        """The partition path of each row; empty for tables without partitions."""
        return self.partition_dictionary(rows).dictionary_decode()

    def partition_dictionary(self, rows: pa.Table) -> pa.DictionaryArray:
        """The same, as a dictionary: a path is made once for all of its rows."""
        if not self.kinds:
            nothing = pa.array(np.zeros(rows.num_rows, np.int32))
            return pa.DictionaryArray.from_arrays(nothing, pa.array([""], pa.string()))
        parts = [
            self._part(name, kind, column_at(rows, name, "partition"))
            for name, kind in zip(self.config.partition_fields, self.kinds, strict=True)
        ]
        joined = parts[0]
        if len(parts) > 1:
            joined = pc.binary_join_element_wise(*(part.dictionary_decode() for part in parts), "/").dictionary_encode()
        self._check(joined.dictionary)
        return joined

    def _part(self, name: str, kind: str, column: pa.Array) -> pa.DictionaryArray:
        """What one field adds to the path."""
        if kind == "TIMESTAMP":
            assert self.time is not None
            encoded = self.time.texts(column)
        else:
            encoded = key_text(column, name).fill_null("").dictionary_encode()
        distinct = []
        for text in encoded.dictionary.to_pylist():
            value = text or NULL_PARTITION
            if self.config.url_encoded:
                value = escape(value)
            if self.config.hive_style:
                value = f"{name}={value}"
            if self.slashed_dates and kind == "SIMPLE" and not value.startswith("-"):
                value = value.replace("-", "/")
            distinct.append(value)
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(distinct, pa.string()))

    def _check(self, paths: pa.Array) -> None:
        for path in paths.to_pylist():
            segments = path.split("/")
            if not {"", ".", ".."} & set(segments) and segments[0] != META_FOLDER:
                continue
            raise WriteRefused(
                f"table {self.config.name}: the partition path {path!r} is no folder of its own in the table; "
                "change the value, or make the table with url encoding of partition values"
            )


def _kinds(config: TableConfig, properties: Mapping[str, str]) -> tuple[str, ...]:
    if config.key_generator in (KeyGenerator.NON_PARTITION, KeyGenerator.GLOBAL_DELETE):
        return ()
    fields = config.partition_fields
    if config.key_generator is KeyGenerator.TIMESTAMP:
        if len(fields) != 1:
            raise InvalidTableConfig(
                f"table {config.name}: a time-based key generator has one partition field, and the table has "
                f"{', '.join(fields) or 'none'}"
            )
        return ("TIMESTAMP",)
    if config.key_generator is not KeyGenerator.CUSTOM:
        return ("SIMPLE",) * len(fields)
    told = dict(_field_and_kind(item) for item in properties.get(_PARTITION_OPTION, "").split(",") if ":" in item)
    found = tuple(kind or told.get(name) for name, kind in zip(fields, config.partition_kinds, strict=True))
    kinds = tuple(kind for kind in found if kind in ("SIMPLE", "TIMESTAMP"))
    if len(kinds) != len(fields):
        raise InvalidTableConfig(
            f"table {config.name}: a custom key generator makes its partitions, and what it does with "
            f"{', '.join(fields)} is not stored with the table (Apache Hudi 0.15 does not); give it as a write option: "
            f"{_PARTITION_OPTION}={','.join(f'{name}:SIMPLE' for name in fields)}, or TIMESTAMP where it is a time"
        )
    return kinds


def _guesses(config: TableConfig) -> Iterator[dict[str, str]]:
    """What a table may have left out of its properties."""
    for kind in ("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "DATE_STRING"):
        yield {f"{PREFIXES[0]}timestamp.type": kind}
    for unit in ("DAYS", "HOURS", "MINUTES", "NANOSECONDS"):
        yield {f"{PREFIXES[0]}timestamp.type": "SCALAR", f"{PREFIXES[0]}timestamp.scalar.time.unit": unit}
    yield {_PARTITION_OPTION: ",".join(f"{name}:SIMPLE" for name in config.partition_fields)}


def _fits(maker: KeyMaker, stored: pa.Table) -> bool:
    return bool(maker.partitions(stored).equals(column_at(stored, PARTITION_PATH, "meta")))


def _some_rows(table: HudiTable) -> pa.Table | None:
    """Rows of the table with what their paths are made of."""
    names = dict.fromkeys([PARTITION_PATH, *(name.split(".")[0] for name in table.config.partition_fields)])
    reader = table.reader(table.schema).project(pa.schema([table.schema.arrow.field(name) for name in names]))
    for found in table.file_index().list_files_at():
        for slice_ in found.slices:
            for batch in reader.open(slice_):
                if batch.num_rows:
                    return pa.Table.from_batches([batch.slice(0, _SAMPLE)])
    return None


def _field_and_kind(item: str) -> tuple[str, str]:
    name, _, kind = item.strip().partition(":")
    return name, kind.upper()


def _empty(text: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(text, ""), True)


def column_at(rows: pa.Table, name: str, role: str) -> pa.Array:
    """A column in one piece, or a field within one (`a.b`).

    >>> column_at(pa.table({"a": [{"b": 1}]}), "a.b", "record key").to_pylist()
    [1]
    """
    found: pa.ChunkedArray | None = None
    if name in rows.column_names:
        found = rows.column(name)
    elif "." in name and name.split(".")[0] in rows.column_names:
        first, *rest = name.split(".")
        try:
            found = pc.struct_field(rows.column(first), rest)
        except pa.ArrowException:
            found = None
    if found is None:
        raise ColumnNotFound(f"no {role} column {name!r} in the rows; they have: {', '.join(rows.column_names)}")
    if found.num_chunks == 1:
        return found.chunk(0)
    whole = found.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def key_text(column: pa.Array, name: str) -> pa.Array:
    """A column's values as they stand in keys and paths: as Java prints what Avro holds.

    >>> key_text(pa.array([1.0, None]), "x").to_pylist()
    ['1.0', None]
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        distinct = key_text(column.dictionary, name)
        return pa.DictionaryArray.from_arrays(column.indices, distinct).dictionary_decode()
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise UnsupportedTable(f"column {name!r} of type {kind} cannot be part of a key or of a partition path")
    return java_text(column)


def escape(text: str) -> str:
    """A partition value with the characters escaped that Hive escapes.

    >>> escape("a/b=c d")
    'a%2Fb%3Dc d'
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def auto_keys(instant: str, count: int, *, task: int = 0, first_row: int = 0) -> pa.Array:
    """Keys for the rows of a table without key fields, as Hudi makes them.

    >>> auto_keys("20260101000000000", 2, task=3).to_pylist()
    ['20260101000000000_3_0', '20260101000000000_3_1']
    """
    numbers = pa.array(np.arange(first_row, first_row + count)).cast(pa.string())
    return pc.binary_join_element_wise(f"{instant}_{task}_", numbers, "")


def names_single_key(table: HudiTable) -> bool | None:
    """How a table with a complex key generator and one key field spells its keys, from its own rows.

    True for `field:value`, False for the value alone, None where no row tells. The spelling flipped between releases of
    Hudi (0.14.1 and back in 1.1): a writer that spells them otherwise than the table makes a duplicate of every row.
    """
    config = table.config
    if config.key_generator is not KeyGenerator.COMPLEX or len(config.record_key_fields) != 1:
        return None
    if not config.populate_meta_fields:
        return None
    (name,) = config.record_key_fields
    slices = [slice_ for found in table.file_index().list_files_at() for slice_ in found.slices]
    # The oldest and the newest: a flip lies between them. Those without logs are quickest to look into.
    slices.sort(key=lambda slice_: (slice_.base_instant, -len(slice_.delta_files)))
    found = {named for ends in (slices, slices[::-1]) if (named := _first_named(table, ends, name)) is not None}
    if len(found) > 1:
        raise WriteRefused(
            f"{table.storage.uri}: some record keys are spelled {name}:value and others as the value alone, as "
            f"releases of Hudi differ; the same record may be there twice. Rewrite the table, or set "
            f"{NEW_ENCODING}=false to write {name}:value and true to write the value alone"
        )
    return next(iter(found), None)


def _first_named(table: HudiTable, slices: Sequence[FileSlice], name: str) -> bool | None:
    columns = pa.schema([table.schema.arrow.field(column) for column in (RECORD_KEY, name.split(".")[0])])
    reader = table.reader(table.schema).project(columns)
    for slice_ in slices:
        for batch in reader.open(slice_):
            if batch.num_rows:
                first = pa.Table.from_batches([batch.slice(0, 1)])
                value = key_text(column_at(first, name, "record key"), name)[0].as_py()
                return bool(first.column(RECORD_KEY)[0].as_py() == f"{name}:{value}")
    return None
