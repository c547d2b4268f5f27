package io.headwater.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * The scan's metrics in the Spark UI.
 *
 * <p>One public class each with a constructor without arguments: the UI makes them anew by class
 * name when it adds up the tasks.
 */
public final class HeadwaterMetrics {
  private HeadwaterMetrics() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {
      new SlicesTotal(), new SlicesRead(), new SkippedByPartition(), new SkippedByStatistics(), new SkippedByIndex(),
      new PlanningTime(), new RowsDropped(), new RowsAdded(), new SidecarTime(), new SidecarBytes(), new FilesRead(),
      new SlicesByMerge()
    };
  }

  /** The sidecar's planning metrics under the names that the UI knows. */
  static CustomTaskMetric[] ofDriver(Map<String, Long> metrics, long planningNanos) {
    List<CustomTaskMetric> values = new ArrayList<>();
    for (CustomMetric metric : new CustomMetric[] {
      new SlicesTotal(), new SlicesRead(), new SkippedByPartition(), new SkippedByStatistics(), new SkippedByIndex()
    }) {
      Long value = metrics.get(metric.name());
      if (value != null) {
        values.add(value(metric.name(), value));
      }
    }
    values.add(value("planning_time", planningNanos / 1_000_000));
    return values.toArray(new CustomTaskMetric[0]);
  }

  static CustomTaskMetric value(String name, long value) {
    return new CustomTaskMetric() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public long value() {
        return value;
      }
    };
  }

  private abstract static class Sum extends CustomSumMetric {
    private final String name;
    private final String description;

    Sum(String name, String description) {
      this.name = name;
      this.description = description;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String description() {
      return description;
    }
  }

  public static final class SlicesTotal extends Sum {
    public SlicesTotal() {
      super("slices_total", "file slices of the table");
    }
  }

  public static final class SlicesRead extends Sum {
    public SlicesRead() {
      super("slices_read", "file slices read");
    }
  }

  public static final class SkippedByPartition extends Sum {
    public SkippedByPartition() {
      super("skipped_by_partition", "file slices skipped by partition");
    }
  }

  public static final class SkippedByStatistics extends Sum {
    public SkippedByStatistics() {
      super("skipped_by_statistics", "file slices skipped by statistics");
    }
  }

  public static final class SkippedByIndex extends Sum {
    public SkippedByIndex() {
      super("skipped_by_index", "file slices skipped by index");
    }
  }

  public static final class PlanningTime extends Sum {
    public PlanningTime() {
      super("planning_time", "planning time (ms)");
    }
  }

  public static final class RowsDropped extends Sum {
    public RowsDropped() {
      super("rows_dropped", "base rows dropped by merging");
    }
  }

  public static final class RowsAdded extends Sum {
    public RowsAdded() {
      super("rows_added", "rows that came from the sidecar");
    }
  }

  public static final class SidecarTime extends Sum {
    public SidecarTime() {
      super("sidecar_time", "time waited for the sidecar (ms)");
    }
  }

  public static final class SidecarBytes extends Sum {
    public SidecarBytes() {
      super("sidecar_bytes", "bytes from the sidecar");
    }
  }

  public static final class FilesRead extends Sum {
    public FilesRead() {
      super("files_read", "splits of base files read by Spark's Parquet reader");
    }
  }

  public static final class SlicesByMerge extends Sum {
    public SlicesByMerge() {
      super("slices_by_sidecar", "file slices read whole by the sidecar");
    }
  }
}
