package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects what Spark's optimizer pushes down; which class a filter is of, the sidecar says. */
final class HeadwaterScanBuilder
    implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownAggregates,
        SupportsPushDownLimit, SupportsPushDownTopN {
  private final HeadwaterTable table;
  private final CaseInsensitiveStringMap options;
  private final List<Predicate> full = new ArrayList<>();
  private final List<Predicate> partial = new ArrayList<>();
  private final List<Predicate> none = new ArrayList<>();
  private StructType required;
  private Integer limit;
  private FirstRows firstRows;
  private Aggregation asked;
  private AggregatePlan aggregate;
  private AggregatePlan pushedAggregate;

  HeadwaterScanBuilder(HeadwaterTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    this.required = table.schema();
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    ObjectNode request = Json.object().put("op", "push");
    ArrayNode sent = request.putArray("predicates");
    for (Predicate predicate : predicates) {
      JsonNode json = Expressions.json(predicate);
      if (json == null) {
        sent.addNull();
      } else {
        sent.add(json);
      }
    }
    JsonNode classes = table.handle().call(request).path("classes");
    if (classes.size() != predicates.length) {
      throw new IllegalStateException(
          "the sidecar classed " + classes.size() + " of " + predicates.length + " filters; is the jar of another release?");
    }
    List<Predicate> after = new ArrayList<>();
    for (int i = 0; i < predicates.length; i++) {
      switch (classes.get(i).asText()) {
        case "full":
          full.add(predicates[i]);
          break;
        case "partial":
          partial.add(predicates[i]);
          after.add(predicates[i]);
          break;
        default:
          none.add(predicates[i]);
          after.add(predicates[i]);
      }
    }
    return after.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    List<Predicate> pushed = new ArrayList<>(full);
    pushed.addAll(partial);
    return pushed.toArray(new Predicate[0]);
  }

  @Override
  public void pruneColumns(StructType schema) {
    required = schema;
  }

  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  /** Spark sorts and cuts what comes; the sidecar leaves out slices that cannot hold a row of the answer. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (pushedAggregate != null || orders.length == 0 || !(orders[0].expression() instanceof NamedReference)) {
      return false;
    }
    firstRows = new FirstRows(orders, limit);
    return true;
  }

  /** Of limits and of first rows alike: Spark does its part again. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    AggregatePlan plan = planAggregate(aggregation);
    return plan != null && plan.isComplete();
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    pushedAggregate = planAggregate(aggregation);
    return pushedAggregate != null;
  }

  private AggregatePlan planAggregate(Aggregation aggregation) {
    if (asked != aggregation) {
      asked = aggregation;
      aggregate = null;
      ObjectNode request = aggregateRequest(aggregation);
      StructType schema = request == null ? null : aggregateSchema(aggregation);
      if (schema != null) {
        long start = System.nanoTime();
        JsonNode answer = table.handle().call(request);
        if (answer.path("supported").asBoolean()) {
          aggregate = new AggregatePlan(answer, schema, String.valueOf(describe(aggregation)), System.nanoTime() - start);
        }
      }
    }
    return aggregate;
  }

  private static String describe(Aggregation aggregation) {
    List<String> parts = new ArrayList<>();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      parts.add(function.toString());
    }
    List<String> groups = new ArrayList<>();
    for (Expression group : aggregation.groupByExpressions()) {
      groups.add(group.toString());
    }
    return String.join(", ", parts) + (groups.isEmpty() ? "" : " BY " + String.join(", ", groups));
  }

  private ObjectNode aggregateRequest(Aggregation aggregation) {
    ObjectNode request =
        Json.object().put("op", "aggregate_plan").put("parallelism", SparkInternals.parallelism());
    putPredicates(request);
    ArrayNode functions = request.putArray("aggregates");
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      String name;
      Expression column = null;
      if (function instanceof CountStar) {
        name = "count_star";
      } else if (function instanceof Count && !((Count) function).isDistinct()) {
        name = "count";
        column = ((Count) function).column();
      } else if (function instanceof Min) {
        name = "min";
        column = ((Min) function).column();
      } else if (function instanceof Max) {
        name = "max";
        column = ((Max) function).column();
      } else {
        return null;
      }
      ObjectNode sent = functions.addObject().put("function", name);
      if (column != null) {
        if (!(column instanceof NamedReference)) {
          return null;
        }
        ArrayNode path = sent.putArray("column");
        for (String part : ((NamedReference) column).fieldNames()) {
          path.add(part);
        }
      }
    }
    ArrayNode groups = request.putArray("group_by");
    for (Expression group : aggregation.groupByExpressions()) {
      if (!(group instanceof NamedReference) || ((NamedReference) group).fieldNames().length != 1) {
        return null;
      }
      groups.add(((NamedReference) group).fieldNames()[0]);
    }
    putOptions(request);
    return request;
  }

  /** The columns that Spark expects of a pushed aggregate: its groups, then its functions. */
  private StructType aggregateSchema(Aggregation aggregation) {
    StructType schema = new StructType();
    for (Expression group : aggregation.groupByExpressions()) {
      DataType type = typeOf(((NamedReference) group).fieldNames());
      if (type == null) {
        return null;
      }
      schema = schema.add(((NamedReference) group).fieldNames()[0], type);
    }
    int index = 0;
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Expression column =
          function instanceof Min ? ((Min) function).column() : function instanceof Max ? ((Max) function).column() : null;
      DataType type = column == null ? DataTypes.LongType : typeOf(((NamedReference) column).fieldNames());
      if (type == null) {
        return null;
      }
      schema = schema.add("agg_" + index++, type);
    }
    return schema;
  }

  private DataType typeOf(String[] path) {
    DataType type = table.schema();
    for (String part : path) {
      DataType found = null;
      if (type instanceof StructType) {
        for (StructField field : ((StructType) type).fields()) {
          if (field.name().equals(part)) {
            found = field.dataType();
          }
        }
      }
      type = found;
    }
    return type != null && Values.isPlain(type) ? type : null;
  }

  private void putPredicates(ObjectNode request) {
    ArrayNode predicates = request.putArray("predicates");
    full.forEach(predicate -> predicates.add(Expressions.json(predicate)));
    partial.forEach(predicate -> predicates.add(Expressions.json(predicate)));
    if (table.chosen() != null) {
      table.chosen().paths.forEach(request.putArray("partitions")::add);
    }
  }

  private void putOptions(ObjectNode request) {
    ObjectNode sent = request.putObject("options");
    Settings.forSidecar(options.asCaseSensitiveMap()).forEach(sent::put);
  }

  @Override
  public Scan build() {
    Pushed pushed = new Pushed(full, partial, none, table.chosen());
    if (pushedAggregate != null) {
      if (pushedAggregate.isComplete()) {
        return new HeadwaterLocalScan(table, pushedAggregate, pushed);
      }
      return HeadwaterScan.ofAggregate(table, options, pushedAggregate, pushed);
    }
    StructType data = new StructType();
    StructType metadata = new StructType();
    StructType known = table.schema();
    for (StructField field : required.fields()) {
      if (java.util.Arrays.asList(known.fieldNames()).contains(field.name())) {
        data = data.add(field);
      } else {
        metadata = metadata.add(field);
      }
    }
    ObjectNode request = Json.object().put("op", "plan");
    request.set("read_schema", Json.parse(data.json()));
    ArrayNode names = request.putArray("metadata_columns");
    for (String name : metadata.fieldNames()) {
      names.add(name);
    }
    putPredicates(request);
    if (limit == null) {
      request.putNull("limit");
    } else {
      request.put("limit", limit);
    }
    if (firstRows != null) {
      request.set("top", firstRows.json());
    }
    request.putNull("reader");
    putOptions(request);
    return new HeadwaterScan(table, options, required, data, metadata, pushed, limit, firstRows, request);
  }

  /** The three classes of filters, as they stand in {@code explain()}. */
  static final class Pushed {
    private static final int LONGEST = 2000;
    final List<Predicate> full;
    final List<Predicate> partial;
    final List<Predicate> none;
    private final ChosenPartitions chosen;

    Pushed(List<Predicate> full, List<Predicate> partial, List<Predicate> none, ChosenPartitions chosen) {
      this.full = List.copyOf(full);
      this.partial = List.copyOf(partial);
      this.none = List.copyOf(none);
      this.chosen = chosen;
    }

    String describe() {
      List<Object> fully = new ArrayList<>(full);
      List<Object> partially = new ArrayList<>(partial);
      List<Object> not = new ArrayList<>(none);
      if (chosen != null) {
        fully.addAll(chosen.decided);
        partially.addAll(chosen.left);
        not.removeIf(predicate -> chosen.left.contains(predicate.toString()));
      }
      return "fully pushed: " + brief(fully) + ", partially pushed: " + brief(partially) + ", not pushed: " + brief(not);
    }

    /** Spark keeps the text of each plan that ran: thousands of literals have no place in it. */
    static String brief(Object told) {
      String text = told.toString();
      return text.length() <= LONGEST ? text : text.substring(0, LONGEST) + "… (" + text.length() + " characters)";
    }
  }

  /** {@code ORDER BY … LIMIT}. */
  static final class FirstRows {
    private final SortOrder[] orders;
    private final int limit;

    FirstRows(SortOrder[] orders, int limit) {
      this.orders = orders.clone();
      this.limit = limit;
    }

    private JsonNode json() {
      ObjectNode top = Json.object().put("limit", limit);
      ArrayNode sent = top.putArray("orders");
      for (SortOrder order : orders) {
        ObjectNode one = sent.addObject();
        // An order by anything but a column is Spark's; it decides among rows that are equal in the first one.
        ArrayNode path = one.putArray("column");
        if (order.expression() instanceof NamedReference) {
          for (String part : ((NamedReference) order.expression()).fieldNames()) {
            path.add(part);
          }
        }
        one.put("descending", order.direction() == SortDirection.DESCENDING);
        one.put("nulls_first", order.nullOrdering() == NullOrdering.NULLS_FIRST);
      }
      return top;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof FirstRows && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
      return toString().hashCode();
    }

    @Override
    public String toString() {
      List<String> parts = new ArrayList<>();
      for (SortOrder order : orders) {
        parts.add(order.expression() + " " + order.direction() + " " + order.nullOrdering());
      }
      return limit + " by " + String.join(", ", parts);
    }
  }
}
