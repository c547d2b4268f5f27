package io.headwater.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Spark's vectorized reader over a range of a file whose decimals are stored as bytes: it is given the
 * pages with numbers instead (see {@link DecimalPages}).
 *
 * <p>For scans without filters on the file; others read few of its pages, and Spark's own way chooses them.
 */
final class DecimalReader {
  private DecimalReader() {}

  /** A reader, or null where the file is not of such a kind and Spark's own way reads it. */
  static PartitionReader<ColumnarBatch> open(ReadSpec spec, FileShape shape, HeadwaterBatch.Split split)
      throws IOException {
    Configuration conf = spec.hadoopConf();
    Path path = new Path(split.task.file());
    ParquetFileReader file =
        ParquetFileReader.open(
            HadoopInputFile.fromPath(path, conf),
            HadoopReadOptions.builder(conf, path).withRange(split.start, split.start + split.length).build());
    PartitionReader<ColumnarBatch> reader = null;
    try {
      MessageType stored = columns(file.getFileMetaData().getSchema(), shape);
      MessageType numbers = stored == null ? null : withNumbers(stored, file.getRowGroups());
      if (numbers != null && SparkInternals.readsAs(numbers, shape.physical) && rows(file) <= Integer.MAX_VALUE) {
        file.setRequestedSchema(stored);
        reader =
            SparkInternals.pagesReader(
                spec.sqlConf(), numbers, (int) rows(file), () -> next(file, stored, numbers), file);
      }
      return reader;
    } finally {
      if (reader == null) {
        file.close();
      }
    }
  }

  /** Whether a file of this schema is worth opening here. */
  static boolean suits(MessageType schema, FileShape shape) {
    MessageType stored = columns(schema, shape);
    return stored != null && stored.getFields().stream().anyMatch(DecimalPages::isBytes)
        && SparkInternals.readsAs(stored, shape.physical);
  }

  private static PageReadStore next(ParquetFileReader file, MessageType stored, MessageType numbers) throws IOException {
    PageReadStore pages = file.readNextRowGroup();
    return pages == null ? null : new DecimalPages(pages, stored, numbers);
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

  private static MessageType withNumbers(MessageType stored, List<BlockMetaData> rowGroups) {
    List<Type> found = new ArrayList<>();
    for (Type type : stored.getFields()) {
      boolean rewritten = DecimalPages.isBytes(type) && DecimalPages.canRewrite(encodings(type.getName(), rowGroups));
      found.add(rewritten ? DecimalPages.asNumber(type) : type);
    }
    return new MessageType(stored.getName(), found);
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
