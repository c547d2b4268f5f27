package io.headwater.spark;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog, in which tables {@code USING headwater} and {@code USING hudi} are read
 * through this connector. Every other table is exactly what Spark's own catalog says.
 */
public final class HeadwaterSessionCatalog extends DelegatingCatalogExtension {

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return ours(ident, super.loadTable(ident), null);
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    Table table = ours(ident, super.loadTable(ident), version);
    return table instanceof V1Table ? super.loadTable(ident, version) : table;
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    Table table = ours(ident, super.loadTable(ident), Tables.instant(timestamp));
    return table instanceof V1Table ? super.loadTable(ident, timestamp) : table;
  }

  private static Table ours(Identifier ident, Table table, String version) {
    if (!(table instanceof V1Table)) {
      return table;
    }
    CatalogTable entry = ((V1Table) table).v1Table();
    if (entry.provider().isEmpty() || entry.storage().locationUri().isEmpty()) {
      return table;
    }
    String provider = entry.provider().get().toLowerCase(Locale.ROOT);
    if (!provider.equals("headwater") && !provider.equals("hudi")) {
      return table;
    }
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(readOptions(table));
    return Tables.load(
        new org.apache.hadoop.fs.Path(entry.location()).toString(),
        version == null ? options : Tables.asOf(options, version));
  }

  /** Options given with {@code OPTIONS (…)}; Spark keeps them in the table's properties as {@code option.…}. */
  private static Map<String, String> readOptions(Table table) {
    Map<String, String> options = new HashMap<>();
    table.properties().forEach((key, value) -> {
      if (key.startsWith("option.") && !key.equals("option.serialization.format") && !key.equals("option.path")) {
        String name = key.substring("option.".length());
        // What a writer stored about itself is no read option.
        if (name.equals(Tables.AS_OF) || name.equals("mode") || name.equals("metadata")) {
          options.put(name, value);
        }
      }
    });
    return options;
  }
}
