"""Where record keys live. Implements `spec.RecordIndex`.

The metadata table's record index answers where there is one. Elsewhere the search is narrowed by bucket hashing, bloom
filters and key ranges, and the key columns of the slices that are left decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater import arguments
from headwater.hudi.base_file import open_base_file
from headwater.hudi.footer_index import by_footer
from headwater.hudi.index.bloom import BloomFilter
from headwater.hudi.index.bucket import COUNTS_OF_PARTITIONS, bucket_counts, bucket_ids_of_keys, bucket_of_file_id
from headwater.hudi.metadata_table.columns import LOCATIONS
from headwater.hudi.metadata_table.locations import locate
from headwater.hudi.metadata_table.reader import BLOOM_FILTERS, RECORD_INDEX
from headwater.spec.model import FileSlice
from headwater.spec.record_index import LOCATION_SCHEMA

if TYPE_CHECKING:
    from headwater.hudi.table import HudiTable

_MOST_BUCKETS = 4096
# Every key is one in two or fewer to fit a wrong number of buckets: with so many, none does.
_KEYS_THAT_PROVE = 48
_KEYS_OF_A_SLICE = 64
_SLICES_LOOKED_AT = 8


@dataclass(frozen=True)
class HudiRecordIndex:
    """Finds records of one state of a table."""

    table: HudiTable

    def tag(self, keys: pa.Array) -> pa.Table:
        """The location of each key, as `spec.LOCATION_SCHEMA`; nulls where the key is absent.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> table = headwater.open(demo_table("trips"))
        >>> found = table.record_index.tag(pa.array(["no such key"]))
        >>> found.column("file_id").to_pylist()
        [None]
        """
        wanted = arguments.record_keys(keys)
        found = self._by_index(wanted) if self._has_index() else self._by_search(wanted)
        return _in_order(wanted, found)

    def slices(self, keys: pa.Array) -> list[FileSlice]:
        """The slices that can hold these keys; every slice that does is among them."""
        wanted = arguments.record_keys(keys)
        every = self._all_slices()
        if self._has_index():
            places = self._places(wanted)
            return [s for s in every if (s.group.partition, s.group.file_id) in places]
        return [slice_ for slice_, _ in self._candidates(wanted)]

    def _has_index(self) -> bool:
        metadata = self.table.metadata
        return metadata is not None and metadata.has(RECORD_INDEX)

    def _places(self, wanted: pa.Array) -> set[tuple[str, str]]:
        located = self._located(wanted).group_by(["partition", "file_id"]).aggregate([])
        return {(row["partition"] or "", row["file_id"]) for row in located.to_pylist()}

    def _located(self, wanted: pa.Array) -> pa.Table:
        """What the record index says of these keys, as `LOCATIONS`."""
        metadata = self.table.metadata
        assert metadata is not None
        if not metadata.index_is_partitioned:
            return locate(metadata, wanted)
        found = metadata.locations(wanted.unique().to_pylist())
        rows = [(key, place.partition, place.file_id, place.instant_millis, place.position) for key, place in found]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(LOCATIONS)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, LOCATIONS, strict=True)]
        return pa.Table.from_arrays(arrays, schema=LOCATIONS)

    def _all_slices(self) -> list[FileSlice]:
        return [slice_ for found in self.table.file_index().list_files_at() for slice_ in found.slices]

    def _by_index(self, wanted: pa.Array) -> pa.Table:
        located = self._located(wanted)
        partitions = sorted(path or "" for path in located.column("partition").unique().to_pylist())
        index = self.table.file_index()
        places = [
            (group.id.partition, group.id.file_id, group.slices[-1].base_instant)
            for path in partitions
            for group in index.groups(path)
            if group.slices
        ]
        columns = list(zip(*places, strict=True)) if places else [()] * 3
        names = ("partition", "file_id", "instant")
        slices = pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})
        partition = pc.fill_null(located.column("partition"), "")
        located = located.set_column(located.schema.get_field_index("partition"), "partition", partition)
        joined = located.join(slices, keys=["partition", "file_id"], join_type="inner")
        return joined.select(LOCATION_SCHEMA.names).cast(LOCATION_SCHEMA)

    def _by_search(self, wanted: pa.Array) -> pa.Table:
        found = [self._in_slice(slice_, keys) for slice_, keys in self._candidates(wanted)]
        return pa.concat_tables(found) if found else LOCATION_SCHEMA.empty_table()

    def _candidates(self, wanted: pa.Array) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Slices, each with the keys that it may hold."""
        distinct = wanted.unique()
        slices = self._all_slices()
        buckets = self._bucket_count(slices)
        bucket_of = None
        if buckets is not None:
            bucket_of = bucket_ids_of_keys(distinct, buckets, fields=self.table.config.record_key_fields)
        blooms = self._blooms(slices)
        for slice_ in slices:
            keys = distinct
            if bucket_of is not None:
                keys = keys.filter(pa.array(bucket_of == bucket_of_file_id(slice_.group.file_id)))
            if len(keys) and slice_.base_file is not None and not slice_.delta_files:
                # Records that stand in logs only are in no bloom filter.
                bloom = blooms.get((slice_.group.partition, slice_.base_file.name))
                keys = keys if bloom is None else keys.filter(bloom.might_contain(keys))
                if len(keys) and bloom is None:
                    keys = by_footer(open_base_file(self.table.storage, slice_.base_file.path), keys)
            if len(keys):
                yield slice_, keys

    def _blooms(self, slices: Sequence[FileSlice]) -> dict[tuple[str, str], BloomFilter]:
        metadata = self.table.metadata
        if metadata is None or not metadata.has(BLOOM_FILTERS):
            return {}
        files = [(s.group.partition, s.base_file.name) for s in slices if s.base_file is not None and not s.delta_files]
        return {place: entry.open(place[1]) for place, entry in metadata.blooms(files).items()}

    def _bucket_count(self, slices: Sequence[FileSlice]) -> int | None:
        """How many buckets keys are hashed to, where the table is hashed and it is certain.

        The number is the writer's, and Hudi writes it down nowhere: it is the only one that explains the keys of some
        files. The fewer the keys, the likelier that a number explains them by chance; a table that is hashed by some of
        its key fields only, which is written down nowhere either, would then lose rows.
        """
        ids = {bucket_of_file_id(slice_.group.file_id) for slice_ in slices}
        numbers = [number for number in ids if number is not None]
        if not ids or None in ids or max(numbers) >= _MOST_BUCKETS or self._counts_differ():
            return None
        possible = np.arange(max(numbers) + 1, _MOST_BUCKETS + 1)
        seen = 0
        # From all over the table: each partition may have been written with a number of its own.
        for slice_ in slices[:: max(1, len(slices) // _SLICES_LOOKED_AT)]:
            number = bucket_of_file_id(slice_.group.file_id)
            keys = self._some_keys(slice_)
            if number is None or not len(keys):
                continue
            possible = bucket_counts(keys, number, possible, fields=self.table.config.record_key_fields)
            seen += len(keys)
            if not len(possible):
                return None
        return int(possible[0]) if len(possible) == 1 and seen >= _KEYS_THAT_PROVE else None

    def _counts_differ(self) -> bool:
        return self.table.storage.find(COUNTS_OF_PARTITIONS) is not None

    def _some_keys(self, slice_: FileSlice) -> pa.Array:
        for keys, _ in self.table.reader(self.table.schema).keys_of(slice_):
            if len(keys):
                return keys.slice(0, _KEYS_OF_A_SLICE)
        return pa.array([], pa.string())

    def _in_slice(self, slice_: FileSlice, wanted: pa.Array | None) -> pa.Table:
        """The keys of a slice and their rows in its base file; all of them, or those that are wanted."""
        parts = []
        for keys, positions in self.table.reader(self.table.schema).keys_of(slice_):
            if wanted is not None:
                chosen = pc.is_in(keys, value_set=wanted)
                keys, positions = keys.filter(chosen), positions.filter(chosen)
            count = len(keys)
            constants = (slice_.group.partition, slice_.group.file_id, slice_.base_instant)
            columns = [keys, *(pa.repeat(text, count) for text in constants), positions]
            parts.append(pa.Table.from_arrays(columns, schema=LOCATION_SCHEMA))
        return pa.concat_tables(parts) if parts else LOCATION_SCHEMA.empty_table()


def _in_order(wanted: pa.Array, found: pa.Table) -> pa.Table:
    """One row for each key and place, in the order of the keys; keys without a place have nulls."""
    asked = pa.table({"key": wanted, "__order": pa.array(np.arange(len(wanted)))})
    joined = asked.join(found, keys="key", join_type="left outer").sort_by("__order")
    return joined.select(LOCATION_SCHEMA.names).cast(pa.schema([f.with_nullable(True) for f in LOCATION_SCHEMA]))
