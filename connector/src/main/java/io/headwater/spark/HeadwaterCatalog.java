package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.headwater.spark.sidecar.Json;
import io.headwater.spark.sidecar.SidecarException;
import io.headwater.spark.sidecar.SidecarPool;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A directory of tables: namespaces are folders below {@code warehouse}, tables are folders in them.
 * A name with a slash is a path, so {@code SELECT … FROM lake.`/data/trips`} works without one.
 *
 * <p>CREATE TABLE makes a table in its folder and DROP TABLE deletes the folder: the catalog remembers nothing else.
 */
public final class HeadwaterCatalog implements StagingTableCatalog, SupportsNamespaces {
  private String name;
  private String warehouse;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    String root = options.get("warehouse");
    this.warehouse = root == null ? null : root.replaceAll("(?<=[^/:])/+$", "");
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String[] defaultNamespace() {
    return new String[0];
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return load(ident, null);
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return Tables.forWriting(load(ident, null), privileges);
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return load(ident, version);
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return load(ident, Tables.instant(timestamp));
  }

  private Table load(Identifier ident, String version) throws NoSuchTableException {
    CaseInsensitiveStringMap options = CaseInsensitiveStringMap.empty();
    if (version != null) {
      options = Tables.asOf(options, version);
    }
    if (isPath(ident)) {
      return Tables.load(ident.name(), options);
    }
    try {
      return Tables.load(path(ident), options);
    } catch (Exception e) {
      if (Tables.isNotFound(e)) {
        throw new NoSuchTableException(ident);
      }
      throw e;
    }
  }

  private static boolean isPath(Identifier ident) {
    return ident.namespace().length == 0 && ident.name().contains("/");
  }

  private String path(Identifier ident) {
    return isPath(ident) ? ident.name() : folder(ident.namespace()) + "/" + ident.name();
  }

  private String folder(String[] namespace) {
    if (warehouse == null) {
      throw new IllegalArgumentException(
          "catalog '" + name + "' has no warehouse: set spark.sql.catalog." + name + ".warehouse to a folder of tables, or"
              + " name the table by its path, " + name + ".`/path/of/table`");
    }
    return namespace.length == 0 ? warehouse : warehouse + "/" + String.join("/", namespace);
  }

  /** What is in a folder, as the sidecar sees it: only Python knows a table from a folder of tables. */
  private JsonNode list(String[] namespace) throws NoSuchNamespaceException {
    try {
      return SidecarPool.driver(Settings.python())
          .call(Json.object().put("op", "list").put("path", folder(namespace)));
    } catch (SidecarException e) {
      if (e.type().equals("NamespaceNotFound") || e.type().equals("FileNotFoundError")) {
        throw new NoSuchNamespaceException(namespace);
      }
      throw SparkInternals.analysisError(e.getMessage(), e);
    }
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> tables = new ArrayList<>();
    for (JsonNode table : list(namespace).path("tables")) {
      tables.add(Identifier.of(namespace, table.asText()));
    }
    return tables.toArray(new Identifier[0]);
  }

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return warehouse == null ? new String[0][] : listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    List<String[]> found = new ArrayList<>();
    for (JsonNode child : list(namespace).path("namespaces")) {
      String[] full = java.util.Arrays.copyOf(namespace, namespace.length + 1);
      full[namespace.length] = child.asText();
      found.add(full);
    }
    return found.toArray(new String[0][]);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    if (namespace.length == 0) {
      return true;
    }
    if (warehouse == null) {
      return false;
    }
    Path path = new Path(folder(namespace));
    try {
      FileSystem files = path.getFileSystem(SparkInternals.hadoopConf());
      return files.exists(path) && files.getFileStatus(path).isDirectory();
    } catch (IOException e) {
      throw new UncheckedIOException("catalog '" + name + "': folder " + path + " cannot be looked at", e);
    }
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return warehouse == null ? Map.of() : Map.of(SupportsNamespaces.PROP_LOCATION, folder(namespace));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata)
      throws NamespaceAlreadyExistsException {
    if (namespaceExists(namespace)) {
      throw new NamespaceAlreadyExistsException(namespace);
    }
    Path path = new Path(folder(namespace));
    try {
      path.getFileSystem(SparkInternals.hadoopConf()).mkdirs(path);
    } catch (IOException e) {
      throw new UncheckedIOException("catalog '" + name + "': folder " + path + " cannot be made", e);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new UnsupportedOperationException("a namespace of catalog '" + name + "' is a folder and has no properties");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    Path path = new Path(folder(namespace));
    try {
      FileSystem files = path.getFileSystem(SparkInternals.hadoopConf());
      if (!files.exists(path)) {
        return false;
      }
      if (files.listStatus(path).length > 0) {
        throw new IllegalStateException(
            "namespace " + String.join(".", namespace) + " (" + path + ") is not empty; a catalog of folders deletes no"
                + " tables. Remove the folder yourself.");
      }
      return files.delete(path, false);
    } catch (IOException e) {
      throw new UncheckedIOException("catalog '" + name + "': folder " + path + " cannot be deleted", e);
    }
  }

  @Override
  public boolean tableExists(Identifier ident) {
    try {
      load(ident, null);
      return true;
    } catch (NoSuchTableException e) {
      return false;
    } catch (Exception e) {
      if (Tables.isNotFound(e)) {
        return false; // a path is told by the error itself
      }
      throw e;
    }
  }

  @Override
  public Table createTable(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException {
    String path = placeOfNew(ident, properties);
    if (tableExists(ident)) {
      throw new TableAlreadyExistsException(ident);
    }
    TableDefinition.create(path, schema, partitions, properties);
    return Tables.load(path, CaseInsensitiveStringMap.empty());
  }

  @Override
  public StagedTable stageCreate(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException {
    if (tableExists(ident)) {
      throw new TableAlreadyExistsException(ident);
    }
    return staged(ident, false, schema, partitions, properties);
  }

  @Override
  public StagedTable stageReplace(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws NoSuchTableException {
    if (!tableExists(ident)) {
      throw new NoSuchTableException(ident);
    }
    return staged(ident, true, schema, partitions, properties);
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    return staged(ident, true, schema, partitions, properties);
  }

  private StagedTable staged(
      Identifier ident, boolean mayReplace, StructType schema, Transform[] partitions, Map<String, String> properties) {
    return new StagedHeadwaterTable(
        placeOfNew(ident, properties), mayReplace, schema, partitions, properties, () -> {});
  }

  private String placeOfNew(Identifier ident, Map<String, String> properties) {
    String provider = properties.get(TableCatalog.PROP_PROVIDER);
    if (provider != null && !TableDefinition.isOurs(provider)) {
      throw SparkInternals.analysisError(
          "catalog '" + name + "' holds Headwater tables, and " + ident + " would be one of '" + provider
              + "'. Say USING headwater, or df.write.format(\"headwater\").saveAsTable(…).",
          null);
    }
    String path = path(ident);
    String location = properties.get(TableCatalog.PROP_LOCATION);
    if (location != null && !new Path(location).toUri().getPath().equals(new Path(path).toUri().getPath())) {
      throw SparkInternals.analysisError(
          "catalog '" + name + "' keeps " + ident + " in " + path + " and cannot remember the location " + location
              + ". Leave LOCATION out, or create the table by its path: headwater.`" + location + "`.",
          null);
    }
    return path;
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    if (!tableExists(ident)) {
      throw new NoSuchTableException(ident);
    }
    TableDefinition.alter(path(ident), changes);
    return load(ident, null);
  }

  @Override
  public boolean dropTable(Identifier ident) {
    if (isPath(ident)) {
      throw SparkInternals.analysisError(
          ident + " is a path and stands in no catalog, so that DROP TABLE would delete its files. Say DROP TABLE … PURGE"
              + " if you mean that.",
          null);
    }
    return TableDefinition.drop(path(ident));
  }

  /** A table is its folder, so that DROP TABLE with and without PURGE are the same but for paths. */
  @Override
  public boolean purgeTable(Identifier ident) {
    return TableDefinition.drop(path(ident));
  }

  @Override
  public void renameTable(Identifier oldIdent, Identifier newIdent) {
    throw new UnsupportedOperationException(
        "catalog '" + name + "' is folders and renames none: " + oldIdent + " stays. Move the folder yourself while nobody"
            + " reads or writes it.");
  }
}
