package io.headwater.spark;

import java.util.Set;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;

/**
 * Filters on columns that were widened since a file was written.
 *
 * <p>A whole number compares alike in 32 and in 64 bits, as long as what it is compared with fits the
 * file's 32: Spark 3.5.0 cuts it off otherwise (SPARK-46092), and would skip rows that match; later ones
 * look at it themselves.
 */
final class NarrowFilters {
  private NarrowFilters() {}

  /** Whether a column is stored as a whole number of up to 32 bits and read as a longer one. */
  static boolean isNarrower(DataType stored, DataType read) {
    boolean small = stored instanceof ByteType || stored instanceof ShortType || stored instanceof IntegerType;
    return small && (read instanceof ShortType || read instanceof IntegerType || read instanceof LongType);
  }

  /** Whether a filter means the same for the narrower columns as for the wider ones that it was written for. */
  static boolean mayPush(Filter filter, Set<String> narrow) {
    boolean concerned = false;
    for (String reference : filter.references()) {
      concerned |= narrow.contains(reference);
    }
    return !concerned || fits(filter);
  }

  private static boolean fits(Filter filter) {
    if (filter instanceof And) {
      return fits(((And) filter).left()) && fits(((And) filter).right());
    } else if (filter instanceof Or) {
      return fits(((Or) filter).left()) && fits(((Or) filter).right());
    } else if (filter instanceof Not) {
      return fits(((Not) filter).child());
    } else if (filter instanceof EqualTo) {
      return fits(((EqualTo) filter).value());
    } else if (filter instanceof EqualNullSafe) {
      return fits(((EqualNullSafe) filter).value());
    } else if (filter instanceof LessThan) {
      return fits(((LessThan) filter).value());
    } else if (filter instanceof LessThanOrEqual) {
      return fits(((LessThanOrEqual) filter).value());
    } else if (filter instanceof GreaterThan) {
      return fits(((GreaterThan) filter).value());
    } else if (filter instanceof GreaterThanOrEqual) {
      return fits(((GreaterThanOrEqual) filter).value());
    } else if (filter instanceof In) {
      for (Object value : ((In) filter).values()) {
        if (!fits(value)) {
          return false;
        }
      }
      return true;
    }
    return filter instanceof IsNull || filter instanceof IsNotNull;
  }

  private static boolean fits(Object value) {
    if (value instanceof Long) {
      return (Long) value == ((Long) value).intValue();
    }
    return value == null || value instanceof Integer || value instanceof Short || value instanceof Byte;
  }
}
