package io.headwater.spark;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;

/**
 * Moves the kept rows of a batch together, within Spark's own vectors.
 *
 * <p>Spark's generated code then meets the same vector class as for any Parquet file, so its calls
 * can stay inlined. The other way is {@link SelectedColumnVector}, which moves nothing and looks
 * each row up. Variable-length values stay where they are: only their offsets move.
 */
final class RowCompaction {
  private RowCompaction() {}

  /** Whether all values of a type can be moved; other types are read through a list of rows. */
  static boolean canMove(DataType type) {
    if (type instanceof StructType) {
      for (DataType child : children((StructType) type)) {
        if (!canMove(child)) {
          return false;
        }
      }
      return true;
    }
    return isInt(type) || isLong(type) || isSlice(type) || type instanceof BooleanType || type instanceof ByteType
        || type instanceof ShortType || type instanceof FloatType || type instanceof DoubleType;
  }

  private static DataType[] children(StructType type) {
    DataType[] types = new DataType[type.length()];
    for (int i = 0; i < types.length; i++) {
      types[i] = type.fields()[i].dataType();
    }
    return types;
  }

  private static boolean isInt(DataType type) {
    return type instanceof IntegerType || type instanceof DateType
        || (type instanceof DecimalType && ((DecimalType) type).precision() <= Decimal.MAX_INT_DIGITS());
  }

  private static boolean isLong(DataType type) {
    return type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType
        || (type instanceof DecimalType && ((DecimalType) type).precision() > Decimal.MAX_INT_DIGITS()
            && ((DecimalType) type).precision() <= Decimal.MAX_LONG_DIGITS());
  }

  /** Types whose vector holds an offset and a length per row. */
  private static boolean isSlice(DataType type) {
    return type instanceof StringType || type instanceof BinaryType || type instanceof ArrayType || type instanceof MapType
        || (type instanceof DecimalType && ((DecimalType) type).precision() > Decimal.MAX_LONG_DIGITS());
  }

  /** Moves row {@code kept[k]} to row {@code k}, for k from {@code from} to {@code to}; the list ascends. */
  static void move(WritableColumnVector vector, int[] kept, int from, int to) {
    if (vector.isAllNull()) {
      return;
    }
    if (vector.hasNull()) {
      for (int k = from; k < to; k++) {
        if (vector.isNullAt(kept[k])) {
          vector.putNull(k);
        } else {
          vector.putNotNull(k);
        }
      }
    }
    DataType type = vector.dataType();
    if (vector.hasDictionary()) {
      moveInts(vector.getDictionaryIds(), kept, from, to);
    } else if (isInt(type)) {
      moveInts(vector, kept, from, to);
    } else if (isLong(type)) {
      moveLongs(vector, kept, from, to);
    } else if (type instanceof DoubleType) {
      moveDoubles(vector, kept, from, to);
    } else if (isSlice(type)) {
      moveSlices(vector, kept, from, to);
    } else if (type instanceof FloatType) {
      for (int k = from; k < to; k++) {
        vector.putFloat(k, vector.getFloat(kept[k]));
      }
    } else if (type instanceof BooleanType) {
      for (int k = from; k < to; k++) {
        vector.putBoolean(k, vector.getBoolean(kept[k]));
      }
    } else if (type instanceof ByteType) {
      for (int k = from; k < to; k++) {
        vector.putByte(k, vector.getByte(kept[k]));
      }
    } else if (type instanceof ShortType) {
      for (int k = from; k < to; k++) {
        vector.putShort(k, vector.getShort(kept[k]));
      }
    } else if (type instanceof StructType) {
      for (int i = 0; i < ((StructType) type).length(); i++) {
        move((WritableColumnVector) vector.getChild(i), kept, from, to);
      }
    } else {
      throw new IllegalStateException("rows of type " + type.sql() + " cannot be moved");
    }
  }

  // Loops of the common types are methods of their own: small ones, which the JVM compiles well whatever came before.

  private static void moveInts(WritableColumnVector vector, int[] kept, int from, int to) {
    for (int k = from; k < to; k++) {
      vector.putInt(k, vector.getInt(kept[k]));
    }
  }

  private static void moveLongs(WritableColumnVector vector, int[] kept, int from, int to) {
    for (int k = from; k < to; k++) {
      vector.putLong(k, vector.getLong(kept[k]));
    }
  }

  private static void moveDoubles(WritableColumnVector vector, int[] kept, int from, int to) {
    for (int k = from; k < to; k++) {
      vector.putDouble(k, vector.getDouble(kept[k]));
    }
  }

  private static void moveSlices(WritableColumnVector vector, int[] kept, int from, int to) {
    for (int k = from; k < to; k++) {
      int row = kept[k];
      vector.putArray(k, vector.getArrayOffset(row), vector.getArrayLength(row));
    }
  }
}
