"""What a base file's footer says about its record keys: their range and a bloom filter (facts 10)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.base_file import BaseFile
from headwater.hudi.index.bloom import BloomFilter

BLOOM, BLOOM_TYPE = b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code"
MIN_KEY, MAX_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"


def by_footer(base: BaseFile, keys: pa.Array) -> pa.Array:
    """The keys that a base file may hold, by the key range and the bloom filter in its footer."""
    footer = base.footer
    low, high = footer.get(MIN_KEY), footer.get(MAX_KEY)
    if low is not None and high is not None and not _is_ordered_otherwise(low, high, keys):
        within = pc.and_(pc.greater_equal(keys, low.decode()), pc.less_equal(keys, high.decode()))
        keys = keys.filter(within)
    text = footer.get(BLOOM)
    if text is not None and len(keys):
        kind = footer.get(BLOOM_TYPE)
        keys = keys.filter(BloomFilter.parse(text, None if kind is None else kind.decode()).might_contain(keys))
    return keys


def _is_ordered_otherwise(low: bytes, high: bytes, keys: pa.Array) -> bool:
    """Whether Java and UTF-8 may disagree on the order: characters beyond 16 bits come before some others there."""
    texts = (low, high, *(key.encode() for key in keys.to_pylist() if key is not None)) if len(keys) < _MANY else ()
    return not texts or any(max(text, default=0) >= _BEYOND_16_BITS for text in texts)


# The first byte of a character beyond 16 bits in UTF-8.
_BEYOND_16_BITS = 0xF0
# So many keys are not looked at one by one: the bloom filter tells.
_MANY = 1000


def holds_none(base: BaseFile, keys: pa.Array) -> bool:
    """Whether the footer rules all keys out.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> from headwater.hudi.base_file import open_base_file
    >>> from headwater.storage import Storage
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"x": [1]}).replace_schema_metadata({MIN_KEY: "a", MAX_KEY: "c"})
    >>> pq.write_table(table, f"{folder}/f.parquet")
    >>> base = open_base_file(Storage.at(folder), "f.parquet")
    >>> holds_none(base, pa.array(["d"])), holds_none(base, pa.array(["b"]))
    (True, False)
    """
    return len(by_footer(base, keys)) == 0
