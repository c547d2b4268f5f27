package io.headwater.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;

/** The partitions of a table that filters leave which Spark alone can evaluate ({@link PartitionFilters}). */
final class ChosenPartitions {
  /** Below the table's root. */
  final List<String> paths;
  /** Filters that the paths decide. */
  final List<String> decided;
  /** Filters that some partition's path leaves open: Spark evaluates them again. */
  final List<String> left;

  ChosenPartitions(List<String> paths, List<String> decided, List<String> left) {
    this.paths = List.copyOf(paths);
    this.decided = List.copyOf(decided);
    this.left = List.copyOf(left);
  }

  /** Those that are chosen by both. */
  ChosenPartitions and(ChosenPartitions other) {
    List<String> both = new ArrayList<>(paths);
    both.retainAll(new HashSet<>(other.paths));
    return new ChosenPartitions(both, joined(decided, other.decided), joined(left, other.left));
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
