package io.headwater.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.EnumSet;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.Set;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.page.DataPage;
import org.apache.parquet.column.page.DataPageV1;
import org.apache.parquet.column.page.DataPageV2;
import org.apache.parquet.column.page.DictionaryPage;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.column.page.PageReader;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Types;
import org.apache.spark.sql.types.Decimal;

/**
 * The pages of a row group, with decimals that are stored as big-endian bytes turned into numbers.
 *
 * <p>Avro has no other decimals, so nearly every Hudi table stores them like that. Spark's reader makes an
 * object of each such value; numbers it copies. Levels and dictionary indices stay as they are.
 */
final class DecimalPages implements PageReadStore {
  private static final Set<Encoding> KNOWN =
      EnumSet.of(Encoding.PLAIN, Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY, Encoding.RLE, Encoding.BIT_PACKED);

  private final PageReadStore stored;
  private final MessageType storedSchema;
  private final MessageType schema;

  DecimalPages(PageReadStore stored, MessageType storedSchema, MessageType schema) {
    this.stored = stored;
    this.storedSchema = storedSchema;
    this.schema = schema;
  }

  /** Whether a column's values are bytes that fit a number of its precision. */
  static boolean isBytes(Type type) {
    return type.isPrimitive() && !type.isRepetition(Type.Repetition.REPEATED)
        && type.asPrimitiveType().getPrimitiveTypeName() == PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY
        && type.getLogicalTypeAnnotation() instanceof DecimalLogicalTypeAnnotation
        && precision(type) <= Decimal.MAX_LONG_DIGITS()
        && type.asPrimitiveType().getTypeLength() <= width(type);
  }

  /** Whether pages of these encodings can be rewritten. */
  static boolean canRewrite(Set<Encoding> encodings) {
    return KNOWN.containsAll(encodings);
  }

  /** The same column, stored as a number. */
  static PrimitiveType asNumber(Type type) {
    DecimalLogicalTypeAnnotation decimal = (DecimalLogicalTypeAnnotation) type.getLogicalTypeAnnotation();
    return Types.primitive(
            width(type) == Integer.BYTES ? PrimitiveTypeName.INT32 : PrimitiveTypeName.INT64, type.getRepetition())
        .as(LogicalTypeAnnotation.decimalType(decimal.getScale(), decimal.getPrecision()))
        .named(type.getName());
  }

  private static int precision(Type type) {
    return ((DecimalLogicalTypeAnnotation) type.getLogicalTypeAnnotation()).getPrecision();
  }

  private static int width(Type type) {
    return precision(type) <= Decimal.MAX_INT_DIGITS() ? Integer.BYTES : Long.BYTES;
  }

  @Override
  public PageReader getPageReader(ColumnDescriptor column) {
    PageReader reader = stored.getPageReader(storedSchema.getColumnDescription(column.getPath()));
    if (column.getPath().length != 1) {
      return reader;
    }
    PrimitiveType from = storedSchema.getColumnDescription(column.getPath()).getPrimitiveType();
    PrimitiveType to = schema.getColumnDescription(column.getPath()).getPrimitiveType();
    return from.getPrimitiveTypeName() == to.getPrimitiveTypeName() ? reader : new Rewriter(reader, from);
  }

  @Override
  public long getRowCount() {
    return stored.getRowCount();
  }

  @Override
  public Optional<Long> getRowIndexOffset() {
    return stored.getRowIndexOffset();
  }

  @Override
  public Optional<PrimitiveIterator.OfLong> getRowIndexes() {
    return stored.getRowIndexes();
  }

  // Spark 3.5's Parquet has no such method to override. The file's reader closes what it handed out.
  public void close() {}

  private static final class Rewriter implements PageReader {
    private final PageReader pages;
    private final int length;
    private final int width;
    private final boolean hasLevels;

    private Rewriter(PageReader pages, PrimitiveType type) {
      this.pages = pages;
      this.length = type.getTypeLength();
      this.width = width(type);
      this.hasLevels = type.isRepetition(Type.Repetition.OPTIONAL);
    }

    @Override
    public long getTotalValueCount() {
      return pages.getTotalValueCount();
    }

    @Override
    public DictionaryPage readDictionaryPage() {
      DictionaryPage page = pages.readDictionaryPage();
      return page == null
          ? null
          : new DictionaryPage(numbers(page.getBytes(), false), page.getDictionarySize(), page.getEncoding());
    }

    @Override
    public DataPage readPage() {
      DataPage page = pages.readPage();
      if (page == null) {
        return null;
      }
      return page.accept(
          new DataPage.Visitor<DataPage>() {
            @Override
            public DataPage visit(DataPageV1 one) {
              return isPlain(one.getValueEncoding()) ? rewrite(one) : one;
            }

            @Override
            public DataPage visit(DataPageV2 two) {
              return isPlain(two.getDataEncoding()) ? rewrite(two) : two;
            }
          });
    }

    private static boolean isPlain(Encoding encoding) {
      if (encoding != Encoding.PLAIN && !encoding.usesDictionary()) {
        throw new IllegalStateException("a page of encoding " + encoding + ", which the footer does not tell");
      }
      return encoding == Encoding.PLAIN;
    }

    private DataPage rewrite(DataPageV1 page) {
      BytesInput bytes = numbers(page.getBytes(), hasLevels);
      int size = Math.toIntExact(bytes.size());
      if (page.getFirstRowIndex().isPresent() && page.getIndexRowCount().isPresent()) {
        return new DataPageV1(bytes, page.getValueCount(), size, page.getFirstRowIndex().get(), page.getIndexRowCount().get(),
            page.getStatistics(), page.getRlEncoding(), page.getDlEncoding(), page.getValueEncoding());
      }
      return new DataPageV1(bytes, page.getValueCount(), size, page.getStatistics(), page.getRlEncoding(),
          page.getDlEncoding(), page.getValueEncoding());
    }

    private DataPage rewrite(DataPageV2 page) {
      BytesInput bytes = numbers(page.getData(), false);
      if (page.getFirstRowIndex().isPresent()) {
        return DataPageV2.uncompressed(page.getRowCount(), page.getNullCount(), page.getValueCount(),
            page.getFirstRowIndex().get(), page.getRepetitionLevels(), page.getDefinitionLevels(), page.getDataEncoding(),
            bytes, page.getStatistics());
      }
      return DataPageV2.uncompressed(page.getRowCount(), page.getNullCount(), page.getValueCount(),
          page.getRepetitionLevels(), page.getDefinitionLevels(), page.getDataEncoding(), bytes, page.getStatistics());
    }

    /** A page's bytes with its values as little-endian numbers, behind the levels where they begin it. */
    private BytesInput numbers(BytesInput page, boolean afterLevels) {
      try {
        ByteBuffer from = page.toByteBuffer().slice();
        // Levels of a page of version 1 say their length first.
        int start = afterLevels ? Integer.BYTES + from.order(ByteOrder.LITTLE_ENDIAN).getInt(0) : 0;
        int values = (from.limit() - start) / length;
        if (start < 0 || start > from.limit() || start + values * length != from.limit()) {
          throw new IOException("a page of decimals ends in the middle of one");
        }
        ByteBuffer to = ByteBuffer.allocate(start + values * width).order(ByteOrder.LITTLE_ENDIAN);
        to.put(from.slice().limit(start));
        from.order(ByteOrder.BIG_ENDIAN);
        if (width == Long.BYTES) {
          longs(from, to, start, values);
        } else {
          ints(from, to, start, values);
        }
        return BytesInput.from(to.array());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    private void longs(ByteBuffer from, ByteBuffer to, int start, int values) {
      int unused = Long.SIZE - Byte.SIZE * length;
      // Eight bytes at once while there are so many; the shift leaves the value's own, with its sign.
      int whole = Math.max(0, Math.min(values, Math.floorDiv(from.limit() - start - Long.BYTES, length) + 1));
      for (int i = 0; i < whole; i++) {
        to.putLong(start + i * Long.BYTES, from.getLong(start + i * length) >> unused);
      }
      for (int i = whole; i < values; i++) {
        to.putLong(start + i * Long.BYTES, value(from, start + i * length));
      }
    }

    private void ints(ByteBuffer from, ByteBuffer to, int start, int values) {
      for (int i = 0; i < values; i++) {
        to.putInt(start + i * Integer.BYTES, (int) value(from, start + i * length));
      }
    }

    private long value(ByteBuffer from, int at) {
      long value = from.get(at);
      for (int i = 1; i < length; i++) {
        value = value << Byte.SIZE | from.get(at + i) & 0xFF;
      }
      return value;
    }
  }
}
