package io.headwater.spark;

import java.io.IOException;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A split of a slice with logs: the base file's rows without those that merging dropped, then, for
 * the split at byte 0, the rows that merging added.
 *
 * <p>Rows that are not dropped are final, so the base file is read with filters pushed down as if
 * there were no logs.
 */
final class PositionalReader implements PartitionReader<ColumnarBatch> {
  private final ReadMetrics metrics;
  private final ParquetSplitReader base;
  private final ReadSpec spec;
  private final SliceTask task;
  /** Whether this split gives the rows that merging added. */
  private final boolean addsRows;
  /** Those rows, from when they are asked for. */
  private StreamReader added;
  private long[] dropped;
  private int[] kept = new int[0];
  private ColumnarBatch whole;
  private ColumnarBatch selected;
  private ColumnarBatch current;
  private boolean baseDone;

  PositionalReader(ReadSpec spec, FileShape shape, HeadwaterBatch.Split split, ReadMetrics metrics) throws IOException {
    this.spec = spec;
    this.task = split.task;
    this.metrics = metrics;
    this.addsRows = split.start == 0;
    if (addsRows && spec.limit == null) {
      // The sidecar starts first: it computes while the base file is opened here.
      this.added = openAdded();
    }
    try {
      this.base = new ParquetSplitReader(spec, shape, split, true);
    } catch (IOException | RuntimeException e) {
      if (added != null) {
        added.close();
      }
      throw e;
    }
  }

  private StreamReader openAdded() {
    return new StreamReader(spec, task, task.request("merge").put("rows", true), true);
  }

  @Override
  public boolean next() throws IOException {
    if (dropped == null) {
      dropped =
          added == null
              ? DroppedPositions.of(spec, task, DroppedPositions.ask(spec, task, metrics))
              : DroppedPositions.of(spec, task, added.stream()::awaitPositions);
    }
    while (!baseDone && base.next()) {
      ColumnarBatch batch = base.get();
      int rows = batch.numRows();
      long first = base.firstPosition();
      int left = first >= 0 ? selectRange(first, first + rows - 1, rows) : select(base.positions(), rows);
      if (left == rows) {
        current = base.all();
        return true;
      }
      metrics.rowsDropped += rows - left;
      if (left > 0) {
        current = base.canKeep() ? base.keep(kept, left) : selection(batch, left);
        return true;
      }
    }
    if (!baseDone) {
      baseDone = true;
      checkAllFound();
      if (addsRows && added == null) {
        // Few rows are wanted, and the base file had fewer.
        added = openAdded();
      }
    }
    if (added != null && added.next()) {
      current = added.get();
      return true;
    }
    return false;
  }

  /** A position behind the last row: the logs are those of another base file. */
  private void checkAllFound() throws IOException {
    long rows = base.rowsOfFile();
    long last = 64L * dropped.length - 1;
    while (rows >= 0 && last >= rows) {
      if ((dropped[(int) (last >>> 6)] >>> last & 1L) != 0) {
        throw new IOException("CorruptFile: " + task.file() + " has " + rows + " rows, and its logs replace row " + last
            + "; restore the files of this slice");
      }
      last--;
    }
  }

  /** Fills {@link #kept} and returns how many rows are kept; when all are, the list is not filled. */
  private int select(long[] positions, int rows) {
    if (rows == 0) {
      return 0;
    }
    long first = positions[0];
    long last = positions[rows - 1];
    if (last - first == rows - 1) {
      return selectRange(first, last, rows);
    }
    // Pages were skipped by a filter, so the batch has gaps.
    reserve(rows);
    int left = 0;
    for (int row = 0; row < rows; row++) {
      long position = positions[row];
      int word = (int) (position >>> 6);
      long bit = word < dropped.length ? dropped[word] >>> position & 1L : 0L;
      kept[left] = row;
      left += (int) (1L - bit);
    }
    return left;
  }

  /** Rows that follow each other in the file: whole words of the bitmap are tested at once. */
  private int selectRange(long first, long last, int rows) {
    if (rows == 0) {
      return 0;
    }
    int firstWord = (int) (first >>> 6);
    int lastWord = (int) Math.min(last >>> 6, dropped.length - 1L);
    boolean any = false;
    for (int word = firstWord; word <= lastWord && !any; word++) {
      any = within(word, first, last) != 0;
    }
    if (!any) {
      return rows;
    }
    reserve(rows);
    int left = 0;
    int row = 0;
    for (int word = firstWord; word <= lastWord; word++) {
      long bits = within(word, first, last);
      int end = (int) (Math.min(last, ((long) word << 6) + 63) - first) + 1;
      while (bits != 0) {
        int drop = (int) (((long) word << 6) + Long.numberOfTrailingZeros(bits) - first);
        while (row < drop) {
          kept[left++] = row++;
        }
        row++;
        bits &= bits - 1;
      }
      while (row < end) {
        kept[left++] = row++;
      }
    }
    while (row < rows) {
      kept[left++] = row++;
    }
    return left;
  }

  /** The bits of a word that are for positions from first to last. */
  private long within(int word, long first, long last) {
    long bits = dropped[word];
    long start = (long) word << 6;
    if (start < first) {
      bits &= -1L << (first - start);
    }
    if (last < start + 63) {
      bits &= -1L >>> (start + 63 - last);
    }
    return bits;
  }

  private void reserve(int rows) {
    if (kept.length < rows) {
      kept = new int[Math.max(rows, 4096)];
      whole = null;
    }
  }

  private ColumnarBatch selection(ColumnarBatch batch, int rows) {
    if (whole != batch) {
      whole = batch;
      ColumnVector[] columns = new ColumnVector[batch.numCols()];
      for (int i = 0; i < columns.length; i++) {
        ColumnVector column = batch.column(i);
        columns[i] = Values.isConstant(column) ? column : new SelectedColumnVector(column, kept);
      }
      selected = new ColumnarBatch(columns);
    }
    selected.setNumRows(rows);
    return selected;
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  @Override
  public void close() throws IOException {
    try {
      base.close();
    } finally {
      if (added != null) {
        added.close();
        metrics.rowsAdded += added.rows();
        metrics.add(added.stream());
      }
    }
  }
}
