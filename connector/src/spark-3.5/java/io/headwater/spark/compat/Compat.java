package io.headwater.spark.compat;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What differs between Spark versions; this one is for Spark 3.5. */
public final class Compat {
  private Compat() {}

  public static SparkSession session() {
    return SparkSession.active();
  }

  /** Spark 3.5 has no Python data sources to fall back to. */
  public static Table pythonTable(String shortName, CaseInsensitiveStringMap options) {
    throw new UnsupportedOperationException(
        "spark.headwater.read.use.dsv2=false needs Spark 4.0 or newer, which has Python data sources; this is Spark 3.5."
            + " Remove the setting, or set spark.headwater.read.reader=merge to have all rows merged in Python.");
  }
}
