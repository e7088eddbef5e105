package org.sparkpace.bridge;
import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.*;
import org.apache.spark.scheduler.*;

/** The port at which this driver serves others by Spark Connect or Thrift. In Spark 4, an event names the port of Connect. In all
 * other cases the settings name it, and it counts once this process listens there. */
final class ServicePort extends SparkListener {
  private static final String CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer";
  private static final String PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin";
  private static final String THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2";
  private final SparkContext sc;
  private final String main;
  private volatile Integer port; // null: it does not serve yet

  ServicePort(SparkContext sc) {
    this.sc = sc;
    main = sc.conf().get("spark.pace.main", DriverProcess.main());
  }

  @Override public void onOtherEvent(SparkListenerEvent e) {
    if (!e.getClass().getSimpleName().equals("SparkListenerConnectServiceStarted")) return; // only Spark Connect has such a class
    try {
      port = (Integer) e.getClass().getMethod("bindingPort").invoke(e);
    } catch (ReflectiveOperationException other) {
      // the settings say it, too
    }
  }

  /** Null as long as it does not serve. */
  Integer port() {
    try {
      int expected = port == null ? expected() : 0;
      if (expected > 0 && OwnProcess.listens(expected)) port = expected;
    } catch (IOException | IllegalArgumentException e) {
      // the server itself refuses a port that is no number
    }
    return port;
  }

  private int expected() {
    SparkConf conf = sc.conf();
    if (CONNECT.equals(main) || Arrays.asList(conf.get("spark.plugins", "").split("\\s*,\\s*")).contains(PLUGIN))
      return conf.getInt("spark.connect.grpc.binding.port", 15002);
    if (!THRIFT.equals(main)) return 0;
    String name = "hive.server2.thrift.port", given = System.getenv("HIVE_SERVER2_THRIFT_PORT");
    // the server makes a property of each --hiveconf
    return Integer.parseInt(given != null ? given : System.getProperty(name, sc.hadoopConfiguration().get(name, "10000")));
  }
}
