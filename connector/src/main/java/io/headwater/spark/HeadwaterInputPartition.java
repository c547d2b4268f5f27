package io.headwater.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;

/** The splits that one Spark task reads. */
class HeadwaterInputPartition implements InputPartition {
  private static final long serialVersionUID = 1L;
  private final HeadwaterBatch.Split[] splits;

  /** With a key only where the scan reports its partitioning: Spark takes a key as a promise. */
  static HeadwaterInputPartition of(List<HeadwaterBatch.Split> splits, InternalRow key) {
    HeadwaterBatch.Split[] array = splits.toArray(new HeadwaterBatch.Split[0]);
    return key == null ? new HeadwaterInputPartition(array) : new Keyed(array, key);
  }

  private HeadwaterInputPartition(HeadwaterBatch.Split[] splits) {
    this.splits = splits;
  }

  HeadwaterBatch.Split[] splits() {
    return splits;
  }

  private static final class Keyed extends HeadwaterInputPartition implements HasPartitionKey {
    private static final long serialVersionUID = 1L;
    private final InternalRow key;

    private Keyed(HeadwaterBatch.Split[] splits, InternalRow key) {
      super(splits);
      this.key = key;
    }

    @Override
    public InternalRow partitionKey() {
      return key;
    }
  }
}
