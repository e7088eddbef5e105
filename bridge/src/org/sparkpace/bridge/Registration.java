package org.sparkpace.bridge;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.*;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.storage.BlockManagerId;
import scala.Tuple2;

/** Everything the master must know to start executors for one SparkContext: the wire's `Registration`. */
final class Registration {
  private static final Pattern SECRET = Pattern.compile("secret|password|token|access[.]?key", Pattern.CASE_INSENSITIVE);
  private static final AtomicBoolean FURTHER = new AtomicBoolean();
  final String instance = UUID.randomUUID().toString();
  private static final Pattern INHERITED = Pattern.compile("TZ|LANG|LANGUAGE|LC_[A-Z]+|PYTHONUTF8");
  final SteadyClock clock = new SteadyClock();
  final String credentials; // null without authentication
  private final SparkContext sc;
  private final Map<String, Object> facts;
  private final Map<String, String> sentConf;
  private final long submittedMs; // steady
  private volatile boolean late;

  Registration(SparkContext sc, PythonProbe python) throws IOException, InterruptedException, URISyntaxException {
    this(sc, false, Authentication.credentials(sc), environment(sc), data(sc), python.answer());
  }

  /** Registers an application whose executors another cluster manager starts, without the facts for starting them. */
  static Registration attached(SparkContext sc) throws IOException, URISyntaxException {
    return new Registration(sc, true, null, Map.of(), Map.of(), null);
  }

  private Registration(SparkContext sc, boolean attached, String credentials, Map<String, String> environment,
      Map<String, Long> data, Map<String, Object> python) throws IOException, URISyntaxException {
    SparkConf conf = sc.conf();
    this.sc = sc;
    sentConf = entries(conf, key -> key.startsWith("spark.pace.") || !SECRET.matcher(key).find());
    submittedMs = clock.nowMs() - ageMs(sc);
    this.credentials = credentials;
    facts = Json.object("name", sc.appName(), "instance", instance, "spark_version", sc.version(), "user", sc.sparkUser(),
        "uid", OwnProcess.owner("uid"), "gid", OwnProcess.owner("gid"),
        "pid", ProcessHandle.current().pid(), "pid_start", OwnProcess.startTicks(), "boot_id", OwnProcess.bootId(),
        "pid_namespace", OwnProcess.pidNamespace(), "umask", OwnProcess.umask(),
        "host", conf.get("spark.driver.host"), "address", address(conf.get("spark.driver.host")),
        "driver_url", "spark://CoarseGrainedScheduler@" + sc.env().rpcEnv().address().hostPort(),
        "ui_url", sc.uiWebUrl().isDefined() ? sc.uiWebUrl().get() : null,
        "jars_dir", jar(SparkContext.class).getParent().toString(), "bridge_jar", jar(Registration.class).toString(),
        "java_home", System.getProperty("java.home"), "working_dir", System.getProperty("user.dir"),
        "conf", sentConf,
        "startup_conf", attached ? Map.of() : entries(conf, SparkConf::isExecutorStartupConf), "environment", environment,
        "authenticated", credentials != null, "credentials", credentials, "data", data, "python", python,
        "main", conf.get("spark.pace.main", DriverProcess.main()));
    if (attached) facts.put("attached", true);
  }

  /** True if the configuration holds a setting of Sparkpace. */
  static boolean asksForPace(SparkConf conf) {
    return Arrays.stream(conf.getAll()).anyMatch(entry -> entry._1().startsWith("spark.pace."));
  }

  /** Marks the job as running already from now on: its deadline is taken as it is. */
  void late() { late = true; }

  /** `applicationId` is null at first; later the id this application had before the master lost it. */
  Map<String, Object> message(String applicationId, Map<String, Object> wanted) {
    long nowMs = clock.nowMs();
    Map<String, Object> message = Json.object("application_id", applicationId, "wanted", wanted,
        "age_s", (nowMs - submittedMs) / 1000.0, "steady_ms", nowMs, "ports", ports());
    message.putAll(facts);
    if (late) {
      Map<String, String> forced = new TreeMap<>(sentConf);
      forced.put("spark.pace.force", "true");
      message.put("conf", forced);
    }
    return message;
  }

  /** The ports that executors must reach: of RPC and of blocks; none before Spark has opened the latter, after this application
   * has its id. */
  List<Integer> ports() {
    BlockManagerId blocks = sc.env().blockManager().blockManagerId();
    return blocks == null ? List.of() : List.of(sc.env().rpcEnv().address().port(), blocks.port());
  }

  /** The age since submission for the first SparkContext of this JVM; a further SparkContext did not exist then. */
  private static long ageMs(SparkContext sc) throws IOException {
    boolean further = FURTHER.getAndSet(true);
    if (!further && sc.conf().contains("spark.pace.submit.uptime")) {
      long ms = OwnProcess.sinceUptimeMs(sc.conf().get("spark.pace.submit.uptime"));
      if (ms >= 0) return ms;
    }
    long nowMs = System.currentTimeMillis();
    if (!further && sc.conf().contains("spark.pace.submit.time.ms"))
      return Math.max(0, nowMs - sc.conf().getLong("spark.pace.submit.time.ms", nowMs));
    // Spark stamped these in this JVM, so no step of the wall clock makes them older than it is.
    long stamped = further ? sc.startTime() : sc.conf().getLong("spark.app.submitTime", sc.startTime());
    return Math.max(0, Math.min(nowMs - stamped, ManagementFactory.getRuntimeMXBean().getUptime()));
  }

  private static Map<String, String> entries(SparkConf conf, Predicate<String> wanted) {
    Map<String, String> entries = new TreeMap<>();
    for (Tuple2<String, String> entry : conf.getAll()) if (wanted.test(entry._1())) entries.put(entry._1(), entry._2());
    return entries;
  }

  /** Spark's own variables for executors, and the driver's variables of time zone and language. A task of a cluster manager on
   * one machine would inherit the latter, and so read time and text like the driver. */
  private static Map<String, String> environment(SparkContext sc) {
    Map<String, String> environment = new TreeMap<>();
    System.getenv().forEach((name, value) -> { if (INHERITED.matcher(name).matches()) environment.put(name, value); });
    for (Object entry : Scala.list(sc.executorEnvs()))
      environment.put((String) ((Tuple2<?, ?>) entry)._1(), (String) ((Tuple2<?, ?>) entry)._2());
    environment.put("SPARK_USER", sc.sparkUser());
    return environment;
  }

  private static Map<String, Long> data(SparkContext sc) throws IOException {
    try {
      return Inputs.hosts(sc.conf().get("spark.pace.placement.input", ""), sc.hadoopConfiguration());
    } catch (IOException | IllegalArgumentException e) {
      throw new IOException("spark.pace.placement.input cannot be used: " + e.getMessage() + "; name existing paths", e);
    }
  }

  /** Looks the address up here, where a slow name server holds up nothing else; null without one of IPv4. */
  private static String address(String host) {
    try {
      for (InetAddress one : InetAddress.getAllByName(host)) if (one instanceof Inet4Address) return one.getHostAddress();
    } catch (UnknownHostException e) {
      // the agent says what is accepted, if it matters there
    }
    return null;
  }

  private static Path jar(Class<?> type) throws URISyntaxException {
    return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toAbsolutePath();
  }
}
