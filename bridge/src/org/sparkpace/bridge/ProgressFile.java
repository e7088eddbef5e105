package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

/** Writes progress.json whole or not at all: every 200 ms while something changes, else every 2 s. */
final class ProgressFile {
  private static final int SCHEMA = 1;
  private static final long TICK_MS = 200, IDLE_MS = 2_000;
  private static final Set<String> COMPLAINED = ConcurrentHashMap.newKeySet();
  private final Path file, draft;
  private final String executorId;
  private final Progress progress;
  private final OffHeap memory; // null: nobody orders any
  private final Timer timer = new Timer("sparkpace-progress", true);
  private long sequence, writtenNs;
  private List<Object> written;

  ProgressFile(Path directory, String executorId, Progress progress, OffHeap memory) {
    this.file = directory.resolve("progress.json");
    this.draft = directory.resolve("progress.json.draft");
    this.executorId = executorId;
    this.progress = progress;
    this.memory = memory;
    timer.schedule(new TimerTask() {
      @Override public void run() { tick(); }
    }, 0, TICK_MS);
  }

  /** Leaves the last numbers behind. */
  void close() {
    timer.cancel();
    tick();
  }

  private synchronized void tick() {
    try {
      List<Object> now = Arrays.asList(progress.stages(), memory == null ? null : memory.status());
      if (now.equals(written) && System.nanoTime() - writtenNs < IDLE_MS * 1_000_000) return;
      Files.write(draft, Json.MAPPER.writeValueAsBytes(Json.object("schema", SCHEMA, "executor", executorId,
          "sequence", ++sequence, "stages", now.get(0), "memory", now.get(1))));
      Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
      written = now;
      writtenNs = System.nanoTime();
    } catch (IOException | RuntimeException | LinkageError e) {
      complain("live progress cannot be written", e);
    }
  }

  /** Once each: the executor's log is no place for five lines a second. */
  static void complain(String what, Throwable e) {
    if (COMPLAINED.add(what)) Terminal.say("warning: " + what + ": " + e);
  }
}
