package org.sparkpace.bridge;
import java.util.Map;

/** The end of this JVM, in the words of the wire's `DriverEnd`. Code in a JVM cannot see the exit code, but the thread that ends
 * the JVM shows the origin of the end. */
final class DriverEnd {
  static final String TO_COME = "to_come";
  private static volatile boolean mainFailed;

  /** Notes from now on an error that ends the main thread; the handler that was there before is still called. */
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
      boolean hooks = false; // other threads may ask for an end that has begun
      for (int i = 0; i < frames.length; i++) {
        if (!frames[i].getClassName().equals("java.lang.Shutdown")) continue;
        hooks |= frames[i].getMethodName().equals("runHooks");
        if (!hooks) continue;
        if (one.getKey().getName().matches("SIG[A-Z0-9]+ handler")) return "asked";
        if (frames[i].getMethodName().equals("shutdown")) return mainFailed ? "failed" : "well"; // its last thread has ended
        if (frames[i].getMethodName().equals("exit")) return failure(frames, i) ? "failed" : "unknown";
      }
    }
    // a shell ends when its user leaves, even after a failed command
    return DriverProcess.inShell() ? "unknown" : TO_COME;
  }

  /** spark-submit itself calls exit only after its Python or R program failed, with the code of that program. */
  private static boolean failure(StackTraceElement[] frames, int from) {
    for (int i = from; i < frames.length; i++)
      if (!frames[i].getClassName().startsWith("java.lang."))
        return frames[i].getClassName().startsWith("org.apache.spark.util.CommandLineLoggingUtils");
    return false;
  }
}
