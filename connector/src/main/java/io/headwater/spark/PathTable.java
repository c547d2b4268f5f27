package io.headwater.spark;

import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table that is named by its path, opened by the first question about it.
 *
 * <p>Spark asks a source for its table before a write too, when there need be none yet and the options are
 * those of a write. All it asks then is whether the table takes writes of version 2. It does not, so the
 * write goes to {@link HeadwaterSource#createRelation}, which knows all save modes.
 */
final class PathTable implements SupportsRead, SupportsMetadataColumns {
  private final String path;
  private final CaseInsensitiveStringMap options;
  private Table opened;

  PathTable(String path, CaseInsensitiveStringMap options) {
    this.path = path;
    this.options = options;
  }

  String path() {
    return path;
  }

  Map<String, String> options() {
    return options.asCaseSensitiveMap();
  }

  /** The table; of Spark's Python data source where reads are to go there. */
  synchronized Table opened() {
    if (opened == null) {
      opened = Tables.load(path, options);
    }
    return opened;
  }

  @Override
  public String name() {
    return opened().name();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 to 4.3 all ask for it, directly or through columns().
  public StructType schema() {
    return opened().schema();
  }

  @Override
  public Transform[] partitioning() {
    return opened().partitioning();
  }

  @Override
  public Map<String, String> properties() {
    return opened().properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    Table table = opened();
    return table instanceof SupportsMetadataColumns
        ? ((SupportsMetadataColumns) table).metadataColumns()
        : new MetadataColumn[0];
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    return ((SupportsRead) opened()).newScanBuilder(given);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PathTable && opened().equals(((PathTable) other).opened());
  }

  @Override
  public int hashCode() {
    return Objects.hash(path);
  }

  @Override
  public String toString() {
    return "headwater " + path;
  }
}
