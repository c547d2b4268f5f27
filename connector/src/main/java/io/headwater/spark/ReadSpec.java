package io.headwater.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/** What all tasks of a scan share; broadcast once. */
final class ReadSpec implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String[] SHIPPED = {
    "spark.sql.parquet.", "spark.sql.legacy.parquet.", "spark.sql.columnVector.", "spark.sql.caseSensitive",
    "spark.sql.session.timeZone", "spark.sql.optimizer.nestedSchemaPruning"
  };

  final String python;
  final String scanId;
  final byte[] scan;
  final String[] constants;
  final String[] milliseconds;
  final String[] partitionColumns;
  final StructType required;
  final StructType data;
  final StructType metadata;
  final Filter[] filters;
  final Integer limit;
  final boolean caseSensitive;
  final Broadcast<SerializableConfiguration> hadoop;
  private final Map<String, String> settings = new HashMap<>();
  private transient SQLConf sqlConf;

  ReadSpec(
      ScanPlan plan, StructType required, StructType data, StructType metadata, Filter[] filters, Integer limit) {
    this.python = Settings.python();
    this.scanId = plan.scanId;
    this.scan = plan.scan;
    this.constants = plan.constants;
    this.milliseconds = plan.milliseconds;
    this.partitionColumns = plan.partitionColumns;
    this.required = required;
    this.data = data;
    this.metadata = metadata;
    this.filters = filters;
    this.limit = limit;
    SQLConf conf = SQLConf.get();
    this.caseSensitive = conf.caseSensitiveAnalysis();
    scala.collection.Iterator<scala.Tuple2<String, String>> all = conf.getAllConfs().iterator();
    while (all.hasNext()) {
      scala.Tuple2<String, String> entry = all.next();
      for (String prefix : SHIPPED) {
        if (entry._1().startsWith(prefix)) {
          settings.put(entry._1(), entry._2());
        }
      }
    }
    // The scan is columnar always, whatever is set for other files; and the table's schema, not a
    // setting, says what a column is.
    settings.put("spark.sql.parquet.enableVectorizedReader", "true");
    settings.put("spark.sql.parquet.enableNestedColumnVectorizedReader", "true");
    settings.put("spark.sql.parquet.binaryAsString", "false");
    settings.put("spark.sql.parquet.int96AsTimestamp", "true");
    settings.put("spark.sql.parquet.fieldId.read.enabled", "false");
    settings.put("spark.sql.session.timeZone", conf.sessionLocalTimeZone());
    Configuration hadoopConf = SparkInternals.hadoopConf();
    hadoopConf.set("parquet.read.support.class",
        "org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport");
    hadoopConf.set("spark.sql.session.timeZone", conf.sessionLocalTimeZone());
    hadoopConf.setBoolean("spark.sql.caseSensitive", caseSensitive);
    hadoopConf.setBoolean("spark.sql.optimizer.nestedSchemaPruning.enabled", true);
    hadoopConf.setBoolean("spark.sql.parquet.binaryAsString", false);
    hadoopConf.setBoolean("spark.sql.parquet.int96AsTimestamp", true);
    hadoopConf.setBoolean("spark.sql.parquet.inferTimestampNTZ.enabled", true);
    hadoopConf.setBoolean("spark.sql.legacy.parquet.nanosAsLong", false);
    hadoopConf.setBoolean("spark.sql.parquet.fieldId.read.enabled", false);
    this.hadoop = SharedConf.broadcast(hadoopConf);
  }

  Configuration hadoopConf() {
    return hadoop.value().value();
  }

  /** The driver's Parquet settings, as an executor has no session to ask. */
  synchronized SQLConf sqlConf() {
    if (sqlConf == null) {
      SQLConf conf = new SQLConf();
      settings.forEach(conf::setConfString);
      sqlConf = conf;
    }
    return sqlConf;
  }
}
