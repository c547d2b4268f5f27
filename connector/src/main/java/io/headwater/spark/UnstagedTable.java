package io.headwater.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A table of another source in the session catalog. That catalog stages none, so the table is there already, as it would
 * be without us, and goes again where filling it fails.
 */
final class UnstagedTable implements StagedTable, SupportsWrite {
  private final Table table;
  private final Runnable drop;

  UnstagedTable(Table table, Runnable drop) {
    this.table = table;
    this.drop = drop;
  }

  @Override
  public String name() {
    return table.name();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 to 4.3 all ask for it, directly or through columns().
  public StructType schema() {
    return table.schema();
  }

  @Override
  public Transform[] partitioning() {
    return table.partitioning();
  }

  @Override
  public Map<String, String> properties() {
    return table.properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return table.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    if (!(table instanceof SupportsWrite)) {
      throw new UnsupportedOperationException(table.name() + " takes no writes");
    }
    return ((SupportsWrite) table).newWriteBuilder(info);
  }

  @Override
  public void commitStagedChanges() {}

  @Override
  public void abortStagedChanges() {
    drop.run();
  }
}
