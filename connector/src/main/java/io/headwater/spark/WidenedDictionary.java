package io.headwater.spark;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.Dictionary;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * The values of a row group's dictionary in their wider type: each is widened once, and not again for
 * every row that has it.
 */
final class WidenedDictionary {
  private final WritableColumnVector stored;
  private final WritableColumnVector values;
  private Dictionary dictionary;
  /** The widened values behind one of no meaning, which null rows get; one of the two is used. */
  private long[] longs = new long[1];
  private double[] doubles = new double[1];
  /** How many are filled in. */
  private int known;

  private WidenedDictionary(WritableColumnVector stored, WritableColumnVector values) {
    this.stored = stored;
    this.values = values;
  }

  /** Null where the types are others than those that have a table here, or the vector is none of Spark's reader. */
  static WidenedDictionary of(ColumnVector stored, WritableColumnVector values) {
    boolean toLong = stored.dataType() instanceof IntegerType && values.dataType() instanceof LongType;
    boolean toDouble = stored.dataType() instanceof FloatType && values.dataType() instanceof DoubleType;
    boolean fits = stored instanceof WritableColumnVector && (toLong || toDouble);
    return fits ? new WidenedDictionary((WritableColumnVector) stored, values) : null;
  }

  /** Copies the given rows, which ascend, or the first rows where none are given; false where they have no dictionary. */
  boolean fill(int[] rows, int count) {
    if (!stored.hasDictionary() || count == 0) {
      return false;
    }
    Dictionary now = SparkInternals.dictionary(stored);
    if (now != dictionary) {
      dictionary = now;
      known = 0;
    }
    int[] ids = stored.getDictionaryIds().getInts(0, rows == null ? count : rows[count - 1] + 1);
    if (stored.hasNull()) {
      // A null row's place in the dictionary is anything, and a dictionary may have no values at all.
      for (int row = 0; row < ids.length; row++) {
        if (stored.isNullAt(row)) {
          ids[row] = -1;
        }
      }
    }
    learn(ids);
    if (values.dataType() instanceof LongType) {
      values.putLongs(0, count, longs(ids, rows, count), 0);
    } else {
      values.putDoubles(0, count, doubles(ids, rows, count), 0);
    }
    if (stored.hasNull()) {
      for (int k = 0; k < count; k++) {
        if (stored.isNullAt(rows == null ? k : rows[k])) {
          values.putNull(k);
        }
      }
    }
    return true;
  }

  /** Widens what no row had before. */
  private void learn(int[] ids) {
    int last = -1;
    for (int id : ids) {
      last = Math.max(last, id);
    }
    if (last < known) {
      return;
    }
    if (values.dataType() instanceof LongType) {
      longs = last + 1 < longs.length ? longs : Arrays.copyOf(longs, Math.max(last + 2, 2 * longs.length));
      for (int id = known; id <= last; id++) {
        longs[id + 1] = dictionary.decodeToInt(id);
      }
    } else {
      doubles = last + 1 < doubles.length ? doubles : Arrays.copyOf(doubles, Math.max(last + 2, 2 * doubles.length));
      for (int id = known; id <= last; id++) {
        doubles[id + 1] = WidenedColumnVector.widened(dictionary.decodeToFloat(id));
      }
    }
    known = last + 1;
  }

  private long[] longs(int[] ids, int[] rows, int count) {
    long[] found = new long[count];
    for (int k = 0; k < count; k++) {
      found[k] = longs[ids[rows == null ? k : rows[k]] + 1];
    }
    return found;
  }

  private double[] doubles(int[] ids, int[] rows, int count) {
    double[] found = new double[count];
    for (int k = 0; k < count; k++) {
      found[k] = doubles[ids[rows == null ? k : rows[k]] + 1];
    }
    return found;
  }
}
