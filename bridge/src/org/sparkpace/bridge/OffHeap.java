package org.sparkpace.bridge;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import javax.management.*;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.memory.*;

/** Brings the off-heap memory of this running executor to the size that memory.json orders, and reports the state.
 * Spark takes that size at its start only, so its two numbers and two pools are changed together, under Spark's own lock:
 * free memory goes first, then cached blocks in bounded pieces; memory of running tasks is waited for, never taken. */
final class OffHeap {
  static final String ORDERS_DIR = "SPARKPACE_ORDERS_DIR";
  private static final long TICK_MS = 100, CHUNK = 64L << 20; // blocks of a chunk are written out while tasks wait for the lock
  private static final int MOST_BYTES = 4096;
  private final Path order;
  private final Timer timer = new Timer("sparkpace-memory", true);
  private UnifiedMemoryManager memory;
  private StorageMemoryPool storage;
  private ExecutionMemoryPool execution;
  private Field size, region;
  private Method evict;
  private SparkConf conf;
  private long ordered, wanted;
  private volatile long applied; // the order that the reported numbers answer

  OffHeap(Path directory) {
    order = directory.resolve("memory.json");
    timer.schedule(new TimerTask() {
      @Override public void run() { tick(); }
    }, 0, TICK_MS);
  }

  void close() { timer.cancel(); }

  /** Bytes; null before the first order was looked at. A budget above the ordered one is a shrink still under way. */
  Map<String, Object> status() {
    if (applied == 0) return null;
    long answer = applied; // read before the sizes: an order that comes between is not answered yet
    synchronized (memory) {
      return Json.object("order", answer, "budget", memory.maxOffHeapMemory(), "execution", execution.memoryUsed(),
          "storage", storage.memoryUsed());
    }
  }

  private void tick() {
    try {
      if (!Files.exists(order) || (memory == null && !attach())) return;
      JsonNode content = Json.MAPPER.readTree(read());
      if (content.path("number").asLong() > 0 && content.path("off_heap_bytes").asLong() > 0) {
        ordered = content.path("number").asLong();
        wanted = content.path("off_heap_bytes").asLong();
      }
      if (ordered == 0) return;
      long before = memory.maxOffHeapMemory();
      while (step()) Thread.yield(); // the lock is free in between
      if (before > wanted && memory.maxOffHeapMemory() == wanted) trim();
      applied = ordered;
    } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError e) {
      ProgressTimer.complain("off-heap memory stays as it is", e);
    }
  }

  private byte[] read() throws IOException {
    try (java.io.InputStream in = Files.newInputStream(order)) {
      return in.readNBytes(MOST_BYTES);
    }
  }

  /** Spark 4 makes its memory manager after the plugins. False until it has made it. */
  private boolean attach() throws ReflectiveOperationException {
    SparkEnv env = SparkEnv.get();
    if (env == null || !(env.memoryManager() instanceof UnifiedMemoryManager)) return false;
    UnifiedMemoryManager found = (UnifiedMemoryManager) env.memoryManager();
    conf = env.conf();
    storage = found.offHeapStorageMemoryPool();
    execution = found.offHeapExecutionMemoryPool();
    for (Method method : StorageMemoryPool.class.getMethods())
      if (method.getName().equals("freeSpaceToShrinkPool")) evict = method; // its arguments differ between versions
    size = MemoryManager.class.getDeclaredField("maxOffHeapMemory");
    region = MemoryManager.class.getDeclaredField("offHeapStorageMemory");
    size.setAccessible(true);
    region.setAccessible(true);
    memory = found;
    return true;
  }

  /** Makes one bounded move; true if another move may follow at once. */
  private boolean step() throws ReflectiveOperationException {
    synchronized (memory) {
      long now = memory.maxOffHeapMemory();
      if (now == wanted) return false;
      try {
        if (wanted > now) {
          execution.incrementPoolSize(wanted - now); // storage borrows from it without us
          return false;
        }
        long left = release(now - wanted), freed = 0;
        // Spark evicts the whole amount or nothing
        for (long ask = Math.min(Math.min(left, CHUNK), storage.memoryUsed()); ask > 0 && freed == 0; ask /= 4) freed = evict(ask);
        return release(left) > 0 && freed > 0;
      } finally { // also when a block could not be written out: Spark asserts on every use that size and pools are equal
        long reached = execution.poolSize() + storage.poolSize();
        size.setLong(memory, reached);
        region.setLong(memory, (long) (reached * conf.getDouble("spark.memory.storageFraction", 0.5)));
        memory.notifyAll(); // tasks that wait for memory look again
      }
    }
  }

  /** Takes free memory off the pools, `most` at most; returns the part left to take. */
  private long release(long most) {
    long free = Math.min(most, execution.memoryFree()), cached = Math.min(most - free, storage.memoryFree());
    if (free > 0) execution.decrementPoolSize(free);
    if (cached > 0) storage.decrementPoolSize(cached);
    return most - free - cached;
  }

  private long evict(long bytes) throws ReflectiveOperationException {
    return (Long) (evict.getParameterCount() == 1 ? evict.invoke(storage, bytes) : evict.invoke(storage, bytes, conf));
  }

  /** Gives freed memory back to the system, where the JVM can (17.0.9 and later, glibc); mmap thresholds do most of it. */
  private static void trim() {
    try {
      ManagementFactory.getPlatformMBeanServer().invoke(
          new ObjectName("com.sun.management:type=DiagnosticCommand"), "systemTrimNativeHeap", null, null);
    } catch (JMException | RuntimeException e) { // an older JVM or another C library
    }
  }
}
