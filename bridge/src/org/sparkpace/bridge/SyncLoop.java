package org.sparkpace.bridge;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.*;

/** The conversation with the master: register, then sync for as long as the driver lives. A master that is away, slow or
 * wrong never stops the job: everything is sent again until it is acknowledged. */
final class SyncLoop implements Runnable {
  private static final int MOST_EVENTS = 2_000;
  private static final long DEBOUNCE_MS = 20, BATCH_MS = 200, NEWS_MS = 500, HEARTBEAT_MS = 1_000, LEAST_BACKOFF_MS = 500, MOST_BACKOFF_MS = 5_000;
  private static final long REGISTER_MS = 15_000, FAREWELL_MS = 4_500;
  private static final long PORTS_MS = 5_000, PORTS_LOOK_MS = 5;
  private static final Duration PATIENCE = Duration.ofSeconds(5);
  private final MasterClient master;
  private final SparkConf conf;
  private final Registration registration;
  private final Orders orders;
  private final ExecutorReports reports; // null: the master starts the executors
  private final SteadyClock clock;
  private final Journal journal = new Journal();
  private final ServicePort service;
  private final Set<String> killed = ConcurrentHashMap.newKeySet();
  private final Thread thread = new Thread(this, "sparkpace-sync");
  private volatile Map<String, Object> wanted;
  private volatile String applicationId;
  private volatile boolean closing;
  private volatile String driverEnd; // as it was last reported
  private boolean urgent = true, away, finished, lacksCredentials;
  private int failures;
  private String token; // null: to be registered

  SyncLoop(MasterClient master, SparkContext sc, Registration registration, Orders orders, ExecutorReports reports) {
    this.master = master;
    this.conf = sc.conf();
    this.registration = registration;
    this.clock = registration.clock;
    this.orders = orders;
    this.reports = reports;
    this.wanted = reports != null ? Map.of() : Wishes.initial(conf, sc.resourceProfileManager().defaultResourceProfile());
    sc.listenerBus().addToQueue(new EventListener(journal, clock, this::wake), "sparkpace");
    service = new ServicePort(sc);
    sc.listenerBus().addToQueue(service, "sparkpace");
    thread.setDaemon(true);
    DriverEnd.watchMain();
    Runtime.getRuntime().addShutdownHook(new Thread(this::lastWord, "sparkpace-last-word"));
  }

  /** Returns the application's id once the master has accepted it, and goes on in the background. */
  String start() throws SparkException, InterruptedException {
    long end = System.nanoTime() + REGISTER_MS * 1_000_000;
    while (true) {
      try {
        register();
        thread.start();
        return applicationId;
      } catch (MasterClient.Refused e) {
        throw new SparkException(e.getMessage());
      } catch (IOException e) {
        if (System.nanoTime() > end)
          throw new SparkException("no Sparkpace master answers at " + master.address + " (" + why(e)
              + "); start one with `sparkpace up` or name another by --master sparkpace://HOST:PORT");
        Thread.sleep(500);
      }
    }
  }

  /** As `start`, but only a refusal that the user has to mend is thrown: else the job goes on, and the rest in the background. */
  void startAttached() throws SparkException, InterruptedException {
    try {
      register();
    } catch (IOException | MasterClient.Refused | SparkException e) {
      if (e instanceof MasterClient.Refused && ((MasterClient.Refused) e).users) throw new SparkException(e.getMessage());
      away = true;
      failures++;
      registration.late();
      Terminal.say("this application runs without Sparkpace: the master at " + master.address + " has not taken it in ("
          + why(e) + "); the bridge keeps trying");
    }
    thread.start();
  }

  void want(Map<String, Object> level) { wanted = level; wake(); }
  void kill(String executorId) { killed.add(executorId); wake(); }

  synchronized void wake() {
    urgent = true;
    notifyAll();
  }

  /** Sends the rest and says that the application has ended; gives up after about 5 s. */
  void close() {
    closing = true;
    wake();
    try {
      thread.join(FAREWELL_MS / 2); // an exchange that hangs is cut off, to use the rest of the time
      if (thread.isAlive()) thread.interrupt();
      thread.join(FAREWELL_MS / 2 + 500);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** The JVM ends. If the application ended before the JVM, the master does not know yet how the JVM ends. */
  private void lastWord() {
    if (closing && !thread.isAlive() && DriverEnd.TO_COME.equals(driverEnd)) farewell(System.nanoTime() + FAREWELL_MS * 1_000_000);
  }

  @Override public void run() {
    long sinceNs = System.nanoTime(), end = sinceNs + PORTS_MS * 1_000_000;
    while (!closing) {
      try {
        if (reports == null && registration.ports().isEmpty() && System.nanoTime() < end) { // executors are not started before
          Thread.sleep(PORTS_LOOK_MS);
          continue;
        }
        awaitTurn(sinceNs);
        if (!closing) attempt(PATIENCE);
        sinceNs = System.nanoTime();
      } catch (InterruptedException e) {
        if (!closing) return;
      }
    }
    farewell(System.nanoTime() + FAREWELL_MS * 1_000_000);
  }

  private void farewell(long end) {
    while (System.nanoTime() < end) {
      try {
        if (!finished) journal.awaitFinish(1_000); // Spark posts its application end just before it stops us
        journal.finish(EventListener.applicationEnd(clock.nowMs()));
        finished = true;
        if (attempt(Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()))) && !journal.waiting()) return;
        if (failures > 0) Thread.sleep(200);
      } catch (InterruptedException e) {
        continue; // close() interrupts an exchange that hangs
      }
    }
  }

  /** Urgent news goes at once, other events go in batches, and a heartbeat goes without events; slower while the master is away. */
  private synchronized void awaitTurn(long sinceNs) throws InterruptedException {
    while (!closing) {
      clock.look();
      long due = failures > 0 ? Math.min(MOST_BACKOFF_MS, LEAST_BACKOFF_MS << Math.min(failures - 1, 10))
          : urgent ? DEBOUNCE_MS : journal.waiting() ? BATCH_MS : reports != null && reports.news() ? NEWS_MS : HEARTBEAT_MS;
      long left = due - (System.nanoTime() - sinceNs) / 1_000_000;
      if (left <= 0) break;
      wait(Math.min(left, BATCH_MS));
    }
    urgent = false;
  }

  /** One exchange; true if the master took it. This is the one place where everything is caught. */
  private boolean attempt(Duration patience) throws InterruptedException {
    try {
      if (token == null) register();
      exchange(patience);
      if (away) Terminal.say("the master at " + master.address + " answers again");
      away = false;
      failures = 0;
      return true;
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      failures++;
      orders.starved(Map.of()); // no answer says when they have cores again
      boolean forgotten = token != null && e instanceof MasterClient.Refused && ((MasterClient.Refused) e).unknown;
      if (forgotten) token = null; // the master has lost its state: register again
      else if (!away) Terminal.say("warning: the master at " + master.address + " gives no usable answer (" + why(e)
          + "); the job goes on and the bridge keeps trying");
      away |= !forgotten;
      return false;
    }
  }

  private void exchange(Duration patience) throws IOException, InterruptedException, MasterClient.Refused {
    boolean last = finished && journal.fits(MOST_EVENTS);
    Map<String, Object> message = journal.take(MOST_EVENTS);
    message.putAll(Json.object("instance", registration.instance, "wanted", wanted, "killed", new TreeSet<>(killed), "ended", last,
        "steady_ms", clock.nowMs(), "ports", registration.ports(), "serves", service.port()));
    if (finished) message.put("driver_end", driverEnd = DriverEnd.now());
    if (reports != null)
      message.putAll(Json.object("executors", reports.living(), "spark_application_id", reports.applicationId()));
    if (lacksCredentials) message.put("credentials", registration.credentials);
    JsonNode reply = master.post("/v1/applications/" + applicationId + "/sync", token, message, patience);
    lacksCredentials = reply.path("lacks_credentials").asBoolean();
    if (lacksCredentials) wake();
    long stored = reply.path("acknowledged").asLong(-1);
    journal.acknowledge(stored, reply.path("taken").asLong(stored));
    if (!journal.fits(MOST_EVENTS)) wake();
    for (JsonNode gone : reply.path("gone")) {
      String id = gone.path("executor_id").asText();
      killed.remove(id);
      orders.executorGone(id, gone.path("exit_code").isInt() ? gone.path("exit_code").asInt() : null,
          gone.path("planned").asBoolean(), gone.path("by_application").asBoolean(), gone.path("reason").asText());
    }
    notices(reply);
    JsonNode locality = reply.path("locality");
    if (locality.isObject()) orders.locality(locality.path("worth").asDouble(), locality.path("wait_ms").asLong());
    JsonNode starved = reply.path("starved");
    Map<String, Integer> leastWaiting = new HashMap<>();
    starved.fieldNames().forEachRemaining(id -> leastWaiting.put(id, starved.path(id).asInt()));
    orders.starved(leastWaiting);
    if (reply.path("stop").isTextual() && !closing) orders.stopApplication(reply.path("stop").asText());
  }

  private void register() throws SparkException, IOException, InterruptedException, MasterClient.Refused {
    JsonNode reply = master.post("/v1/applications", HomeFiles.token(conf), registration.message(applicationId, wanted), PATIENCE);
    String id = reply.path("application_id").asText(), own = reply.path("token").asText();
    if (!id.matches("[A-Za-z0-9._-]+") || own.isEmpty() || (applicationId != null && !id.equals(applicationId)))
      throw new IOException("an answer without a usable application_id and token");
    long stored = reply.path("acknowledged").asLong(0);
    journal.acknowledge(stored, stored);
    applicationId = id;
    token = own;
    notices(reply);
  }

  private static void notices(JsonNode reply) {
    for (JsonNode notice : reply.path("notices")) Terminal.say(notice.asText());
  }

  static String why(Exception e) { return e.getMessage() != null ? e.getMessage() : e.getClass().getSimpleName(); }
}
