package io.headwater.spark;

import org.apache.parquet.SemanticVersion;
import org.apache.parquet.VersionParser;
import org.apache.parquet.hadoop.metadata.FileMetaData;
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
 * Filters on floats and doubles, of which Spark and Parquet think differently.
 *
 * <p>To Spark NaN is larger than any number and equal to itself. Most writers leave it out of a file's
 * statistics, so that a maximum says nothing about rows that hold NaN, and a filter that they match
 * would skip them. And to Spark 0.0 and -0.0 are equal, while a dictionary that has the one is searched for
 * the other in vain.
 */
final class FloatingFilters {
  /** Where files are put together from the pages of others, statistics and all: who wrote those, a line each. */
  private static final String WRITERS_OF_PAGES = "original.created.by";

  private FloatingFilters() {}

  /** Whether all who wrote the pages of a file let NaN count in its statistics. */
  static boolean countsNaN(FileMetaData footer) {
    String writers = footer.getKeyValueMetaData().get(WRITERS_OF_PAGES);
    return countsNaN(footer.getCreatedBy()) && (writers == null || writers.lines().allMatch(FloatingFilters::countsNaN));
  }

  /**
   * Whether a writer lets NaN count in statistics, or gives none where there is one: parquet-mr since
   * PARQUET-1246, as far as its releases are known.
   */
  private static boolean countsNaN(String createdBy) {
    if (createdBy == null) {
      return false;
    }
    try {
      VersionParser.ParsedVersion parsed = VersionParser.parse(createdBy);
      if (!"parquet-mr".equals(parsed.application) || !parsed.hasSemanticVersion()) {
        return false;
      }
      SemanticVersion version = parsed.getSemanticVersion();
      return version.compareTo(new SemanticVersion(1, 10, 0)) >= 0 && version.compareTo(new SemanticVersion(1, 18, 0)) < 0;
    } catch (VersionParser.VersionParseException e) {
      return false;
    }
  }

  /** Whether what a file tells of its values can decide a filter as Spark does. */
  static boolean mayPush(Filter filter, boolean countsNaN) {
    return decides(filter, false, countsNaN);
  }

  private static boolean decides(Filter filter, boolean negated, boolean countsNaN) {
    if (filter instanceof And) {
      And and = (And) filter;
      return decides(and.left(), negated, countsNaN) && decides(and.right(), negated, countsNaN);
    } else if (filter instanceof Or) {
      Or or = (Or) filter;
      return decides(or.left(), negated, countsNaN) && decides(or.right(), negated, countsNaN);
    } else if (filter instanceof Not) {
      return decides(((Not) filter).child(), !negated, countsNaN);
    } else if (filter instanceof EqualTo) {
      return equality(((EqualTo) filter).value(), negated, countsNaN);
    } else if (filter instanceof EqualNullSafe) {
      return equality(((EqualNullSafe) filter).value(), negated, countsNaN);
    } else if (filter instanceof In) {
      for (Object value : ((In) filter).values()) {
        if (!equality(value, negated, countsNaN)) {
          return false;
        }
      }
    } else if (filter instanceof LessThan) {
      return order(((LessThan) filter).value(), negated, !negated, countsNaN);
    } else if (filter instanceof LessThanOrEqual) {
      return order(((LessThanOrEqual) filter).value(), negated, negated, countsNaN);
    } else if (filter instanceof GreaterThan) {
      return order(((GreaterThan) filter).value(), !negated, !negated, countsNaN);
    } else if (filter instanceof GreaterThanOrEqual) {
      return order(((GreaterThanOrEqual) filter).value(), !negated, negated, countsNaN);
    }
    return true;
  }

  private static boolean equality(Object value, boolean negated, boolean countsNaN) {
    return !isFloating(value) || (isOrdinary(value) && (!negated || countsNaN));
  }

  /** A comparison with a value; {@code up}: larger values match, {@code strict}: the value itself does not. */
  private static boolean order(Object value, boolean up, boolean strict, boolean countsNaN) {
    if (!isFloating(value)) {
      return true;
    }
    return (isOrdinary(value) || (isZero(value) && strict)) && (!up || countsNaN);
  }

  private static boolean isFloating(Object value) {
    return value instanceof Double || value instanceof Float;
  }

  private static boolean isOrdinary(Object value) {
    return !Double.isNaN(((Number) value).doubleValue()) && !isZero(value);
  }

  private static boolean isZero(Object value) {
    return ((Number) value).doubleValue() == 0.0;
  }
}
