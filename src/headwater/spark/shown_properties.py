"""The properties of a table as SQL shows them: `SHOW CREATE TABLE`, `SHOW TBLPROPERTIES`, `DESCRIBE EXTENDED`."""

from __future__ import annotations

from headwater.hudi.properties import TableConfig
from headwater.hudi.write.options import BUCKETS, INDEX_TYPE

COMMENT = "headwater.comment"
"""Where a table's comment is kept; Hudi keeps it in catalogs alone."""
_STORED = ("headwater.", "hoodie.keygen.timebased.")


def shown(config: TableConfig) -> dict[str, str]:
    """The properties that tell all there is to tell about a table, by names that `CREATE TABLE` takes."""
    found = {
        "key": ",".join(config.record_key_fields),
        "ordering": ",".join(config.ordering_fields),
        "kind": "mor" if config.is_merge_on_read else "cow",
        "version": str(config.version),
        "hive-style": "true" if config.hive_style else "",
        "url-encode": "true" if config.url_encoded else "",
        "index": config.properties.get(INDEX_TYPE, "").lower(),
        "buckets": config.properties.get(BUCKETS, ""),
        "comment": config.properties.get(COMMENT, ""),
    }
    kept = {name: value for name, value in config.properties.items() if name.startswith(_STORED) and name != COMMENT}
    return {name: value for name, value in found.items() if value} | kept
