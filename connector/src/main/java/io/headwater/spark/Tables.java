package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import io.headwater.spark.sidecar.SidecarException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The one place where a path becomes a table, for the source and for both catalogs. */
final class Tables {
  static final String AS_OF = "as-of";

  private Tables() {}

  static Table load(String path, CaseInsensitiveStringMap options) {
    if (!Settings.useDsv2(options)) {
      Map<String, String> passed = new HashMap<>(Settings.forSidecar(options.asCaseSensitiveMap()));
      passed.put("path", path);
      // A Python data source sees options alone, so the session's settings go there, under their own names.
      Settings.session().forEach((key, value) -> {
        if (key.startsWith(Settings.PREFIX)) {
          passed.putIfAbsent(key, value);
        }
      });
      return Compat.pythonTable(Settings.FALLBACK_SOURCE, new CaseInsensitiveStringMap(passed));
    }
    return open(path, Settings.forSidecar(options.asCaseSensitiveMap()));
  }

  static HeadwaterTable open(String path, Map<String, String> options) {
    try {
      return new HeadwaterTable(TableHandle.open(path, options));
    } catch (SidecarException e) {
      throw SparkInternals.analysisError(e.getMessage(), e);
    }
  }

  static boolean exists(String path) {
    try {
      open(path, Map.of());
      return true;
    } catch (Exception e) {
      if (isNotFound(e)) {
        return false;
      }
      throw e;
    }
  }

  /** A table that was loaded to be written to. */
  static Table forWriting(Table table, Set<TableWritePrivilege> privileges) {
    boolean inserts = privileges.contains(TableWritePrivilege.INSERT) && !privileges.contains(TableWritePrivilege.UPDATE);
    return inserts && !Compat.FILLS_COLUMNS && table instanceof HeadwaterTable
        ? ((HeadwaterTable) table).forInserts()
        : table;
  }

  /** Whether an error of {@link #load} says that there is no table at the path. */
  static boolean isNotFound(Throwable error) {
    return error.getCause() instanceof SidecarException
        && ((SidecarException) error.getCause()).type().equals("TableNotFound");
  }

  static CaseInsensitiveStringMap asOf(CaseInsensitiveStringMap options, String version) {
    if (options.containsKey(AS_OF) || options.containsKey("as_of")) {
      throw new IllegalArgumentException("time travel is asked for twice: by AS OF and by the option 'as-of'. Keep one.");
    }
    Map<String, String> changed = new HashMap<>(options.asCaseSensitiveMap());
    changed.put(AS_OF, version);
    return new CaseInsensitiveStringMap(changed);
  }

  /** Spark's TIMESTAMP AS OF, microseconds since 1970, as an ISO instant. */
  static String instant(long micros) {
    return Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString();
  }
}
