"""The bucket index: a record key's hash names its file group, by a fixed number of buckets or on a ring of hashes."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile, InvalidArgument
from headwater.hudi.index.hashing import java_hashes, xxhash32s

_Ints: TypeAlias = npt.NDArray[np.int32]
_Longs: TypeAlias = npt.NDArray[np.int64]
BUCKET_INDEX_FOLDER = ".hoodie/.bucket_index"
CONSISTENT_HASHING = f"{BUCKET_INDEX_FOLDER}/consistent_hashing_metadata"
COUNTS_OF_PARTITIONS = f"{BUCKET_INDEX_FOLDER}/partition_bucket_index_meta"
"""Where Hudi 1.1 and later keep how many buckets each partition has, when it is not one number for all."""
_HASH_MASK = 0x7FFFFFFF
_INIT_INSTANT = "00000000000000"


def bucket_ids(columns: Sequence[pa.Array | pa.ChunkedArray], buckets: int) -> _Ints:
    """The simple bucket of every row, from the string values of the index's key columns.

    Java: `(List.hashCode() & Integer.MAX_VALUE) % buckets`; a null counts 0 in the list's hash.

    >>> bucket_ids([pa.array(["k1", "k2", "k3"])], 4).tolist()
    [1, 2, 3]
    """
    if not columns or buckets <= 0:
        raise InvalidArgument("a bucket needs at least one key column and one bucket")
    return _in_buckets(_hashes(columns), buckets)


def bucket_ids_of_keys(keys: pa.Array | pa.ChunkedArray, buckets: int, *, fields: Sequence[str] = ()) -> _Ints:
    """The simple bucket of every record key; `fields` are the index's key fields (none: all of the record key).

    Plain keys are hashed as a whole array. Composite keys (`a:1,b:2`) are taken apart one by one: where the columns
    are at hand, `bucket_ids` is faster.

    >>> bucket_ids_of_keys(pa.array(["k1", "a:k1,b:x"]), 4, fields=["a"]).tolist()
    [1, 1]
    """
    return _in_buckets(_hashes_of_keys(keys, fields), buckets)


def bucket_counts(keys: pa.Array, bucket: int, counts: _Longs, *, fields: Sequence[str] = ()) -> _Longs:
    """Those of some numbers of buckets with which all of these keys are in one bucket.

    >>> bucket_counts(pa.array(["k1", "k5"]), 1, np.arange(2, 9)).tolist()
    [2, 4]
    """
    hashes = np.unique(_hashes_of_keys(keys, fields)).astype(np.int64)
    fits: npt.NDArray[np.bool_] = (hashes[:, None] % counts[None, :] == bucket).all(axis=0)
    return counts[fits]


def _in_buckets(hashes: npt.NDArray[np.uint32], buckets: int) -> _Ints:
    found: _Ints = (hashes % np.uint32(buckets)).astype(np.int32)
    return found


def _hashes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.uint32]:
    total = np.ones(len(columns[0]), np.uint32)
    for column in columns:
        total = total * np.uint32(31) + java_hashes(column).view(np.uint32)
    positive: npt.NDArray[np.uint32] = total & np.uint32(_HASH_MASK)
    return positive


def _hashes_of_keys(keys: pa.Array | pa.ChunkedArray, fields: Sequence[str]) -> npt.NDArray[np.uint32]:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    keys = keys.cast(pa.string())
    result = _hashes([keys])
    composite = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
    rows = np.nonzero(composite.fill_null(False).to_numpy(zero_copy_only=False))[0]
    if len(rows):
        taken = [key_values(key, fields) for key in keys.take(pa.array(rows)).to_pylist()]
        for width in {len(values) for values in taken}:
            alike = [index for index, values in enumerate(taken) if len(values) == width]
            columns = [pa.array([taken[index][at] for index in alike], pa.string()) for at in range(width)]
            result[rows[alike]] = _hashes(columns)
    return result


def key_values(key: str, fields: Sequence[str] = ()) -> list[str | None]:
    """The values in a record key that its bucket is made of, in the order of the record key.

    A key without both `,` and `:` is one value. A value may hold either: it goes on to the last comma before the next
    colon.

    >>> key_values("id:1,at:2024-10-22 14:11:53,x:__null__")
    ['1', '2024-10-22 14:11:53', None]
    >>> key_values("id:1,at:2", ["at"]), key_values("2024-10-22 14:11")
    (['2'], ['2024-10-22 14:11'])
    """
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    at = 0
    while at < len(key) and (colon := key.find(":", at)) >= 0:
        comma, next_colon = -1, key.find(":", colon + 1)
        while next_colon >= 0 and comma < colon:
            comma = key.rfind(",", colon, next_colon)
            next_colon = key.find(":", next_colon + 1)
        end = comma if comma > colon else len(key)
        if not any(fields) or key[at:colon] in fields:
            value = key[colon + 1 : end]
            values.append(None if value == "__null__" else "" if value == "__empty__" else value)
        at = end + 1
    return values or [key]


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket in a file id of a simple bucket index, None when the file id holds none.

    >>> bucket_of_file_id("00000002-7a10-451d-88fd-83b3fc8ca459-0"), bucket_of_file_id("7615f770-1c61")
    (2, None)
    """
    digits = file_id[:8]
    return int(digits) if len(digits) == 8 and digits.isascii() and digits.isdigit() else None


@dataclass(frozen=True, slots=True)
class HashRing:
    """The consistent-hashing metadata of one partition (`.hoodie/.bucket_index/…/<instant>.hashing_meta`).

    A node owns the hashes up to its value; the nodes are sorted by value.

    >>> ring = HashRing.initial("", 2)
    >>> ring.file_id_prefixes
    ('a9ce6eae-46a4-38bf-9258-2a07d0a9b6bb', '7615f770-1c61-323c-bfc4-d5a37c3f2e39')
    >>> HashRing.parse(ring.serialize()) == ring
    True
    """

    partition: str
    instant: str
    values: tuple[int, ...]
    file_id_prefixes: tuple[str, ...]
    sequence: int = 0

    @classmethod
    def initial(cls, partition: str, buckets: int) -> HashRing:
        """The ring that Hudi makes for a new partition: equal parts, file ids by their bounds."""
        if buckets <= 0:
            raise InvalidArgument("a hash ring needs at least one bucket")
        step = (_HASH_MASK + buckets - 1) // buckets
        ends = [min(step * index, _HASH_MASK) for index in range(1, buckets + 1)]
        starts = [0, *ends[:-1]]
        names = tuple(_name_uuid(start, end, partition) for start, end in zip(starts, ends, strict=True))
        return cls(partition, _INIT_INSTANT, tuple(ends), names)

    @classmethod
    def parse(cls, text: str | bytes, *, name: str = "hashing metadata") -> HashRing:
        """The ring from the JSON of a `.hashing_meta` file."""
        try:
            content = json.loads(text)
            nodes = sorted((int(node["value"]), str(node["fileIdPrefix"])) for node in content["nodes"])
            ring = cls(
                str(content["partitionPath"]),
                str(content["instant"]),
                tuple(value for value, _ in nodes),
                tuple(prefix for _, prefix in nodes),
                int(content.get("seqNo", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise CorruptFile(f"{name}: no consistent-hashing metadata ({error!r}); restore the file") from error
        if not ring.values:
            raise CorruptFile(f"{name}: the hash ring has no nodes; restore the file")
        if not 0 <= ring.values[0] <= ring.values[-1] <= _HASH_MASK:
            raise CorruptFile(f"{name}: a node of the hash ring lies outside 0 to {_HASH_MASK}; restore the file")
        return ring

    def serialize(self) -> bytes:
        """The JSON of a `.hashing_meta` file."""
        nodes = [
            {"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"}
            for value, prefix in zip(self.values, self.file_id_prefixes, strict=True)
        ]
        content = {
            "version": 0,
            "partitionPath": self.partition,
            "instant": self.instant,
            "numBuckets": len(nodes),
            "seqNo": self.sequence,
            "nodes": nodes,
        }
        return json.dumps(content, indent=2).encode()

    def nodes_of(self, keys: pa.Array | pa.ChunkedArray) -> _Ints:
        """The node (position in `values`) of every key; a composite key's values are given joined without separator."""
        hashes = xxhash32s(keys) & np.uint32(_HASH_MASK)
        found = np.searchsorted(np.array(self.values, np.int64), hashes.astype(np.int64), side="left")
        return np.where(found == len(self.values), 0, found).astype(np.int32)


def _name_uuid(start: int, end: int, partition: str) -> str:
    """Java's `UUID.nameUUIDFromBytes`: MD5 with the version and variant bits set."""
    digest = hashlib.md5(start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode(), usedforsecurity=False)
    return str(uuid.UUID(bytes=digest.digest(), version=3))
