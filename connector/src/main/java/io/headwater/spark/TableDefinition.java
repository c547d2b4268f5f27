package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import io.headwater.spark.sidecar.SidecarException;
import io.headwater.spark.sidecar.SidecarPool;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** CREATE, ALTER, TRUNCATE and DROP of a table in a folder. They start no Spark job: the driver's sidecar does them. */
final class TableDefinition {
  private static final Set<String> SPARKS_OWN =
      Set.of(TableCatalog.PROP_PROVIDER, TableCatalog.PROP_LOCATION, TableCatalog.PROP_OWNER, TableCatalog.PROP_EXTERNAL,
          TableCatalog.PROP_IS_MANAGED_LOCATION, "collation", "table_type");

  private TableDefinition() {}

  /** Whether a provider's name means a table of ours. Where none was said, the catalog decides. */
  static boolean isOurs(String provider) {
    if (provider == null) {
      return false;
    }
    String name = provider.toLowerCase(Locale.ROOT);
    return name.equals("headwater") || name.equals("hudi");
  }

  static List<String> partitionColumns(Transform[] partitions) {
    List<String> columns = new ArrayList<>();
    for (Transform transform : partitions) {
      if (!transform.name().equals("identity") || transform.references().length != 1) {
        throw SparkInternals.analysisError(
            "headwater: PARTITIONED BY takes columns, not " + transform + ". Folders by parts of a timestamp are a key"
                + " generator's: TBLPROPERTIES ('key-generator' = 'timestamp', …). Buckets are an index: ('index' ="
                + " 'bucket', 'buckets' = '8').",
            null);
      }
      columns.add(String.join(".", transform.references()[0].fieldNames()));
    }
    return columns;
  }

  /** Partitions and properties as a request tells them, less what Spark put there for itself. */
  static void define(ObjectNode request, Transform[] partitions, Map<String, String> properties) {
    ArrayNode columns = request.putArray("partition_by");
    partitionColumns(partitions).forEach(columns::add);
    ObjectNode sent = request.putObject("properties");
    properties.forEach((key, value) -> {
      // OPTIONS (…) arrive twice, once under this prefix.
      if (!SPARKS_OWN.contains(key) && !key.startsWith("option.")) {
        sent.put(key, value);
      }
    });
  }

  static void create(String path, StructType schema, Transform[] partitions, Map<String, String> properties) {
    ObjectNode request = Json.object().put("op", "create").put("path", PythonWriters.absolute(path));
    request.set("schema", Json.parse(schema.json()));
    define(request, partitions, properties);
    call(request);
  }

  static void alter(String path, TableChange... changes) {
    ObjectNode request = Json.object().put("op", "alter").put("path", path);
    ArrayNode sent = request.putArray("changes");
    for (TableChange change : changes) {
      sent.add(json(change));
    }
    call(request);
  }

  static void truncate(String path) {
    change(Json.object().put("op", "truncate").put("path", path));
  }

  static void delete(String path, JsonNode predicates) {
    ObjectNode request = Json.object().put("op", "delete").put("path", path);
    request.set("predicates", predicates);
    change(request);
  }

  /** What may take long is the Python driver's, where there is one: other queries plan in the sidecar meanwhile. */
  private static void change(ObjectNode request) {
    if (PythonWriters.isThere()) {
      PythonWriters.write(null, request);
    } else {
      call(request);
    }
  }

  /** @return false where there is no table */
  static boolean drop(String path) {
    return call(Json.object().put("op", "drop").put("path", path)).path("dropped").asBoolean();
  }

  private static JsonNode call(ObjectNode request) {
    try {
      return SidecarPool.driver(Settings.python()).callOnce(request);
    } catch (SidecarException e) {
      throw SparkInternals.analysisError(e.summary(), e);
    }
  }

  private static ObjectNode json(TableChange change) {
    ObjectNode node = Json.object().put("change", change.getClass().getSimpleName());
    if (change instanceof TableChange.SetProperty) {
      TableChange.SetProperty set = (TableChange.SetProperty) change;
      return node.put("name", set.property()).put("value", set.value());
    }
    if (change instanceof TableChange.RemoveProperty) {
      return node.put("name", ((TableChange.RemoveProperty) change).property());
    }
    if (!(change instanceof TableChange.ColumnChange)) {
      return node; // refused by its name
    }
    ArrayNode column = node.putArray("column");
    for (String name : ((TableChange.ColumnChange) change).fieldNames()) {
      column.add(name);
    }
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn add = (TableChange.AddColumn) change;
      node.set("type", Json.parse(add.dataType().json()));
      node.put("nullable", add.isNullable()).put("comment", add.comment());
      node.put("default", add.defaultValue() != null);
      position(node, add.position());
    } else if (change instanceof TableChange.RenameColumn) {
      node.put("name", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.UpdateColumnType) {
      node.set("type", Json.parse(((TableChange.UpdateColumnType) change).newDataType().json()));
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      node.put("nullable", ((TableChange.UpdateColumnNullability) change).nullable());
    } else if (change instanceof TableChange.UpdateColumnComment) {
      node.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      position(node, ((TableChange.UpdateColumnPosition) change).position());
    } else if (change instanceof TableChange.DeleteColumn) {
      node.put("if_exists", ((TableChange.DeleteColumn) change).ifExists());
    }
    return node;
  }

  private static void position(ObjectNode node, TableChange.ColumnPosition position) {
    if (position instanceof TableChange.After) {
      node.put("after", ((TableChange.After) position).column());
    } else if (position != null) {
      node.put("first", true);
    }
  }
}
