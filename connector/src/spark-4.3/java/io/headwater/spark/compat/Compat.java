package io.headwater.spark.compat;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag$;

/** What differs between Spark versions; this one is for Spark 4.3. */
public final class Compat {
  private Compat() {}

  private static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  public static Configuration hadoopConf() {
    return session().sessionState().newHadoopConf();
  }

  /** How many tasks Spark runs at once by default. */
  public static int parallelism() {
    return session().leafNodeDefaultParallelism();
  }

  public static <T> Broadcast<T> broadcast(T value, Class<T> type) {
    return session().sparkContext().broadcast(value, ClassTag$.MODULE$.apply(type));
  }

  public static Filter[] v1Filters(Predicate[] predicates) {
    return PredicateUtils.toV1(predicates);
  }

  /** Spark's own vectorized reader over a range of a file. */
  public static PartitionReader<ColumnarBatch> parquetReader(
      SQLConf conf,
      Broadcast<SerializableConfiguration> hadoopConf,
      StructType columns,
      Filter[] filters,
      Path path,
      long start,
      long length,
      long size,
      long modified) {
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
            InternalRow.empty(), SparkPath.fromPath(path), start, length, new String[0], modified, size,
            Map$.MODULE$.<String, Object>empty()));
  }

  /** An error that PySpark shows by its message, without a page of Java frames. */
  public static RuntimeException analysisError(String message, Throwable cause) {
    return Compat.<RuntimeException>unchecked(
        new AnalysisException(
            message, Option.empty(), Option.empty(), Option.apply(cause), Option.empty(),
            Map$.MODULE$.<String, String>empty(), new org.apache.spark.QueryContext[0]));
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  /** A table of a data source that is registered in Python. */
  public static Table pythonTable(String shortName, CaseInsensitiveStringMap options) {
    if (!session().sessionState().dataSourceManager().dataSourceExists(shortName)) {
      throw new IllegalStateException(
          "spark.headwater.read.use.dsv2=false, but the Python data source '" + shortName + "' is not registered in this"
              + " session: make the session with headwater.configure(), or call headwater.spark.register_fallback(spark).");
    }
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(shortName);
    return source.getTable(source.inferSchema(options), new Transform[0], options.asCaseSensitiveMap());
  }
}
