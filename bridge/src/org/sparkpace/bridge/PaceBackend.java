package org.sparkpace.bridge;
import java.io.IOException;
import java.net.URISyntaxException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.*;
import org.apache.spark.*;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.scheduler.*;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import scala.Option;
import scala.concurrent.Future;
import scala.concurrent.Future$;

/** Spark's scheduler backend whose executors are started elsewhere: it passes wishes to the master and losses to Spark. */
public final class PaceBackend extends CoarseGrainedSchedulerBackend implements Orders {
  /** Longest wait, for tasks of a disconnected executor, until the master gives the reason for its end. */
  private static final long WORD_S = 5;
  private final SparkContext sc;
  private final DataScheduler scheduler;
  private final MasterClient master;
  private final PythonProbe python;
  private final Set<String> handled = ConcurrentHashMap.newKeySet();
  private volatile SyncLoop sync;
  private volatile String applicationId;
  private volatile boolean stopped;

  PaceBackend(SparkContext sc, DataScheduler scheduler, MasterClient master, PythonProbe python) {
    super(scheduler, sc.env().rpcEnv());
    this.sc = sc;
    this.scheduler = scheduler;
    this.master = master;
    this.python = python;
  }

  @Override public void start() {
    super.start();
    try {
      SyncLoop loop = new SyncLoop(master, sc, new Registration(sc, python), this, null);
      applicationId = loop.start();
      sync = loop;
    } catch (InterruptedException | IOException | URISyntaxException | SparkException e) {
      throw Scala.<RuntimeException>unchecked(e);
    }
  }

  @Override public String applicationId() { return applicationId != null ? applicationId : super.applicationId(); }

  @Override public void stop() {
    if (stopped) return;
    stopped = true;
    // The master first: executors that end by themselves would look like losses to it.
    if (sync != null) sync.close();
    super.stop();
  }

  /** Only notes the wish, because the scheduler's lock is held during this call. */
  @Override public Future<Object> doRequestTotalExecutors(scala.collection.immutable.Map<ResourceProfile, Object> totals) {
    if (sync != null) sync.want(Wishes.of(sc.conf(), totals));
    return Future$.MODULE$.successful((Object) true);
  }

  // Scala 2.13 (Spark 4) calls the first, Scala 2.12 (Spark 3.5) the second, so neither can carry @Override.
  public Future<Object> doKillExecutors(scala.collection.immutable.Seq<String> ids) { return note(ids); }
  public Future<Object> doKillExecutors(scala.collection.Seq<String> ids) { return note(ids); }

  private Future<Object> note(scala.collection.Iterable<String> ids) {
    if (sync != null) Scala.list(ids).forEach(id -> sync.kill((String) id));
    return Future$.MODULE$.successful((Object) true);
  }

  @Override public void executorGone(String id, Integer exitCode, boolean planned, boolean byApplication, String reason) {
    if (stopped || !handled.add(id)) return;
    ExecutorLossReason loss = planned ? ExecutorKilled$.MODULE$
        : exitCode != null ? new ExecutorExited(exitCode, byApplication, reason)
        : new ExecutorProcessLost(reason, Option.empty(), byApplication);
    removeExecutor(id, loss);
  }

  /** True for an executor that was reported as gone: after a cut of its host, it may register late and has to end. */
  @Override public boolean isExecutorExcluded(String id, String host) { return handled.contains(id); }

  @Override public void locality(double worth, long waitMs) { scheduler.locality(worth, waitMs); }
  @Override public void starved(Map<String, Integer> leastWaiting) { scheduler.starved(leastWaiting); }

  @Override public void stopApplication(String sentence) {
    if (!stopped) Orders.stop(sc, sentence);
  }

  /** Asks for the reason first on a lost connection: a planned end must not count against spark.task.maxFailures.
   * Called by the superclass's constructor, before our fields are set. */
  @Override public CoarseGrainedSchedulerBackend.DriverEndpoint createDriverEndpoint() {
    return new CoarseGrainedSchedulerBackend.DriverEndpoint() {
      @Override public void onDisconnected(RpcAddress address) {
        Option<String> id = addressToExecutorId().get(address);
        if (stopped || sync == null || !id.isDefined() || !disableExecutor(id.get())) return;
        sync.wake();
        CompletableFuture.delayedExecutor(WORD_S, TimeUnit.SECONDS).execute(() -> executorGone(id.get(), null, false, true,
            "the executor's connection was lost and the Sparkpace master does not say why"));
      }
    };
  }
}
