package io.headwater.spark;

import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table that is named by its path.
 *
 * <p>It carries the read options, because Spark gives a catalog the identifier alone, and a table
 * must be opened as of the right instant. They take part in equality: two reads of one path with
 * different options are different tables to Spark's caches.
 */
final class PathIdentifier implements Identifier {
  private final String path;
  private final Map<String, String> options;
  private final CaseInsensitiveStringMap all;

  PathIdentifier(String path, CaseInsensitiveStringMap options) {
    this.path = path;
    this.options = Settings.forSidecar(options.asCaseSensitiveMap());
    this.all = options;
  }

  String path() {
    return path;
  }

  CaseInsensitiveStringMap options() {
    return all;
  }

  @Override
  public String[] namespace() {
    return new String[0];
  }

  @Override
  public String name() {
    return path;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PathIdentifier && path.equals(((PathIdentifier) other).path)
        && options.equals(((PathIdentifier) other).options);
  }

  @Override
  public int hashCode() {
    return Objects.hash(path, options);
  }

  @Override
  public String toString() {
    return "headwater.`" + path + "`";
  }
}
