package io.headwater.spark;

import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/** Readers for the executors: columnar for every partition, as Spark wants all of them or none. */
final class HeadwaterPartitionReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final Broadcast<ReadSpec> spec;
  /** Part of the spec. Spark forgets a broadcast that nobody on the driver holds, and may put the spec to disk. */
  private final Broadcast<SerializableConfiguration> hadoop;

  HeadwaterPartitionReaderFactory(Broadcast<ReadSpec> spec, Broadcast<SerializableConfiguration> hadoop) {
    this.spec = spec;
    this.hadoop = hadoop;
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
