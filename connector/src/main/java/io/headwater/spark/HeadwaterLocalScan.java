package io.headwater.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** An aggregate that the table's metadata answered: its rows are here, and no file is read. */
final class HeadwaterLocalScan implements LocalScan {
  private final HeadwaterTable table;
  private final AggregatePlan aggregate;
  private final HeadwaterScanBuilder.Pushed pushed;

  HeadwaterLocalScan(HeadwaterTable table, AggregatePlan aggregate, HeadwaterScanBuilder.Pushed pushed) {
    this.table = table;
    this.aggregate = aggregate;
    this.pushed = pushed;
  }

  @Override
  public InternalRow[] rows() {
    return aggregate.rows();
  }

  @Override
  public StructType readSchema() {
    return aggregate.schema;
  }

  @Override
  public String description() {
    return table + " [" + aggregate.description + " from metadata; filters " + pushed.describe() + "]";
  }

  @Override
  public String toString() {
    return description();
  }
}
