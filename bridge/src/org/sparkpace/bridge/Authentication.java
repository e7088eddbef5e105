package org.sparkpace.bridge;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;
import org.apache.hadoop.security.Credentials;
import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;

/** Spark's own authentication: any peer of the driver or an executor must know the application's secret. */
final class Authentication {
  private static final String ON = "spark.authenticate", SECRET = "spark.authenticate.secret", HIDDEN = "spark.redaction.regex";

  /** Checks authentication, which cannot be switched on here: Spark's RPC server listens since before any of our code runs.
   * A conf without the setting is refused, one with `false` gives a warning. */
  static void check(SparkContext sc) throws SparkException {
    SparkConf conf = sc.conf();
    if (!sc.env().securityManager().isAuthenticationEnabled()) {
      if (!conf.contains(ON))
        throw new SparkException("Spark's own authentication is off, so whoever reaches a port of this driver could run code in it;"
            + " run `sparkpace conf -o FILE` and start with --properties-file FILE, or go on without it by " + ON + "=false");
      Terminal.say("warning: " + ON + "=false: whoever reaches a port of this driver or its executors can run code in them");
    } else if (conf.contains(HIDDEN) && !Pattern.compile(conf.get(HIDDEN)).matcher(SECRET).find()) {
      // event log and UI show entries of the conf that the user does not hide
      conf.set(HIDDEN, conf.get(HIDDEN) + "|" + Pattern.quote(SECRET));
    }
  }

  /** A Hadoop credentials file (HADOOP_TOKEN_FILE_LOCATION) in Base64, in which executors look for the secret first, as on YARN
   * (SecurityManager.getSecretKey); null without authentication. */
  static String credentials(SparkContext sc) throws IOException {
    SecurityManager security = sc.env().securityManager();
    if (!security.isAuthenticationEnabled()) return null;
    Credentials credentials = new Credentials();
    credentials.addSecretKey(SecurityManager.SECRET_LOOKUP_KEY(), security.getSecretKey().getBytes(StandardCharsets.UTF_8));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    credentials.writeTokenStorageToStream(new DataOutputStream(bytes));
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }
}
