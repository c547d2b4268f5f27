package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.StringPredicate;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Filters on partition columns that reach no scan builder, for they are more than comparisons: {@code CAST(dt AS DATE) >=
 * date_sub(current_date(), 7)}, {@code substr(month, 1, 4) = '2026'}.
 *
 * <p>Spark's own file sources evaluate them for each partition, so the same is done here, with the values that paths
 * tell. A filter that they decide for all partitions is done with; one that they leave open for some stays.
 */
final class PartitionFilters extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan) plan.transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return node instanceof Filter;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        LogicalPlan made = node instanceof Filter ? changed((Filter) node) : null;
        return made == null ? otherwise.apply(node) : (B) made;
      }
    });
  }

  private static LogicalPlan changed(Filter filter) {
    if (!(filter.child() instanceof DataSourceV2Relation)) {
      return null;
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) filter.child();
    HeadwaterTable table = ours(relation);
    if (table == null || table.partitionType().length() == 0 || !table.isReadWith(relation.options())) {
      return null;
    }
    ChosenPartitions chosen = null;
    Expression left = null;
    for (Expression part : conjuncts(named(filter.condition(), relation), new ArrayList<>())) {
      ChosenPartitions found = isOfPartitions(part, relation, table) ? choose(part, table) : null;
      if (found != null) {
        chosen = chosen == null ? found : chosen.and(found);
      }
      if (found == null || found.decided.isEmpty()) {
        left = left == null ? part : new And(left, part);
      }
    }
    if (chosen == null) {
      return null;
    }
    Object[] parts = new Object[relation.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = relation.productElement(i);
    }
    parts[0] = table.of(chosen);
    LogicalPlan read = (LogicalPlan) relation.makeCopy(parts);
    return left == null ? read : new Filter(left, read);
  }

  /** A condition with columns as the table calls them: a query may write them in another case. */
  private static Expression named(Expression condition, DataSourceV2Relation relation) {
    Map<ExprId, Expression> columns = new HashMap<>();
    JavaConverters.seqAsJavaList(relation.output()).forEach(column -> columns.put(column.exprId(), column));
    return (Expression) condition.transform(new AbstractPartialFunction<Expression, Expression>() {
      @Override
      public boolean isDefinedAt(Expression node) {
        return node instanceof AttributeReference && columns.containsKey(((AttributeReference) node).exprId());
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends Expression, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        return isDefinedAt(node) ? (B) columns.get(((AttributeReference) (Expression) node).exprId()) : otherwise.apply(node);
      }
    });
  }

  /** The table that a plan reads; null where it is not one of ours, or is read by Spark's Python data source. */
  private static HeadwaterTable ours(DataSourceV2Relation relation) {
    Table table = relation.table();
    if (table instanceof PathTable) {
      table = ((PathTable) table).opened();
    }
    return table instanceof HeadwaterTable ? (HeadwaterTable) table : null;
  }

  private static List<Expression> conjuncts(Expression condition, List<Expression> found) {
    if (condition instanceof And) {
      conjuncts(((And) condition).left(), found);
      conjuncts(((And) condition).right(), found);
    } else {
      found.add(condition);
    }
    return found;
  }

  /** Whether a filter asks for nothing but partition columns, and in a way that no scan builder hears of. */
  private static boolean isOfPartitions(Expression filter, DataSourceV2Relation relation, HeadwaterTable table) {
    if (!filter.deterministic() || isPlain(filter)) {
      return false;
    }
    Set<String> keys = new HashSet<>();
    for (StructField key : table.partitionType().fields()) {
      if (Values.isEqualAsObject(key.dataType())) {
        keys.add(key.name());
      }
    }
    List<AttributeReference> columns = new ArrayList<>();
    return canEvaluate(filter, columns) && !columns.isEmpty()
        && columns.stream().allMatch(column -> relation.outputSet().contains(column) && keys.contains(column.name()));
  }

  /** Whether it is made of comparisons of columns with constants, which the scan builder is handed. */
  private static boolean isPlain(Expression filter) {
    if (filter instanceof And || filter instanceof Or || filter instanceof Not) {
      return children(filter).stream().allMatch(PartitionFilters::isPlain);
    }
    boolean known = filter instanceof BinaryComparison || filter instanceof In || filter instanceof InSet
        || filter instanceof IsNull || filter instanceof IsNotNull || filter instanceof StringPredicate;
    return (known || filter instanceof AttributeReference || filter instanceof Literal)
        && children(filter).stream().allMatch(one -> one instanceof AttributeReference || one instanceof Literal);
  }

  private static boolean canEvaluate(Expression expression, List<AttributeReference> columns) {
    if (expression instanceof AttributeReference) {
      columns.add((AttributeReference) expression);
      return true;
    }
    return !(expression instanceof Unevaluable)
        && children(expression).stream().allMatch(child -> canEvaluate(child, columns));
  }

  private static List<Expression> children(Expression expression) {
    return JavaConverters.seqAsJavaList(expression.children());
  }

  /** The partitions that a filter leaves; null where evaluating it fails, which is for the query to tell. */
  private static ChosenPartitions choose(Expression filter, HeadwaterTable table) {
    StructType keys = table.partitionType();
    Map<String, Integer> places = new HashMap<>();
    for (int i = 0; i < keys.length(); i++) {
      places.put(keys.fields()[i].name(), i);
    }
    List<AttributeReference> columns = new ArrayList<>();
    canEvaluate(filter, columns);
    BasePredicate predicate = Predicate$.MODULE$.createInterpreted(bound(filter, places));
    List<String> kept = new ArrayList<>();
    boolean decided = true;
    try {
      for (JsonNode partition : table.handle().partitions()) {
        JsonNode values = partition.path("values");
        boolean told = columns.stream().allMatch(column -> values.has(column.name()));
        decided &= told;
        if (!told || predicate.eval(row(values, keys))) {
          kept.add(partition.path("path").asText());
        }
      }
    } catch (Exception e) {
      // A cast that fails, a user's function that throws: Spark says so when it evaluates the filter for a row.
      return null;
    }
    List<String> text = List.of(described(filter));
    return new ChosenPartitions(kept, decided ? text : List.of(), decided ? List.of() : text);
  }

  /** As Spark words it where it offers the filter to a scan builder, else as SQL. */
  private static String described(Expression filter) {
    Option<?> offered = new V2ExpressionBuilder(filter, true).build();
    return offered.isDefined() ? offered.get().toString() : filter.sql();
  }

  private static InternalRow row(JsonNode values, StructType keys) {
    Object[] row = new Object[keys.length()];
    for (int i = 0; i < row.length; i++) {
      row[i] = Values.read(values.get(keys.fields()[i].name()), keys.fields()[i].dataType());
    }
    return new GenericInternalRow(row);
  }

  private static Expression bound(Expression filter, Map<String, Integer> places) {
    return (Expression) filter.transform(new AbstractPartialFunction<Expression, Expression>() {
      @Override
      public boolean isDefinedAt(Expression node) {
        return node instanceof AttributeReference;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends Expression, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        if (!(node instanceof AttributeReference)) {
          return otherwise.apply(node);
        }
        AttributeReference column = (AttributeReference) (Expression) node;
        return (B) new BoundReference(places.get(column.name()), column.dataType(), true);
      }
    });
  }
}
