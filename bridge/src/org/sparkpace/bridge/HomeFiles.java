package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.spark.*;

/** Files of the cluster's home on the driver's side: by a setting, else where `sparkpace up` of this user puts them. */
final class HomeFiles {
  /** The certificate of the cluster's CA. */
  static Path ca(SparkConf conf) { return path(conf, "spark.pace.ca.file", "ca.pem"); }

  /** The token that lets this user submit: read from a private file, sent as a header, never kept in a conf. */
  static String token(SparkConf conf) throws SparkException {
    Path file = path(conf, "spark.pace.token.file", "submit.token");
    try {
      String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
      if (!mode.endsWith("------") && !(mode.endsWith("r-----") && roots(file)) && !isPods(file))
        throw new SparkException("the token file " + file + " has mode " + mode + ", open to others; make it private: chmod 600 " + file);
      String token = Files.readString(file).trim();
      if (token.matches("[\\x21-\\x7e]+")) return token;
      throw new SparkException("the token file " + file + " holds no token; it must be one line, as `sparkpace up` writes it");
    } catch (IOException e) {
      throw new SparkException("no submit token can be read from " + file + "; run `sparkpace up` as this user"
          + " or name its file by --conf spark.pace.token.file=FILE", e);
    }
  }

  /** A file of root's for a group of this process: the kubelet gives a secret this form in a pod of another user. */
  private static boolean roots(Path file) throws IOException {
    return (Integer) Files.getAttribute(file, "unix:uid") == 0 && OwnProcess.owner("uid") != 0;
  }

  /** In memory, read-only: a secret that the kubelet shows to a pod (0644 unless set otherwise). Only root mounts such a
   * file system, and only the job is in the pod. */
  private static boolean isPods(Path file) throws IOException {
    FileStore in = Files.getFileStore(file);
    return in.type().equals("tmpfs") && in.isReadOnly() && (Integer) Files.getAttribute(file, "unix:uid") == 0;
  }

  private static Path path(SparkConf conf, String setting, String name) {
    String home = System.getenv("SPARKPACE_HOME");
    if (home == null || home.isEmpty()) home = System.getProperty("user.home") + "/.sparkpace";
    return Path.of(conf.get(setting, home + "/" + name));
  }
}
