package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.io.Serializable;

/** One slice of a plan: all that an executor must know of it. */
final class SliceTask implements Serializable {
  private static final long serialVersionUID = 2L;

  /** A column that has another name in this file, or (null) that the file's column of this name is not. */
  static final class Rename implements Serializable {
    private static final long serialVersionUID = 1L;
    final String[] column;
    final String file;

    Rename(String[] column, String file) {
      this.column = column;
      this.file = file;
    }
  }

  /** What many tasks share: how they are read, and what their files call the columns. */
  static final class Way implements Serializable {
    private static final long serialVersionUID = 1L;
    final String how;
    final transient String why;
    final String schemaKey;
    final Rename[] renames;

    Way(JsonNode way) {
      this.how = way.path("how").asText();
      this.why = Json.text(way, "why");
      this.schemaKey = Json.text(way, "schema_key");
      JsonNode sent = way.path("renames");
      this.renames = new Rename[sent.size()];
      for (int i = 0; i < renames.length; i++) {
        JsonNode column = sent.get(i).path("column");
        String[] names = new String[column.size()];
        for (int j = 0; j < names.length; j++) {
          names[j] = column.get(j).asText();
        }
        renames[i] = new Rename(names, Json.text(sent.get(i), "file"));
      }
    }
  }

  /** In place of a partition column's value that the partition's path does not tell: each row has its own. */
  enum Untold {
    VALUE
  }

  final int id;
  final Way way;
  /** Below the table's root. */
  final String path;
  private final String root;
  final long size;
  final long deltaBytes;
  private final String payload;
  final Object[] constants;
  /** The values of the partition columns, of which some may be untold. */
  final Object[] partition;

  SliceTask(
      int id, Way way, String root, String path, long size, long deltaBytes, String payload, Object[] constants, Object[] partition) {
    this.id = id;
    this.way = way;
    this.root = root;
    this.path = path;
    this.size = size;
    this.deltaBytes = deltaBytes;
    this.payload = payload;
    this.constants = constants;
    this.partition = partition;
  }

  /** Where the file is. */
  String file() {
    return path.contains("://") || path.startsWith("/") ? path : root + "/" + path;
  }

  /** What the sidecar needs to know of the slice; null where its path and size are all of it. */
  String payload() {
    return payload;
  }

  /** A request to the sidecar about this slice. */
  ObjectNode request(String op) {
    ObjectNode request = Json.object().put("op", op);
    return payload == null ? request.put("path", path).put("size", size) : request.put("payload", payload);
  }

  boolean tells(int partitionColumn) {
    return partition[partitionColumn] != Untold.VALUE;
  }

  boolean isNative() {
    return way.how.equals("parquet") || way.how.equals("positional");
  }
}
