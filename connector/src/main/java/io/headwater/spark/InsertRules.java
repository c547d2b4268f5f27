package io.headwater.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Function1;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * What Spark's analyzer does not know about inserts into these tables.
 *
 * <p>It runs twice: early, before Spark compares the columns of a write whose table is known by then, and among the rules
 * that resolve names.
 *
 * <ul>
 *   <li>Their own columns ({@code _hoodie_…}) are made by each write. {@code INSERT INTO t VALUES (…)} names the user's
 *       columns by position, so the table stands there without the others; and {@code INSERT INTO t SELECT * FROM u}
 *       leaves out those of {@code u}.
 *   <li>{@code INSERT OVERWRITE} of the partitions that the rows are in is for Spark a write of version 2. Here it is one
 *       of version 1, as all others: an overwrite with an option that says so.
 * </ul>
 */
final class InsertRules extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return changed(node) != null;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        LogicalPlan made = changed(node);
        return made == null ? otherwise.apply(node) : (B) made;
      }
    });
  }

  private static LogicalPlan changed(LogicalPlan node) {
    if (node instanceof InsertIntoStatement) {
      return insert((InsertIntoStatement) node);
    }
    if (!(node instanceof V2WriteCommand)) {
      return null;
    }
    V2WriteCommand write = (V2WriteCommand) node;
    HeadwaterTable table = ours((LogicalPlan) write.table());
    if (table == null) {
      return null;
    }
    if (!write.isByName() && table.hasOwnColumns()) {
      // df.write.insertInto(…); by name, the table's own columns may be there or not
      V2WriteCommand swapped = write.withNewTable((NamedRelation) forInserts((DataSourceV2Relation) write.table()));
      LogicalPlan query = withoutOwnColumns(write.query());
      return (LogicalPlan) (query == null ? swapped : swapped.withNewQuery(query));
    }
    if (write instanceof OverwritePartitionsDynamic && write.resolved()) {
      return SparkInternals.overwriteAll(
          write.table(), write.query(),
          ((OverwritePartitionsDynamic) write).writeOptions().updated(HeadwaterWriteBuilder.DYNAMIC, "true"));
    }
    return null;
  }

  private static LogicalPlan insert(InsertIntoStatement insert) {
    HeadwaterTable table = ours(insert.table());
    if (table == null) {
      return null;
    }
    Object[] parts = parts(insert);
    LogicalPlan query = insert.userSpecifiedCols().isEmpty() && !insert.byName() ? withoutOwnColumns(insert.query()) : null;
    if (!table.hasOwnColumns() && query == null) {
      return null;
    }
    for (int i = 0; i < parts.length; i++) {
      if (parts[i] == insert.table() && table.hasOwnColumns()) {
        parts[i] = forInserts((DataSourceV2Relation) insert.table());
      } else if (parts[i] == insert.query() && query != null) {
        parts[i] = query;
      }
    }
    return (LogicalPlan) insert.makeCopy(parts);
  }

  private static LogicalPlan forInserts(DataSourceV2Relation relation) {
    Object[] parts = parts(relation);
    parts[0] = ours(relation).forInserts();
    parts[1] = users(relation);
    return (LogicalPlan) relation.makeCopy(parts);
  }

  /** The rows without the columns that a table of ours has first; null where they have none, or are not known yet. */
  private static LogicalPlan withoutOwnColumns(LogicalPlan query) {
    return query.resolved() && hasOwnColumnsFirst(query) ? new Project(users(query), query) : null;
  }

  private static HeadwaterTable ours(LogicalPlan relation) {
    return relation instanceof DataSourceV2Relation
            && ((DataSourceV2Relation) relation).table() instanceof HeadwaterTable
        ? (HeadwaterTable) ((DataSourceV2Relation) relation).table()
        : null;
  }

  private static boolean hasOwnColumnsFirst(LogicalPlan query) {
    List<String> own = HeadwaterTable.OWN_COLUMNS;
    List<Attribute> columns = JavaConverters.seqAsJavaList(query.output());
    for (int i = 0; i < own.size(); i++) {
      if (columns.size() <= own.size() || !columns.get(i).name().equals(own.get(i))) {
        return false;
      }
    }
    return true;
  }

  /** What a plan gives, less the tables' own columns. */
  private static scala.collection.immutable.List<NamedExpression> users(LogicalPlan plan) {
    List<NamedExpression> found = new ArrayList<>();
    for (Attribute column : JavaConverters.seqAsJavaList(plan.output())) {
      if (!HeadwaterTable.OWN_COLUMNS.contains(column.name())) {
        found.add(column);
      }
    }
    return JavaConverters.asScalaBuffer(found).toList();
  }

  private static Object[] parts(LogicalPlan plan) {
    Object[] found = new Object[plan.productArity()];
    for (int i = 0; i < found.length; i++) {
      found[i] = plan.productElement(i);
    }
    return found;
  }
}
