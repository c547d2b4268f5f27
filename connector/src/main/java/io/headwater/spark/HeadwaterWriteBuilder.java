package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;

/**
 * A write to a table that has a name. It collects what Spark says, and ends as a write of version 1: Spark hands the
 * rows over as a Dataset, and that goes to the Python driver.
 */
final class HeadwaterWriteBuilder implements SupportsOverwriteV2 {
  /** Put among the options by {@link InsertRules}; not for users. */
  static final String DYNAMIC = "__headwater_overwrites_partitions";

  private final ObjectNode request;
  private final Runnable written;
  private final boolean dynamic;

  /** @param written called when the write is done; the one thing that a staged table wants to know */
  HeadwaterWriteBuilder(String op, String path, LogicalWriteInfo info, Runnable written) {
    Map<String, String> options = new TreeMap<>(info.options().asCaseSensitiveMap());
    this.dynamic = options.keySet().removeIf(name -> name.equalsIgnoreCase(DYNAMIC));
    this.request = PythonWriters.request(op, path, options).put("how", "append");
    this.written = written;
    if (Settings.insertOperation() != null) {
      request.put("insert_operation", Settings.insertOperation());
    }
  }

  ObjectNode request() {
    return request;
  }

  @Override
  public WriteBuilder truncate() {
    request.put("how", dynamic ? "partitions" : "all");
    return this;
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    for (Predicate predicate : predicates) {
      if (Expressions.json(predicate) == null) {
        return false;
      }
    }
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    request.put("how", "where");
    ArrayNode sent = request.putArray("predicates");
    for (Predicate predicate : predicates) {
      JsonNode json = Expressions.json(predicate);
      sent.add(json);
    }
    return this;
  }

  @Override
  public V1Write build() {
    return new HeadwaterWrite(request, written);
  }

  private static final class HeadwaterWrite implements V1Write {
    private final ObjectNode request;
    private final Runnable written;

    private HeadwaterWrite(ObjectNode request, Runnable written) {
      this.request = request;
      this.written = written;
    }

    @Override
    public String description() {
      return "headwater " + request.path("how").asText() + " " + request.path("path").asText();
    }

    @Override
    public InsertableRelation toInsertableRelation() {
      return (rows, overwrite) -> {
        PythonWriters.write(rows, request);
        written.run();
      };
    }
  }
}
