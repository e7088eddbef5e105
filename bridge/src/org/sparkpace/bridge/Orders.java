package org.sparkpace.bridge;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** Orders of the master. For an attached application, only the stop has an effect. */
interface Orders {
  /** Takes the master's word on an ended executor, perhaps more than once; `exitCode` is null when it is not known. */
  default void executorGone(String id, Integer exitCode, boolean planned, boolean byApplication, String reason) {}
  default void locality(double worth, long waitMs) {}
  default void starved(Map<String, Integer> leastWaiting) {}
  void stopApplication(String sentence);

  /** Fails the active stages, and ends the SparkContext. */
  static void stop(SparkContext sc, String sentence) {
    Terminal.say("the master ends this application: " + sentence);
    try {
      ((TaskSchedulerImpl) sc.taskScheduler()).error(sentence);
    } catch (Exception e) { // Spark throws this when no stage is active
    }
    sc.stopInNewThread();
  }
}
