package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The few settings that the connector itself obeys; all others are the sidecar's. */
final class Settings {
  static final String PREFIX = "spark.headwater.read.";
  static final String WRITE_PREFIX = "spark.headwater.write.";
  static final String GROUPING = "preserve-data-grouping";
  /** Spark's own names for what an overwrite takes away; an option's name is lower case by the time that it is here. */
  static final String OVERWRITE_MODE = "partitionoverwritemode";
  private static final String SESSION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode";
  private static final String INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation";
  static final String FALLBACK_SOURCE = "headwater_python";

  private static final Set<String> SPARKS_OWN = Set.of("path", "paths", "provider");

  private Settings() {}

  private static String conf(String key) {
    return Compat.conf().getConfString(key, null);
  }

  /** Whether this path is on; off means Spark's Python data source serves the reads. */
  static boolean useDsv2(CaseInsensitiveStringMap options) {
    String value = option(options, "use.dsv2", "hoodie.datasource.read.use.dsv2");
    return value == null || !value.trim().equalsIgnoreCase("false");
  }

  /** A read option by any of its names, else the session's setting, else null. */
  private static String option(CaseInsensitiveStringMap options, String name, String... aliases) {
    List<String> names = new ArrayList<>(List.of(aliases));
    names.add(PREFIX + name);
    String set = named(session(), names);
    names.add(name);
    String given = named(options.asCaseSensitiveMap(), names);
    return given == null ? set : given;
  }

  /** The setting of one of these names, which the sidecar takes in more than one spelling: so does this. */
  private static String named(Map<String, String> settings, List<String> names) {
    for (Map.Entry<String, String> setting : settings.entrySet()) {
      if (names.stream().anyMatch(name -> plain(name).equals(plain(setting.getKey())))) {
        return setting.getValue();
      }
    }
    return null;
  }

  private static String plain(String name) {
    return name.replaceAll("[-_.]", "").toLowerCase(Locale.ROOT);
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

  /** The options that are for the sidecar, which knows them all and refuses unknown ones: all but Spark's own. */
  static Map<String, String> forSidecar(Map<String, String> options) {
    Map<String, String> kept = new TreeMap<>(options);
    kept.keySet().removeIf(key -> SPARKS_OWN.contains(key.toLowerCase(Locale.ROOT)));
    return kept;
  }

  /** The session's settings about reads, for the sidecar to rank below options and above table properties. */
  static Map<String, String> session() {
    Map<String, String> kept = new TreeMap<>();
    scala.collection.Iterator<scala.Tuple2<String, String>> all = Compat.conf().getAllConfs().iterator();
    while (all.hasNext()) {
      scala.Tuple2<String, String> entry = all.next();
      if (entry._1().startsWith(PREFIX) || entry._1().startsWith("hoodie.")) {
        kept.put(entry._1(), entry._2());
      }
    }
    return kept;
  }

  /** The session's settings about writes, below a write's own options: {@code spark.headwater.write.codec} as {@code codec}. */
  static Map<String, String> sessionWrites() {
    Map<String, String> kept = new TreeMap<>();
    scala.collection.Iterator<scala.Tuple2<String, String>> all = Compat.conf().getAllConfs().iterator();
    while (all.hasNext()) {
      scala.Tuple2<String, String> entry = all.next();
      if (entry._1().startsWith(WRITE_PREFIX)) {
        kept.put(entry._1().substring(WRITE_PREFIX.length()), entry._2());
      }
    }
    return kept;
  }

  /** What Hudi's setting makes of INSERT INTO; null where it is not set. */
  static String insertOperation() {
    return conf(INSERT_OPERATION);
  }

  /** Whether an overwrite takes the place of the partitions of its rows alone. */
  static boolean overwritesPartitions(CaseInsensitiveStringMap options) {
    String value = options.get(OVERWRITE_MODE);
    if (value == null) {
      value = conf(SESSION_OVERWRITE_MODE);
    }
    return value != null && value.trim().equalsIgnoreCase("dynamic");
  }
}
