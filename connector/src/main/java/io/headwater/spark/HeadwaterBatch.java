package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;

/**
 * Cuts a plan's slices into input partitions the way Spark's own file sources do, so that a table
 * gets as many tasks as plain Parquet of its size would.
 */
final class HeadwaterBatch implements Batch {
  private final HeadwaterScan scan;
  private final StructType required;
  private final StructType data;
  private final StructType metadata;
  private final List<Predicate> dataFilters;
  private final Integer limit;
  private final StructType grouping;
  private InputPartition[] partitions;

  HeadwaterBatch(
      HeadwaterScan scan,
      StructType required,
      StructType data,
      StructType metadata,
      List<Predicate> dataFilters,
      Integer limit,
      StructType grouping) {
    this.scan = scan;
    this.required = required;
    this.data = data;
    this.metadata = metadata;
    this.dataFilters = dataFilters;
    this.limit = limit;
    this.grouping = grouping;
  }

  @Override
  public synchronized InputPartition[] planInputPartitions() {
    if (partitions == null) {
      partitions = cut();
    }
    return partitions;
  }

  private InputPartition[] cut() {
    List<SliceTask> tasks = scan.tasks();
    ScanPlan plan = scan.plan();
    SQLConf conf = Compat.conf();
    long openCost = plan.openCost == null ? conf.filesOpenCostInBytes() : plan.openCost;
    long maxBytes = plan.splitSize == null ? conf.filesMaxPartitionBytes() : plan.splitSize;
    long total = 0;
    for (SliceTask task : tasks) {
      total += task.size + task.deltaBytes + openCost;
    }
    scala.Option<Object> wanted = conf.filesMinPartitionNum();
    int cores = wanted.isDefined() ? (Integer) wanted.get() : SparkInternals.parallelism();
    long splitBytes = Math.min(maxBytes, Math.max(openCost, total / Math.max(1, cores)));

    List<Split> splits = new ArrayList<>();
    for (SliceTask task : tasks) {
      if (!task.isNative() || task.size <= splitBytes) {
        splits.add(new Split(task, 0, task.size, task.size + task.deltaBytes));
        continue;
      }
      for (long start = 0; start < task.size; start += splitBytes) {
        long length = Math.min(splitBytes, task.size - start);
        // Rows of the logs come with the first split, so it weighs as much more.
        splits.add(new Split(task, start, length, start == 0 ? length + task.deltaBytes : length));
      }
    }
    splits.sort(Comparator.comparingLong((Split split) -> split.weight).reversed());

    Map<List<Object>, List<Split>> groups = new LinkedHashMap<>();
    for (Split split : splits) {
      groups.computeIfAbsent(scan.keyOf(split.task, grouping), key -> new ArrayList<>()).add(split);
    }
    List<InputPartition> cut = new ArrayList<>();
    groups.forEach((key, members) -> pack(cut, members, splitBytes, openCost, grouping.length() == 0 ? null : key.toArray()));
    return cut.toArray(new InputPartition[0]);
  }

  private static void pack(List<InputPartition> into, List<Split> splits, long splitBytes, long openCost, Object[] key) {
    InternalRow row = key == null ? null : new GenericInternalRow(key);
    List<Split> open = new ArrayList<>();
    long size = 0;
    for (Split split : splits) {
      if (!open.isEmpty() && size + split.weight > splitBytes) {
        into.add(HeadwaterInputPartition.of(open, row));
        open.clear();
        size = 0;
      }
      size += split.weight + openCost;
      open.add(split);
    }
    if (!open.isEmpty()) {
      into.add(HeadwaterInputPartition.of(open, row));
    }
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    ScanPlan plan = scan.plan();
    ReadSpec spec = new ReadSpec(plan, required, data, metadata, SparkInternals.v1Filters(dataFilters), limit);
    Broadcast<ReadSpec> sent = SparkInternals.broadcast(spec, ReadSpec.class);
    return new HeadwaterPartitionReaderFactory(sent, spec.hadoop);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HeadwaterBatch && scan.equals(((HeadwaterBatch) other).scan);
  }

  @Override
  public int hashCode() {
    return scan.hashCode();
  }

  /** A range of a base file's bytes, or a whole slice. */
  static final class Split implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    final SliceTask task;
    final long start;
    final long length;
    final transient long weight;

    Split(SliceTask task, long start, long length, long weight) {
      this.task = task;
      this.start = start;
      this.length = length;
      this.weight = weight;
    }
  }
}
