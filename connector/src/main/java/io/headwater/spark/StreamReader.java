package io.headwater.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.SidecarStream;
import java.io.IOException;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Rows that the sidecar made, as Arrow batches whose vectors Spark reads in place. */
final class StreamReader implements PartitionReader<ColumnarBatch> {
  private static final int CONSTANT_ROWS = 1 << 16;

  private final ReadSpec spec;
  private final SliceTask task;
  private final boolean besideBase;
  private final SidecarStream stream;
  private BufferAllocator allocator;
  private ArrowStreamReader arrow;
  private VectorSchemaRoot root;
  private HeapRows heap;
  private ColumnarBatch batch;
  private boolean started;
  private long rows;

  /** Columns that the partition tells are, beside a base file's rows, given as they are there. */
  StreamReader(ReadSpec spec, SliceTask task, ObjectNode request, boolean besideBase) {
    this.spec = spec;
    this.task = task;
    this.besideBase = besideBase;
    this.stream = SidecarStream.open(spec.python, spec.scanId, spec.scan, task.path, request);
  }

  SidecarStream stream() {
    return stream;
  }

  long rows() {
    return rows;
  }

  @Override
  public boolean next() throws IOException {
    if (!started) {
      started = true;
      if (stream.hasData()) {
        start();
      }
    }
    while (arrow != null && arrow.loadNextBatch()) {
      int count = root.getRowCount();
      if (count > 0) {
        if (heap != null) {
          heap.fill(root.getFieldVectors(), count);
        }
        batch.setNumRows(count);
        rows += count;
        return true;
      }
    }
    stream.finish();
    return false;
  }

  private void start() throws IOException {
    allocator = ArrowUtils.rootAllocator().newChildAllocator("headwater rows of a sidecar", 0, Long.MAX_VALUE);
    arrow = new ArrowStreamReader(stream, allocator);
    root = arrow.getVectorSchemaRoot();
    List<FieldVector> vectors = root.getFieldVectors();
    StructField[] fields = spec.required.fields();
    if (vectors.size() != fields.length) {
      throw new IOException("the sidecar sent " + vectors.size() + " columns where " + fields.length + " are due: "
          + root.getSchema());
    }
    // The stream has data columns first, then metadata columns; the scan may mix them.
    int[] sources = new int[fields.length];
    DataType[] types = new DataType[fields.length];
    ArrowColumnVector[] arrived = new ArrowColumnVector[fields.length];
    ColumnVector[] columns = new ColumnVector[fields.length];
    int data = 0;
    int metadata = spec.data.length();
    StructType wanted = spec.data;
    for (int i = 0; i < fields.length; i++) {
      boolean isData = data < wanted.length() && wanted.fields()[data].name().equals(fields[i].name());
      sources[i] = isData ? data++ : metadata++;
      ArrowColumnVector vector = arrived[i] = new RefilledColumnVector(vectors.get(sources[i]));
      if (!Values.sameLayout(vector.dataType(), fields[i].dataType())) {
        throw new IOException("the sidecar sent column " + fields[i].name() + " as " + vector.dataType().catalogString()
            + "; the scan has " + fields[i].dataType().catalogString());
      }
      columns[i] = besideBase ? constant(fields[i]) : null;
      types[sources[i]] = columns[i] == null ? fields[i].dataType() : null;
    }
    heap = HeapRows.of(types);
    for (int i = 0; i < fields.length; i++) {
      if (columns[i] == null) {
        columns[i] = heap != null ? heap.vector(sources[i]) : arrived[i];
      }
    }
    batch = new ColumnarBatch(columns);
  }

  /** A column that the partition tells, of the class that the base file's batches have for it. */
  private ColumnVector constant(StructField field) {
    for (int i = 0; i < spec.constants.length; i++) {
      if (spec.constants[i].equals(field.name())) {
        return Values.constant(field.dataType(), task.constants[i], CONSTANT_ROWS);
      }
    }
    return null;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    try {
      stream.close();
    } finally {
      if (heap != null) {
        heap.close();
        heap = null;
      }
      if (arrow != null) {
        arrow.close(false);
        arrow = null;
      }
      if (allocator != null) {
        allocator.close();
        allocator = null;
      }
    }
  }

  /** A vector that the next batch fills again: Spark 4 frees vectors between batches, which takes their children away. */
  private static final class RefilledColumnVector extends ArrowColumnVector {
    private RefilledColumnVector(FieldVector vector) {
      super(vector);
    }

    // Spark 3.5 has no such method to override.
    public void closeIfFreeable() {}
  }
}
