"""What Hudi is told when it writes a table of the matrix: what the table is like, and which services are to run."""

from __future__ import annotations

from tests.interop.write_matrix.specs import PAYLOADS, Spec, metadata_indexes
from tests.interop.write_matrix.story import BUCKETS, PACKAGE, PARTITIONS, time_options

_CLASSES = {
    "simple": "SimpleKeyGenerator",
    "complex": "ComplexKeyGenerator",
    "complex2": "ComplexKeyGenerator",
    "custom": "CustomKeyGenerator",
    "timestamp": "TimestampBasedKeyGenerator",
    "none": "NonpartitionedKeyGenerator",
}
_INDEXES = {"simple": "SIMPLE", "bloom": "BLOOM", "bucket": "BUCKET", "record_index": "RECORD_INDEX"}
_METADATA = {
    "files": "hoodie.metadata.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}
COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTERING = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
}
CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
ARCHIVING = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
FAILING = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(1) from <TABLE_NAME>#-1",
}
"""Files are written, then a check that cannot hold stops the write before its commit."""


def write_options(name: str, spec: Spec, release: str, operation: str) -> dict[str, str]:
    """The options of a write without services."""
    has = metadata_indexes(spec)
    fields = PARTITIONS[spec.keys]
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if spec.is_merge_on_read else "COPY_ON_WRITE",
        "hoodie.datasource.write.partitionpath.field": ",".join(fields),
        "hoodie.datasource.write.hive_style_partitioning": str("hive" in spec.style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str("encoded" in spec.style).lower(),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.write.markers.type": "DIRECT",
        # Without the server, 1.2.0 cannot read its own metadata table when it makes partition statistics.
        "hoodie.embed.timeline.server": str("column_stats" in has).lower(),
        "hoodie.write.complex.keygen.validation.enable": "false",
        "hoodie.write.set.null.for.missing.columns": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        **{option: str(index in has).lower() for index, option in _METADATA.items()},
        **{f"hoodie.{what}.shuffle.parallelism": "2" for what in ("insert", "upsert", "bulkinsert", "delete")},
    }
    if spec.keys != "auto":
        options["hoodie.datasource.write.recordkey.field"] = "id,id2" if spec.keys == "complex2" else "id"
        options["hoodie.datasource.write.keygenerator.class"] = f"org.apache.hudi.keygen.{_CLASSES[spec.keys]}"
        options["hoodie.index.type"] = _INDEXES[spec.index]
    if spec.index == "bucket":
        options["hoodie.bucket.index.num.buckets"] = str(BUCKETS)
    options |= time_options(spec)
    if release != "0.15.0":
        options |= {"hoodie.write.table.version": str(spec.version), "hoodie.write.auto.upgrade": "false"}
    return options | _merging(spec, release)


def _merging(spec: Spec, release: str) -> dict[str, str]:
    options = {}
    if spec.ordering:
        options["hoodie.datasource.write.precombine.field"] = ",".join(spec.ordering)
    by_default = "OverwriteWithLatestAvroPayload" if spec.merge == "commit" else "DefaultHoodieRecordPayload"
    if spec.version == 6:
        options["hoodie.datasource.write.payload.class"] = PACKAGE + PAYLOADS.get(spec.merge, by_default)
    elif spec.keys != "auto":
        by = "COMMIT_TIME_ORDERING" if spec.merge == "commit" else "EVENT_TIME_ORDERING"
        options["hoodie.write.record.merge.mode"] = by
    if spec.changes == "yes":
        mode = "data_before_after" if release == "0.15.0" or spec.version == 6 else "DATA_BEFORE_AFTER"
        options |= {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    return options
