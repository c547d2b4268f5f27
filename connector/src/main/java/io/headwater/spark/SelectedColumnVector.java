package io.headwater.spark;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Some rows of a vector, by a list of row numbers that is shared by all columns and filled anew
 * for every batch.
 */
final class SelectedColumnVector extends ColumnVector {
  private final ColumnVector all;
  private final int[] rows;
  private final SelectedColumnVector[] children;

  SelectedColumnVector(ColumnVector all, int[] rows) {
    super(all.dataType());
    this.all = all;
    this.rows = rows;
    this.children =
        all.dataType() instanceof StructType ? new SelectedColumnVector[((StructType) all.dataType()).length()] : null;
  }

  @Override
  public void close() {
    // The reader owns the vector underneath.
  }

  @Override
  public boolean hasNull() {
    return all.hasNull();
  }

  @Override
  public int numNulls() {
    // Of all rows, dropped ones too: Spark only asks whether it is zero.
    return all.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return all.isNullAt(rows[row]);
  }

  @Override
  public boolean getBoolean(int row) {
    return all.getBoolean(rows[row]);
  }

  @Override
  public byte getByte(int row) {
    return all.getByte(rows[row]);
  }

  @Override
  public short getShort(int row) {
    return all.getShort(rows[row]);
  }

  @Override
  public int getInt(int row) {
    return all.getInt(rows[row]);
  }

  @Override
  public long getLong(int row) {
    return all.getLong(rows[row]);
  }

  @Override
  public float getFloat(int row) {
    return all.getFloat(rows[row]);
  }

  @Override
  public double getDouble(int row) {
    return all.getDouble(rows[row]);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return all.getArray(rows[row]);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return all.getMap(rows[row]);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return all.getDecimal(rows[row], precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return all.getUTF8String(rows[row]);
  }

  @Override
  public byte[] getBinary(int row) {
    return all.getBinary(rows[row]);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    if (children == null) {
      return all.getChild(ordinal);
    }
    if (children[ordinal] == null) {
      children[ordinal] = new SelectedColumnVector(all.getChild(ordinal), rows);
    }
    return children[ordinal];
  }
}
