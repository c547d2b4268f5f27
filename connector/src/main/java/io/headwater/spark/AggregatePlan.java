package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The sidecar's answer to {@code aggregate_plan}: final rows, or tasks that make partial ones. */
final class AggregatePlan {
  final JsonNode answer;
  final StructType schema;
  final String description;
  final long nanos;

  AggregatePlan(JsonNode answer, StructType schema, String description, long nanos) {
    this.answer = answer;
    this.schema = schema;
    this.description = description;
    this.nanos = nanos;
  }

  boolean isComplete() {
    return answer.path("complete").asBoolean();
  }

  InternalRow[] rows() {
    JsonNode rows = answer.path("rows");
    StructField[] fields = schema.fields();
    InternalRow[] read = new InternalRow[rows.size()];
    for (int i = 0; i < read.length; i++) {
      Object[] values = new Object[fields.length];
      for (int j = 0; j < fields.length; j++) {
        values[j] = Values.read(rows.get(i).get(j), fields[j].dataType());
      }
      read[i] = new GenericInternalRow(values);
    }
    return read;
  }
}
