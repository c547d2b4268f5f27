package io.headwater.spark.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ReadableByteChannel;
import java.util.ArrayDeque;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;

/**
 * A running request that streams: dropped positions and the bytes of one Arrow stream.
 *
 * <p>It is a channel over the {@code D} frames. Closing it before the end cancels the request; the
 * process goes back to the pool when it ends the request within a second, and is killed otherwise.
 * A pipe cannot be interrupted while it is read, so one watching thread does that for tasks that
 * Spark has killed.
 */
public final class SidecarStream implements ReadableByteChannel {
  private static final long CANCEL_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final Set<SidecarStream> RUNNING = ConcurrentHashMap.newKeySet();
  private static final long WATCH_MILLIS = 100;
  private static Thread watcher;

  private final String python;
  private final String op;
  private final Sidecar sidecar;
  private final TaskContext task;
  private final ArrayDeque<ByteBuffer> early = new ArrayDeque<>();
  private final byte[] transfer = new byte[1 << 16];
  private int frameLeft;
  private boolean ended;
  private boolean closed;
  private long[] positions;
  private JsonNode end;
  private long bytes;
  private long nanos;
  private volatile long cancelledAt;
  private volatile boolean killed;

  /**
   * Sends a request for a scan's tasks, after the scan itself where the process does not hold it.
   * Work on one file goes to the same process if it can: that one may still know the outcome.
   */
  public static SidecarStream open(String python, String scanId, byte[] scan, String file, ObjectNode request) {
    try {
      Sidecar sidecar = SidecarPool.take(python, file);
      request.put("owns", SidecarPool.owns(sidecar, file));
      return openWith(sidecar, python, scanId, scan, request);
    } catch (SidecarException e) {
      if (!e.isDeath()) {
        throw e;
      }
      // An idle process that died unnoticed: nothing was asked of it yet, so a new one takes its place.
      return openWith(Sidecar.start(python, "executor"), python, scanId, scan, request);
    }
  }

  private static SidecarStream openWith(
      Sidecar sidecar, String python, String scanId, byte[] scan, ObjectNode request) {
    boolean sent = false;
    try {
      if (!sidecar.holdsScan(scanId)) {
        sidecar.call(Json.object().put("op", "scan").put("scan_id", scanId), scan);
        sidecar.rememberScan(scanId);
      }
      request.put("scan_id", scanId);
      sidecar.send(request);
      sent = true;
    } finally {
      if (!sent) {
        SidecarPool.giveBack(python, sidecar);
      }
    }
    return new SidecarStream(python, sidecar, request.path("op").asText());
  }

  private SidecarStream(String python, Sidecar sidecar, String op) {
    this.python = python;
    this.sidecar = sidecar;
    this.op = op;
    this.task = TaskContext.get();
    RUNNING.add(this);
    watch();
  }

  /** The dropped positions, waiting for their frame. Rows that come before it are kept. */
  public long[] awaitPositions() throws IOException {
    long start = System.nanoTime();
    while (positions == null && !ended) {
      if (nextFrame()) {
        byte[] payload = new byte[frameLeft];
        sidecar.input().readNBytes(payload, 0, frameLeft);
        frameLeft = 0;
        early.addLast(ByteBuffer.wrap(payload));
      }
    }
    nanos += System.nanoTime() - start;
    if (positions == null) {
      throw fail("ended without dropped positions", null);
    }
    return positions;
  }

  /** Whether any Arrow bytes come; a request without rows may send none. */
  public boolean hasData() throws IOException {
    long start = System.nanoTime();
    try {
      while (early.isEmpty() && frameLeft == 0 && !ended) {
        nextFrame();
      }
      return !early.isEmpty() || frameLeft > 0;
    } finally {
      nanos += System.nanoTime() - start;
    }
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    ByteBuffer kept = early.peekFirst();
    if (kept != null) {
      int n = Math.min(kept.remaining(), target.remaining());
      target.put(kept.slice().limit(n));
      kept.position(kept.position() + n);
      if (!kept.hasRemaining()) {
        early.removeFirst();
      }
      return n;
    }
    if (!hasData()) {
      return -1;
    }
    long start = System.nanoTime();
    int n = Math.min(Math.min(frameLeft, target.remaining()), transfer.length);
    int read;
    try {
      read = sidecar.input().read(transfer, 0, n);
    } catch (IOException e) {
      throw fail("broke off", e);
    }
    if (read < 0) {
      throw fail("broke off in the middle of a frame", null);
    }
    target.put(transfer, 0, read);
    frameLeft -= read;
    nanos += System.nanoTime() - start;
    return read;
  }

  /** Reads what remains, so that the end's metrics are known and the process is free. */
  public void finish() throws IOException {
    long start = System.nanoTime();
    while (!ended) {
      if (frameLeft > 0) {
        sidecar.input().skipNBytes(frameLeft);
        frameLeft = 0;
      }
      nextFrame();
    }
    nanos += System.nanoTime() - start;
  }

  /** Reads the next frame's header, and all of it but for {@code D}. True for a {@code D} frame with bytes. */
  private boolean nextFrame() throws IOException {
    try {
      int kind = sidecar.readKind();
      switch (kind) {
        case 'D':
          frameLeft = sidecar.readLength();
          bytes += frameLeft;
          return frameLeft > 0;
        case 'P':
          byte[] words = sidecar.readPayload();
          bytes += words.length;
          positions = new long[words.length / Long.BYTES];
          ByteBuffer.wrap(words).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(positions);
          return false;
        case 'Z':
          end = Json.parse(sidecar.readPayload());
          end(true);
          if (!closed && end.path("cancelled").asBoolean()) {
            // Never an end like any other: rows that were still to come are missing.
            throw new SidecarException("Cancelled", "request '" + op + "' was stopped, because its task was", "");
          }
          return false;
        case 'E':
          SidecarException error = Sidecar.raised(sidecar.readPayload());
          end(true);
          throw error;
        default:
          throw new IOException("frame '" + (char) kind + "' in a stream");
      }
    } catch (IOException e) {
      throw fail("broke off", e);
    }
  }

  private SidecarException fail(String what, Throwable cause) {
    SidecarException error = sidecar.died("— request '" + op + "' " + (killed ? "was cancelled and " : "") + what, cause);
    end(false);
    return error;
  }

  private void end(boolean reuse) {
    synchronized (this) {
      // From here on the process may serve another request, which no cancel meant for this one may reach.
      ended = true;
    }
    RUNNING.remove(this);
    if (reuse) {
      SidecarPool.giveBack(python, sidecar);
    } else {
      sidecar.destroy();
    }
  }

  /** Bytes received so far. */
  public long bytes() {
    return bytes;
  }

  /** Time spent waiting for the sidecar and receiving from it. */
  public long nanos() {
    return nanos;
  }

  /** The end's metrics, or null before the end. */
  public JsonNode metrics() {
    return end == null ? null : end.get("metrics");
  }

  @Override
  public boolean isOpen() {
    return !closed;
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    if (!ended) {
      cancel();
      try {
        finish();
      } catch (IOException | SidecarException e) {
        // The request was not wanted any more; its process is gone or has said why it stopped.
        end(false);
      }
    }
    early.clear();
  }

  private synchronized void cancel() {
    if (cancelledAt == 0 && !ended) {
      cancelledAt = System.nanoTime();
      sidecar.cancel();
    }
  }

  private synchronized void killIfLate() {
    if (cancelledAt != 0 && !ended && System.nanoTime() - cancelledAt > CANCEL_NANOS) {
      killed = true;
      sidecar.destroy();
    }
  }

  private static synchronized void watch() {
    if (watcher == null) {
      watcher = Sidecar.daemon("headwater-sidecar-watch", SidecarStream::watchAll);
      watcher.start();
    }
  }

  /** Cancels the requests of killed tasks, and kills processes that do not stop in time. */
  private static void watchAll() {
    while (true) {
      try {
        Thread.sleep(WATCH_MILLIS);
      } catch (InterruptedException e) {
        return;
      }
      for (SidecarStream stream : RUNNING) {
        if (stream.cancelledAt == 0 && stream.task != null && stream.task.isInterrupted()) {
          stream.cancel();
        }
        stream.killIfLate();
      }
    }
  }
}
