package org.sparkpace.bridge;
import com.fasterxml.jackson.core.type.TypeReference;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;

/** The Python of an executor's workers: the one Spark would start here, asked about itself. It answers while other things
 * are made ready. */
final class PythonProbe {
  private static final String QUESTION = "import json, sys; print(json.dumps({'version': '%d.%d' % sys.version_info[:2],"
      + " 'executable': sys.executable, 'prefix': sys.prefix, 'base_prefix': sys.base_prefix}))";

  private final String named;
  private Process process; // null: no PySpark application, or no such program
  private IOException missing;

  PythonProbe(SparkConf conf) {
    String inherited = System.getenv().getOrDefault("PYSPARK_PYTHON", "python3");
    named = conf.get("spark.pace.python", conf.get("spark.pyspark.python", inherited));
    if (!conf.contains("spark.pace.python") && !DriverProcess.runsPython()) return;
    try {
      process = new ProcessBuilder(named, "-c", QUESTION).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    } catch (IOException e) {
      missing = e;
    }
  }

  /** The wire's `PythonEnvironment` as the Python reports it; null if this is no PySpark application or no Python answers. */
  Map<String, Object> answer() throws InterruptedException {
    try {
      if (missing != null) throw missing;
      if (process == null) return null;
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new IOException("no answer within 10 s");
      }
      return Json.MAPPER.readValue(process.getInputStream(), new TypeReference<Map<String, Object>>() {});
    } catch (IOException e) {
      Terminal.say("warning: the Python " + named + " does not tell its version (" + e.getMessage() + "), so executors get none");
      return null;
    }
  }
}
