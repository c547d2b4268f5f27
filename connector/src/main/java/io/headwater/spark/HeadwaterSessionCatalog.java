package io.headwater.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's session catalog, in which tables {@code USING headwater} and {@code USING hudi} are read and written through
 * this connector. Every other table is exactly what Spark's own catalog says.
 *
 * <p>An entry of ours holds a place and no columns: those are the table's own business.
 */
public final class HeadwaterSessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return ours(super.loadTable(ident), null);
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return Tables.forWriting(loadTable(ident), privileges);
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    Table entry = super.loadTable(ident);
    return place(entry) == null ? super.loadTable(ident, version) : ours(entry, version);
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    Table entry = super.loadTable(ident);
    return place(entry) == null ? super.loadTable(ident, timestamp) : ours(entry, Tables.instant(timestamp));
  }

  /** Where the table of an entry is; null where it is not ours. */
  private static String place(Table table) {
    if (table instanceof PathTable) {
      return ((PathTable) table).path();
    }
    if (!(table instanceof V1Table)) {
      return null;
    }
    CatalogTable entry = ((V1Table) table).v1Table();
    boolean ours = entry.provider().isDefined() && TableDefinition.isOurs(entry.provider().get());
    return ours && entry.storage().locationUri().isDefined() ? new Path(entry.location()).toString() : null;
  }

  private static Table ours(Table entry, String version) {
    String place = place(entry);
    if (place == null) {
      return entry;
    }
    Map<String, String> given =
        entry instanceof PathTable ? ((PathTable) entry).options() : options(entry.properties());
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(readOptions(given));
    return Tables.load(place, version == null ? options : Tables.asOf(options, version));
  }

  /** Options given with {@code OPTIONS (…)}; Spark keeps them in the table's properties as {@code option.…}. */
  private static Map<String, String> options(Map<String, String> properties) {
    Map<String, String> options = new HashMap<>();
    properties.forEach((key, value) -> {
      if (key.startsWith("option.")) {
        options.put(key.substring("option.".length()), value);
      }
    });
    return options;
  }

  /** What a writer stored about itself is no read option. */
  private static Map<String, String> readOptions(Map<String, String> options) {
    Map<String, String> kept = new HashMap<>(options);
    kept.keySet().retainAll(Set.of(Tables.AS_OF, "mode", "metadata"));
    return kept;
  }

  @Override
  public Table createTable(Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isOurs(properties)) {
      return super.createTable(ident, columns, partitions, properties);
    }
    return create(ident, CatalogV2Util.v2ColumnsToStructType(columns), partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 may ask for this one
  public Table createTable(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return isOurs(properties)
        ? create(ident, schema, partitions, properties)
        : super.createTable(ident, schema, partitions, properties);
  }

  private static boolean isOurs(Map<String, String> properties) {
    return TableDefinition.isOurs(properties.get(TableCatalog.PROP_PROVIDER));
  }

  private Table create(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    String location = properties.get(TableCatalog.PROP_LOCATION);
    if (location != null && Tables.exists(location)) {
      if (schema.length() > 0) {
        throw SparkInternals.analysisError(
            location + ": there is a table already, with columns of its own. Leave the columns out of CREATE TABLE.", null);
      }
      enter(ident, properties);
    } else if (schema.length() == 0) {
      throw SparkInternals.analysisError(
          "TableNotFound: " + (location == null ? ident + " has no columns" : "no table in " + location)
              + ". Give columns to create one.",
          null);
    } else {
      String place = enter(ident, properties);
      try {
        TableDefinition.create(place, schema, partitions, properties);
      } catch (Exception e) {
        super.dropTable(ident);
        throw e;
      }
    }
    try {
      return loadTable(ident);
    } catch (NoSuchTableException e) {
      throw new IllegalStateException(ident + " was dropped while it was created", e);
    }
  }

  /** Makes the entry, and tells the place that Spark gave it. */
  private String enter(Identifier ident, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    super.createTable(ident, new Column[0], new Transform[0], properties);
    try {
      return place(super.loadTable(ident));
    } catch (NoSuchTableException e) {
      throw new IllegalStateException(ident + " was dropped while it was created", e);
    }
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    String place = place(super.loadTable(ident));
    if (place == null) {
      return super.alterTable(ident, changes);
    }
    TableDefinition.alter(place, changes);
    return loadTable(ident);
  }

  @Override
  public StagedTable stageCreate(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isOurs(properties)) {
      return new UnstagedTable(super.createTable(ident, schema, partitions, properties), () -> super.dropTable(ident));
    }
    String place = enter(ident, properties);
    return new StagedHeadwaterTable(place, false, schema, partitions, properties, () -> super.dropTable(ident));
  }

  @Override
  public StagedTable stageReplace(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    String place = place(super.loadTable(ident));
    if (place != null && isOurs(properties)) {
      return new StagedHeadwaterTable(place, true, schema, partitions, properties, () -> {});
    }
    super.dropTable(ident);
    try {
      return stageCreate(ident, schema, partitions, properties);
    } catch (TableAlreadyExistsException e) {
      throw new IllegalStateException(ident + " was created again while it was replaced", e);
    }
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    try {
      return tableExists(ident)
          ? stageReplace(ident, schema, partitions, properties)
          : stageCreate(ident, schema, partitions, properties);
    } catch (NoSuchTableException | TableAlreadyExistsException e) {
      throw new IllegalStateException(ident + " came or went while it was replaced", e);
    }
  }
}
