package org.sparkpace.bridge;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.*;

/** Reports of an attached application's executors on themselves, for the master: the wire's `AttachedExecutor`s. */
final class ExecutorReports extends SparkListener {
  private static final int MOST = 65_536; // characters, as the agent takes of a progress file
  private final Map<String, Map<String, Object>> added = new ConcurrentHashMap<>();
  private final Map<String, JsonNode> reports = new ConcurrentHashMap<>();
  private volatile String applicationId; // Spark's own
  private volatile boolean news;

  void called(String id) { applicationId = id; }
  String applicationId() { return applicationId; }

  @Override public void onExecutorAdded(SparkListenerExecutorAdded e) {
    if (!e.executorId().matches("[0-9]{1,10}")) { // the master would refuse the whole message
      Terminal.say("executor " + e.executorId() + " goes on at whatever speed it has: its id is not a number, as Spark's own cluster managers give");
      return;
    }
    added.put(e.executorId(), Json.object("executor_id", e.executorId(), "host", e.executorInfo().executorHost(),
        "slots", e.executorInfo().totalCores(), "profile_id", Integer.toString(e.executorInfo().resourceProfileId())));
  }

  @Override public void onExecutorRemoved(SparkListenerExecutorRemoved e) {
    added.remove(e.executorId());
    reports.remove(e.executorId());
  }

  /** Takes a message of an executor, which may be from user code. Messages that are not reports of live executors are left out. */
  void take(Object message) {
    if (!(message instanceof String) || ((String) message).length() > MOST) return;
    try {
      JsonNode report = Json.MAPPER.readTree((String) message);
      String id = report.path("progress").path("executor").asText();
      if (!added.containsKey(id) || !isProcess(report.path("process"))) return;
      reports.put(id, report);
      if (!added.containsKey(id)) reports.remove(id); // the executor has gone meanwhile
      news = true;
    } catch (IOException e) { // the plugin sends no such message
    }
  }

  /** True if the master can read `process`: an unreadable one would keep out the driver's whole message. */
  private static boolean isProcess(JsonNode process) {
    return process.path("pid").isInt() && process.path("start_ticks").canConvertToLong() && process.path("uid").isInt()
        && process.path("start_ticks").isIntegralNumber() && process.path("boot_id").isTextual() && process.path("pid_namespace").isTextual();
  }

  /** True if an executor has reported since the last `living`. */
  boolean news() { return news; }

  List<Object> living() {
    news = false;
    List<Object> living = new ArrayList<>();
    new TreeMap<>(added).forEach((id, facts) -> {
      JsonNode report = reports.get(id);
      if (report == null) return;
      Map<String, Object> one = new LinkedHashMap<>(facts);
      one.put("process", report.path("process"));
      one.put("progress", report.path("progress"));
      living.add(one);
    });
    return living;
  }
}
