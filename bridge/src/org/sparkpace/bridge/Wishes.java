package org.sparkpace.bridge;
import java.util.*;
import org.apache.spark.SparkConf;
import org.apache.spark.resource.*;
import scala.Tuple2;

/** Executors that Spark wants, by resource profile id: the wire's `ExecutorWish`. Memory in MiB; null = left open. */
final class Wishes {
  /** The wish before the first request: the configured number of executors, null if none is configured. */
  static Map<String, Object> initial(SparkConf conf, ResourceProfile standard) {
    Integer count = conf.contains("spark.executor.instances") ? conf.getInt("spark.executor.instances", 0) : null;
    if (conf.getBoolean("spark.dynamicAllocation.enabled", false)) { // the rule of Spark's own Utils, which moves between versions
      count = Math.max(count == null ? 0 : count, conf.getInt("spark.dynamicAllocation.minExecutors", 0));
      count = Math.max(count, conf.getInt("spark.dynamicAllocation.initialExecutors", 0));
    }
    return Json.object(Integer.toString(standard.id()), wish(conf, standard, count));
  }

  static Map<String, Object> of(SparkConf conf, scala.collection.immutable.Map<ResourceProfile, Object> totals) {
    Map<String, Object> wanted = new TreeMap<>();
    for (Object entry : Scala.list(totals)) {
      ResourceProfile profile = (ResourceProfile) ((Tuple2<?, ?>) entry)._1();
      wanted.put(Integer.toString(profile.id()), wish(conf, profile, (Integer) ((Tuple2<?, ?>) entry)._2()));
    }
    return wanted;
  }

  private static Map<String, Object> wish(SparkConf conf, ResourceProfile profile, Integer count) {
    return Json.object("count", count, "cores", amount(conf, profile, "cores", "spark.executor.cores"),
        "heap_mb", amount(conf, profile, "memory", "spark.executor.memory"),
        "overhead_mb", amount(conf, profile, "memoryOverhead", "spark.executor.memoryOverhead"),
        "off_heap_mb", amount(conf, profile, "offHeap", "spark.memory.offHeap.size"),
        "python_mb", amount(conf, profile, "pyspark.memory", "spark.executor.pyspark.memory"));
  }

  /** Spark fills its default profile with default values: there only values that the user has set count. */
  private static Long amount(SparkConf conf, ResourceProfile profile, String resource, String key) {
    if (profile.id() == 0 && !conf.contains(key)) return null;
    ExecutorResourceRequest request = profile.executorResourcesJMap().get(resource);
    return request == null ? null : request.amount();
  }
}
