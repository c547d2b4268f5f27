package io.headwater.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A range of a file without filters, by Spark's vectorized reader, but for what it is slow at: decimals that
 * are stored as bytes it gets as numbers (see {@link DecimalPages}), and plain text is read here (see
 * {@link TextColumn}).
 *
 * <p>Scans with filters on the file read few of its pages, and Spark's own way chooses them.
 */
final class UnfilteredReader implements PartitionReader<ColumnarBatch> {
  private final ParquetFileReader file;
  /** The columns to read, as the file has them and as Spark's reader gets them. */
  private final MessageType stored;
  private final MessageType numbers;
  /** For each column that is read here its reader; null for those that are left to Spark's. */
  private final TextColumn[] texts;
  private final PartitionReader<ColumnarBatch> others;
  private ColumnarBatch read;
  private ColumnarBatch batch;

  /** A reader, which closes the file at its end; null where the file is not of such a kind and Spark's own way reads it. */
  static UnfilteredReader of(ReadSpec spec, FileShape shape, ParquetFileReader file) throws IOException {
    MessageType stored = columns(file.getFileMetaData().getSchema(), shape);
    boolean suits = stored != null && SparkInternals.readsAs(stored, shape.physical) && rows(file) <= Integer.MAX_VALUE;
    return suits ? new UnfilteredReader(spec.sqlConf(), shape, file, stored) : null;
  }

  private UnfilteredReader(SQLConf conf, FileShape shape, ParquetFileReader file, MessageType stored) throws IOException {
    this.file = file;
    this.stored = stored;
    this.texts = new TextColumn[stored.getFieldCount()];
    List<Type> asGiven = new ArrayList<>();
    for (int i = 0; i < texts.length; i++) {
      Type type = stored.getType(i);
      DataType wanted = shape.physical.fields()[i].dataType();
      Set<Encoding> encodings = encodings(type.getName(), file.getRowGroups());
      if (TextColumn.isText(type, wanted) && TextColumn.isPlain(encodings)) {
        texts[i] = new TextColumn(stored.getColumnDescription(new String[] {type.getName()}), vector(conf, wanted));
      } else if (DecimalPages.isBytes(type) && DecimalPages.canRewrite(encodings)) {
        asGiven.add(DecimalPages.asNumber(type));
      } else {
        asGiven.add(type);
      }
    }
    this.numbers = new MessageType(stored.getName(), asGiven);
    file.setRequestedSchema(stored);
    this.others = SparkInternals.pagesReader(conf, numbers, (int) rows(file), this::nextRowGroup, file);
  }

  private static WritableColumnVector vector(SQLConf conf, DataType type) {
    int rows = conf.parquetVectorizedReaderBatchSize();
    return conf.offHeapColumnVectorEnabled() ? new OffHeapColumnVector(rows, type) : new OnHeapColumnVector(rows, type);
  }

  /** Whether a file of this schema is worth opening here. */
  static boolean suits(MessageType schema, FileShape shape) {
    MessageType stored = columns(schema, shape);
    if (stored == null || !SparkInternals.readsAs(stored, shape.physical)) {
      return false;
    }
    for (int i = 0; i < stored.getFieldCount(); i++) {
      Type type = stored.getType(i);
      if (DecimalPages.isBytes(type) || TextColumn.isText(type, shape.physical.fields()[i].dataType())) {
        return true;
      }
    }
    return false;
  }

  private PageReadStore nextRowGroup() throws IOException {
    PageReadStore pages = file.readNextRowGroup();
    if (pages == null) {
      return null;
    }
    for (TextColumn text : texts) {
      if (text != null) {
        text.start(pages);
      }
    }
    return new DecimalPages(pages, stored, numbers);
  }

  @Override
  public boolean next() throws IOException {
    if (!others.next()) {
      return false;
    }
    int rows = others.get().numRows();
    for (TextColumn text : texts) {
      if (text != null) {
        text.read(rows);
      }
    }
    return true;
  }

  @Override
  public ColumnarBatch get() {
    ColumnarBatch found = others.get();
    if (found != read) {
      read = found;
      ColumnVector[] columns = new ColumnVector[texts.length];
      int other = 0;
      for (int i = 0; i < columns.length; i++) {
        columns[i] = texts[i] != null ? texts[i].vector() : found.column(other++);
      }
      batch = other == columns.length ? found : new ColumnarBatch(columns);
    }
    batch.setNumRows(found.numRows());
    return batch;
  }

  @Override
  public void close() throws IOException {
    try {
      others.close();
    } finally {
      for (TextColumn text : texts) {
        if (text != null) {
          text.close();
        }
      }
    }
  }

  private static long rows(ParquetFileReader file) {
    return file.getRowGroups().stream().mapToLong(BlockMetaData::getRowCount).sum();
  }

  /** The file's columns that the shape asks for; null where one has another name there. */
  private static MessageType columns(MessageType schema, FileShape shape) {
    List<Type> found = new ArrayList<>();
    for (StructField field : shape.physical.fields()) {
      if (!schema.containsField(field.name())) {
        return null;
      }
      found.add(schema.getType(field.name()));
    }
    return new MessageType(schema.getName(), found);
  }

  private static Set<Encoding> encodings(String column, List<BlockMetaData> rowGroups) {
    Set<Encoding> found = EnumSet.noneOf(Encoding.class);
    for (BlockMetaData rowGroup : rowGroups) {
      for (ColumnChunkMetaData chunk : rowGroup.getColumns()) {
        if (chunk.getPath().toDotString().equals(column)) {
          found.addAll(chunk.getEncodings());
        }
      }
    }
    return found;
  }
}
