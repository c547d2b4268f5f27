"""What a base file's footer says about its record keys: their range and a bloom filter (facts 10)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.base_file import BaseFile
from headwater.hudi.index.bloom import BloomFilter
from headwater.hudi.metadata_table.values import is_ordered_alike
from headwater.hudi.parquet_footer import BLOOM

BLOOM_TYPE = b"hoodie_bloom_filter_type_code"
MIN_KEY, MAX_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"


def key_range(base: BaseFile) -> tuple[str, str] | None:
    """The least and the greatest record key by the footer; None where it does not say, or in Java's order alone.

    Between bounds of characters that Java and UTF-8 order alike, the keys of the file lie in both orders.
    """
    low, high = base.footer.get(MIN_KEY), base.footer.get(MAX_KEY)
    if low is None or high is None:
        return None
    found = low.decode(), high.decode()
    return found if all(map(is_ordered_alike, found)) else None


def by_footer(base: BaseFile, keys: pa.Array) -> pa.Array:
    """The keys that a base file may hold, by the key range and the bloom filter in its footer."""
    known = key_range(base)
    if known is not None:
        keys = keys.filter(pc.and_(pc.greater_equal(keys, known[0]), pc.less_equal(keys, known[1])))
    text = base.footer.get(BLOOM)
    if text is not None and len(keys):
        kind = base.footer.get(BLOOM_TYPE)
        keys = keys.filter(BloomFilter.parse(text, None if kind is None else kind.decode()).might_contain(keys))
    return keys


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
