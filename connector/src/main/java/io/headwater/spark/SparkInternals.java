package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.util.Arrays;
import java.util.Collection;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression$;
import org.apache.spark.sql.catalyst.util.RebaseDateTime;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFilters;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.Dictionary;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.internal.LegacyBehaviorPolicy;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Map;
import scala.reflect.ClassTag$;

/**
 * What the connector takes from inside Spark, in one place. These calls are written the same for every
 * supported version; what is not stands in {@link Compat}.
 */
final class SparkInternals {
  private static final Field DICTIONARY = dictionaryField();
  /**
   * Knows no resource. Where Spark's reader is given pages, it makes a Hadoop configuration of its own to put five
   * settings into, and parses Hadoop's defaults for it: some milliseconds for each file. It finds none by this one.
   */
  private static final ClassLoader NOTHING =
      new ClassLoader(null) {
        @Override
        public URL getResource(String name) {
          return null;
        }
      };

  private SparkInternals() {}

  static Configuration hadoopConf() {
    return Compat.session().sessionState().newHadoopConf();
  }

  /** How many tasks Spark runs at once by default. */
  static int parallelism() {
    return Compat.session().leafNodeDefaultParallelism();
  }

  static <T> Broadcast<T> broadcast(T value, Class<T> type) {
    return context().broadcast(value, ClassTag$.MODULE$.apply(type));
  }

  static SparkContext context() {
    return Compat.session().sparkContext();
  }

  /**
   * Predicates in the older form that Parquet's filters are made of, without those that have none.
   *
   * <p>Of an OR of which one side has no such form Spark makes the other side alone, and that would leave out rows
   * that match. So a predicate is only handed to it where each of its parts has one.
   *
   * <p>Dates and timestamps are those of {@code java.time}: {@code java.sql} counts old ones by another calendar, and
   * moves some of them on the way.
   */
  static Filter[] v1Filters(Collection<Predicate> predicates) {
    SQLConf conf = Compat.conf().clone();
    conf.setConfString("spark.sql.datetime.java8API.enabled", "true");
    return SQLConf.withExistingConf(
        conf, () -> PredicateUtils.toV1(predicates.stream().filter(SparkInternals::hasV1Form).toArray(Predicate[]::new)));
  }

  private static boolean hasV1Form(Predicate predicate) {
    for (Expression part : predicate.children()) {
      if (part instanceof Predicate && !hasV1Form((Predicate) part)) {
        return false;
      }
    }
    return PredicateUtils.toV1(predicate).isDefined();
  }

  /** Spark's own vectorized reader over a range of a file. */
  static PartitionReader<ColumnarBatch> parquetReader(
      SQLConf conf,
      Broadcast<SerializableConfiguration> hadoopConf,
      StructType columns,
      Filter[] filters,
      Path path,
      long start,
      long length,
      long size) {
    // Calendars: the tables' dates are proleptic Gregorian always, whatever is set for other files.
    // A missing or broken file is an error always.
    Map<String, String> options = Map$.MODULE$.<String, String>empty();
    options = options.updated("datetimeRebaseMode", "CORRECTED");
    options = options.updated("int96RebaseMode", "CORRECTED");
    options = options.updated("ignoreMissingFiles", "false");
    options = options.updated("ignoreCorruptFiles", "false");
    ParquetPartitionReaderFactory factory =
        new ParquetPartitionReaderFactory(
            conf, hadoopConf, columns, columns, new StructType(), filters, Option.empty(), new ParquetOptions(options, conf));
    return factory.buildColumnarReader(
        new PartitionedFile(
            InternalRow.empty(), SparkPath.fromPath(path), start, length, new String[0], 0, size,
            Map$.MODULE$.<String, Object>empty()));
  }

  interface RowGroups {
    PageReadStore next() throws IOException;
  }

  /** Whether Spark's reader, given nothing but a file's schema, makes these columns of it. */
  static boolean readsAs(MessageType schema, StructType columns) {
    Configuration conf = new Configuration(false);
    conf.setBoolean("spark.sql.parquet.binaryAsString", false);
    conf.setBoolean("spark.sql.parquet.int96AsTimestamp", false);
    conf.setBoolean("spark.sql.caseSensitive", false);
    conf.setBoolean("spark.sql.parquet.inferTimestampNTZ.enabled", false);
    conf.setBoolean("spark.sql.legacy.parquet.nanosAsLong", false);
    StructType found;
    try {
      found = new ParquetToSparkSchemaConverter(conf).convert(schema);
    } catch (Exception e) {
      // A type that it does not know by itself.
      return false;
    }
    return found.asNullable().equals(columns.asNullable());
  }

  /** The dictionary that a vector's values lie in. */
  static Dictionary dictionary(WritableColumnVector vector) {
    try {
      return (Dictionary) DICTIONARY.get(vector);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark's column vectors are not as the connector knows them", e);
    }
  }

  private static Field dictionaryField() {
    try {
      Field field = WritableColumnVector.class.getDeclaredField("dictionary");
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark's column vectors are not as the connector knows them", e);
    }
  }

  /** What filters mean to Parquet: which row groups and pages cannot have a match. */
  static FilterCompat.Filter parquetFilter(SQLConf conf, MessageType schema, boolean caseSensitive, Filter[] filters) {
    Object[] given = {
      schema, conf.parquetFilterPushDownDate(), conf.parquetFilterPushDownTimestamp(), conf.parquetFilterPushDownDecimal(),
      conf.parquetFilterPushDownStringPredicate(), conf.parquetFilterPushDownInFilterThreshold(), caseSensitive,
      // Calendars as in the reader below.
      new RebaseDateTime.RebaseSpec(LegacyBehaviorPolicy.CORRECTED(), Option.empty()), Option.empty()
    };
    Constructor<?> made = ParquetFilters.class.getConstructors()[0];
    ParquetFilters converter;
    try {
      // Newer ones take one thing more, which may be left out.
      converter = (ParquetFilters) made.newInstance(Arrays.copyOf(given, made.getParameterCount()));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this Spark's ParquetFilters is not as the connector knows it", e);
    }
    FilterPredicate all = null;
    for (Filter filter : filters) {
      Option<FilterPredicate> one = converter.createFilter(filter);
      if (one.isDefined()) {
        all = all == null ? one.get() : FilterApi.and(all, one.get());
      }
    }
    return all == null ? FilterCompat.NOOP : FilterCompat.get(all);
  }

  /** Spark's own vectorized reader over pages that we hand it; closing the file is not its affair. */
  static PartitionReader<ColumnarBatch> pagesReader(
      SQLConf conf, MessageType schema, int rows, RowGroups rowGroups) throws IOException {
    VectorizedParquetRecordReader reader =
        new VectorizedParquetRecordReader(
            null, "CORRECTED", "", "CORRECTED", "", conf.offHeapColumnVectorEnabled(),
            conf.parquetVectorizedReaderBatchSize());
    for (Method method : VectorizedParquetRecordReader.class.getMethods()) {
      Class<?>[] types = method.getParameterTypes();
      if (method.getName().equals("initialize") && types.length == 4 && types[0] == MessageType.class) {
        // The interface is Spark's own affair, so only a proxy can implement it.
        InvocationHandler calls =
            (proxy, called, given) -> called.getName().equals("readNextRowGroup") ? rowGroups.next() : null;
        Object pages = Proxy.newProxyInstance(types[2].getClassLoader(), new Class<?>[] {types[2]}, calls);
        Thread thread = Thread.currentThread();
        ClassLoader loader = thread.getContextClassLoader();
        thread.setContextClassLoader(NOTHING);
        try {
          method.invoke(reader, schema, schema, pages, rows);
        } catch (ReflectiveOperationException e) {
          throw new IllegalStateException("this Spark's Parquet reader is not as the connector knows it", e);
        } finally {
          thread.setContextClassLoader(loader);
        }
        reader.initBatch(new StructType(), InternalRow.empty());
        reader.enableReturningBatches();
        return new PartitionReader<>() {
          @Override
          public boolean next() throws IOException {
            return reader.nextKeyValue();
          }

          @Override
          public ColumnarBatch get() {
            return (ColumnarBatch) reader.getCurrentValue();
          }

          @Override
          public void close() throws IOException {
            reader.close();
          }
        };
      }
    }
    throw new IllegalStateException("this Spark's Parquet reader has no way to be given pages");
  }

  /** The plan of an overwrite of a whole table. Its maker has a flag for schema evolution more from Spark 4.2 on. */
  static LogicalPlan overwriteAll(NamedRelation table, LogicalPlan query, Map<String, String> options) {
    for (Method method : OverwriteByExpression$.class.getMethods()) {
      if (method.getName().equals("byPosition")) {
        Object[] given = {table, query, Literal$.MODULE$.TrueLiteral(), options, false};
        try {
          return (LogicalPlan)
              method.invoke(OverwriteByExpression$.MODULE$, Arrays.copyOf(given, method.getParameterCount()));
        } catch (ReflectiveOperationException e) {
          throw new IllegalStateException("this Spark's OverwriteByExpression is not as the connector knows it", e);
        }
      }
    }
    throw new IllegalStateException("this Spark has no OverwriteByExpression.byPosition");
  }

  /** An error that PySpark shows by its message, without a page of Java frames. */
  static RuntimeException analysisError(String message, Throwable cause) {
    return SparkInternals.<RuntimeException>unchecked(
        new AnalysisException(
            message, Option.empty(), Option.empty(), Option.apply(cause), Option.empty(),
            Map$.MODULE$.<String, String>empty(), new org.apache.spark.QueryContext[0]));
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
