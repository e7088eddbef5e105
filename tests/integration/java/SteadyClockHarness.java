package org.sparkpace.bridge;
import java.io.*;
import java.util.*;
import org.apache.spark.Success$;
import org.apache.spark.executor.*;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.scheduler.*;
import org.apache.spark.scheduler.cluster.ExecutorInfo;
import scala.Option;
import scala.collection.immutable.Seq;

/** Answers lines `WALL_MS TICKS_NS COMMAND...` with one line of JSON each; the clocks show what the line says. */
final class SteadyClockHarness {
  private static long wallMs, ticksNs, pauseNs;

  public static void main(String[] none) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    SteadyClock clock = null;
    Journal journal = new Journal();
    EventListener listener = null;
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      wallMs = Long.parseLong(words[0]);
      ticksNs = Long.parseLong(words[1]);
      if (clock == null) {
        clock = new SteadyClock(() -> wallMs + pass(), () -> ticksNs + 1_000_000 * pass(), 1_000);
        listener = new EventListener(journal, clock, () -> { });
      }
      Object answer = true;
      switch (words[2]) {
        case "now": answer = clock.nowMs(); break;
        case "look": clock.look(); break;
        case "paused":
          pauseNs = Long.parseLong(words[3]);
          clock.look();
          pauseNs = passed = 0;
          answer = clock.steady(wallMs);
          break;
        case "steady": answer = words.length > 4 ? clock.steady(number(words[3]), number(words[4])) : clock.steady(number(words[3])); break;
        case "since": answer = OwnProcess.sinceUptimeMs(words.length > 3 ? words[3] : ""); break;
        case "begin": begin(listener, number(words[3])); break;
        case "end":
          end(listener, number(words[3]), number(words[4]), words.length > 5 ? number(words[5]) : 0);
          List<Object> events = new ArrayList<>();
          for (Object numbered : (List<?>) journal.take(1_000).get("events")) events.add(((Map<?, ?>) numbered).get("event"));
          answer = events;
          break;
        default: throw new IllegalArgumentException(line);
      }
      System.out.println(Json.MAPPER.writeValueAsString(answer));
    }
  }

  private static long passed;

  private static long pass() { return passed += pauseNs; }
  private static long number(String word) { return Long.parseLong(word); }

  private static void begin(EventListener listener, long ms) {
    StageInfo stage = stage();
    stage.submissionTime_$eq(Option.apply((Object) ms));
    listener.onJobStart(new SparkListenerJobStart(0, ms, none(), new Properties()));
    listener.onStageSubmitted(new SparkListenerStageSubmitted(stage, new Properties()));
    listener.onExecutorAdded(new SparkListenerExecutorAdded(ms, "1", new ExecutorInfo("host", 1, map(), map())));
  }

  private static void end(EventListener listener, long begunMs, long ms, long runMs) {
    TaskInfo task = new TaskInfo(0, 0, 0, 0, begunMs, "1", "host", TaskLocality.ANY(), false);
    task.markFinished(org.apache.spark.TaskState.FINISHED(), ms);
    TaskMetrics metrics = TaskMetrics.empty();
    metrics.setExecutorRunTime(runMs);
    listener.onTaskEnd(new SparkListenerTaskEnd(0, 0, "ResultTask", Success$.MODULE$, task, new ExecutorMetrics(), metrics));
    StageInfo stage = stage();
    stage.submissionTime_$eq(Option.apply((Object) begunMs));
    stage.completionTime_$eq(Option.apply((Object) ms));
    listener.onStageCompleted(new SparkListenerStageCompleted(stage));
    listener.onJobEnd(new SparkListenerJobEnd(0, ms, JobSucceeded$.MODULE$));
    listener.onExecutorRemoved(new SparkListenerExecutorRemoved(ms, "1", "gone"));
    listener.onApplicationEnd(new SparkListenerApplicationEnd(ms, Option.empty()));
  }

  private static StageInfo stage() {
    return new StageInfo(0, 0, "stage", 1, none(), none(), "", TaskMetrics.empty(), none(), Option.empty(),
        ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID(), false, 0);
  }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> none() { return (Seq<T>) scala.collection.immutable.Nil$.MODULE$; }
  private static scala.collection.immutable.Map<String, String> map() { return scala.collection.immutable.Map$.MODULE$.empty(); }
}
