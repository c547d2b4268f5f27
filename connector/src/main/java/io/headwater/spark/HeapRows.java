package io.headwater.spark;

import java.util.List;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BinaryType;
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
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Arrow vectors copied into the vectors that Spark's Parquet reader fills.
 *
 * <p>A tenth of a slice's rows may come from the sidecar, or all of another one's. Were they of another
 * class than the base file's, Spark's generated code, which is shared by all queries of one shape,
 * would have to choose between two for every value of every row.
 * The copies are of whole buffers, but for booleans and decimals.
 */
final class HeapRows {
  private final OnHeapColumnVector[] vectors;
  private byte[] bytes = new byte[0];

  private HeapRows(OnHeapColumnVector[] vectors) {
    this.vectors = vectors;
  }

  /** Vectors for columns of these types, none where it is null; or null where a type is not copied. */
  static HeapRows of(DataType[] types) {
    OnHeapColumnVector[] vectors = new OnHeapColumnVector[types.length];
    for (int i = 0; i < types.length; i++) {
      if (types[i] != null && !isCopied(types[i])) {
        return null;
      }
      vectors[i] = types[i] == null ? null : new OnHeapColumnVector(1, types[i]);
    }
    return new HeapRows(vectors);
  }

  static boolean isCopied(DataType type) {
    return width(type) > 0 || type instanceof BooleanType || type instanceof StringType || type instanceof BinaryType
        || (type instanceof DecimalType && ((DecimalType) type).precision() <= Decimal.MAX_LONG_DIGITS());
  }

  /** The bytes of a value that Arrow and Spark hold alike; 0 where they do not. */
  private static int width(DataType type) {
    if (type instanceof LongType || type instanceof DoubleType || type instanceof TimestampType
        || type instanceof TimestampNTZType) {
      return 8;
    } else if (type instanceof IntegerType || type instanceof FloatType || type instanceof DateType) {
      return 4;
    } else if (type instanceof ShortType) {
      return 2;
    }
    return type instanceof ByteType ? 1 : 0;
  }

  WritableColumnVector vector(int column) {
    return vectors[column];
  }

  /** Fills the vectors with the first rows of others. */
  void fill(List<FieldVector> from, int rows) {
    for (int i = 0; i < vectors.length; i++) {
      OnHeapColumnVector vector = vectors[i];
      if (vector != null) {
        vector.reset();
        vector.reserve(rows);
        copy(from.get(i), vector, rows);
      }
    }
  }

  private void copy(FieldVector from, OnHeapColumnVector to, int rows) {
    DataType type = to.dataType();
    int width = width(type);
    if (width > 0) {
      byte[] values = read(((BaseFixedWidthVector) from).getDataBuffer(), 0, (long) rows * width);
      if (type instanceof DoubleType) {
        to.putDoubles(0, rows, values, 0);
      } else if (type instanceof FloatType) {
        to.putFloats(0, rows, values, 0);
      } else if (width == 8) {
        to.putLongs(0, rows, values, 0);
      } else if (width == 4) {
        to.putInts(0, rows, values, 0);
      } else if (width == 2) {
        to.putShorts(0, rows, values, 0);
      } else {
        to.putBytes(0, rows, values, 0);
      }
    } else if (type instanceof BooleanType) {
      BitVector bits = (BitVector) from;
      for (int row = 0; row < rows; row++) {
        to.putBoolean(row, !bits.isNull(row) && bits.get(row) != 0);
      }
    } else if (type instanceof DecimalType) {
      // The low half of a little-endian number that fits it.
      ArrowBuf values = ((DecimalVector) from).getDataBuffer();
      boolean small = ((DecimalType) type).precision() <= Decimal.MAX_INT_DIGITS();
      for (int row = 0; row < rows; row++) {
        long value = values.getLong((long) row * DecimalVector.TYPE_WIDTH);
        if (small) {
          to.putInt(row, (int) value);
        } else {
          to.putLong(row, value);
        }
      }
    } else {
      copyText((BaseVariableWidthVector) from, to, rows);
    }
    putNulls(from, to, rows);
  }

  private void copyText(BaseVariableWidthVector from, OnHeapColumnVector to, int rows) {
    if (rows == 0) {
      return;
    }
    ArrowBuf offsets = from.getOffsetBuffer();
    int first = offsets.getInt(0);
    int size = offsets.getInt((long) rows * BaseVariableWidthVector.OFFSET_WIDTH) - first;
    byte[] text = read(from.getDataBuffer(), first, size);
    WritableColumnVector all = to.arrayData();
    all.reset();
    all.appendBytes(size, text, 0);
    int start = first;
    for (int row = 0; row < rows; row++) {
      int end = offsets.getInt((long) (row + 1) * BaseVariableWidthVector.OFFSET_WIDTH);
      to.putArray(row, start - first, end - start);
      start = end;
    }
  }

  private static void putNulls(FieldVector from, OnHeapColumnVector to, int rows) {
    if (from.getNullCount() == 0) {
      return;
    }
    ArrowBuf validity = from.getValidityBuffer();
    for (int row = 0; row < rows; row++) {
      if ((validity.getByte(row >>> 3) >>> (row & 7) & 1) == 0) {
        to.putNull(row);
      }
    }
  }

  /** Some bytes of a buffer, in an array that the next call uses again. */
  private byte[] read(ArrowBuf buffer, long start, long length) {
    int size = Math.toIntExact(length);
    if (bytes.length < size) {
      bytes = new byte[Math.max(size, 1 << 16)];
    }
    buffer.getBytes(start, bytes, 0, size);
    return bytes;
  }

  void close() {
    for (OnHeapColumnVector vector : vectors) {
      if (vector != null) {
        vector.close();
      }
    }
  }
}
