package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.ArrayType;
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
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** Spark's internal values as JSON and back, and as constant vectors. */
final class Values {
  private Values() {}

  /** Whether a value of this type can be written as JSON. */
  static boolean isPlain(DataType type) {
    return type instanceof BooleanType || type instanceof ByteType || type instanceof ShortType
        || type instanceof IntegerType || type instanceof LongType || type instanceof FloatType
        || type instanceof DoubleType || type instanceof DecimalType || type instanceof StringType
        || type instanceof BinaryType || type instanceof DateType || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }

  /** Whether minimum and maximum of this type are of use to Spark's cost model. */
  static boolean isOrderedForStatistics(DataType type) {
    return isPlain(type) && !(type instanceof StringType) && !(type instanceof BinaryType);
  }

  /** Whether two internal values of this type are equal objects exactly where Spark calls them equal: 0.0 and -0.0 are not. */
  static boolean isEqualAsObject(DataType type) {
    return isPlain(type) && !(type instanceof FloatType) && !(type instanceof DoubleType) && !(type instanceof BinaryType);
  }

  /** An internal value, or null, from JSON. */
  static Object read(JsonNode node, DataType type) {
    if (node == null || node.isNull()) {
      return null;
    }
    if (type instanceof BooleanType) {
      return node.asBoolean();
    } else if (type instanceof ByteType) {
      return (byte) node.asInt();
    } else if (type instanceof ShortType) {
      return (short) node.asInt();
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return node.asInt();
    } else if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
      return node.asLong();
    } else if (type instanceof FloatType) {
      return node.isTextual() ? Float.parseFloat(node.asText()) : (float) node.asDouble();
    } else if (type instanceof DoubleType) {
      return node.isTextual() ? Double.parseDouble(node.asText()) : node.asDouble();
    } else if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return Decimal.apply(new java.math.BigDecimal(node.asText()), decimal.precision(), decimal.scale());
    } else if (type instanceof StringType) {
      return UTF8String.fromString(node.asText());
    } else if (type instanceof BinaryType) {
      return Base64.getDecoder().decode(node.asText());
    }
    throw new IllegalArgumentException("the sidecar sent a value of type " + type.sql() + ", which has no JSON form");
  }

  /** Writes an internal value of a plain type to a field. */
  static void write(ObjectNode target, String field, Object value, DataType type) {
    if (value == null) {
      target.putNull(field);
    } else if (value instanceof Boolean) {
      target.put(field, (Boolean) value);
    } else if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
      target.put(field, ((Number) value).intValue());
    } else if (value instanceof Long) {
      target.put(field, (Long) value);
    } else if (value instanceof Float) {
      // Its shortest text is that of another number, once it is read as a double.
      target.put(field, ((Float) value).doubleValue());
    } else if (value instanceof Double) {
      target.put(field, (Double) value);
    } else if (value instanceof byte[]) {
      target.put(field, Base64.getEncoder().encodeToString((byte[]) value));
    } else {
      target.put(field, value.toString());
    }
  }

  /** Whether a vector is the same in every row, so that choosing rows changes nothing. */
  static boolean isConstant(ColumnVector vector) {
    return vector instanceof ConstantColumnVector;
  }

  /** A vector with one value in every row. */
  static ConstantColumnVector constant(DataType type, Object value, int rows) {
    ConstantColumnVector vector = new ConstantColumnVector(rows, type);
    if (value == null) {
      vector.setNull();
    } else {
      ColumnVectorUtils.populate(vector, new GenericInternalRow(new Object[] {value}), 0);
    }
    return vector;
  }

  /** A vector with the same struct in every row. */
  static ConstantColumnVector constantStruct(StructType type, Object[] values, int rows) {
    ConstantColumnVector vector = new ConstantColumnVector(rows, type);
    StructField[] fields = type.fields();
    for (int i = 0; i < fields.length; i++) {
      vector.setChild(i, constant(fields[i].dataType(), values[i], rows));
    }
    vector.setNotNull();
    return vector;
  }

  /** The same type but for names and nullability, which vectors do not carry. */
  static boolean sameLayout(DataType a, DataType b) {
    if (a instanceof StructType && b instanceof StructType) {
      StructField[] left = ((StructType) a).fields();
      StructField[] right = ((StructType) b).fields();
      if (left.length != right.length) {
        return false;
      }
      for (int i = 0; i < left.length; i++) {
        if (!sameLayout(left[i].dataType(), right[i].dataType())) {
          return false;
        }
      }
      return true;
    }
    if (a instanceof ArrayType && b instanceof ArrayType) {
      return sameLayout(((ArrayType) a).elementType(), ((ArrayType) b).elementType());
    }
    if (a instanceof MapType && b instanceof MapType) {
      return sameLayout(((MapType) a).keyType(), ((MapType) b).keyType())
          && sameLayout(((MapType) a).valueType(), ((MapType) b).valueType());
    }
    return a.equals(b) || (a instanceof StringType && b instanceof StringType);
  }
}
