package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;

/** The program that the driver runs, from /proc; the rule is that of stage_model/history/driver_command.py. */
final class DriverProcess {
  private static final Set<String> FLAGS = Set.of("--verbose", "-v", "--supervise", "--help", "-h", "--version", "--usage-error");
  /** Spark's classes that run a main file in Python or R, where the driver is not started as `spark-submit FILE`. */
  private static final Set<String> RUNNERS = Set.of("org.apache.spark.deploy.PythonRunner", "org.apache.spark.deploy.RRunner");
  private static final Set<String> SHELLS = Set.of("spark-shell", "org.apache.spark.repl.Main", "sparkr-shell", "connect-shell");
  /** Options of YARN's ApplicationMaster that name the program, each with a value; the most exact ones come first. */
  private static final List<String> PROGRAMS = List.of("--primary-py-file", "--primary-r-file", "--class", "--jar");

  /** The main file or class as the user named it; null in an interactive shell and in a notebook. */
  static String main() {
    String resource = resource();
    if (!"pyspark-shell".equals(resource)) return SHELLS.contains(String.valueOf(resource)) ? null : resource;
    // `python app.py` starts this JVM as its child.
    String parent = ProcessHandle.current().parent().map(p -> Long.toString(p.pid())).orElse("self");
    return command(parent).stream().skip(1).filter(word -> !word.startsWith("-")).findFirst()
        .filter(word -> word.endsWith(".py") && !word.endsWith("ipykernel_launcher.py")).orElse(null);
  }

  /** Python started this JVM, or a user types commands into it: the end of the program cannot be seen here. */
  static boolean inShell() { return Set.of("pyspark-shell", "org.apache.spark.repl.Main").contains(String.valueOf(resource())); }

  static boolean runsPython() {
    String resource = String.valueOf(resource());
    return resource.endsWith(".py") || resource.equals("pyspark-shell");
  }

  /** SparkSubmit's --class, else its first word that is neither an option nor an option's value; in cluster mode what YARN's
   * ApplicationMaster or Spark's DriverWrapper runs; else the JVM's main class. */
  private static String resource() {
    List<String> words = command("self");
    int yarn = words.indexOf("org.apache.spark.deploy.yarn.ApplicationMaster");
    if (yarn >= 0) return inYarn(words.subList(yarn + 1, words.size()));
    int standalone = words.indexOf("org.apache.spark.deploy.worker.DriverWrapper"); // the worker's URL, the jar, the class
    if (standalone >= 0) return standalone + 3 < words.size() ? words.get(standalone + 3) : null;
    int submit = words.indexOf("org.apache.spark.deploy.SparkSubmit");
    if (submit < 0) return System.getProperty("sun.java.command", "").split(" ")[0];
    for (int i = submit + 1; i < words.size(); i++) {
      String word = words.get(i);
      if (!word.startsWith("-")) return word;
      if (word.equals("--class") && i + 1 < words.size() && !RUNNERS.contains(words.get(i + 1))) return words.get(i + 1);
      if (!FLAGS.contains(word) && !word.contains("=")) i++;
    }
    return null;
  }

  private static String inYarn(List<String> words) {
    Map<String, String> values = new HashMap<>();
    for (int i = 0; i + 1 < words.size(); i += 2) values.put(words.get(i), words.get(i + 1));
    return PROGRAMS.stream().map(values::get).filter(Objects::nonNull).findFirst().orElse(null);
  }

  private static List<String> command(String process) {
    try {
      return Arrays.asList(Files.readString(Path.of("/proc", process, "cmdline")).split("\0"));
    } catch (IOException e) {
      return List.of();
    }
  }
}
