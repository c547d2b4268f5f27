package io.headwater.spark;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PrimitiveIterator;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
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
 * A range of a file by Spark's vectorized reader, over pages that are chosen here: those that the filters leave or,
 * where a query has a limit, the first ones.
 *
 * <p>So the rows' positions are known without a column of them, and where the filters leave all pages, Spark is
 * spared what it is slow at: decimals that are stored as bytes it gets as numbers (see {@link DecimalPages}), and
 * plain text is read here (see {@link TextColumn}).
 */
final class PagesReader implements PartitionReader<ColumnarBatch> {
  /** Where a file was written with dates of the calendar before 1582, it says so, and Spark must convert them. */
  private static final Set<String> OTHER_CALENDAR =
      Set.of("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96");
  private static final String WRITTEN_BY_SPARK = "org.apache.spark.version";
  private static final String OF_THAT_CALENDAR = "3.1.0";

  private final ParquetFileReader file;
  private final SQLConf conf;
  /** The columns to read, as the file has them and as Spark's reader gets them. */
  private final MessageType stored;
  private final MessageType given;
  /** For each column that is read here its reader; null for those that are left to Spark's. */
  private final TextColumn[] texts;
  private PartitionReader<ColumnarBatch> others;
  /** How many of the first rows are read before all others; 0 where all are. */
  private int ahead;
  private ColumnarBatch read;
  private ColumnarBatch batch;
  /** Of the row group that is being read: its first row, how many were given, and which are read where not all are. */
  private long groupStart;
  private long groupRows;
  private PrimitiveIterator.OfLong groupIndexes;
  private long first;
  private long[] positions = new long[0];

  /** A reader of a split; null where the file is not of such a kind, and Spark's own way reads it. */
  static PagesReader open(ReadSpec spec, FileShape shape, HeadwaterBatch.Split split) throws IOException {
    if (!shape.fitsPages) {
      return null;
    }
    boolean filters = shape.filters.length > 0 && spec.sqlConf().parquetFilterPushDown();
    ParquetFileReader file = open(spec, shape, split, filters && !shape.onlyAsksForValues);
    try {
      if (!shape.isOf(file.getFileMetaData())) {
        throw new IOException("a file that is not made like the others of its commit");
      }
      if (filters && shape.onlyAsksForValues && !shape.filtersNothing(file.getRowGroups())) {
        file.close();
        file = open(spec, shape, split, true);
      }
      MessageType stored = columns(file.getFileMetaData().getSchema(), shape);
      if (stored == null || !isOfOurCalendar(file.getFileMetaData().getKeyValueMetaData()) || !tellsPositions(file)) {
        file.close();
        return null;
      }
      file.setRequestedSchema(stored);
      if (file.getFilteredRecordCount() > Integer.MAX_VALUE) {
        file.close();
        return null;
      }
      return new PagesReader(spec, shape, file, stored);
    } catch (IOException | RuntimeException e) {
      file.close();
      throw e;
    }
  }

  private static ParquetFileReader open(ReadSpec spec, FileShape shape, HeadwaterBatch.Split split, boolean filtered)
      throws IOException {
    Configuration hadoop = spec.hadoopConf();
    Path path = new Path(split.task.file());
    ParquetReadOptions.Builder options =
        HadoopReadOptions.builder(hadoop, path).withRange(split.start, split.start + split.length);
    if (filtered) {
      options.withRecordFilter(SparkInternals.parquetFilter(spec.sqlConf(), shape.schema, spec.caseSensitive, shape.filters));
    } else {
      options.withRecordFilter(FilterCompat.NOOP);
    }
    return ParquetFileReader.open(HadoopInputFile.fromPath(path, hadoop), options.build());
  }

  private static boolean isOfOurCalendar(Map<String, String> told) {
    String spark = told.get(WRITTEN_BY_SPARK);
    return (spark == null || spark.compareTo(OF_THAT_CALENDAR) >= 0) && OTHER_CALENDAR.stream().noneMatch(told::containsKey);
  }

  private static boolean tellsPositions(ParquetFileReader file) {
    return file.getRowGroups().stream().allMatch(rowGroup -> rowGroup.getRowIndexOffset() >= 0);
  }

  private PagesReader(ReadSpec spec, FileShape shape, ParquetFileReader file, MessageType stored) throws IOException {
    this.file = file;
    this.stored = stored;
    this.conf = spec.sqlConf();
    this.texts = new TextColumn[stored.getFieldCount()];
    boolean isWhole = file.getFilteredRecordCount() == rows(file.getRowGroups());
    Map<String, Set<Encoding>> all = isWhole ? encodings(file.getRowGroups()) : Map.of();
    List<Type> asGiven = new ArrayList<>();
    for (int i = 0; i < texts.length; i++) {
      Type type = stored.getType(i);
      DataType wanted = shape.physical.fields()[i].dataType();
      Set<Encoding> encodings = all.get(type.getName());
      if (encodings != null && TextColumn.isText(type, wanted) && TextColumn.isPlain(encodings)) {
        texts[i] = new TextColumn(stored.getColumnDescription(new String[] {type.getName()}), vector(wanted));
      } else if (encodings != null && DecimalPages.isBytes(type) && DecimalPages.canRewrite(encodings)) {
        asGiven.add(DecimalPages.asNumber(type));
      } else {
        asGiven.add(type);
      }
    }
    this.given = new MessageType(stored.getName(), asGiven);
    this.ahead = isWhole && spec.limit != null ? firstRows(spec.limit) : 0;
    this.others =
        ahead > 0
            ? SparkInternals.pagesReader(conf, given, ahead, this::firstPages)
            : SparkInternals.pagesReader(conf, given, (int) file.getFilteredRecordCount(), this::nextRowGroup);
  }

  private WritableColumnVector vector(DataType type) {
    int rows = conf.parquetVectorizedReaderBatchSize();
    return conf.offHeapColumnVectorEnabled() ? new OffHeapColumnVector(rows, type) : new OnHeapColumnVector(rows, type);
  }

  /**
   * How many rows to read first where a query wants so few; 0 where that is not worth it or cannot be done.
   *
   * <p>It is more than the limit, for merging may drop some of them, and whole batches, so that the others can be
   * read behind them.
   */
  private int firstRows(int limit) {
    if (file.getRowGroups().isEmpty()) {
      return 0;
    }
    BlockMetaData rowGroup = file.getRowGroups().get(0);
    int size = conf.parquetVectorizedReaderBatchSize();
    long rows = (2L * limit / size + 1) * size;
    boolean hasIndex = rowGroup.getColumns().stream().allMatch(column -> column.getOffsetIndexReference() != null);
    return rows < rowGroup.getRowCount() / 2 && hasIndex ? (int) rows : 0;
  }

  /** Whether files of a schema are such that Spark's reader, given nothing but their pages, makes these columns of it. */
  static boolean fits(MessageType schema, FileShape shape) {
    MessageType stored = columns(schema, shape);
    return stored != null && SparkInternals.readsAs(stored, shape.physical);
  }

  private PageReadStore firstPages() throws IOException {
    return start(file.readFilteredRowGroup(0, RowRanges.createSingle(ahead)));
  }

  private PageReadStore nextRowGroup() throws IOException {
    PageReadStore pages = file.readNextFilteredRowGroup();
    return pages == null ? null : start(pages);
  }

  private PageReadStore start(PageReadStore pages) throws IOException {
    groupStart = pages.getRowIndexOffset().orElseThrow(() -> new IOException("a row group that does not tell where it begins"));
    groupRows = 0;
    groupIndexes = ahead > 0 ? null : pages.getRowIndexes().orElse(null);
    for (TextColumn text : texts) {
      if (text != null) {
        text.start(pages);
      }
    }
    return new DecimalPages(pages, stored, given);
  }

  @Override
  public boolean next() throws IOException {
    if (readBatch()) {
      return true;
    }
    return ahead > 0 && readBehind();
  }

  private boolean readBatch() throws IOException {
    if (!others.next()) {
      return false;
    }
    int rows = others.get().numRows();
    for (TextColumn text : texts) {
      if (text != null) {
        text.read(rows);
      }
    }
    if (groupIndexes == null) {
      first = groupStart + groupRows;
      groupRows += rows;
    } else {
      first = -1;
      positions = positions.length < rows ? new long[rows] : positions;
      for (int row = 0; row < rows; row++) {
        positions[row] = groupStart + groupIndexes.nextLong();
      }
    }
    return true;
  }

  /** The first rows were not enough: all are read, and those left out that were given before. */
  private boolean readBehind() throws IOException {
    int skipped = ahead;
    ahead = 0;
    others.close();
    others = SparkInternals.pagesReader(conf, given, (int) rows(file.getRowGroups()), this::nextRowGroup);
    while (skipped > 0) {
      if (!readBatch()) {
        return false;
      }
      skipped -= others.get().numRows();
    }
    return readBatch();
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

  /** The position of the batch's first row, behind which the others follow; -1 where {@link #positions} tells. */
  long firstPosition() {
    return first;
  }

  long[] positions() {
    return positions;
  }

  /** How many rows the split has, whether the filters leave them or not. */
  long rowsOfSplit() {
    return rows(file.getFooter().getBlocks());
  }

  @Override
  public void close() throws IOException {
    try (Closeable opened = file; Closeable reader = others) {
      for (TextColumn text : texts) {
        if (text != null) {
          text.close();
        }
      }
    }
  }

  private static long rows(List<BlockMetaData> rowGroups) {
    return rowGroups.stream().mapToLong(BlockMetaData::getRowCount).sum();
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

  /** The encodings of each column that is no part of another. */
  private static Map<String, Set<Encoding>> encodings(List<BlockMetaData> rowGroups) {
    Map<String, Set<Encoding>> found = new HashMap<>();
    for (BlockMetaData rowGroup : rowGroups) {
      for (ColumnChunkMetaData chunk : rowGroup.getColumns()) {
        if (chunk.getPath().size() == 1) {
          found.computeIfAbsent(chunk.getPath().toDotString(), name -> EnumSet.noneOf(Encoding.class))
              .addAll(chunk.getEncodings());
        }
      }
    }
    return found;
  }
}
