package io.headwater.spark;

import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of numbers seen as a wider type, for files from before the column was widened. */
final class WidenedColumnVector extends ColumnVector {
  private final ColumnVector stored;
  private final int rank;

  WidenedColumnVector(ColumnVector stored, DataType type) {
    super(type);
    this.stored = stored;
    this.rank = rank(stored.dataType());
  }

  private static int rank(DataType type) {
    return type instanceof ByteType ? 1
        : type instanceof ShortType ? 2
        : type instanceof IntegerType ? 3
        : type instanceof LongType ? 4
        : type instanceof FloatType ? 5
        : type instanceof DoubleType ? 6
        : 0;
  }

  /** From a number to a wider one, in the order byte, short, int, long, float, double. */
  static boolean canWiden(DataType from, DataType to) {
    return rank(from) > 0 && rank(to) > rank(from);
  }

  private long integral(int row) {
    switch (rank) {
      case 1:
        return stored.getByte(row);
      case 2:
        return stored.getShort(row);
      case 3:
        return stored.getInt(row);
      default:
        return stored.getLong(row);
    }
  }

  @Override
  public short getShort(int row) {
    return (short) integral(row);
  }

  @Override
  public int getInt(int row) {
    return (int) integral(row);
  }

  @Override
  public long getLong(int row) {
    return integral(row);
  }

  @Override
  public float getFloat(int row) {
    return integral(row);
  }

  @Override
  public double getDouble(int row) {
    return rank == 5 ? widened(stored.getFloat(row)) : integral(row);
  }

  /** By way of its text: 0.1f is read as 0.1, as everywhere else in this reader, not as 0.10000000149011612. */
  static double widened(float value) {
    return Double.parseDouble(Float.toString(value));
  }

  @Override
  public boolean hasNull() {
    return stored.hasNull();
  }

  @Override
  public int numNulls() {
    return stored.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return stored.isNullAt(row);
  }

  @Override
  public void close() {
    // The reader owns the vector underneath.
  }

  @Override
  public boolean getBoolean(int row) {
    throw notNumeric();
  }

  @Override
  public byte getByte(int row) {
    throw notNumeric();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw notNumeric();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw notNumeric();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw notNumeric();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw notNumeric();
  }

  @Override
  public byte[] getBinary(int row) {
    throw notNumeric();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw notNumeric();
  }

  private UnsupportedOperationException notNumeric() {
    return new UnsupportedOperationException("a column of type " + type.sql() + " is no wider number");
  }
}
