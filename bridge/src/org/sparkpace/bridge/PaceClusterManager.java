package org.sparkpace.bridge;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;
import org.apache.spark.scheduler.*;

/** Spark finds this class through ServiceLoader and asks it about every master URL it does not know itself. */
public final class PaceClusterManager implements ExternalClusterManager {
  @Override public boolean canCreate(String master) { return master.startsWith("sparkpace://"); }
  @Override public TaskScheduler createTaskScheduler(SparkContext sc, String master) { return new DataScheduler(sc); }

  @Override public SchedulerBackend createSchedulerBackend(SparkContext sc, String master, TaskScheduler scheduler) {
    try {
      Authentication.check(sc);
    } catch (SparkException e) {
      throw Scala.<RuntimeException>unchecked(e);
    }
    // Before the backend exists: its endpoint may copy the conf that executors get when it is made.
    DriverSettings.complete(sc.conf());
    PythonProbe python = new PythonProbe(sc.conf());
    MasterClient client = new MasterClient(master, sc.conf());
    client.connect();
    return new PaceBackend(sc, (DataScheduler) scheduler, client, python);
  }

  @Override public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
