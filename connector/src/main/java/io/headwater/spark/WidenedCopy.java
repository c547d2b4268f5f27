package io.headwater.spark;

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * The values of a widened column in a vector of its own: some rows of a batch are copied anyway when
 * others are dropped, and Spark's generated code then meets one class of vectors, whether a row comes
 * from the base file or from the logs.
 */
final class WidenedCopy {
  final ColumnVector stored;
  final OnHeapColumnVector values;
  private final WidenedColumnVector widened;

  WidenedCopy(ColumnVector stored, WidenedColumnVector widened) {
    this.stored = stored;
    this.widened = widened;
    this.values = new OnHeapColumnVector(1, widened.dataType());
  }

  /** Copies the given rows in their order, or the first rows where none are given. */
  void fill(int[] rows, int count) {
    values.reset();
    values.reserve(count);
    boolean nulls = stored.hasNull();
    DataType type = values.dataType();
    for (int k = 0; k < count; k++) {
      int row = rows == null ? k : rows[k];
      if (nulls && stored.isNullAt(row)) {
        values.putNull(k);
      } else if (type instanceof LongType) {
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
}
