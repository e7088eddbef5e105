package org.sparkpace.bridge;
import java.io.IOException;
import java.net.URISyntaxException;
import java.util.Map;
import org.apache.spark.*;
import org.apache.spark.api.plugin.*;

/** Driver side of an application whose executors another cluster manager starts: registers it with the master that
 * `spark.pace.master` names and reports its progress. Whatever fails, the job runs as it would without us; only an error that the
 * user has to mend (a deadline that cannot be met, a setting that cannot be read) ends it, before an executor is asked for. */
final class Attachment implements DriverPlugin, Orders {
  static final String MASTER = "spark.pace.master";
  /** Entry of the map that executors' plugins get: they should report their progress. */
  static final String TELL = "tell";
  private final ExecutorReports reports = new ExecutorReports();
  private SparkContext sc;
  private SyncLoop sync; // null: not attached
  private volatile boolean stopped;

  @Override public Map<String, String> init(SparkContext sc, PluginContext context) {
    this.sc = sc;
    if (sc.master().startsWith("sparkpace:")) return Map.of();
    if (!sc.conf().contains(MASTER))
      return Registration.asksForPace(sc.conf()) ? without("its master is " + sc.master() + " and not Sparkpace's; leave out"
          + " .master(...) in its program, which wins over every setting") : Map.of();
    if (sc.isLocal()) return without("with master " + sc.master() + " its tasks run in the driver, which is not paced");
    try {
      sync = new SyncLoop(new MasterClient(sc.conf().get(MASTER), sc.conf()), sc, Registration.attached(sc), this, reports);
      sync.startAttached();
    } catch (IOException | URISyntaxException | InterruptedException | IllegalStateException e) {
      return without(SyncLoop.why(e));
    } catch (SparkException e) {
      throw Scala.<RuntimeException>unchecked(e);
    }
    sc.listenerBus().addToQueue(reports, "sparkpace");
    DriverSettings.name(sc.conf(), "use the settings of `sparkpace conf --attach`");
    return Map.of(TELL, "");
  }

  private static Map<String, String> without(String why) {
    Terminal.say("this application runs without Sparkpace: " + why);
    return Map.of();
  }

  @Override public void registerMetrics(String applicationId, PluginContext context) {
    reports.called(applicationId);
    if (sync != null) sync.wake();
  }

  @Override public Object receive(Object message) {
    if (sync != null) reports.take(message);
    return null;
  }

  @Override public void stopApplication(String sentence) {
    if (!stopped) Orders.stop(sc, sentence);
  }

  @Override public void shutdown() {
    stopped = true;
    if (sync != null) sync.close();
  }
}
