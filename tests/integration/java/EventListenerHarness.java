package org.sparkpace.bridge;
import java.io.*;
import java.util.*;
import org.apache.spark.scheduler.*;
import org.apache.spark.util.JsonProtocol;

/** Gives the listener the jobs, queries and tasks of a Spark event log that it reads; says for each job which SQL execution it
 * is of, and for each task what it waited for. */
final class EventListenerHarness {
  public static void main(String[] none) throws Exception {
    BufferedReader log = new BufferedReader(new InputStreamReader(System.in));
    Journal journal = new Journal();
    SteadyClock clock = new SteadyClock(System::currentTimeMillis, System::nanoTime, 1_000);
    EventListener listener = new EventListener(journal, clock, () -> { });
    for (String line; (line = log.readLine()) != null; ) {
      if (!line.contains("SparkListenerJobStart\"") && !line.contains("SparkListenerSQLExecution")
          && !line.contains("SparkListenerTaskEnd\"")) continue;
      SparkListenerEvent event = JsonProtocol.sparkEventFromJson(line);
      if (event instanceof SparkListenerJobStart) listener.onJobStart((SparkListenerJobStart) event);
      else if (event instanceof SparkListenerTaskEnd) listener.onTaskEnd((SparkListenerTaskEnd) event);
      else listener.onOtherEvent(event);
    }
    Map<Object, Object> jobs = new TreeMap<>(), tasks = new TreeMap<>();
    for (Object numbered : (List<?>) journal.take(10_000).get("events")) {
      Map<?, ?> event = (Map<?, ?>) ((Map<?, ?>) numbered).get("event");
      if (event.get("type").equals("task_end")) tasks.put(event.get("task"), event.get("waits"));
      else jobs.put(event.get("job"), event.get("sql_execution"));
    }
    System.out.println(Json.MAPPER.writeValueAsString(Json.object("jobs", jobs, "tasks", tasks)));
  }
}
