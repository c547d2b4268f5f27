package io.headwater.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A table that is about to be: created by the write itself, since a write's options may name the key
 * ({@code df.write.option("key", "id").saveAsTable(…)}), or by the commit where nothing is written.
 *
 * <p>No files are left to an abort: a write that fails takes away what it created before it says so.
 */
final class StagedHeadwaterTable implements StagedTable, SupportsWrite {
  private final String path;
  private final boolean mayReplace;
  private final StructType schema;
  private final Transform[] partitions;
  private final Map<String, String> properties;
  private final Runnable undo;
  private boolean written;

  /** @param undo called when there will be no table: an entry for it may go */
  StagedHeadwaterTable(
      String path, boolean mayReplace, StructType schema, Transform[] partitions, Map<String, String> properties, Runnable undo) {
    this.path = path;
    this.mayReplace = mayReplace;
    this.schema = schema;
    this.partitions = partitions;
    this.properties = properties;
    this.undo = undo;
    TableDefinition.partitionColumns(partitions); // refused before anything is computed
  }

  @Override
  public String name() {
    return path;
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 to 4.3 all ask for it, directly or through columns().
  public StructType schema() {
    return schema;
  }

  @Override
  public Transform[] partitioning() {
    return partitions;
  }

  @Override
  public Map<String, String> properties() {
    return new HashMap<>(properties);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    HeadwaterWriteBuilder builder = new HeadwaterWriteBuilder("create", path, info, () -> written = true);
    ObjectNode request = builder.request();
    TableDefinition.define(request, partitions, properties);
    request.put("may_replace", mayReplace);
    return builder;
  }

  @Override
  public void commitStagedChanges() {
    if (!written) {
      try {
        TableDefinition.create(path, schema, partitions, properties);
      } catch (Exception e) {
        undo.run();
        throw e;
      }
    }
  }

  @Override
  public void abortStagedChanges() {
    undo.run();
  }
}
