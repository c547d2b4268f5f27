package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A scan with everything pushed down. The plan is asked for when something needs it, once, and
 * statistics, partitioning and batch share it.
 */
final class HeadwaterScan
    implements Scan, SupportsReportStatistics, SupportsReportPartitioning, SupportsRuntimeV2Filtering {
  private final HeadwaterTable table;
  private final CaseInsensitiveStringMap options;
  private final StructType required;
  private final StructType data;
  private final StructType metadata;
  private final HeadwaterScanBuilder.Pushed pushed;
  private final Integer limit;
  private final HeadwaterScanBuilder.FirstRows firstRows;
  private final ObjectNode request;
  private final String aggregate;
  private final List<Predicate> runtime = new ArrayList<>();
  private ScanPlan plan;
  private HeadwaterBatch batch;

  HeadwaterScan(
      HeadwaterTable table,
      CaseInsensitiveStringMap options,
      StructType required,
      StructType data,
      StructType metadata,
      HeadwaterScanBuilder.Pushed pushed,
      Integer limit,
      HeadwaterScanBuilder.FirstRows firstRows,
      ObjectNode request) {
    this(table, options, required, data, metadata, pushed, limit, firstRows, request, null, null);
  }

  /** A scan whose rows are partial aggregates, made by the sidecars of the executors. */
  static HeadwaterScan ofAggregate(
      HeadwaterTable table, CaseInsensitiveStringMap options, AggregatePlan aggregate, HeadwaterScanBuilder.Pushed pushed) {
    ScanPlan plan =
        new ScanPlan(aggregate.answer, table.handle().path(), table.schema(), table.partitionType(), aggregate.nanos);
    return new HeadwaterScan(table, options, aggregate.schema, aggregate.schema, new StructType(), pushed, null, null, null, plan,
        aggregate.description);
  }

  private HeadwaterScan(
      HeadwaterTable table,
      CaseInsensitiveStringMap options,
      StructType required,
      StructType data,
      StructType metadata,
      HeadwaterScanBuilder.Pushed pushed,
      Integer limit,
      HeadwaterScanBuilder.FirstRows firstRows,
      ObjectNode request,
      ScanPlan plan,
      String aggregate) {
    this.table = table;
    this.options = options;
    this.required = required;
    this.data = data;
    this.metadata = metadata;
    this.pushed = pushed;
    this.limit = limit;
    this.firstRows = firstRows;
    this.request = request;
    this.plan = plan;
    this.aggregate = aggregate;
  }

  synchronized ScanPlan plan() {
    if (plan == null) {
      long start = System.nanoTime();
      JsonNode answer = table.handle().call(request);
      plan = new ScanPlan(answer, table.handle().path(), table.schema(), table.partitionType(), System.nanoTime() - start);
    }
    return plan;
  }

  @Override
  public StructType readSchema() {
    return required;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public synchronized Batch toBatch() {
    if (batch == null) {
      List<Predicate> filters = new ArrayList<>(pushed.partial);
      if (plan().bound != null) {
        filters.add(plan().bound);
      }
      batch = new HeadwaterBatch(this, required, data, metadata, filters, limit, grouping());
    }
    return batch;
  }

  // --- partitioning -------------------------------------------------------------------------

  /** Partition columns to group input partitions by, or none: grouping costs parallelism, so it is asked for. */
  private StructType grouping() {
    StructType keys = new StructType();
    if (aggregate == null && Settings.flag(options, Settings.GROUPING)) {
      for (StructField key : comparableKeys()) {
        int place = table.partitionType().fieldIndex(key.name());
        if (plan().tasks.stream().allMatch(task -> task.tells(place))) {
          keys = keys.add(key);
        }
      }
    }
    return keys;
  }

  /** The partition columns among those that are read whose values are equal exactly where Spark's are. */
  private List<StructField> comparableKeys() {
    List<String> names = Arrays.asList(required.fieldNames());
    List<StructField> keys = new ArrayList<>();
    for (StructField key : table.partitionType().fields()) {
      if (names.contains(key.name()) && Values.isEqualAsObject(key.dataType())) {
        keys.add(key);
      }
    }
    return keys;
  }

  /** A slice's values of the columns that input partitions are grouped by. */
  List<Object> keyOf(SliceTask task, StructType grouping) {
    List<Object> key = new ArrayList<>(grouping.length());
    for (String name : grouping.fieldNames()) {
      key.add(task.partition[table.partitionType().fieldIndex(name)]);
    }
    return key;
  }

  @Override
  public Partitioning outputPartitioning() {
    StructType keys = grouping();
    int partitions = ((HeadwaterBatch) toBatch()).planInputPartitions().length;
    if (keys.length() == 0) {
      return new UnknownPartitioning(partitions);
    }
    Expression[] expressions = new Expression[keys.length()];
    for (int i = 0; i < expressions.length; i++) {
      expressions[i] = HeadwaterTable.identity(keys.fields()[i].name());
    }
    return new KeyGroupedPartitioning(expressions, partitions);
  }

  // --- runtime filters ----------------------------------------------------------------------

  @Override
  public NamedReference[] filterAttributes() {
    if (aggregate != null) {
      return new NamedReference[0];
    }
    List<NamedReference> columns = new ArrayList<>();
    for (StructField key : comparableKeys()) {
      int place = table.partitionType().fieldIndex(key.name());
      if (plan().tasks.stream().anyMatch(task -> task.tells(place))) {
        columns.add(FieldReference.column(key.name()));
      }
    }
    return columns.toArray(new NamedReference[0]);
  }

  @Override
  public synchronized void filter(Predicate[] predicates) {
    runtime.addAll(Arrays.asList(predicates));
    batch = null;
  }

  /** The plan's tasks that runtime filters leave. */
  synchronized List<SliceTask> tasks() {
    List<SliceTask> tasks = plan().tasks;
    if (runtime.isEmpty()) {
      return tasks;
    }
    List<String> keys = Arrays.asList(table.partitionType().fieldNames());
    List<SliceTask> left = new ArrayList<>();
    for (SliceTask task : tasks) {
      boolean keep = true;
      for (Predicate predicate : runtime) {
        keep = keep && Expressions.mayMatch(predicate, column -> {
          int key = column.length == 1 ? keys.indexOf(column[0]) : -1;
          return key < 0 || !task.tells(key) ? null : new Object[] {task.partition[key]};
        });
      }
      if (keep) {
        left.add(task);
      }
    }
    return left;
  }

  // --- statistics ---------------------------------------------------------------------------

  @Override
  public Statistics estimateStatistics() {
    JsonNode statistics = plan().statistics;
    Map<NamedReference, ColumnStatistics> columns = new HashMap<>();
    JsonNode known = statistics.path("columns");
    for (StructField field : data.fields()) {
      JsonNode column = known.get(field.name());
      if (column != null) {
        columns.put(FieldReference.column(field.name()),
            new KnownColumn(column, field));
      }
    }
    OptionalLong bytes = optional(statistics.get("bytes"));
    OptionalLong rows = optional(statistics.get("rows"));
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return bytes;
      }

      @Override
      public OptionalLong numRows() {
        return rows;
      }

      @Override
      public Map<NamedReference, ColumnStatistics> columnStats() {
        return columns;
      }
    };
  }

  private static OptionalLong optional(JsonNode node) {
    return node == null || node.isNull() ? OptionalLong.empty() : OptionalLong.of(node.asLong());
  }

  private static final class KnownColumn implements ColumnStatistics {
    private final JsonNode column;
    private final StructField field;

    private KnownColumn(JsonNode column, StructField field) {
      this.column = column;
      this.field = field;
    }

    @Override
    public OptionalLong distinctCount() {
      return optional(column.get("distinct"));
    }

    @Override
    public OptionalLong nullCount() {
      return optional(column.get("nulls"));
    }

    @Override
    public Optional<Object> min() {
      return value("min");
    }

    @Override
    public Optional<Object> max() {
      return value("max");
    }

    private Optional<Object> value(String name) {
      return Values.isOrderedForStatistics(field.dataType())
          ? Optional.ofNullable(Values.read(column.get(name), field.dataType()))
          : Optional.empty();
    }
  }

  // --- metrics and explain ------------------------------------------------------------------

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return HeadwaterMetrics.all();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return HeadwaterMetrics.ofDriver(plan().metrics, plan().nanos);
  }

  @Override
  public String description() {
    StringBuilder text = new StringBuilder(table.toString());
    text.append(" [");
    if (aggregate != null) {
      text.append("partial aggregates: ").append(aggregate).append("; ");
    }
    text.append("filters ").append(pushed.describe());
    if (!runtime.isEmpty()) {
      text.append("; at run time: ").append(HeadwaterScanBuilder.Pushed.brief(runtime));
    }
    if (limit != null) {
      text.append("; limit: ").append(limit);
    }
    if (firstRows != null) {
      text.append("; first rows, partially pushed: ").append(firstRows);
    }
    text.append("; slices: ").append(plan().how());
    plan().metrics.forEach((name, value) -> {
      if (name.startsWith("skipped") || name.startsWith("slices")) {
        text.append("; ").append(name).append(": ").append(value);
      }
    });
    for (String line : plan().description) {
      text.append("; ").append(HeadwaterScanBuilder.Pushed.brief(line));
    }
    return text.append("]").toString();
  }

  @Override
  public String toString() {
    return table.toString();
  }

  /** Equal scans give equal rows, so Spark may run one of them and use its exchange twice. */
  @Override
  public boolean equals(Object other) {
    if (!(other instanceof HeadwaterScan)) {
      return false;
    }
    HeadwaterScan that = (HeadwaterScan) other;
    return table.equals(that.table) && required.equals(that.required) && Objects.equals(limit, that.limit)
        && Objects.equals(firstRows, that.firstRows)
        && Objects.equals(aggregate, that.aggregate) && runtime.equals(that.runtime)
        && pushed.full.equals(that.pushed.full) && pushed.partial.equals(that.pushed.partial)
        && options.equals(that.options);
  }

  @Override
  public int hashCode() {
    return Objects.hash(table, required, limit, firstRows, aggregate, pushed.full, pushed.partial);
  }
}
