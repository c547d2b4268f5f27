package io.headwater.spark;

import java.time.Instant;
import java.time.LocalDateTime;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;

/**
 * Filters on times that a file stores in milliseconds.
 *
 * <p>Spark cuts a literal off to the file's unit, so that {@code at < 00:00:00.0005} becomes {@code at < 00:00:00} and
 * leaves out the rows of that very millisecond.
 */
final class MillisecondFilters {
  private static final int MILLISECOND = 1_000_000;

  private MillisecondFilters() {}

  /** Whether a filter means in the file what it means in the table. */
  static boolean mayPush(Filter filter, MessageType schema) {
    if (isWhole(filter)) {
      return true;
    }
    for (String reference : filter.references()) {
      for (Type column : schema.getFields()) {
        // Of fields in structs nothing is looked up: filters with such a literal on them are not worth it.
        if (reference.contains(".") || (column.getName().equalsIgnoreCase(reference.replace("`", "")) && isInMilliseconds(column))) {
          return false;
        }
      }
    }
    return true;
  }

  private static boolean isInMilliseconds(Type column) {
    LogicalTypeAnnotation type = column.getLogicalTypeAnnotation();
    return type instanceof TimestampLogicalTypeAnnotation
        && ((TimestampLogicalTypeAnnotation) type).getUnit() == TimeUnit.MILLIS;
  }

  /** Whether no time in a filter is finer than a millisecond. */
  private static boolean isWhole(Filter filter) {
    if (filter instanceof And) {
      return isWhole(((And) filter).left()) && isWhole(((And) filter).right());
    } else if (filter instanceof Or) {
      return isWhole(((Or) filter).left()) && isWhole(((Or) filter).right());
    } else if (filter instanceof Not) {
      return isWhole(((Not) filter).child());
    } else if (filter instanceof EqualTo) {
      return isWhole(((EqualTo) filter).value());
    } else if (filter instanceof EqualNullSafe) {
      return isWhole(((EqualNullSafe) filter).value());
    } else if (filter instanceof LessThan) {
      return isWhole(((LessThan) filter).value());
    } else if (filter instanceof LessThanOrEqual) {
      return isWhole(((LessThanOrEqual) filter).value());
    } else if (filter instanceof GreaterThan) {
      return isWhole(((GreaterThan) filter).value());
    } else if (filter instanceof GreaterThanOrEqual) {
      return isWhole(((GreaterThanOrEqual) filter).value());
    } else if (filter instanceof In) {
      for (Object value : ((In) filter).values()) {
        if (!isWhole(value)) {
          return false;
        }
      }
    }
    return true;
  }

  private static boolean isWhole(Object value) {
    if (value instanceof Instant) {
      return ((Instant) value).getNano() % MILLISECOND == 0;
    }
    return !(value instanceof LocalDateTime) || ((LocalDateTime) value).getNano() % MILLISECOND == 0;
  }
}
