package io.headwater.spark;

import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Names of the settings that the connector itself obeys, with the precedence option, session, table. */
final class Settings {
  static final String PREFIX = "spark.headwater.read.";
  static final String SPLIT_SIZE = "split-size";
  static final String OPEN_COST = "file-open-cost";
  static final String READER = "reader";
  static final String GROUPING = "preserve-data-grouping";
  static final String FALLBACK_SOURCE = "headwater_python";

  private Settings() {}

  private static String conf(String key) {
    return SQLConf.get().getConfString(key, null);
  }

  /** Whether this path is on; off means Spark's Python data source serves the reads. */
  static boolean useDsv2(CaseInsensitiveStringMap options) {
    String value = option(options, "use.dsv2");
    if (value == null) {
      value = options.get("hoodie.datasource.read.use.dsv2");
    }
    if (value == null) {
      value = conf("hoodie.datasource.read.use.dsv2");
    }
    return value == null || !value.trim().equalsIgnoreCase("false");
  }

  /** A read option, else the session's setting of that name, else null. */
  static String option(CaseInsensitiveStringMap options, String name) {
    String value = options.get(name);
    if (value == null) {
      value = options.get(PREFIX + name);
    }
    return value == null ? conf(PREFIX + name) : value;
  }

  static Long bytes(CaseInsensitiveStringMap options, String name) {
    String value = option(options, name);
    if (value == null) {
      return null;
    }
    long bytes;
    try {
      bytes = JavaUtils.byteStringAsBytes(value.trim());
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(name + ": '" + value + "' is no size; write it like 134217728 or 128m", e);
    }
    if (bytes <= 0) {
      throw new IllegalArgumentException(name + ": '" + value + "' must be more than zero");
    }
    return bytes;
  }

  static boolean flag(CaseInsensitiveStringMap options, String name) {
    String value = option(options, name);
    if (value == null) {
      return false;
    }
    switch (value.trim().toLowerCase(Locale.ROOT)) {
      case "true":
        return true;
      case "false":
        return false;
      default:
        throw new IllegalArgumentException(name + ": '" + value + "' is neither true nor false");
    }
  }

  static String reader(CaseInsensitiveStringMap options) {
    String value = option(options, READER);
    if (value == null) {
      return "native";
    }
    String reader = value.trim().toLowerCase(Locale.ROOT);
    if (!reader.equals("native") && !reader.equals("merge")) {
      throw new IllegalArgumentException(
          "reader: '" + value + "' is unknown; use 'native' (Spark's own Parquet reader) or 'merge' (all rows by Python)");
    }
    return reader;
  }

  /** The interpreter of the sidecars: ours by name, else PySpark's. */
  static String python() {
    for (String key : new String[] {"spark.headwater.python", "spark.pyspark.python"}) {
      String value = conf(key);
      if (value != null && !value.isEmpty()) {
        return value;
      }
    }
    String value = System.getenv("PYSPARK_PYTHON");
    return value == null || value.isEmpty() ? "python3" : value;
  }

  /** Options that the sidecar does not need to know: those that are Spark's or this class's own. */
  static Map<String, String> forSidecar(Map<String, String> options) {
    Map<String, String> kept = new TreeMap<>(options);
    kept.keySet().removeIf(Settings::isOurs);
    return kept;
  }

  private static boolean isOurs(String key) {
    String name = key.toLowerCase(Locale.ROOT);
    if (name.startsWith(PREFIX)) {
      name = name.substring(PREFIX.length());
    }
    switch (name) {
      case "path":
      case "paths":
      case "provider":
      case SPLIT_SIZE:
      case OPEN_COST:
      case READER:
      case GROUPING:
      case "use.dsv2":
      case "hoodie.datasource.read.use.dsv2":
        return true;
      default:
        return false;
    }
  }
}
