package org.sparkpace.bridge;
import java.lang.invoke.*;
import java.lang.reflect.Method;
import org.apache.spark.scheduler.*;
import org.apache.spark.util.SystemClock;
import scala.*;
import scala.collection.immutable.Map;

/** Spark's own set of a stage's tasks, but an executor that has lost cores to others is given a task only while many
 * wait: there a task runs many times as long as elsewhere, and the stage would wait for it. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class StageTasks extends TaskSetManager {
  /** Time without a running task after which any executor is taken: Spark may not use the others. */
  private static final long PATIENCE_NS = 2_000_000_000L;
  private static final Tuple3 NONE = new Tuple3(Option.empty(), false, -1);
  private static final MethodHandle SUPER = sparks();
  private final DataScheduler scheduler;
  private long ranNs = System.nanoTime();

  StageTasks(DataScheduler scheduler, TaskSet tasks, int maxTaskFailures) {
    super(scheduler, tasks, maxTaskFailures, scheduler.healthTrackerOpt(), new SystemClock());
    this.scheduler = scheduler;
  }

  /** The name of Spark's own class: users and tools look for its lines in the driver's log. */
  @Override public String logName() { return TaskSetManager.class.getName(); }

  // Spark 4.3 calls the first, earlier ones the second, so neither can carry @Override or name Spark's own.
  public Tuple3 resourceOffer(String id, String host, Enumeration.Value locality, scala.math.BigDecimal cpus, Map resources) {
    return offered(id, host, locality, cpus, resources);
  }

  public Tuple3 resourceOffer(String id, String host, Enumeration.Value locality, int cpus, Map resources) {
    return offered(id, host, locality, cpus, resources);
  }

  private Tuple3 offered(String id, String host, Enumeration.Value locality, Object cpus, Map resources) {
    long nowNs = System.nanoTime();
    if (scheduler.rootPool().runningTasks() > 0) ranNs = nowNs;
    int waiting = numTasks() - tasksSuccessful() - runningTasks();
    if (waiting < scheduler.leastWaiting(id) && !isBarrier() && nowNs - ranNs < PATIENCE_NS) return NONE;
    try {
      return (Tuple3) SUPER.invokeExact(this, id, host, locality, cpus, resources);
    } catch (Throwable e) { // Spark's own, which its callers know
      throw Scala.<RuntimeException>unchecked(e);
    }
  }

  private static MethodHandle sparks() {
    try {
      for (Method method : TaskSetManager.class.getMethods())
        if (method.getName().equals("resourceOffer"))
          return MethodHandles.lookup().unreflectSpecial(method, StageTasks.class).asType(MethodType.methodType(Tuple3.class,
              StageTasks.class, String.class, String.class, Enumeration.Value.class, Object.class, Map.class));
      throw new NoSuchMethodException("resourceOffer");
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("TaskSetManager.resourceOffer is not as Spark 3.5 to 4.3 have it", e);
    }
  }
}
