package org.sparkpace.bridge;
import java.nio.file.Path;
import org.apache.spark.SparkConf;

/** Files of the cluster's home on the driver's side: by a setting, else where `sparkpace up` of this user puts them. */
final class HomeFile {
  static Path path(SparkConf conf, String setting, String name) {
    String home = System.getenv("SPARKPACE_HOME");
    if (home == null || home.isEmpty()) home = System.getProperty("user.home") + "/.sparkpace";
    return Path.of(conf.get(setting, home + "/" + name));
  }
}
