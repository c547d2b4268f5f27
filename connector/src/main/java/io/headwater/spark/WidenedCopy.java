package io.headwater.spark;

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * The values of a widened column in a vector of its own: some rows of a batch are copied anyway when
 * others are dropped, and Spark's generated code then meets one class of vectors, whether a row comes
 * from an older base file, a newer one or the logs.
 */
final class WidenedCopy {
  final ColumnVector stored;
  final OnHeapColumnVector values;
  private final WidenedColumnVector widened;
  private final WidenedDictionary dictionary;

  WidenedCopy(ColumnVector stored, WidenedColumnVector widened) {
    this.stored = stored;
    this.widened = widened;
    this.values = new OnHeapColumnVector(1, widened.dataType());
    this.dictionary = WidenedDictionary.of(stored, values);
  }

  /** Copies the given rows, which ascend, in their order; or the first rows where none are given. */
  void fill(int[] rows, int count) {
    values.reset();
    values.reserve(count);
    if (dictionary != null && dictionary.fill(rows, count)) {
      return;
    }
    if (isPlainInts() && values.dataType() instanceof LongType) {
      fillFromInts(rows, count);
    } else if (!stored.hasNull()) {
      for (int k = 0; k < count; k++) {
        put(k, rows == null ? k : rows[k]);
      }
    } else {
      // A null row has no value that may be looked at: its place in a dictionary is anything.
      for (int k = 0; k < count; k++) {
        int row = rows == null ? k : rows[k];
        if (stored.isNullAt(row)) {
          values.putNull(k);
        } else {
          put(k, row);
        }
      }
    }
  }

  private boolean isPlainInts() {
    return stored.dataType() instanceof IntegerType
        && stored instanceof WritableColumnVector
        && !((WritableColumnVector) stored).hasDictionary();
  }

  /** The most common case by arrays: a call for each value would cost as much as reading the column. */
  private void fillFromInts(int[] rows, int count) {
    int[] from = stored.getInts(0, rows == null || count == 0 ? count : rows[count - 1] + 1);
    long[] to = new long[count];
    for (int k = 0; k < count; k++) {
      to[k] = from[rows == null ? k : rows[k]];
    }
    values.putLongs(0, count, to, 0);
    if (stored.hasNull()) {
      for (int k = 0; k < count; k++) {
        if (stored.isNullAt(rows == null ? k : rows[k])) {
          values.putNull(k);
        }
      }
    }
  }

  private void put(int k, int row) {
    DataType type = values.dataType();
    if (type instanceof LongType) {
      values.putLong(k, widened.getLong(row));
    } else if (type instanceof DoubleType) {
      values.putDouble(k, widened.getDouble(row));
    } else if (type instanceof IntegerType) {
      values.putInt(k, widened.getInt(row));
    } else if (type instanceof FloatType) {
      values.putFloat(k, widened.getFloat(row));
    } else {
      values.putShort(k, widened.getShort(row));
    }
  }
}
