package io.headwater.spark.compat;

import java.util.function.Supplier;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What differs between Spark versions; this one is for Spark 4, whose minor versions do not differ here. */
public final class Compat {
  private Compat() {}

  /** The session with its state, which Spark Connect's has not. */
  public static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  /** The session's settings, in whatever thread. */
  public static SQLConf conf() {
    return SQLConf.get();
  }

  /** Has a rule see plans before the columns of a write are compared with the table's. */
  public static boolean injectEarly(SparkSessionExtensions extensions, Supplier<Rule<LogicalPlan>> rule) {
    extensions.injectHintResolutionRule(session -> rule.get());
    return true;
  }

  /** Whether a write by name gets nulls for columns that it does not have: seen with 4.3, and not with 4.0. */
  public static final boolean FILLS_COLUMNS =
      !org.apache.spark.package$.MODULE$.SPARK_VERSION().matches("4\\.[012]\\..*");

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
