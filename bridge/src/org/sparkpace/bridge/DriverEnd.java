package org.sparkpace.bridge;
import java.util.Map;

/** How this JVM ends, as the wire's `DriverEnd`. No JVM tells its exit code to what runs in it, but the thread that ends it shows
 * who asked for the end. */
final class DriverEnd {
  static final String TO_COME = "to_come";
  private static volatile boolean mainFailed;

  /** From now on an error that ends the main thread is noticed; whoever handled it before still does. */
  static synchronized void watchMain() {
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      Thread.UncaughtExceptionHandler before = thread.getUncaughtExceptionHandler();
      if (thread.getId() == 1 && !(before instanceof Watch)) thread.setUncaughtExceptionHandler(new Watch(before));
    }
  }

  private static final class Watch implements Thread.UncaughtExceptionHandler {
    private final Thread.UncaughtExceptionHandler before;
    Watch(Thread.UncaughtExceptionHandler before) { this.before = before; }

    @Override public void uncaughtException(Thread thread, Throwable error) {
      mainFailed = true;
      before.uncaughtException(thread, error);
    }
  }

  static String now() {
    for (Map.Entry<Thread, StackTraceElement[]> one : Thread.getAllStackTraces().entrySet()) {
      StackTraceElement[] frames = one.getValue(); // the innermost first
      boolean hooks = false; // others may ask for an end that has begun
      for (int i = 0; i < frames.length; i++) {
        if (!frames[i].getClassName().equals("java.lang.Shutdown")) continue;
        hooks |= frames[i].getMethodName().equals("runHooks");
        if (!hooks) continue;
        if (one.getKey().getName().matches("SIG[A-Z0-9]+ handler")) return "asked";
        if (frames[i].getMethodName().equals("shutdown")) return mainFailed ? "failed" : "well"; // its last thread has ended
        if (frames[i].getMethodName().equals("exit")) return failure(frames, i) ? "failed" : "unknown";
      }
    }
    // a shell ends with its user, whatever its last command did
    return DriverProcess.inShell() ? "unknown" : TO_COME;
  }

  /** spark-submit itself exits only with the code, not 0, of the Python or R program that it ran. */
  private static boolean failure(StackTraceElement[] frames, int from) {
    for (int i = from; i < frames.length; i++)
      if (!frames[i].getClassName().startsWith("java.lang."))
        return frames[i].getClassName().startsWith("org.apache.spark.util.CommandLineLoggingUtils");
    return false;
  }
}
