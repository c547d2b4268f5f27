package io.headwater.spark.compat;

import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What differs between Spark versions; this one is for Spark 3.5. */
public final class Compat {
  private Compat() {}

  public static SparkSession session() {
    return SparkSession.active();
  }

  /**
   * The session's settings. In a thread that did not make the session, Spark 3.5 has none active while it looks for a
   * table, and would answer with the defaults of a session that is none.
   */
  public static SQLConf conf() {
    if (TaskContext.get() == null && SparkSession.getActiveSession().isEmpty()
        && SparkSession.getDefaultSession().isDefined()) {
      return SparkSession.getDefaultSession().get().sessionState().conf();
    }
    return SQLConf.get();
  }

  /** Spark 3.5 lets nobody look at a plan before it compares the columns of a write with the table's. */
  public static boolean injectEarly(SparkSessionExtensions extensions, Supplier<Rule<LogicalPlan>> rule) {
    return false;
  }

  /** Nor does it put nulls for columns that a write by name does not have, such as those that each write makes. */
  public static final boolean FILLS_COLUMNS = false;

  /** Spark 3.5 has no Python data sources to fall back to. */
  public static Table pythonTable(String shortName, CaseInsensitiveStringMap options) {
    throw new UnsupportedOperationException(
        "spark.headwater.read.use.dsv2=false needs Spark 4.0 or newer, which has Python data sources; this is Spark 3.5."
            + " Remove the setting, or set spark.headwater.read.reader=merge to have all rows merged in Python.");
  }
}
