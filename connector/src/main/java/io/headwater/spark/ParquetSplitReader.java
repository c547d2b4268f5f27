package io.headwater.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A range of a base file by Spark's own vectorized reader, its vectors put into the order that the
 * scan promised: stored columns, constants of the partition, metadata columns.
 *
 * <p>Spark's reader fills the same vectors for every batch, so they are arranged once.
 */
final class ParquetSplitReader implements PartitionReader<ColumnarBatch> {
  private static final int CONSTANT_ROWS = 1 << 16;

  private final ReadSpec spec;
  private final FileShape shape;
  private final SliceTask task;
  private final boolean besideAdded;
  private final boolean showsRowIndex;
  private final boolean withRowIndex;
  private final boolean isWholeFile;
  /** The reader, where it is one that knows the rows' positions; else null. */
  private final PagesReader pages;
  private final PartitionReader<ColumnarBatch> reader;
  private ColumnarBatch read;
  private ColumnarBatch arranged;
  private ColumnVector rowIndex;
  private boolean filled;
  private Boolean movable;
  /** For columns that were widened since: the stored column and the vector that its values are copied to. */
  private final List<WidenedCopy> copies = new ArrayList<>();

  ParquetSplitReader(ReadSpec spec, FileShape shape, HeadwaterBatch.Split split, boolean positions) throws IOException {
    this.spec = spec;
    this.shape = shape;
    this.task = split.task;
    this.besideAdded = positions;
    this.showsRowIndex = showsPositions(spec);
    this.isWholeFile = split.start == 0 && split.length >= task.size;
    try {
      this.pages = showsRowIndex ? null : PagesReader.open(spec, shape, split);
      // Spark makes its row index value by value, in boxes.
      this.withRowIndex = showsRowIndex || (positions && pages == null);
      this.reader =
          pages != null
              ? pages
              : SparkInternals.parquetReader(spec.sqlConf(), shape.conf(withRowIndex), shape.columns(withRowIndex),
                  shape.filters, new Path(task.file()), split.start, split.length, task.size);
    } catch (Exception e) {
      throw explain(task, e);
    }
    InputFileBlockHolder.set(task.file(), split.start, split.length);
  }

  /** Whether rows come with their position: then Spark's own reader counts them. */
  static boolean showsPositions(ReadSpec spec) {
    for (String field : spec.metadata.fieldNames()) {
      if (field.equals(HeadwaterTable.POSITION)) {
        return true;
      }
    }
    return false;
  }

  @Override
  public boolean next() throws IOException {
    try {
      filled = false;
      return reader.next();
    } catch (Exception e) {
      throw explain(task, e);
    }
  }

  /** The position of the current batch's first row, behind which the others follow; -1 where {@link #positions} tells. */
  long firstPosition() {
    return pages == null ? -1 : pages.firstPosition();
  }

  /** The positions of the current batch's rows in the file, where they do not follow each other. */
  long[] positions() {
    return pages == null ? rowIndex.getLongs(0, read.numRows()) : pages.positions();
  }

  /** How many rows the file has; -1 where that is not known. */
  long rowsOfFile() {
    return isWholeFile && pages != null ? pages.rowsOfSplit() : -1;
  }

  @Override
  public ColumnarBatch get() {
    ColumnarBatch batch = reader.get();
    if (batch != read) {
      arrange(batch);
    }
    if (arranged != batch) {
      arranged.setNumRows(batch.numRows());
    }
    return besideAdded ? arranged : all();
  }

  /**
   * The current batch with all its rows; {@link #get} alone, beside rows that merging adds, leaves those columns
   * empty that {@link #keep} may fill.
   */
  ColumnarBatch all() {
    if (!filled) {
      copies.forEach(copy -> copy.fill(null, read.numRows()));
      filled = true;
    }
    return arranged;
  }

  /** Whether {@link #keep} can do its work within Spark's vectors. */
  boolean canKeep() {
    if (movable == null) {
      boolean all = true;
      for (StructField field : shape.physical.fields()) {
        all = all && RowCompaction.canMove(field.dataType());
      }
      movable = all;
    }
    return movable;
  }

  /** Leaves only the given rows of the current batch, in their order. */
  ColumnarBatch keep(int[] rows, int count) {
    int from = 0;
    while (from < count && rows[from] == from) {
      from++;
    }
    // The row index comes last; it is moved when it is shown as a column.
    int columns = showsRowIndex ? read.numCols() : shape.physical.length();
    for (int i = 0; i < columns; i++) {
      if (!isCopied(read.column(i))) {
        RowCompaction.move((WritableColumnVector) read.column(i), rows, from, count);
      }
    }
    copies.forEach(copy -> copy.fill(rows, count));
    arranged.setNumRows(count);
    return arranged;
  }

  private boolean isCopied(ColumnVector stored) {
    for (WidenedCopy copy : copies) {
      if (copy.stored == stored) {
        return true;
      }
    }
    return false;
  }

  private void arrange(ColumnarBatch batch) {
    read = batch;
    copies.clear();
    if (withRowIndex) {
      rowIndex = batch.column(shape.physical.length());
    }
    StructField[] fields = spec.required.fields();
    ColumnVector[] columns = new ColumnVector[fields.length];
    boolean asRead = batch.numCols() == fields.length;
    int data = 0;
    for (int i = 0; i < fields.length; i++) {
      boolean isData = data < spec.data.length() && spec.data.fields()[data].name().equals(fields[i].name());
      columns[i] = isData ? dataColumn(batch, data++, fields[i].dataType()) : metadataColumn(fields[i]);
      asRead = asRead && columns[i] == batch.column(i);
    }
    arranged = asRead ? batch : new ColumnarBatch(columns);
  }

  private ColumnVector dataColumn(ColumnarBatch batch, int index, DataType type) {
    int source = shape.sources[index];
    if (source == FileShape.MISSING) {
      return HeapRows.isCopied(type) ? nulls(type) : Values.constant(type, null, CONSTANT_ROWS);
    }
    if (source == FileShape.CONSTANT) {
      String name = spec.data.fields()[index].name();
      for (int i = 0; i < spec.constants.length; i++) {
        if (spec.constants[i].equals(name)) {
          return Values.constant(type, task.constants[i], CONSTANT_ROWS);
        }
      }
    }
    ColumnVector vector = batch.column(source);
    DataType stored = shape.physical.fields()[source].dataType();
    if (!WidenedColumnVector.canWiden(stored, type)) {
      return vector;
    }
    WidenedColumnVector widened = new WidenedColumnVector(vector, type);
    if (besideAdded && !canKeep()) {
      return widened;
    }
    WidenedCopy copy = new WidenedCopy(vector, widened);
    copies.add(copy);
    return copy.values;
  }

  /** A column that the file lacks, of the class that other files and rows which merging adds have for it. */
  private ColumnVector nulls(DataType type) {
    int rows = spec.sqlConf().parquetVectorizedReaderBatchSize();
    OnHeapColumnVector vector = new OnHeapColumnVector(rows, type);
    vector.putNulls(0, rows);
    return vector;
  }

  private ColumnVector metadataColumn(StructField field) {
    switch (field.name()) {
      case HeadwaterTable.FILE:
        return Values.constant(field.dataType(), UTF8String.fromString(task.path), CONSTANT_ROWS);
      case HeadwaterTable.POSITION:
        return rowIndex;
      case HeadwaterTable.PARTITION:
        return partition((StructType) field.dataType());
      default:
        throw new IllegalStateException("no metadata column " + field.name());
    }
  }

  /** The struct of partition values, pruned to the fields that Spark asks for. */
  private ColumnVector partition(StructType wanted) {
    Object[] values = new Object[wanted.length()];
    for (int i = 0; i < values.length; i++) {
      for (int j = 0; j < spec.partitionColumns.length; j++) {
        if (spec.partitionColumns[j].equals(wanted.fields()[i].name())) {
          values[i] = task.tells(j) ? task.partition[j] : null;
        }
      }
    }
    return Values.constantStruct(wanted, values, CONSTANT_ROWS);
  }

  /** A file's error by the name that the Table Spec API has for it. */
  static IOException explain(SliceTask task, Exception error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof FileNotFoundException) {
        return new IOException(
            "MissingFile: " + task.file() + " is gone since the query was planned; it was cleaned or deleted. Run the query"
                + " again, or keep older versions for longer than queries run.", error);
      }
      if (cause instanceof ClosedByInterruptException || cause instanceof InterruptedException) {
        return new IOException("interrupted while reading " + task.file(), error);
      }
      if (cause instanceof ClassNotFoundException || cause instanceof UnsupportedFileSystemException) {
        return new IOException(
            "StorageError: " + task.file() + ": Spark has no filesystem for it (" + cause.getMessage() + "). Add the one of"
                + " its Hadoop to the session, for S3 spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, or read with"
                + " the option reader=merge, which needs none.", error);
      }
      if (cause instanceof SocketException || cause instanceof SocketTimeoutException
          || cause instanceof UnknownHostException || cause instanceof AccessDeniedException) {
        return new IOException(
            "StorageError: " + task.file() + ": cannot be read (" + cause + "). Check that the storage can be reached and"
                + " that you may read there, then try again.", error);
      }
    }
    return new IOException("CorruptFile: " + task.file() + ": Spark's Parquet reader cannot read it (" + error + ")", error);
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
