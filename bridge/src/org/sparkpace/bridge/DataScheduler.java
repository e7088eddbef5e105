package org.sparkpace.bridge;
import java.util.*;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.*;

/** Spark's own task scheduler, but for what the master says of a stage's tasks: how long they wait for an executor near their
 * data (what a host with data is worth, document 002; here the hosts of the tasks are counted), and which executors are
 * starved. */
final class DataScheduler extends TaskSchedulerImpl {
  private static final String WAIT = "spark.locality.wait";
  private final SparkConf conf;
  private final boolean usersOwn;
  private volatile double worth = -1;
  private volatile long waitMs;
  private volatile Map<String, Integer> starved = Map.of();

  DataScheduler(SparkContext sc) {
    super(sc);
    conf = sc.conf();
    usersOwn = Arrays.stream(conf.getAll()).anyMatch(entry -> entry._1().startsWith(WAIT));
  }

  /** Sets, for stages that begin from now on, the `worth` of each host with data; 1 or more together are worth `waitMs`. */
  void locality(double worth, long waitMs) {
    this.waitMs = waitMs;
    this.worth = worth;
  }

  /** For each starved executor, the number of a stage's tasks that must wait before it gets one. */
  void starved(Map<String, Integer> leastWaiting) { starved = leastWaiting; }
  int leastWaiting(String executorId) { return starved.getOrDefault(executorId, 0); }

  /** Spark reads the setting when it makes a stage's task set. A user who set it keeps it. */
  @Override public TaskSetManager createTaskSetManager(TaskSet tasks, int maxTaskFailures) {
    if (worth >= 0 && !usersOwn) conf.set(WAIT, (worth * hosts(tasks) >= 1 ? waitMs : 0) + "ms");
    return new StageTasks(this, tasks, maxTaskFailures);
  }

  private static int hosts(TaskSet tasks) {
    Set<String> hosts = new HashSet<>();
    for (Task<?> task : tasks.tasks())
      for (Object location : Scala.members(task, "preferredLocations")) hosts.add(((TaskLocation) location).host());
    return hosts.size();
  }
}
