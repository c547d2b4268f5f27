package io.headwater.spark;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.DataPage;
import org.apache.parquet.column.page.DataPageV1;
import org.apache.parquet.column.page.DataPageV2;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.column.page.PageReader;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;

/**
 * A column of plain texts or bytes, read into one of Spark's vectors a batch at a time.
 *
 * <p>Spark's reader makes two slices of a buffer for each value and copies the values one by one. A plain
 * page holds them one behind the other, so here a batch's part of it is copied at once, lengths and all, and
 * the vector is told where each value lies in it.
 */
final class TextColumn implements AutoCloseable {
  private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final Set<Encoding> PLAIN = EnumSet.of(Encoding.PLAIN, Encoding.RLE, Encoding.BIT_PACKED);

  private final ColumnDescriptor column;
  private final WritableColumnVector vector;
  private PageReader pages;
  private byte[] page;
  private int at;
  private int end;
  /** Rows of the page that are still to be read, nulls too. */
  private int left;
  private int rowsOfPage;
  /** For each row of the page whether it has a value; null where all have. */
  private boolean[] present;

  TextColumn(ColumnDescriptor column, WritableColumnVector vector) {
    this.column = column;
    this.vector = vector;
  }

  /** Whether a column of the file is of this kind, as far as its type tells. */
  static boolean isText(Type stored, DataType type) {
    return stored.isPrimitive() && !stored.isRepetition(Type.Repetition.REPEATED)
        && stored.asPrimitiveType().getPrimitiveTypeName() == PrimitiveTypeName.BINARY
        && (type instanceof StringType || type instanceof BinaryType);
  }

  /** Whether all pages of these encodings hold plain values. */
  static boolean isPlain(Set<Encoding> encodings) {
    return encodings.contains(Encoding.PLAIN) && PLAIN.containsAll(encodings);
  }

  WritableColumnVector vector() {
    return vector;
  }

  /** Goes on with the pages of a row group. */
  void start(PageReadStore rowGroup) {
    pages = rowGroup.getPageReader(column);
    left = 0;
  }

  /** Fills the vector with the next rows. */
  void read(int rows) throws IOException {
    vector.reset();
    int row = 0;
    while (row < rows) {
      while (left == 0) {
        nextPage();
      }
      int count = Math.min(left, rows - row);
      readValues(row, count);
      row += count;
      left -= count;
    }
  }

  private void readValues(int row, int count) throws IOException {
    WritableColumnVector bytes = vector.arrayData();
    int first = at;
    int moved = bytes.getElementsAppended() - first;
    int position = first;
    int source = rowsOfPage - left;
    for (int i = row; i < row + count; i++) {
      if (present == null || present[source++]) {
        int length = length(position);
        position += Integer.BYTES;
        vector.putArray(i, position + moved, length);
        position += length;
      } else {
        vector.putNull(i);
      }
    }
    bytes.appendBytes(position - first, page, first);
    at = position;
  }

  /** The length of the value at a place in the page, all of which must be there. */
  private int length(int position) throws IOException {
    int most = end - position - Integer.BYTES;
    int length = most < 0 ? -1 : (int) INT.get(page, position);
    if (length < 0 || length > most) {
      throw new IOException("a page of column " + String.join(".", column.getPath()) + " ends in the middle of a value");
    }
    return length;
  }

  private void nextPage() throws IOException {
    DataPage next = pages.readPage();
    if (next == null) {
      throw new IOException("column " + String.join(".", column.getPath()) + " has fewer rows than its row group");
    }
    if (next instanceof DataPageV1) {
      DataPageV1 one = (DataPageV1) next;
      open(one.getBytes(), one.getValueEncoding());
      if (hasLevels()) {
        if (one.getDlEncoding() != Encoding.RLE) {
          throw new IOException("levels of encoding " + one.getDlEncoding());
        }
        // Levels of a page of version 1 say their length first.
        int length = length(at);
        readLevels(page, at + Integer.BYTES, one.getValueCount());
        at += Integer.BYTES + length;
      }
    } else {
      DataPageV2 two = (DataPageV2) next;
      if (hasLevels()) {
        byte[] levels = two.getDefinitionLevels().toByteArray();
        readLevels(levels, 0, two.getValueCount());
      }
      open(two.getData(), two.getDataEncoding());
    }
    rowsOfPage = next.getValueCount();
    left = rowsOfPage;
  }

  private boolean hasLevels() {
    return column.getMaxDefinitionLevel() > 0;
  }

  private void open(BytesInput content, Encoding encoding) throws IOException {
    if (encoding != Encoding.PLAIN) {
      throw new IOException("a page of encoding " + encoding + ", which the footer does not tell");
    }
    ByteBuffer buffer = content.toByteBuffer();
    if (buffer.hasArray()) {
      page = buffer.array();
      at = buffer.arrayOffset() + buffer.position();
      end = at + buffer.remaining();
    } else {
      page = new byte[buffer.remaining()];
      buffer.duplicate().get(page);
      at = 0;
      end = page.length;
    }
  }

  /** Levels of one bit: runs of equal ones, and groups of eight. Most pages have one run, of rows with values. */
  private void readLevels(byte[] levels, int start, int rows) {
    boolean[] found = null;
    int position = start;
    int row = 0;
    while (row < rows) {
      int header = 0;
      int shift = 0;
      byte part;
      do {
        part = levels[position++];
        header |= (part & 0x7F) << shift;
        shift += 7;
      } while (part < 0);
      int count = header >>> 1;
      if ((header & 1) == 0) {
        boolean has = levels[position++] != 0;
        if (has && row == 0 && count >= rows) {
          present = null;
          return;
        }
        found = found == null ? new boolean[rows] : found;
        Arrays.fill(found, row, Math.min(rows, row + count), has);
        row += count;
      } else {
        found = found == null ? new boolean[rows] : found;
        for (int group = 0; group < count; group++) {
          int bits = levels[position++];
          for (int bit = 0; bit < Byte.SIZE && row < rows; bit++) {
            found[row++] = (bits >>> bit & 1) != 0;
          }
        }
      }
    }
    present = found;
  }

  @Override
  public void close() {
    vector.close();
  }
}
