package io.headwater.spark;

import io.headwater.spark.compat.Compat;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.headwater.spark.sidecar.Json;
import io.headwater.spark.sidecar.SidecarException;
import io.headwater.spark.sidecar.SidecarPool;
import java.lang.ref.Cleaner;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;

/**
 * A table that the driver's sidecar holds open at one version.
 *
 * <p>Should the sidecar die, the table is opened anew; if it has another version by then, the
 * query fails, since a plan of mixed versions would give rows of neither.
 */
final class TableHandle {
  private static final Cleaner CLEANER = Cleaner.create();

  private final String path;
  private final Map<String, String> options;
  private final ObjectNode session;
  private final SidecarPool.Driver driver;
  private final State state;
  private final JsonNode opened;
  private JsonNode partitions;

  static TableHandle open(String path, Map<String, String> options) {
    return new TableHandle(path, options, SidecarPool.driver(Settings.python()));
  }

  private TableHandle(String path, Map<String, String> options, SidecarPool.Driver driver) {
    this.path = path;
    this.options = options;
    this.session = session();
    this.driver = driver;
    this.state = new State(driver);
    this.opened = openNow();
    CLEANER.register(this, state);
  }

  private JsonNode openNow() {
    ObjectNode request = Json.object().put("op", "open").put("path", path);
    ObjectNode sent = request.putObject("options");
    options.forEach(sent::put);
    request.set("session", session);
    synchronized (driver) {
      JsonNode answer = driver.call(request);
      state.generation = driver.generation();
      state.handle = answer.get("handle");
      return answer;
    }
  }

  /** The session's settings, as they are now. */
  private static ObjectNode session() {
    SQLConf conf = Compat.conf();
    ObjectNode session = Json.object().put("time_zone", conf.sessionLocalTimeZone())
        .put("case_sensitive", conf.caseSensitiveAnalysis());
    ObjectNode settings = session.putObject("conf");
    Settings.session().forEach(settings::put);
    return session;
  }

  String path() {
    return path;
  }

  Map<String, String> options() {
    return options;
  }

  JsonNode opened() {
    return opened;
  }

  /** The session's settings that the table was opened with: some decide which rows it has. */
  JsonNode settings() {
    return session;
  }

  String version() {
    return Json.text(opened, "version_text");
  }

  /** Tells states of the table apart, of which several may have the same version. */
  String state() {
    return Json.text(opened, "state");
  }

  /** Every partition: its path, and the values that the path tells. */
  synchronized JsonNode partitions() {
    if (partitions == null) {
      partitions = call(Json.object().put("op", "partitions")).path("partitions");
    }
    return partitions;
  }

  /** A request about this table. Python's errors become what Spark shows to a user as they are. */
  JsonNode call(ObjectNode request) {
    try {
      synchronized (driver) {
        request.set("handle", state.handle);
        JsonNode answer = driver.call(request, state.generation);
        if (answer == null) {
          JsonNode again = openNow();
          if (!java.util.Objects.equals(Json.text(again, "state"), state())) {
            throw new IllegalStateException(
                path + ": the sidecar died, and the table has changed since it was loaded (" + version() + ", now "
                    + Json.text(again, "version_text") + "). Load the table again.");
          }
          request.set("handle", state.handle);
          answer = driver.call(request, state.generation);
        }
        return answer;
      }
    } catch (SidecarException e) {
      throw SparkInternals.analysisError(e.getMessage(), e);
    }
  }

  /** What outlives the table: enough to tell the sidecar to forget it. */
  private static final class State implements Runnable {
    private final SidecarPool.Driver driver;
    private JsonNode handle;
    private long generation;

    private State(SidecarPool.Driver driver) {
      this.driver = driver;
    }

    @Override
    public void run() {
      ObjectNode request = Json.object().put("op", "release");
      request.set("handle", handle);
      driver.release(request, generation);
    }
  }
}
