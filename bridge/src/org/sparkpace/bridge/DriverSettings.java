package org.sparkpace.bridge;
import java.io.*;
import java.util.*;
import org.apache.spark.SparkConf;

/** The settings a driver needs from its start (driver-settings.properties): adds what can still be added, names the rest. */
final class DriverSettings {
  static void complete(SparkConf conf) {
    Properties required = new Properties();
    try (InputStream in = DriverSettings.class.getResourceAsStream("driver-settings.properties")) {
      required.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    String plugin = required.getProperty("spark.plugins");
    String plugins = conf.get("spark.plugins", "").trim();
    if (Arrays.stream(plugins.split(",")).map(String::trim).noneMatch(plugin::equals))
      conf.set("spark.plugins", plugins.isEmpty() ? plugin : plugins + "," + plugin); // executors take it from here
    if (conf.contains("spark.pace.submission")) return; // `sparkpace submit` has set everything
    TreeSet<String> missing = new TreeSet<>(required.stringPropertyNames());
    missing.removeIf(conf::contains);
    if (!missing.isEmpty())
      Terminal.say("warning: " + String.join(" and ", missing) + (missing.size() == 1 ? " was" : " were")
          + " not set when the driver started, so a squeezed executor may be taken for lost;"
          + " pass --properties-file with the output of `sparkpace conf`");
  }
}
