package org.sparkpace.bridge;
import java.lang.management.*;
import java.util.*;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.TaskMetrics;

/** The work of this executor's tasks so far, per stage attempt (stage_model.progress). A failed attempt counts with its
 * CPU time but not with its records: they will be read again. */
final class Progress {
  private static final int MOST_STAGES = 64;
  private static final long RECENT_NS = 60_000_000_000L;
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private static final class Stage {
    int running, done, failed;
    long recordsDone, recordsRunning, cpuEndedNs, cpuRunningNs, touchedNs;
  }

  private static final class Task {
    final Stage stage;
    final TaskMetrics metrics = TaskContext.get().taskMetrics();
    final long threadId = Thread.currentThread().getId(), cpuAtStartNs = THREADS.getThreadCpuTime(threadId);
    long cpuNs;

    Task(Stage stage) { this.stage = stage; }

    long records() {
      synchronized (metrics) { // Spark's heartbeat merges under the same lock
        metrics.mergeShuffleReadMetrics(); // the metrics are empty until merged
        return metrics.inputMetrics().recordsRead() + metrics.shuffleReadMetrics().recordsRead();
      }
    }

    long cpuNs() {
      long now = THREADS.getThreadCpuTime(threadId); // -1 once the thread is gone
      return cpuNs = Math.max(cpuNs, cpuAtStartNs < 0 ? 0 : now - cpuAtStartNs);
    }
  }

  private final Map<Long, Task> tasks = new HashMap<>(); // by thread: the callbacks at a task's end know only the thread
  private final Map<Long, Stage> stages = new LinkedHashMap<>(); // by id and attempt, newest last

  synchronized void started(TaskContext context) {
    long key = (long) context.stageId() << 32 | context.stageAttemptNumber();
    Stage known = stages.remove(key), stage = known != null ? known : new Stage();
    stages.put(key, stage);
    stage.running++;
    stage.touchedNs = System.nanoTime();
    tasks.put(Thread.currentThread().getId(), new Task(stage));
    for (Iterator<Stage> old = stages.values().iterator(); stages.size() > MOST_STAGES && old.hasNext(); )
      if (old.next().running == 0) old.remove();
  }

  synchronized void ended(boolean ok) {
    Task task = tasks.remove(Thread.currentThread().getId());
    if (task == null) return; // the task failed before it started
    Stage stage = task.stage;
    stage.running--;
    stage.touchedNs = System.nanoTime();
    stage.cpuEndedNs += task.cpuNs();
    if (ok) stage.done++;
    else stage.failed++;
    if (ok) stage.recordsDone += task.records();
  }

  /** The stage attempts touched in the last minute, newest last, at most 64. */
  synchronized List<Map<String, Object>> stages() {
    long now = System.nanoTime();
    for (Stage stage : stages.values()) stage.recordsRunning = stage.cpuRunningNs = 0;
    for (Task task : tasks.values()) {
      task.stage.recordsRunning += task.records();
      task.stage.cpuRunningNs += task.cpuNs();
      task.stage.touchedNs = now;
    }
    List<Map<String, Object>> result = new ArrayList<>();
    stages.forEach((key, stage) -> {
      if (now - stage.touchedNs <= RECENT_NS)
        result.add(Json.object("stage", (int) (key >> 32), "attempt", key.intValue(), "running", stage.running, "done", stage.done,
            "failed", stage.failed, "records_done", stage.recordsDone, "records_running", stage.recordsRunning,
            "cpu_ns", stage.cpuEndedNs + stage.cpuRunningNs));
    });
    return result.subList(Math.max(0, result.size() - MOST_STAGES), result.size());
  }
}
