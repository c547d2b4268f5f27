package io.headwater.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** Spark's V2 predicates in the sidecar's form. What has no form there is null, never approximated. */
final class Expressions {
  private static final Set<String> OPERATORS =
      Set.of("=", "<=>", "<>", "<", "<=", ">", ">=", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH",
          "CONTAINS", "AND", "OR", "NOT", "ALWAYS_TRUE", "ALWAYS_FALSE");

  private Expressions() {}

  static JsonNode json(Expression expression) {
    if (expression instanceof Literal) {
      Literal<?> literal = (Literal<?>) expression;
      if (literal.value() != null && !Values.isPlain(literal.dataType())) {
        return null;
      }
      ObjectNode node = Json.object();
      Values.write(node, "lit", literal.value(), literal.dataType());
      return node.put("type", literal.dataType().typeName());
    }
    if (expression instanceof NamedReference) {
      ObjectNode node = Json.object();
      ArrayNode path = node.putArray("col");
      for (String name : ((NamedReference) expression).fieldNames()) {
        path.add(name);
      }
      return node;
    }
    if (expression instanceof Cast) {
      Cast cast = (Cast) expression;
      JsonNode child = json(cast.expression());
      if (child == null || !Values.isPlain(cast.dataType())) {
        return null;
      }
      ObjectNode node = Json.object().put("op", "CAST").put("type", cast.dataType().typeName());
      node.putArray("args").add(child);
      return node;
    }
    if (expression instanceof Predicate && OPERATORS.contains(((Predicate) expression).name())) {
      ObjectNode node = Json.object().put("op", ((Predicate) expression).name());
      ArrayNode args = node.putArray("args");
      for (Expression child : expression.children()) {
        JsonNode arg = json(child);
        if (arg == null) {
          return null;
        }
        args.add(arg);
      }
      return node;
    }
    return null;
  }

  /**
   * Whether a value may pass a runtime filter. Only the forms that Spark makes at run time are
   * judged (equality and IN with literals); for any other the answer is true.
   */
  static boolean mayMatch(Predicate predicate, java.util.function.Function<String[], Object[]> valueOf) {
    String name = predicate.name();
    if (!name.equals("IN") && !name.equals("=")) {
      return true;
    }
    Expression[] children = predicate.children();
    if (children.length == 0 || !(children[0] instanceof NamedReference)) {
      return true;
    }
    Object[] value = valueOf.apply(((NamedReference) children[0]).fieldNames());
    if (value == null) {
      return true;
    }
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal)) {
        return true;
      }
      Object candidate = ((Literal<?>) children[i]).value();
      if (candidate != null && candidate.equals(value[0])) {
        return true;
      }
    }
    return false;
  }
}
