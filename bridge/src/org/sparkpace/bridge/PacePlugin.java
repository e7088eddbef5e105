package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.*;
import org.apache.spark.api.plugin.*;

/** In executors: reports live progress into the directory that an agent names, and takes orders about off-heap memory from
 * another directory; or reports to the driver's side, which attaches the application to a Sparkpace master. Elsewhere it does
 * nothing. */
public final class PacePlugin implements SparkPlugin {
  static final String CONTROL_DIR = "SPARKPACE_CONTROL_DIR";

  @Override public DriverPlugin driverPlugin() { return new Attachment(); }
  @Override public ExecutorPlugin executorPlugin() { return new Reporter(); }

  /** All callbacks run on the task's own thread. The task matters more than its progress, so no error reaches Spark. */
  private static final class Reporter implements ExecutorPlugin {
    private final Progress progress = new Progress();
    private volatile ProgressTimer timer; // null: no progress is wanted
    private volatile OffHeap memory;

    @Override public void init(PluginContext context, Map<String, String> fromDriver) {
      String control = System.getenv(CONTROL_DIR), orders = System.getenv(OffHeap.ORDERS_DIR), id = context.executorID();
      try {
        if (control != null) {
          memory = orders == null ? null : new OffHeap(Path.of(orders));
          timer = new ProgressTimer(new ProgressFile(Path.of(control)), ProgressFile.TICK_MS, id, progress, memory);
        } else if (fromDriver.containsKey(Attachment.TELL)) {
          timer = new ProgressTimer(new ProgressMessage(context), ProgressMessage.TICK_MS, id, progress, null);
        }
      } catch (IOException e) {
        ProgressTimer.complain("this executor cannot tell which process it is", e);
      }
    }

    @Override public void onTaskStart() { quietly(() -> progress.started(TaskContext.get())); }
    @Override public void onTaskSucceeded() { quietly(() -> progress.ended(true)); }
    @Override public void onTaskFailed(TaskFailedReason reason) { quietly(() -> progress.ended(false)); }
    @Override public void shutdown() {
      if (memory != null) memory.close();
      quietly(() -> timer.close());
    }

    private void quietly(Runnable work) {
      if (timer == null) return;
      try {
        work.run();
      } catch (RuntimeException | LinkageError e) {
        ProgressTimer.complain("live progress cannot be counted", e);
      }
    }
  }
}
