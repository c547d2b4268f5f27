package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.headwater.spark.sidecar.Json;
import java.util.ArrayList;
import java.util.Base64;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The sidecar's answer to {@code plan}: a value, read once. */
final class ScanPlan {
  final String scanId;
  final byte[] scan;
  final List<SliceTask> tasks;
  final String[] constants;
  /** Columns that have times in milliseconds by the table's schema. */
  final String[] milliseconds;
  final String[] partitionColumns;
  final JsonNode statistics;
  final Long splitSize;
  final Long openCost;
  /** What the first rows of an order match, for the Parquet reader; null where nothing is known of them. */
  final Predicate bound;
  final Map<String, Long> metrics = new LinkedHashMap<>();
  final List<String> description = new ArrayList<>();
  final long nanos;

  ScanPlan(JsonNode answer, String root, StructType tableSchema, StructType partitionType, long nanos) {
    this.nanos = nanos;
    this.scanId = Json.text(answer, "scan_id");
    String blob = Json.text(answer, "scan");
    this.scan = blob == null ? new byte[0] : Base64.getDecoder().decode(blob);
    this.constants = texts(answer.path("constants"));
    this.milliseconds = texts(answer.path("milliseconds"));
    this.partitionColumns = partitionType.fieldNames();
    this.statistics = answer.path("statistics");
    this.splitSize = answer.hasNonNull("split_size") ? answer.get("split_size").asLong() : null;
    this.openCost = answer.hasNonNull("open_cost") ? answer.get("open_cost").asLong() : null;
    answer.path("metrics").fields()
        .forEachRemaining(entry -> metrics.put(entry.getKey(), entry.getValue().asLong()));
    answer.path("description").forEach(line -> description.add(line.asText()));

    Map<String, StructField> fields = new TreeMap<>();
    for (StructField field : tableSchema.fields()) {
      fields.put(field.name(), field);
    }
    this.bound = answer.hasNonNull("bound") ? bound(answer.get("bound"), fields) : null;
    List<String> folders = new ArrayList<>();
    List<Object[]> constantValues = new ArrayList<>();
    List<Object[]> partitionValues = new ArrayList<>();
    for (JsonNode partition : answer.path("partitions")) {
      JsonNode values = partition.path("values");
      folders.add(partition.path("path").asText());
      Object[] ofConstants = new Object[constants.length];
      for (int i = 0; i < constants.length; i++) {
        ofConstants[i] = Values.read(values.get(constants[i]), fields.get(constants[i]).dataType());
      }
      constantValues.add(ofConstants);
      StructField[] keys = partitionType.fields();
      Object[] ofKeys = new Object[keys.length];
      for (int i = 0; i < keys.length; i++) {
        String key = keys[i].name();
        ofKeys[i] = values.has(key) ? Values.read(values.get(key), keys[i].dataType()) : SliceTask.Untold.VALUE;
      }
      partitionValues.add(ofKeys);
    }
    this.tasks = tasks(answer.path("tasks"), root, folders, constantValues, partitionValues);
  }

  private static String[] texts(JsonNode sent) {
    List<String> texts = new ArrayList<>();
    sent.forEach(text -> texts.add(text.asText()));
    return texts.toArray(new String[0]);
  }

  /** The tasks, which come by columns. */
  private static List<SliceTask> tasks(
      JsonNode sent, String root, List<String> folders, List<Object[]> constants, List<Object[]> partitions) {
    List<SliceTask.Way> ways = new ArrayList<>();
    sent.path("ways").forEach(way -> ways.add(new SliceTask.Way(way)));
    JsonNode way = sent.path("way");
    JsonNode partition = sent.path("partition");
    JsonNode name = sent.path("name");
    JsonNode size = sent.path("size");
    JsonNode deltaBytes = sent.path("delta_bytes");
    JsonNode payload = sent.path("payload");
    List<SliceTask> tasks = new ArrayList<>(way.size());
    for (int i = 0; i < way.size(); i++) {
      int place = partition.get(i).intValue();
      String folder = folders.get(place);
      String file = name.get(i).textValue();
      tasks.add(
          new SliceTask(i, ways.get(way.get(i).intValue()), root, folder.isEmpty() ? file : folder + "/" + file,
              size.get(i).longValue(), deltaBytes.isArray() ? deltaBytes.get(i).longValue() : 0,
              payload.isArray() ? payload.get(i).textValue() : null, constants.get(place), partitions.get(place)));
    }
    return tasks;
  }

  private static Predicate bound(JsonNode sent, Map<String, StructField> fields) {
    StructField field = fields.get(Json.text(sent, "column"));
    Expression[] column = {FieldReference.column(field.name())};
    Predicate isNull = new Predicate("IS_NULL", column);
    if (!sent.hasNonNull("value")) {
      return isNull;
    }
    Expression value = new LiteralValue<>(Values.read(sent.get("value"), field.dataType()), field.dataType());
    Predicate within = new Predicate(Json.text(sent, "op"), new Expression[] {column[0], value});
    return sent.path("nulls").asBoolean() ? new Or(isNull, within) : within;
  }

  /** How many slices are read in which way, and the reasons: for {@code explain()}. */
  String how() {
    Map<String, Integer> counts = new TreeMap<>();
    Map<SliceTask.Way, Integer> ways = new IdentityHashMap<>();
    tasks.forEach(task -> ways.merge(task.way, 1, Integer::sum));
    ways.forEach((way, count) -> {
      String key = way.how + (way.why == null || way.why.isEmpty() ? "" : " (" + way.why + ")");
      counts.merge(key, count, Integer::sum);
    });
    List<String> parts = new ArrayList<>();
    counts.forEach((way, count) -> parts.add(count + " " + way));
    return parts.isEmpty() ? "none" : String.join(", ", parts);
  }
}
