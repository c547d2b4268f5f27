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
    if low is not None and high is not None:
        within = pc.and_(pc.greater_equal(keys, low.decode()), pc.less_equal(keys, high.decode()))
        keys = keys.filter(within)
    text = footer.get(BLOOM)
    if text is not None and len(keys):
        kind = footer.get(BLOOM_TYPE)
        keys = keys.filter(BloomFilter.parse(text, None if kind is None else kind.decode()).might_contain(keys))
    return keys
