package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;

/** Facts about the driver's own process, from /proc: who it is, when it started, what it runs. */
final class DriverProcess {
  private static final Set<String> FLAGS = Set.of("--verbose", "-v", "--supervise", "--help", "-h", "--version", "--usage-error");

  /** Field 22 of /proc/self/stat, in clock ticks since boot; the second field may hold blanks and brackets. */
  static long startTicks() throws IOException {
    String stat = Files.readString(Path.of("/proc/self/stat"));
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[22 - 3]);
  }

  static String bootId() throws IOException { return Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).trim(); }

  /** Process numbers count within it; empty where the kernel does not tell. */
  static String pidNamespace() {
    try {
      return Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
    } catch (IOException e) {
      return "";
    }
  }

  /** Milliseconds since `uptime` ("SECONDS@BOOT_ID", seconds as in /proc/uptime); -1 if that was in another boot, or nonsense. */
  static long sinceUptimeMs(String uptime) throws IOException {
    String[] then = uptime.split("@", 2);
    if (then.length < 2 || !then[1].equals(bootId()) || !then[0].matches("[0-9]{1,12}([.][0-9]{1,9})?")) return -1;
    double nowS = Double.parseDouble(Files.readString(Path.of("/proc/uptime")).split(" ")[0]);
    return Math.round(1000 * (nowS - Double.parseDouble(then[0])));
  }

  /** `attribute` is "uid" or "gid". */
  static int owner(String attribute) throws IOException { return (Integer) Files.getAttribute(Path.of("/proc/self"), "unix:" + attribute); }

  /** The main file or class as the user named it; null if nobody can tell (an interactive shell). */
  static String main() {
    String resource = resource();
    if (!"pyspark-shell".equals(resource)) return resource;
    // `python app.py` starts this JVM as its child.
    String parent = ProcessHandle.current().parent().map(p -> Long.toString(p.pid())).orElse("self");
    return command(parent).stream().skip(1).filter(word -> !word.startsWith("-")).findFirst().filter(word -> word.endsWith(".py")).orElse(null);
  }

  static boolean runsPython() {
    String resource = String.valueOf(resource());
    return resource.endsWith(".py") || resource.equals("pyspark-shell");
  }

  /** SparkSubmit's --class, else its first word that is neither an option nor an option's value; else the JVM's main class. */
  private static String resource() {
    List<String> words = command("self");
    int submit = words.indexOf("org.apache.spark.deploy.SparkSubmit");
    if (submit < 0) return System.getProperty("sun.java.command", "").split(" ")[0];
    for (int i = submit + 1; i < words.size(); i++) {
      String word = words.get(i);
      if (!word.startsWith("-")) return word;
      if (word.equals("--class") && i + 1 < words.size()) return words.get(i + 1);
      if (!FLAGS.contains(word) && !word.contains("=")) i++;
    }
    return null;
  }

  private static List<String> command(String process) {
    try {
      return Arrays.asList(Files.readString(Path.of("/proc", process, "cmdline")).split("\0"));
    } catch (IOException e) {
      return List.of();
    }
  }
}
