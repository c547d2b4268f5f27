package io.headwater.spark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** The Python driver as the JVM sees it: implemented in Python ({@code headwater.spark.seam}), called through Py4J. */
public interface PythonWriter {
  /**
   * Writes rows as a request in JSON says (docs/spark-connector.md). A delete comes without rows: null.
   *
   * @return JSON: {@code {}}, or {@code {"error": {"type", "message", "token"}}}. Python errors come back as values,
   *     since an exception of a callback would arrive here as a page of text
   */
  String write(Dataset<Row> rows, String request);
}
