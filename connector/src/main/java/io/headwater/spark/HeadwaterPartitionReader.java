package io.headwater.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.io.IOException;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The splits of one Spark task, one after the other, each in its own way. */
final class HeadwaterPartitionReader implements PartitionReader<ColumnarBatch> {
  private static final Logger LOG = LoggerFactory.getLogger(HeadwaterPartitionReader.class);

  private final ReadSpec spec;
  private final HeadwaterBatch.Split[] splits;
  private final ReadMetrics metrics = new ReadMetrics();
  private final long limit;
  private int at;
  private PartitionReader<ColumnarBatch> reader;
  private long rows;

  HeadwaterPartitionReader(ReadSpec spec, HeadwaterBatch.Split[] splits) {
    this.spec = spec;
    this.splits = splits;
    this.limit = spec.limit == null ? Long.MAX_VALUE : spec.limit;
  }

  @Override
  public boolean next() throws IOException {
    while (rows < limit) {
      if (reader == null) {
        if (at == splits.length) {
          return false;
        }
        reader = open();
        if (reader == null) {
          continue;
        }
      }
      if (reader.next()) {
        rows += reader.get().numRows();
        return true;
      }
      closeReader();
    }
    return false;
  }

  private PartitionReader<ColumnarBatch> open() throws IOException {
    HeadwaterBatch.Split split = splits[at++];
    SliceTask task = split.task;
    switch (task.way.how) {
      case "parquet":
      case "positional":
        FileShape shape = FileShape.of(spec, task);
        try {
          return readFile(shape, split);
        } catch (IOException | RuntimeException e) {
          // The shape may be that of another file, which a filter on a column of another type stumbles on first.
          FileShape own = shape.orOwn(task);
          if (own == shape) {
            throw e;
          }
          return readFile(own, split);
        }
      case "stream":
        return readBySidecar(task);
      case "aggregate":
        return aggregate();
      default:
        throw new IOException("slice " + task.id + ": the plan says to read it by '" + task.way.how
            + "', which this jar does not know. Use the jar of the same headwater release.");
    }
  }

  private PartitionReader<ColumnarBatch> readFile(FileShape shape, HeadwaterBatch.Split split) throws IOException {
    SliceTask task = split.task;
    if (shape.unreadable != null) {
      LOG.info("{}: read by the sidecar: {}", task.file(), shape.unreadable);
      // The slice is read whole, so only its first split has rows.
      return split.start == 0 ? readBySidecar(task) : null;
    }
    PartitionReader<ColumnarBatch> opened =
        task.way.how.equals("parquet")
            ? new ParquetSplitReader(spec, shape, split, false)
            : new PositionalReader(spec, shape, split, metrics);
    metrics.filesRead++;
    return opened;
  }

  private PartitionReader<ColumnarBatch> readBySidecar(SliceTask task) {
    metrics.slicesBySidecar++;
    return new StreamReader(spec, task, task.request("read"), false);
  }

  /** All slices of this task in one request: the sidecar adds them up itself. */
  private PartitionReader<ColumnarBatch> aggregate() {
    ObjectNode request = Json.object().put("op", "aggregate");
    ArrayNode payloads = request.putArray("payloads");
    for (HeadwaterBatch.Split split : splits) {
      payloads.add(split.task.payload());
    }
    at = splits.length;
    metrics.slicesBySidecar += splits.length;
    return new StreamReader(spec, splits[0].task, request, false);
  }

  @Override
  public ColumnarBatch get() {
    return reader.get();
  }

  private void closeReader() throws IOException {
    PartitionReader<ColumnarBatch> closing = reader;
    reader = null;
    if (closing != null) {
      closing.close();
      if (closing instanceof StreamReader) {
        metrics.rowsAdded += ((StreamReader) closing).rows();
        metrics.add(((StreamReader) closing).stream());
      }
    }
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return metrics.values();
  }

  @Override
  public void close() throws IOException {
    closeReader();
  }
}
