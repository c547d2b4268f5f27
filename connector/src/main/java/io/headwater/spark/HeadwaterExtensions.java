package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * {@code spark.sql.extensions=io.headwater.spark.HeadwaterExtensions}: what INSERT needs of Spark's analyzer
 * ({@link InsertRules}), and filters on partition columns that no scan builder is handed ({@link PartitionFilters}). Plans
 * without a table of ours are left as they are.
 */
public final class HeadwaterExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    Compat.injectEarly(extensions, InsertRules::new);
    extensions.injectResolutionRule(session -> new InsertRules());
    // After Spark has told the other side of a join what is known of its keys, and before scans are made: a filter that is
    // taken away too early would tell that side nothing.
    extensions.injectPreCBORule(session -> new PartitionFilters());
    return BoxedUnit.UNIT;
  }
}
