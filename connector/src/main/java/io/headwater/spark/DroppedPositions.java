package io.headwater.spark;

import io.headwater.spark.sidecar.SidecarStream;
import java.io.IOException;
import java.lang.ref.SoftReference;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * Dropped positions of slices, computed once per slice and executor and shared by its splits.
 *
 * <p>The first split to need them computes; the others wait for it. When it fails or is cancelled
 * the next one computes them itself, so a killed task never fails its neighbours.
 */
final class DroppedPositions {
  private static final int SLICES_KEPT = 256;
  private static final Map<String, Entry> SLICES =
      new LinkedHashMap<>(64, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Entry> eldest) {
          return size() > SLICES_KEPT && eldest.getValue().running.isDone();
        }
      };

  private DroppedPositions() {}

  private static final class Entry {
    /** Completed with null once known: the words themselves are only softly held. */
    final CompletableFuture<Void> running = new CompletableFuture<>();
    volatile SoftReference<long[]> words = new SoftReference<>(null);
  }

  interface Source {
    long[] get() throws IOException;
  }

  /** The positions, from the cache or from {@code source}. */
  static long[] of(ReadSpec spec, SliceTask task, Source source) throws IOException {
    String key = spec.scanId + '\n' + task.id;
    while (true) {
      Entry entry;
      boolean mine = false;
      synchronized (SLICES) {
        entry = SLICES.get(key);
        if (entry == null) {
          entry = new Entry();
          SLICES.put(key, entry);
          mine = true;
        }
      }
      if (mine) {
        try {
          long[] words = source.get();
          entry.words = new SoftReference<>(words);
          entry.running.complete(null);
          return words;
        } catch (Throwable e) {
          forget(key, entry);
          entry.running.completeExceptionally(e);
          throw e;
        }
      }
      try {
        entry.running.get();
        long[] words = entry.words.get();
        if (words != null) {
          return words;
        }
        forget(key, entry);
      } catch (ExecutionException e) {
        // The split that computed them failed; this one tries for itself.
        forget(key, entry);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted while waiting for the dropped positions of " + task.file(), e);
      }
    }
  }

  private static void forget(String key, Entry entry) {
    synchronized (SLICES) {
      SLICES.remove(key, entry);
    }
  }

  /** Asks the sidecar for the positions alone. */
  static Source ask(ReadSpec spec, SliceTask task, ReadMetrics metrics) {
    return () -> {
      try (SidecarStream stream =
          SidecarStream.open(spec.python, spec.scanId, spec.scan, task.path,
              task.request("merge").put("rows", false))) {
        long[] words = stream.awaitPositions();
        stream.finish();
        metrics.add(stream);
        return words;
      }
    };
  }
}
