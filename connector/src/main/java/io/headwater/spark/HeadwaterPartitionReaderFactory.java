package io.headwater.spark;

import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Readers for the executors: columnar for every partition, as Spark wants all of them or none. */
final class HeadwaterPartitionReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final Broadcast<ReadSpec> spec;

  HeadwaterPartitionReaderFactory(Broadcast<ReadSpec> spec) {
    this.spec = spec;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new HeadwaterPartitionReader(spec.value(), ((HeadwaterInputPartition) partition).splits());
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("headwater reads columnar batches only");
  }
}
