package org.sparkpace.bridge;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

/** Reports the work of this executor's tasks: every tick while it changes, else every 2 s. */
final class ProgressTimer {
  /** Takes a report, whole or not at all. */
  interface Outlet { void tell(Map<String, Object> progress) throws IOException; }

  private static final int SCHEMA = 1;
  private static final long IDLE_MS = 2_000;
  private static final Set<String> COMPLAINED = ConcurrentHashMap.newKeySet();
  private final Outlet outlet;
  private final String executorId;
  private final Progress progress;
  private final OffHeap memory; // null: no agent sends orders
  private final Timer timer = new Timer("sparkpace-progress", true);
  private long sequence, sentNs;
  private List<Object> sent;

  ProgressTimer(Outlet outlet, long tickMs, String executorId, Progress progress, OffHeap memory) {
    this.outlet = outlet;
    this.executorId = executorId;
    this.progress = progress;
    this.memory = memory;
    timer.schedule(new TimerTask() {
      @Override public void run() { tick(); }
    }, 0, tickMs);
  }

  /** Writes the last numbers. */
  void close() {
    timer.cancel();
    tick();
  }

  private synchronized void tick() {
    try {
      List<Object> now = Arrays.asList(progress.stages(), memory == null ? null : memory.status());
      if (now.equals(sent) && System.nanoTime() - sentNs < IDLE_MS * 1_000_000) return;
      outlet.tell(Json.object("schema", SCHEMA, "executor", executorId, "sequence", ++sequence, "stages", now.get(0),
          "memory", now.get(1)));
      sent = now;
      sentNs = System.nanoTime();
    } catch (IOException | RuntimeException | LinkageError e) {
      complain("live progress cannot be reported", e);
    }
  }

  /** Logs each complaint once: the executor's log is no place for five lines a second. */
  static void complain(String what, Throwable e) {
    if (COMPLAINED.add(what)) Terminal.say("warning: " + what + ": " + e);
  }
}
