package org.sparkpace.bridge;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.*;
import org.apache.spark.api.plugin.*;

/** Executor side: reports live progress into the directory that the agent names, and takes orders about off-heap memory from
 * another one. Elsewhere it does nothing. */
public final class PacePlugin implements SparkPlugin {
  static final String CONTROL_DIR = "SPARKPACE_CONTROL_DIR";

  @Override public DriverPlugin driverPlugin() { return null; }
  @Override public ExecutorPlugin executorPlugin() { return System.getenv(CONTROL_DIR) == null ? null : new Reporter(); }

  /** All callbacks run on the task's own thread. Progress is worth less than the task: nothing is thrown into Spark. */
  private static final class Reporter implements ExecutorPlugin {
    private final Progress progress = new Progress();
    private volatile ProgressFile file;
    private volatile OffHeap memory;

    @Override public void init(PluginContext context, Map<String, String> extraConf) {
      String orders = System.getenv(OffHeap.ORDERS_DIR);
      memory = orders == null ? null : new OffHeap(Path.of(orders));
      file = new ProgressFile(Path.of(System.getenv(CONTROL_DIR)), context.executorID(), progress, memory);
    }

    @Override public void onTaskStart() { quietly(() -> progress.started(TaskContext.get())); }
    @Override public void onTaskSucceeded() { quietly(() -> progress.ended(true)); }
    @Override public void onTaskFailed(TaskFailedReason reason) { quietly(() -> progress.ended(false)); }
    @Override public void shutdown() {
      if (memory != null) memory.close();
      quietly(file::close);
    }

    private static void quietly(Runnable work) {
      try {
        work.run();
      } catch (RuntimeException | LinkageError e) {
        ProgressFile.complain("live progress cannot be counted", e);
      }
    }
  }
}
