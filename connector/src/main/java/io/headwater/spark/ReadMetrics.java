package io.headwater.spark;

import io.headwater.spark.sidecar.SidecarStream;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What one Spark task has read so far. */
final class ReadMetrics {
  long rowsDropped;
  long rowsAdded;
  long sidecarNanos;
  long sidecarBytes;
  long filesRead;
  long slicesBySidecar;

  /** Adds what a finished stream cost. */
  void add(SidecarStream stream) {
    sidecarNanos += stream.nanos();
    sidecarBytes += stream.bytes();
  }

  CustomTaskMetric[] values() {
    return new CustomTaskMetric[] {
      HeadwaterMetrics.value("rows_dropped", rowsDropped),
      HeadwaterMetrics.value("rows_added", rowsAdded),
      HeadwaterMetrics.value("sidecar_time", sidecarNanos / 1_000_000),
      HeadwaterMetrics.value("sidecar_bytes", sidecarBytes),
      HeadwaterMetrics.value("files_read", filesRead),
      HeadwaterMetrics.value("slices_by_sidecar", slicesBySidecar)
    };
  }
}
