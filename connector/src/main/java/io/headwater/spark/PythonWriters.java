package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.io.File;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Where the Python driver says that it is there, and where writes find it. */
public final class PythonWriters {
  private static volatile PythonWriter registered;

  private PythonWriters() {}

  /** Called from Python when a session is configured; a later driver takes the place of an earlier one. */
  public static void register(PythonWriter writer) {
    registered = writer;
  }

  /** Called from Python when it ends. */
  public static void unregister() {
    registered = null;
  }

  static boolean isThere() {
    return registered != null;
  }

  static ObjectNode request(String op, String path, Map<String, String> options) {
    ObjectNode request = Json.object().put("op", op).put("path", absolute(path));
    ObjectNode sent = request.putObject("options");
    Settings.forSidecar(options).forEach(sent::put);
    ObjectNode session = request.putObject("session");
    Settings.sessionWrites().forEach(session::put);
    return request;
  }

  static void write(Dataset<Row> rows, ObjectNode request) {
    PythonWriter writer = registered;
    if (writer == null) {
      throw SparkInternals.analysisError(
          "headwater: this Spark has no Python driver that could write to " + request.path("path").asText()
              + ". Writes run in PySpark: start the session from Python with headwater.configure(SparkSession.builder)"
              + ".getOrCreate(), or call headwater.spark.enable_writes(spark) for a session that is running. From a"
              + " shell of SQL or Scala, or a Spark Connect server, tables can be read, created, altered and dropped.",
          null);
    }
    JsonNode error = Json.parse(writer.write(rows, request.toString())).path("error");
    if (error.isObject()) {
      String type = error.path("type").asText();
      throw SparkInternals.analysisError(
          type + ": " + error.path("message").asText(), new PythonWriteException(type, error.path("token").asText()));
    }
  }

  /** The driver's Python and this JVM began in the same folder, but Python may have left it. */
  static String absolute(String path) {
    return path.startsWith("/") || path.matches("[A-Za-z][A-Za-z0-9+.-]*:.*") ? path : new File(path).getAbsolutePath();
  }

  /** An error that Python raised; its token lets Python find the very same error again. */
  public static final class PythonWriteException extends RuntimeException {
    private final String token;

    PythonWriteException(String type, String token) {
      super(type);
      this.token = token;
    }

    public String token() {
      return token;
    }
  }
}
