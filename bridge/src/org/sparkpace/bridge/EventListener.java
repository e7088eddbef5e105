package org.sparkpace.bridge;
import java.util.*;
import org.apache.spark.*;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.*;
import org.apache.spark.sql.execution.ui.*;
import org.apache.spark.storage.RDDInfo;

/** Spark's listener events as the wire's events (stage_model.history.events), in steady time, written into the journal. */
final class EventListener extends SparkListener {
  private static final String QUERY = "spark.sql.execution.id";
  private final Journal journal;
  private final SteadyClock clock;
  private final Runnable urgent;
  private final Set<String> queries = new HashSet<>(); // ids of the SQL executions under way

  /** `urgent` is run after events that change the work to do: they should not wait for a batch. */
  EventListener(Journal journal, SteadyClock clock, Runnable urgent) {
    this.journal = journal;
    this.clock = clock;
    this.urgent = urgent;
  }

  @Override public void onJobStart(SparkListenerJobStart e) {
    Object[] stages = Scala.members(e, "stageInfos").stream().map(info -> stage((StageInfo) info)).toArray();
    Map<String, String> properties = properties(e.properties());
    String query = properties.get(QUERY);
    journal.begin("job " + e.jobId(), Json.object("type", "job_start", "job", e.jobId(), "time_ms", clock.steady(e.time()),
        "wall_ms", e.time(), "stages", stages, "sql_execution", queries.contains(query) ? query : null, "properties", properties));
    urgent.run();
  }

  /** Threads keep the id of a query that has ended, for jobs of no query (stage_model.history.events, JobStart). */
  @Override public void onOtherEvent(SparkListenerEvent e) {
    String name = e.getClass().getSimpleName(); // an application without Spark SQL has no such class
    if (name.equals("SparkListenerSQLExecutionStart")) queries.add("" + ((SparkListenerSQLExecutionStart) e).executionId());
    if (name.equals("SparkListenerSQLExecutionEnd")) queries.remove("" + ((SparkListenerSQLExecutionEnd) e).executionId());
  }

  @Override public void onJobEnd(SparkListenerJobEnd e) {
    JobResult result = e.jobResult();
    String failure = result instanceof JobFailed ? ((JobFailed) result).exception().getMessage() : null;
    journal.end("job " + e.jobId(), Json.object("type", "job_end", "job", e.jobId(), "time_ms", clock.steady(e.time()),
        "ok", result == JobSucceeded$.MODULE$, "failure", failure == null ? "" : firstLine(failure)));
    urgent.run();
  }

  @Override public void onStageSubmitted(SparkListenerStageSubmitted e) {
    StageInfo info = e.stageInfo();
    journal.begin(key(info), Json.object("type", "stage_submitted", "info", stage(info), "time_ms", time(info.submissionTime())));
    urgent.run();
  }

  @Override public void onStageCompleted(SparkListenerStageCompleted e) {
    StageInfo info = e.stageInfo();
    journal.end(key(info), Json.object("type", "stage_completed", "stage", info.stageId(), "attempt", info.attemptNumber(),
        "time_ms", time(info.completionTime()),
        "failure", info.failureReason().isDefined() ? firstLine(info.failureReason().get()) : null));
    urgent.run();
  }

  @Override public void onTaskEnd(SparkListenerTaskEnd e) {
    TaskInfo task = e.taskInfo();
    TaskMetrics m = e.taskMetrics(); // null when the executor was lost with the task
    long finishMs = clock.steady(task.finishTime()); // executors measure run times by steady clocks of their own
    long launchMs = clock.steady(task.launchTime(), finishMs - (m == null ? 0 : m.executorRunTime()));
    Map<String, Object> event = Json.object("type", "task_end", "stage", e.stageId(), "attempt", e.stageAttemptId(),
        "task", task.taskId(), "index", task.index(), "executor", task.executorId(), "locality", task.taskLocality().toString(),
        "launch_ms", launchMs, "finish_ms", finishMs, "ok", e.reason() == Success$.MODULE$,
        "reason", e.reason() instanceof TaskFailedReason ? firstLine(((TaskFailedReason) e.reason()).toErrorString()) : "");
    if (m != null) {
      var read = m.shuffleReadMetrics(); var write = m.shuffleWriteMetrics();
      event.putAll(Json.object("run_ms", m.executorRunTime(), "cpu_ns", m.executorCpuTime(), "gc_ms", m.jvmGCTime(),
          "input_records", m.inputMetrics().recordsRead(), "input_bytes", m.inputMetrics().bytesRead(),
          "shuffle_read_records", read.recordsRead(), "shuffle_read_bytes", read.totalBytesRead(),
          "shuffle_write_records", write.recordsWritten(), "shuffle_write_bytes", write.bytesWritten(), "waits", Json.object(
              "fetch_ms", read.fetchWaitTime(), "remote_bytes", read.remoteBytesRead(), "write_ns", write.writeTime(),
              "memory_spilled_bytes", m.memoryBytesSpilled(), "disk_spilled_bytes", m.diskBytesSpilled())));
    }
    journal.add(event);
  }

  @Override public void onExecutorAdded(SparkListenerExecutorAdded e) {
    journal.begin("executor " + e.executorId(), Json.object("type", "executor_added", "executor", e.executorId(),
        "host", e.executorInfo().executorHost(), "cores", e.executorInfo().totalCores(), "time_ms", clock.steady(e.time())));
  }

  @Override public void onExecutorRemoved(SparkListenerExecutorRemoved e) {
    journal.end("executor " + e.executorId(), Json.object("type", "executor_removed", "executor", e.executorId(),
        "reason", firstLine(e.reason()), "time_ms", clock.steady(e.time())));
  }

  @Override public void onApplicationEnd(SparkListenerApplicationEnd e) {
    journal.finish(applicationEnd(clock.steady(e.time())));
    urgent.run();
  }

  static Map<String, Object> applicationEnd(long timeMs) { return Json.object("type", "application_end", "time_ms", timeMs); }
  private static String key(StageInfo info) { return "stage " + info.stageId() + "." + info.attemptNumber(); }

  private static Map<String, Object> stage(StageInfo info) {
    Object[] scopes = Scala.members(info, "rddInfos").stream().map(rdd -> (RDDInfo) rdd).sorted(Comparator.comparingInt(RDDInfo::id))
        .map(rdd -> rdd.scope().isDefined() ? rdd.scope().get().name() : rdd.name()).toArray();
    return Json.object("stage", info.stageId(), "attempt", info.attemptNumber(), "name", info.name(), "tasks", info.numTasks(),
        "parents", Scala.members(info, "parentIds"), "scopes", scopes);
  }

  private static Map<String, String> properties(Properties all) {
    Map<String, String> kept = new TreeMap<>();
    if (all == null) return kept;
    for (String key : all.stringPropertyNames())
      if (key.startsWith("spark.pace.") || key.equals("spark.job.description") || key.equals("spark.jobGroup.id")
          || key.equals(QUERY)) kept.put(key, all.getProperty(key));
    return kept;
  }

  private long time(scala.Option<Object> time) { return time.isDefined() ? clock.steady((Long) time.get()) : clock.nowMs(); }

  private static String firstLine(String text) {
    String line = String.valueOf(text).split("\n", 2)[0];
    return line.length() <= 500 ? line : line.substring(0, 500);
  }
}
