package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("headwater")}: tables by path.
 *
 * <p>They are read through DataSource V2. {@code df.write.save(path)} is a write of version 1: it comes here with its
 * save mode and all its options, and the rows are handed to the Python driver.
 */
public final class HeadwaterSource implements TableProvider, CreatableRelationProvider, DataSourceRegister {
  private static final String PARTITION_COLUMNS = "__partition_columns";

  @Override
  public String shortName() {
    return "headwater";
  }

  /** Not asked for what it says: Spark hands it to {@link #getTable}, which looks for itself, once. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return new Transform[0];
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    return new PathTable(path(options), options);
  }

  @Override
  public BaseRelation createRelation(
      SQLContext context, SaveMode mode, scala.collection.immutable.Map<String, String> parameters, Dataset<Row> rows) {
    Map<String, String> given = new TreeMap<>();
    scala.collection.Iterator<scala.Tuple2<String, String>> all = parameters.iterator();
    while (all.hasNext()) {
      scala.Tuple2<String, String> entry = all.next();
      given.put(entry._1().toLowerCase(Locale.ROOT), entry._2());
    }
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(given);
    ObjectNode request = PythonWriters.request("save", path(options), given).put("mode", mode.name());
    String partitions = options.get(PARTITION_COLUMNS);
    if (partitions != null) {
      List<String> columns = new ArrayList<>();
      for (JsonNode column : Json.parse(partitions)) {
        columns.add(column.asText());
      }
      ObjectNode sent = (ObjectNode) request.get("options");
      sent.remove(PARTITION_COLUMNS);
      sent.put("partition-by", String.join(",", columns));
    }
    request.put("dynamic", Settings.overwritesPartitions(options));
    ((ObjectNode) request.get("options")).remove(Settings.OVERWRITE_MODE);
    PythonWriters.write(rows, request);
    return new BaseRelation() {
      @Override
      public SQLContext sqlContext() {
        return context;
      }

      @Override
      public StructType schema() {
        return rows.schema();
      }
    };
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
