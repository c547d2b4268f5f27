package io.headwater.spark.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The Python processes of this JVM: one for the driver's planning, and a pool for tasks.
 *
 * <p>They are kept apart, because in local mode both roles share a JVM and planning must not wait
 * for tasks. Idle processes are reused in the order last in, first out, so that their caches stay
 * warm.
 */
public final class SidecarPool {
  private static final int FILES_KEPT = 4096;
  private static final ConcurrentHashMap<String, ConcurrentLinkedDeque<Sidecar>> IDLE = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, Driver> DRIVERS = new ConcurrentHashMap<>();
  /** Which process keeps what is known of a file. */
  private static final Map<String, Sidecar> OWNERS = Collections.synchronizedMap(latest(FILES_KEPT));
  private static final Set<Process> PROCESSES = ConcurrentHashMap.newKeySet();

  static {
    Runtime.getRuntime()
        .addShutdownHook(new Thread(() -> PROCESSES.forEach(Process::destroyForcibly), "headwater-sidecar-exit"));
  }

  private SidecarPool() {}

  /** The driver's process for this interpreter; it is started by the first request. */
  public static Driver driver(String python) {
    return DRIVERS.computeIfAbsent(python, Driver::new);
  }

  /** A map that forgets what was used longest ago. */
  static <V> Map<String, V> latest(int most) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
        return size() > most;
      }
    };
  }

  /**
   * A process for one task's request about a file: the one that keeps what is known of it, if that
   * one is idle; else another idle one, or a new one.
   */
  static Sidecar take(String python, String file) {
    ConcurrentLinkedDeque<Sidecar> idle = IDLE.get(python);
    Sidecar owner = OWNERS.get(file);
    if (idle != null && owner != null && idle.remove(owner) && owner.isAlive()) {
      return owner;
    }
    Sidecar taken = null;
    for (Sidecar sidecar = idle == null ? null : idle.pollFirst(); sidecar != null; sidecar = idle.pollFirst()) {
      if (sidecar.isAlive()) {
        taken = sidecar;
        break;
      }
    }
    if (taken == null) {
      taken = Sidecar.start(python, "executor");
    }
    if (owner == null || !owner.isAlive()) {
      OWNERS.put(file, taken);
    }
    return taken;
  }

  /** Whether a process is the one to keep what is known of a file. */
  static boolean owns(Sidecar sidecar, String file) {
    return OWNERS.get(file) == sidecar;
  }

  static void giveBack(String python, Sidecar sidecar) {
    if (sidecar.isAlive()) {
      IDLE.computeIfAbsent(python, p -> new ConcurrentLinkedDeque<>()).addFirst(sidecar);
    }
  }

  static void destroyAtExit(Process process) {
    PROCESSES.add(process);
    process.onExit().thenRun(() -> PROCESSES.remove(process));
  }

  /** The driver's process. It is replaced when it dies; {@link #generation} tells that handles are gone. */
  public static final class Driver {
    private final String python;
    private final AtomicLong generation = new AtomicLong();
    private Sidecar sidecar;

    private Driver(String python) {
      this.python = python;
    }

    /** Changes whenever a new process was started, which knows none of the old one's handles. */
    public synchronized long generation() {
      if (sidecar == null || !sidecar.isAlive()) {
        sidecar = Sidecar.start(python, "driver");
        generation.incrementAndGet();
      }
      return generation.get();
    }

    /** A request that names no handle. It goes to a new process where the old one died unnoticed. */
    public synchronized JsonNode call(ObjectNode request) {
      generation();
      try {
        return sidecar.call(request);
      } catch (SidecarException e) {
        if (!e.isDeath()) {
          throw e;
        }
        generation();
        return sidecar.call(request);
      }
    }

    /** A request that changes something. It is not asked again where the process died: it may have been done. */
    public synchronized JsonNode callOnce(ObjectNode request) {
      generation();
      return sidecar.call(request);
    }

    /**
     * A request that names a handle. Returns null when the process that knew the handle is gone.
     */
    public synchronized JsonNode call(ObjectNode request, long handleGeneration) {
      try {
        return generation() == handleGeneration ? sidecar.call(request) : null;
      } catch (SidecarException e) {
        if (e.isDeath()) {
          return null;
        }
        throw e;
      }
    }

    /** Forgets a handle, unless its process is gone and has forgotten it already. */
    public synchronized void release(ObjectNode request, long handleGeneration) {
      if (sidecar != null && sidecar.isAlive() && generation.get() == handleGeneration) {
        sidecar.call(request);
      }
    }
  }
}
