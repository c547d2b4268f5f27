package io.headwater.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** The partitions of a table that filters leave which Spark alone can evaluate ({@link PartitionFilters}). */
final class ChosenPartitions {
  /** Below the table's root. */
  final List<String> paths;
  /** Filters that the paths decide. */
  final List<String> decided;
  /** Filters that some partition's path leaves open: Spark evaluates them again. */
  final List<String> left;
  private final Set<Expression> seen;

  ChosenPartitions(List<String> paths, List<String> decided, List<String> left, Set<Expression> seen) {
    this.paths = List.copyOf(paths);
    this.decided = List.copyOf(decided);
    this.left = List.copyOf(left);
    this.seen = Set.copyOf(seen);
  }

  boolean hasSeen(Expression filter) {
    return seen.contains(filter.canonicalized());
  }

  /** Those that are chosen by both. */
  ChosenPartitions and(ChosenPartitions other) {
    List<String> both = new ArrayList<>(paths);
    both.retainAll(new HashSet<>(other.paths));
    Set<Expression> all = new HashSet<>(seen);
    all.addAll(other.seen);
    return new ChosenPartitions(both, joined(decided, other.decided), joined(left, other.left), all);
  }

  private static List<String> joined(List<String> first, List<String> second) {
    List<String> both = new ArrayList<>(first);
    both.addAll(second);
    return both;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ChosenPartitions && paths.equals(((ChosenPartitions) other).paths)
        && decided.equals(((ChosenPartitions) other).decided) && left.equals(((ChosenPartitions) other).left);
  }

  @Override
  public int hashCode() {
    return Objects.hash(paths, decided, left);
  }
}
