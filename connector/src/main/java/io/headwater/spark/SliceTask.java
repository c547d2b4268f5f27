package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.headwater.spark.sidecar.Json;
import java.io.Serializable;

/** One slice of a plan: all that an executor must know of it. */
final class SliceTask implements Serializable {
  private static final long serialVersionUID = 1L;

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

  final int id;
  final String how;
  final transient String why;
  /** Below the table's root. */
  final String path;
  final String file;
  final long size;
  final long modified;
  final long deltaBytes;
  final String schemaKey;
  final Rename[] renames;
  final String payload;
  final Object[] constants;
  final Object[] partition;

  SliceTask(JsonNode task, String root, Object[] constants, Object[] partition) {
    this.id = task.path("id").asInt();
    this.how = task.path("how").asText();
    this.why = Json.text(task, "why");
    this.path = Json.text(task, "path");
    this.file = path == null ? null : path.contains("://") || path.startsWith("/") ? path : root + "/" + path;
    this.size = Json.number(task, "size", 0);
    this.modified = Json.number(task, "modified", 0);
    this.deltaBytes = Json.number(task, "delta_bytes", 0);
    this.schemaKey = Json.text(task, "schema_key");
    JsonNode sent = task.path("renames");
    this.renames = new Rename[sent.size()];
    for (int i = 0; i < renames.length; i++) {
      JsonNode column = sent.get(i).path("column");
      String[] names = new String[column.size()];
      for (int j = 0; j < names.length; j++) {
        names[j] = column.get(j).asText();
      }
      renames[i] = new Rename(names, Json.text(sent.get(i), "file"));
    }
    this.payload = Json.text(task, "payload");
    this.constants = constants;
    this.partition = partition;
  }

  boolean isNative() {
    return how.equals("parquet") || how.equals("positional");
  }
}
