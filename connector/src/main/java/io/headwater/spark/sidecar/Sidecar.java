package io.headwater.spark.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkEnv;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One Python process and the frames that go to and from it (docs/spark-connector.md).
 *
 * <p>One request at a time: a caller owns the process between a request and the frame that ends
 * it. Any breach of the protocol kills the process, since nothing read after it could be trusted.
 */
public final class Sidecar {
  static final int PROTOCOL = 2;
  private static final Logger LOG = LoggerFactory.getLogger(Sidecar.class);
  private static final int STDERR_LINES = 40;
  private static final int MAX_FRAME = Integer.MAX_VALUE - 16;
  private static final long START_SECONDS = 120;
  /** Scans that a process is known to hold; older ones are sent again. */
  private static final int SCANS_KEPT = 16;

  private final Process process;
  private final DataInputStream in;
  private final DataOutputStream out;
  private final String python;
  private final ArrayDeque<String> stderr = new ArrayDeque<>();
  private final Thread stderrReader;
  private volatile boolean destroyed;
  private final Set<String> scans = Collections.newSetFromMap(SidecarPool.latest(SCANS_KEPT));

  static Sidecar start(String python, String role) {
    Process process;
    try {
      ProcessBuilder builder = new ProcessBuilder(python, "-m", "headwater.spark.sidecar");
      builder.environment().put("HEADWATER_ROLE", role);
      passOn(builder, "spark.headwater.sidecar.threads", "HEADWATER_THREADS");
      passOn(builder, "spark.headwater.sidecar.import", "HEADWATER_IMPORT");
      passOn(builder, "spark.headwater.sidecar.cache", "HEADWATER_CACHE");
      process = builder.start();
    } catch (IOException e) {
      throw new SidecarException(
          "SidecarNotStarted",
          "the Python interpreter '" + python + "' cannot be started on this host (" + e.getMessage()
              + "). Set spark.headwater.python to an interpreter that has headwater installed.",
          e);
    }
    Sidecar sidecar = new Sidecar(process, python);
    SidecarPool.destroyAtExit(process);
    sidecar.greet();
    return sidecar;
  }

  /** A setting of the application; executors have their own copy of it. */
  private static void passOn(ProcessBuilder builder, String setting, String variable) {
    SparkEnv env = SparkEnv.get();
    if (env != null && env.conf().contains(setting)) {
      builder.environment().put(variable, env.conf().get(setting));
    }
  }

  private Sidecar(Process process, String python) {
    this.process = process;
    this.python = python;
    this.in = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16));
    this.out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream(), 1 << 16));
    this.stderrReader = daemon("headwater-sidecar-stderr-" + process.pid(), this::keepStderr);
    stderrReader.start();
  }

  private void greet() {
    FutureTask<JsonNode> hello =
        new FutureTask<>(
            () -> {
              if (readKind() != 'H') {
                throw new IOException("its first frame is not the greeting");
              }
              return Json.parse(readPayload());
            });
    daemon("headwater-sidecar-start-" + process.pid(), hello).start();
    JsonNode greeting;
    try {
      greeting = hello.get(START_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      throw died("did not start: '" + python + " -m headwater.spark.sidecar' failed. Is headwater installed for that"
          + " interpreter (spark.headwater.python) on this host?", e.getCause());
    } catch (TimeoutException e) {
      throw died("did not greet within " + START_SECONDS + " s", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw died("was interrupted while starting", e);
    }
    if (greeting.path("protocol").asInt() != PROTOCOL) {
      throw died("speaks protocol " + greeting.path("protocol") + ", headwater " + greeting.path("headwater").asText()
          + "; this jar speaks protocol " + PROTOCOL + ". Use the jar of the same headwater release.", null);
    }
    LOG.info("sidecar {} started: headwater {}, Python {} ({})", process.pid(),
        greeting.path("headwater").asText(), greeting.path("python").asText(), python);
  }

  /** Whether it may get a request. A process that was told to die may live on for a moment, but not for us. */
  public boolean isAlive() {
    return !destroyed && process.isAlive();
  }

  long pid() {
    return process.pid();
  }

  boolean holdsScan(String scanId) {
    return scans.contains(scanId);
  }

  void rememberScan(String scanId) {
    scans.add(scanId);
  }

  /** A request with one JSON answer. */
  JsonNode call(ObjectNode request, byte[]... blobs) {
    send(request, blobs);
    try {
      int kind = readKind();
      byte[] payload = readPayload();
      if (kind == 'J') {
        return Json.parse(payload);
      }
      if (kind == 'E') {
        throw raised(payload);
      }
      throw new IOException("frame '" + (char) kind + "' where an answer was due");
    } catch (IOException e) {
      throw died("broke off while answering '" + request.path("op").asText() + "'", e);
    }
  }

  void send(ObjectNode request, byte[]... blobs) {
    if (blobs.length > 0) {
      request.put("blobs", blobs.length);
    }
    try {
      synchronized (out) {
        frame('Q', Json.bytes(request));
        for (byte[] blob : blobs) {
          frame('B', blob);
        }
        out.flush();
      }
    } catch (IOException e) {
      throw died("broke off before '" + request.path("op").asText() + "' was sent", e);
    }
  }

  /** Asks the running request to stop. Never fails: a process that is gone has stopped. */
  void cancel() {
    try {
      synchronized (out) {
        frame('C', new byte[0]);
        out.flush();
      }
    } catch (IOException e) {
      destroy();
    }
  }

  private void frame(char kind, byte[] payload) throws IOException {
    out.writeByte(kind);
    out.writeInt(payload.length);
    out.write(payload);
  }

  /** The kind of the next frame. */
  int readKind() throws IOException {
    int kind = in.read();
    if (kind < 0) {
      throw new EOFException("end of its output");
    }
    return kind;
  }

  int readLength() throws IOException {
    long length = in.readInt() & 0xFFFFFFFFL;
    if (length > MAX_FRAME) {
      throw new IOException("a frame of " + length + " bytes");
    }
    return (int) length;
  }

  byte[] readPayload() throws IOException {
    byte[] payload = new byte[readLength()];
    in.readFully(payload);
    return payload;
  }

  InputStream input() {
    return in;
  }

  /** The error of an {@code E} frame; one that was raised on purpose says all in its message. */
  static SidecarException raised(byte[] payload) throws IOException {
    JsonNode error = Json.parse(payload);
    String trace = Json.text(error, "trace");
    return new SidecarException(
        error.path("type").asText("Error"), error.path("message").asText(),
        trace == null || error.path("meant").asBoolean() ? null : "Python traceback:\n" + trace.stripTrailing());
  }

  /** Kills the process and tells how it ended, with the last it wrote to stderr. */
  SidecarException died(String what, Throwable cause) {
    // Its own end first: what it wrote while dying is the reason that a user needs.
    String exit = "killed by the connector";
    try {
      if (process.waitFor(500, TimeUnit.MILLISECONDS)) {
        exit = "exit code " + process.exitValue();
      }
      destroy();
      stderrReader.join(500);
    } catch (InterruptedException e) {
      destroy();
      Thread.currentThread().interrupt();
    }
    String tail = stderrTail();
    SidecarException error =
        new SidecarException(
            "SidecarDied",
            "the Python sidecar (pid " + process.pid() + ", " + exit + ") " + what
                + (cause == null ? "" : " (" + (cause.getMessage() == null ? cause : cause.getMessage()) + ")")
                + ". A retried task starts a new one."
                + (tail.isEmpty() ? " It wrote nothing to stderr." : "\nLast lines of its stderr:\n" + tail),
            cause);
    LOG.warn("sidecar {} {}", process.pid(), what);
    return error;
  }

  void destroy() {
    destroyed = true;
    process.destroyForcibly();
  }

  private String stderrTail() {
    synchronized (stderr) {
      return String.join("\n", stderr);
    }
  }

  private void keepStderr() {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        LOG.debug("sidecar {}: {}", process.pid(), line);
        synchronized (stderr) {
          stderr.addLast(line);
          if (stderr.size() > STDERR_LINES) {
            stderr.removeFirst();
          }
        }
      }
    } catch (IOException e) {
      LOG.debug("stderr of sidecar {} ended", process.pid(), e);
    }
  }

  static Thread daemon(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    return thread;
  }
}
