package io.headwater.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/**
 * How files of one schema answer the columns of one scan ("The file decides" in
 * docs/spark-connector.md).
 *
 * <p>Spark's reader trusts the schema it is given. So the footer is looked at first: a column is
 * read as it is stored, and where storage and table differ by more than a wider number the file is
 * left to the sidecar. The verdict holds for the files with the same key that are made alike; nearly all are, but
 * clustering by Hudi that copies pages leaves files of several schemas in one commit.
 */
final class FileShape {
  static final String ROW_INDEX = "_tmp_metadata_row_index";
  static final int CONSTANT = -2;
  static final int MISSING = -1;
  private static final int VERDICTS_KEPT = 128;
  private static final Map<String, FileShape> VERDICTS =
      Collections.synchronizedMap(
          new LinkedHashMap<>(64, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, FileShape> eldest) {
              return size() > VERDICTS_KEPT;
            }
          });

  /** Why the sidecar must read such files, or null where Spark's reader can. */
  final String unreadable;
  /** The columns to ask of Spark's reader, named and typed as stored. */
  final StructType physical;
  /** For each data column of the scan: its place in {@link #physical}, or CONSTANT, or MISSING. */
  final int[] sources;
  /** Filters that mean in the file what they mean in the table. */
  final Filter[] filters;
  /** The schema that the file itself tells. */
  final MessageType schema;
  /** Whether {@link PagesReader} may read such files. */
  final boolean fitsPages;
  /** Whether all filters ask for nothing but a value: any join has such ones on its keys. */
  final boolean onlyAsksForValues;

  private final ReadSpec spec;
  /** The file that was looked at. */
  private final String file;
  private final boolean countsNaN;
  private Broadcast<SerializableConfiguration> plain;
  private Broadcast<SerializableConfiguration> indexed;

  /** The shape of a file; where {@link PagesReader} is to open it, that of another one may come, and is compared there. */
  static FileShape of(ReadSpec spec, SliceTask task) throws IOException {
    String key = spec.scanId + '\n' + (task.way.schemaKey == null ? task.file() : task.way.schemaKey);
    FileShape shape = VERDICTS.get(key);
    if (shape == null) {
      shape = new FileShape(spec, task, readFooter(task, spec.hadoopConf()));
      VERDICTS.put(key, shape);
      return shape;
    }
    boolean isComparedLater = shape.unreadable == null && shape.fitsPages && !ParquetSplitReader.showsPositions(spec);
    return isComparedLater || shape.file.equals(task.file()) ? shape : shape.orOwn(task);
  }

  /** This one where a file is made like the one that was looked at, else that file's own. */
  FileShape orOwn(SliceTask task) throws IOException {
    FileMetaData footer = readFooter(task, spec.hadoopConf());
    if (isOf(footer)) {
      return this;
    }
    String key = spec.scanId + '\n' + task.file();
    FileShape own = VERDICTS.get(key);
    if (own == null) {
      own = new FileShape(spec, task, footer);
      VERDICTS.put(key, own);
    }
    return own;
  }

  /** Whether what was found out holds for a file with such a footer. */
  boolean isOf(FileMetaData footer) {
    return schema.equals(footer.getSchema()) && countsNaN == FloatingFilters.countsNaN(footer);
  }

  private FileShape(ReadSpec spec, SliceTask task, FileMetaData footer) throws IOException {
    this.spec = spec;
    this.file = task.file();
    Judge judge = new Judge(spec, task);
    StructField[] fields = spec.data.fields();
    Set<String> constants = new HashSet<>(Arrays.asList(spec.constants));
    List<StructField> stored = new ArrayList<>();
    Set<String> asStored = new HashSet<>();
    Set<String> narrow = new HashSet<>();
    this.sources = new int[fields.length];
    String reason = null;
    this.schema = footer.getSchema();
    for (int i = 0; i < fields.length && reason == null; i++) {
      if (constants.contains(fields[i].name())) {
        sources[i] = CONSTANT;
        continue;
      }
      StructField column = judge.column(schema, fields[i]);
      if (judge.reason != null) {
        reason = judge.reason;
      } else if (column == null) {
        sources[i] = MISSING;
      } else {
        sources[i] = stored.size();
        stored.add(column);
        if (column.name().equalsIgnoreCase(fields[i].name())) {
          if (column.dataType().equals(fields[i].dataType())) {
            asStored.add(fields[i].name());
          } else if (NarrowFilters.isNarrower(column.dataType(), fields[i].dataType())) {
            asStored.add(fields[i].name());
            narrow.add(fields[i].name());
          }
        }
      }
    }
    StructType read = new StructType(stored.toArray(new StructField[0]));
    if (reason == null && !ParquetUtils.isBatchReadSupportedForSchema(spec.sqlConf(), read)) {
      reason = "Spark's vectorized reader does not know a type of " + read.catalogString();
    }
    this.physical = read;
    this.unreadable = reason;
    this.countsNaN = FloatingFilters.countsNaN(footer);
    List<Filter> kept = new ArrayList<>();
    for (Filter filter : spec.filters) {
      if (mayPush(filter, asStored, fields, judge)
          && NarrowFilters.mayPush(filter, narrow)
          && FloatingFilters.mayPush(filter, countsNaN)
          && MillisecondFilters.mayPush(filter, schema)) {
        kept.add(filter);
      }
    }
    this.filters = kept.toArray(new Filter[0]);
    this.onlyAsksForValues = filters.length > 0 && kept.stream().allMatch(IsNotNull.class::isInstance);
    this.fitsPages = reason == null && PagesReader.fits(schema, this);
  }

  /** Whether filters that only ask for values leave no row of these row groups out, since none of them lacks one. */
  boolean filtersNothing(List<BlockMetaData> rowGroups) {
    for (Filter filter : filters) {
      String column = ((IsNotNull) filter).attribute();
      for (BlockMetaData rowGroup : rowGroups) {
        if (!rowGroup.getColumns().stream().anyMatch(chunk -> isWithoutNulls(chunk, column))) {
          return false;
        }
      }
    }
    return onlyAsksForValues;
  }

  private static boolean isWithoutNulls(ColumnChunkMetaData chunk, String column) {
    Statistics<?> statistics = chunk.getStatistics();
    return chunk.getPath().size() == 1 && chunk.getPath().toArray()[0].equalsIgnoreCase(column)
        && statistics != null && statistics.isNumNullsSet() && statistics.getNumNulls() == 0;
  }

  /**
   * Columns that are not read are not judged, so a filter on one is not pushed. Spark reads the
   * columns of its filters, so this costs nothing.
   */
  private static boolean mayPush(Filter filter, Set<String> asStored, StructField[] fields, Judge judge) {
    for (String reference : filter.references()) {
      boolean known = false;
      for (StructField field : fields) {
        String name = field.name();
        String quoted = name.indexOf('.') >= 0 || name.indexOf('`') >= 0 ? "`" + name.replace("`", "``") + "`" : name;
        known |= asStored.contains(name) && (reference.equals(quoted) || reference.startsWith(quoted + "."));
      }
      if (!known || judge.renamed) {
        return false;
      }
    }
    return true;
  }

  private static FileMetaData readFooter(SliceTask task, Configuration conf) throws IOException {
    ParquetReadOptions options =
        HadoopReadOptions.builder(conf).withMetadataFilter(ParquetMetadataConverter.SKIP_ROW_GROUPS).build();
    try (ParquetFileReader reader =
        ParquetFileReader.open(HadoopInputFile.fromPath(new Path(task.file()), conf), options)) {
      return reader.getFileMetaData();
    } catch (IOException | RuntimeException e) {
      throw ParquetSplitReader.explain(task, e);
    }
  }

  /** The Hadoop conf for Spark's reader, with this shape's columns in it, made once. */
  synchronized Broadcast<SerializableConfiguration> conf(boolean withRowIndex) {
    Broadcast<SerializableConfiguration> made = withRowIndex ? indexed : plain;
    if (made == null) {
      String json = columns(withRowIndex).json();
      // Spark's reader copies what is no JobConf for each file, and writes the filters of each into it.
      Configuration conf = filters.length == 0 ? new JobConf(spec.hadoopConf()) : new Configuration(spec.hadoopConf());
      conf.set("org.apache.spark.sql.parquet.row.requested_schema", json);
      conf.set("org.apache.spark.sql.parquet.row.attributes", json);
      made = new LocalBroadcast(new SerializableConfiguration(conf));
      if (withRowIndex) {
        indexed = made;
      } else {
        plain = made;
      }
    }
    return made;
  }

  StructType columns(boolean withRowIndex) {
    return withRowIndex ? physical.add(ROW_INDEX, DataTypes.LongType) : physical;
  }

  /** Compares one file's columns with the scan's. */
  private static final class Judge {
    private final boolean caseSensitive;
    private final Map<List<String>, SliceTask.Rename> renames = new HashMap<>();
    private final Set<String> milliseconds;
    private final ParquetToSparkSchemaConverter converter;
    private final boolean renamed;
    private String reason;

    private Judge(ReadSpec spec, SliceTask task) {
      this.caseSensitive = spec.caseSensitive;
      this.milliseconds = Set.of(spec.milliseconds);
      this.converter = new ParquetToSparkSchemaConverter(spec.hadoopConf());
      for (SliceTask.Rename rename : task.way.renames) {
        renames.put(Arrays.asList(rename.column), rename);
      }
      this.renamed = !renames.isEmpty();
    }

    /** The stored column to ask for, or null where the file has none; {@link #reason} where it cannot be read. */
    private StructField column(MessageType schema, StructField wanted) {
      String name = fileName(List.of(wanted.name()), wanted.name());
      if (name == null) {
        return null;
      }
      Type found = null;
      for (Type type : schema.getFields()) {
        if (same(type.getName(), name)) {
          if (found != null) {
            reason = "the file has two columns named " + name + " but for case";
            return null;
          }
          found = type;
        }
      }
      if (found == null) {
        return null;
      }
      DataType stored;
      try {
        stored = converter.convert(new MessageType("column", found)).fields()[0].dataType();
      } catch (Exception e) {
        reason = "column " + wanted.name() + ": Spark's reader does not know its stored type (" + e.getMessage() + ")";
        return null;
      }
      if (hasSmallDecimalsOfBytes(found)) {
        reason = "column " + wanted.name() + ": Spark's vectorized reader does not know its decimals, which are bytes of any length";
        return null;
      }
      if (milliseconds.contains(wanted.name()) && hasMicroseconds(found)) {
        reason = "column " + wanted.name() + ": its times are called microseconds, and may count milliseconds as the table says";
        return null;
      }
      DataType read = reconcile(wanted.dataType(), stored, new ArrayList<>(List.of(wanted.name())), true);
      if (read == null) {
        if (reason == null) {
          reason = "column " + wanted.name() + " is stored as " + stored.catalogString() + ", the table says "
              + wanted.dataType().catalogString();
        }
        return null;
      }
      return DataTypes.createStructField(found.getName(), read, true);
    }

    /** Avro's other form of decimals: Spark's reader fails on them, but for those of more than 18 digits, which are bytes to it. */
    private static boolean hasSmallDecimalsOfBytes(Type type) {
      if (!type.isPrimitive()) {
        return type.asGroupType().getFields().stream().anyMatch(Judge::hasSmallDecimalsOfBytes);
      }
      return type.asPrimitiveType().getPrimitiveTypeName() == PrimitiveTypeName.BINARY
          && type.getLogicalTypeAnnotation() instanceof DecimalLogicalTypeAnnotation
          && ((DecimalLogicalTypeAnnotation) type.getLogicalTypeAnnotation()).getPrecision() <= Decimal.MAX_LONG_DIGITS();
    }

    /** Releases of Hudi gave this label to columns of milliseconds. */
    private static boolean hasMicroseconds(Type type) {
      if (!type.isPrimitive()) {
        return type.asGroupType().getFields().stream().anyMatch(Judge::hasMicroseconds);
      }
      LogicalTypeAnnotation label = type.getLogicalTypeAnnotation();
      return label instanceof TimestampLogicalTypeAnnotation
          && ((TimestampLogicalTypeAnnotation) label).isAdjustedToUTC()
          && ((TimestampLogicalTypeAnnotation) label).getUnit() == TimeUnit.MICROS;
    }

    /** The type to read: as stored, pruned to what is wanted. Null where the two do not agree. */
    private DataType reconcile(DataType wanted, DataType stored, List<String> path, boolean mayWiden) {
      if (wanted instanceof StructType && stored instanceof StructType) {
        List<StructField> fields = new ArrayList<>();
        boolean any = false;
        for (StructField field : ((StructType) wanted).fields()) {
          List<String> inner = append(path, field.name());
          String name = fileName(inner, field.name());
          StructField match = null;
          if (name != null) {
            for (StructField candidate : ((StructType) stored).fields()) {
              if (same(candidate.name(), name)) {
                match = candidate;
              }
            }
          }
          if (match == null) {
            if (renames.containsKey(inner)) {
              reason = "field " + String.join(".", inner) + " was replaced since the file was written";
              return null;
            }
            // Spark's reader fills a field that the file lacks with null.
            fields.add(field);
            continue;
          }
          any = true;
          DataType type = reconcile(field.dataType(), match.dataType(), inner, false);
          if (type == null) {
            return null;
          }
          fields.add(DataTypes.createStructField(match.name(), type, true));
        }
        if (!any) {
          // With no stored field asked for, Spark cannot tell a null struct from an empty one.
          reason = "field " + String.join(".", path) + ": none of the fields asked for is in the file";
          return null;
        }
        return new StructType(fields.toArray(new StructField[0]));
      }
      if (wanted instanceof ArrayType && stored instanceof ArrayType) {
        DataType element =
            reconcile(((ArrayType) wanted).elementType(), ((ArrayType) stored).elementType(), append(path, "element"), false);
        return element == null ? null : DataTypes.createArrayType(element, true);
      }
      if (wanted instanceof MapType && stored instanceof MapType) {
        DataType key = reconcile(((MapType) wanted).keyType(), ((MapType) stored).keyType(), append(path, "key"), false);
        DataType value =
            reconcile(((MapType) wanted).valueType(), ((MapType) stored).valueType(), append(path, "value"), false);
        return key == null || value == null ? null : DataTypes.createMapType(key, value, true);
      }
      if (wanted.equals(stored) || (mayWiden && WidenedColumnVector.canWiden(stored, wanted))) {
        return stored;
      }
      return null;
    }

    private String fileName(List<String> path, String otherwise) {
      SliceTask.Rename rename = renames.get(path);
      return rename == null ? otherwise : rename.file;
    }

    private boolean same(String left, String right) {
      return caseSensitive ? left.equals(right) : left.equalsIgnoreCase(right);
    }

    private static List<String> append(List<String> path, String name) {
      List<String> longer = new ArrayList<>(path);
      longer.add(name);
      return longer;
    }
  }

  /** Spark's factory wants its conf broadcast; on an executor there is nothing left to send. */
  private static final class LocalBroadcast extends Broadcast<SerializableConfiguration> {
    private static final long serialVersionUID = 1L;
    private final transient SerializableConfiguration value;

    private LocalBroadcast(SerializableConfiguration value) {
      super(-1L, scala.reflect.ClassTag$.MODULE$.apply(SerializableConfiguration.class));
      this.value = value;
    }

    @Override
    public SerializableConfiguration getValue() {
      return value;
    }

    @Override
    public void doUnpersist(boolean blocking) {}

    @Override
    public void doDestroy(boolean blocking) {}
  }
}
