package org.sparkpace.bridge;
import java.io.*;
import java.util.*;
import java.util.function.Predicate;
import org.apache.spark.SparkConf;

/** The settings a driver needs from its start (driver-settings.properties): adds what can still be added, names the rest. */
final class DriverSettings {
  private static final Predicate<String> OFF_HEAP = key -> key.startsWith("spark.memory.") || key.startsWith("spark.buffer.");

  static void complete(SparkConf conf) {
    Properties required = required();
    String plugin = required.getProperty("spark.plugins");
    String plugins = conf.get("spark.plugins", "").trim();
    if (Arrays.stream(plugins.split(",")).map(String::trim).noneMatch(plugin::equals))
      conf.set("spark.plugins", plugins.isEmpty() ? plugin : plugins + "," + plugin); // executors take it from here
    // Off-heap memory can still be switched on: only executors use it. A size that the user has set stays.
    if (Arrays.stream(conf.getAll()).noneMatch(entry -> entry._1().startsWith("spark.memory.offHeap.")))
      required.stringPropertyNames().stream().filter(OFF_HEAP).forEach(key -> conf.setIfMissing(key, required.getProperty(key)));
    String ui = System.getenv("SPARK_LOCAL_IP"); // WebUI.bind reads only this variable
    if (conf.getBoolean("spark.ui.enabled", true) && (ui == null || ui.equals("0.0.0.0")))
      Terminal.say("warning: Spark's UI listens on all addresses of this machine; start the driver with SPARK_LOCAL_IP=127.0.0.1"
          + " in its environment, and spark.driver.host set as `sparkpace conf` says");
    name(conf, "run `sparkpace conf -o FILE` and pass --properties-file FILE");
  }

  private static Properties required() {
    Properties required = new Properties();
    try (InputStream in = DriverSettings.class.getResourceAsStream("driver-settings.properties")) {
      required.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return required;
  }

  /** Names the missing settings that can no longer be added. */
  static void name(SparkConf conf, String mend) {
    if (conf.contains("spark.pace.submission")) return; // `sparkpace submit` has set everything
    TreeSet<String> missing = new TreeSet<>(required().stringPropertyNames());
    missing.removeIf(OFF_HEAP.or("spark.shuffle.io.connectionTimeout"::equals).or(conf::contains));
    if (!missing.isEmpty())
      Terminal.say("warning: " + String.join(" and ", missing) + (missing.size() == 1 ? " was" : " were")
          + " not set when the driver started, so a squeezed executor may be taken for lost; " + mend);
  }
}
