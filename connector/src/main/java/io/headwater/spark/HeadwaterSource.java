package io.headwater.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("headwater")}: tables by path.
 *
 * <p>Reads go through a catalog of our own, so that Spark knows such a table by an identifier as it
 * knows any other; it is added to the session the first time that it is needed.
 */
public final class HeadwaterSource implements SupportsCatalogOptions, DataSourceRegister {
  static final String PATH_CATALOG = "headwater";

  @Override
  public String shortName() {
    return "headwater";
  }

  @Override
  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    return new PathIdentifier(path(options), options);
  }

  @Override
  public String extractCatalog(CaseInsensitiveStringMap options) {
    String key = "spark.sql.catalog." + PATH_CATALOG;
    SQLConf conf = SQLConf.get();
    if (conf.getConfString(key, null) == null) {
      conf.setConfString(key, HeadwaterCatalog.class.getName());
    }
    return PATH_CATALOG;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return Tables.load(path(options), options).schema();
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return Tables.load(path(options), options).partitioning();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    return Tables.load(path(options), options);
  }

  private static String path(CaseInsensitiveStringMap options) {
    String path = options.get("path");
    if (path == null || path.isEmpty()) {
      throw new IllegalArgumentException(
          options.containsKey("paths")
              ? "headwater: one path names one table; load several tables one by one and union them"
              : "headwater: no path. Use load(\"/path/of/table\"), or spark.table(\"catalog.db.table\") for a name");
    }
    return path;
  }
}
