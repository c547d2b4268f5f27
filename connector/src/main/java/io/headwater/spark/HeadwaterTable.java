package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import io.headwater.spark.sidecar.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table at one version, as the sidecar opened it. Writes go to the newest, whatever this one is. */
public final class HeadwaterTable
    implements SupportsRead, SupportsWrite, SupportsDeleteV2, TruncatableTable, SupportsMetadataColumns {
  /** Columns that every write makes anew. */
  static final List<String> OWN_COLUMNS =
      List.of("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name");
  static final String FILE = "_file";
  static final String POSITION = "_pos";
  static final String PARTITION = "_partition";

  private final TableHandle handle;
  private final String name;
  private final StructType schema;
  private final String[] partitionColumns;
  private final Map<String, String> properties;
  /** The partitions to read; null for all. */
  private final ChosenPartitions chosen;

  HeadwaterTable(TableHandle handle) {
    this.handle = handle;
    JsonNode opened = handle.opened();
    String given = Json.text(opened, "name");
    this.name = given == null ? handle.path() : given;
    this.schema = (StructType) DataType.fromJson(
        opened.get("schema").isTextual() ? opened.get("schema").asText() : opened.get("schema").toString());
    List<String> columns = new ArrayList<>();
    opened.path("partition_columns").forEach(column -> columns.add(column.asText()));
    this.partitionColumns = columns.toArray(new String[0]);
    Map<String, String> read = new HashMap<>();
    opened.path("shown_properties").fields().forEachRemaining(entry -> read.put(entry.getKey(), entry.getValue().asText()));
    read.put("provider", "headwater");
    read.put("location", handle.path());
    this.properties = read;
    this.chosen = null;
  }

  private HeadwaterTable(HeadwaterTable other, StructType schema, ChosenPartitions chosen) {
    this.handle = other.handle;
    this.name = other.name;
    this.schema = schema;
    this.partitionColumns = other.partitionColumns;
    this.properties = other.properties;
    this.chosen = chosen;
  }

  boolean hasOwnColumns() {
    return Arrays.stream(schema.fieldNames()).anyMatch(OWN_COLUMNS::contains);
  }

  /** The table as an INSERT sees it: with the user's columns alone. */
  HeadwaterTable forInserts() {
    return new HeadwaterTable(
        this,
        DataTypes.createStructType(
            Arrays.stream(schema.fields()).filter(field -> !OWN_COLUMNS.contains(field.name())).toArray(StructField[]::new)),
        chosen);
  }

  /** The table less the partitions that are not chosen. */
  HeadwaterTable of(ChosenPartitions more) {
    return new HeadwaterTable(this, schema, chosen == null ? more : chosen.and(more));
  }

  ChosenPartitions chosen() {
    return chosen;
  }

  /** Whether a query with these options reads the very table that is open. */
  boolean isReadWith(CaseInsensitiveStringMap options) {
    Map<String, String> given = Settings.forSidecar(ofScan(options).asCaseSensitiveMap());
    return handle.options().entrySet().containsAll(given.entrySet());
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 to 4.3 all ask for it, directly or through columns().
  public StructType schema() {
    return schema;
  }

  @Override
  public Transform[] partitioning() {
    return Arrays.stream(partitionColumns)
        .filter(column -> Arrays.asList(schema.fieldNames()).contains(column))
        .map(HeadwaterTable::identity)
        .toArray(Transform[]::new);
  }

  /** A column as a transform. Spark parses its name, which may be one that is reserved in SQL. */
  static Transform identity(String column) {
    return Expressions.identity("`" + column.replace("`", "``") + "`");
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(
        TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    List<MetadataColumn> columns = new ArrayList<>();
    columns.add(new Column(FILE, DataTypes.StringType, false, "the base file that the row is in, below the table's root"));
    columns.add(new Column(POSITION, DataTypes.LongType, true, "the row's position in the file; null for merged rows"));
    StructType partition = partitionType();
    if (partition.length() > 0) {
      columns.add(new Column(PARTITION, partition, false, "values of the partition columns"));
    }
    return columns.toArray(new MetadataColumn[0]);
  }

  StructType partitionType() {
    List<StructField> fields = new ArrayList<>();
    for (String column : partitionColumns) {
      for (StructField field : schema.fields()) {
        if (field.name().equals(column)) {
          fields.add(DataTypes.createStructField(column, field.dataType(), true));
        }
      }
    }
    return DataTypes.createStructType(fields);
  }

  TableHandle handle() {
    return handle;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    CaseInsensitiveStringMap given = ofScan(options);
    return new HeadwaterScanBuilder(withOptions(given), given);
  }

  /**
   * The options of a scan less those that chose this version of the table: Spark loads a named table as of its option
   * {@code timestampAsOf} or {@code versionAsOf}, and hands the option to the scan all the same.
   */
  private CaseInsensitiveStringMap ofScan(CaseInsensitiveStringMap options) {
    if (!handle.options().containsKey(Tables.AS_OF)) {
      return options;
    }
    Map<String, String> kept = new HashMap<>(options.asCaseSensitiveMap());
    kept.keySet().removeIf(name -> name.equalsIgnoreCase("timestampAsOf") || name.equalsIgnoreCase("versionAsOf"));
    return new CaseInsensitiveStringMap(kept);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new HeadwaterWriteBuilder("insert", handle.path(), info, () -> {});
  }

  @Override
  public boolean truncateTable() {
    TableDefinition.truncate(handle.path());
    return true;
  }

  @Override
  public boolean canDeleteWhere(Predicate[] predicates) {
    return Arrays.stream(predicates).allMatch(predicate -> io.headwater.spark.Expressions.json(predicate) != null);
  }

  @Override
  public void deleteWhere(Predicate[] predicates) {
    ArrayNode sent = Json.array();
    for (Predicate predicate : predicates) {
      sent.add(io.headwater.spark.Expressions.json(predicate));
    }
    TableDefinition.delete(handle.path(), sent);
  }

  /**
   * This table opened with a query's own options, for {@code spark.read.option(…).table(…)}: Spark
   * loads a named table without them.
   */
  private HeadwaterTable withOptions(CaseInsensitiveStringMap options) {
    Map<String, String> wanted = new TreeMap<>(handle.options());
    wanted.putAll(Settings.forSidecar(options.asCaseSensitiveMap()));
    if (wanted.equals(handle.options())) {
      return this;
    }
    HeadwaterTable changed = Tables.open(handle.path(), wanted);
    if (!changed.schema.equals(schema)) {
      throw new IllegalArgumentException(
          name + ": with the options " + wanted + " the table has other columns than without them, and Spark resolved the"
              + " query without. Use spark.read.format(\"headwater\") with the table's path, or AS OF in SQL.");
    }
    return changed;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HeadwaterTable && handle.path().equals(((HeadwaterTable) other).handle.path())
        && handle.options().equals(((HeadwaterTable) other).handle.options())
        && schema.equals(((HeadwaterTable) other).schema)
        && Objects.equals(chosen, ((HeadwaterTable) other).chosen)
        && handle.settings().equals(((HeadwaterTable) other).handle.settings())
        && Objects.equals(handle.state(), ((HeadwaterTable) other).handle.state());
  }

  @Override
  public int hashCode() {
    return Objects.hash(handle.path(), handle.options(), handle.state());
  }

  @Override
  public String toString() {
    return "headwater " + name;
  }

  private static final class Column implements MetadataColumn {
    private final String name;
    private final DataType type;
    private final boolean nullable;
    private final String comment;

    private Column(String name, DataType type, boolean nullable, String comment) {
      this.name = name;
      this.type = type;
      this.nullable = nullable;
      this.comment = comment;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public DataType dataType() {
      return type;
    }

    @Override
    public boolean isNullable() {
      return nullable;
    }

    @Override
    public String comment() {
      return comment;
    }
  }
}
