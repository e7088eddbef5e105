package org.sparkpace.bridge;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.function.LongSupplier;

/** Milliseconds that no step of the wall clock moves: the wall clock's when the driver started, then System.nanoTime's progress.
 *
 * Spark stamps its events by the wall clock. A stamp was made under one of the *skews* (wall minus steady) seen so far: the
 * newest under which it is neither older than that skew nor newer than now. A step is seen at the next event or look, 0.2 s
 * later at most (5 s while an answer of the master is awaited); only a step smaller than that leaves an error, its own size. */
final class SteadyClock {
  private static final long LEAST_STEP_MS = 10, ROUNDING_MS = 2, LOOK_NS = 1_000_000;
  private static final int LOOKS = 5, MOST_SKEWS = 1_000;
  private final LongSupplier wallMs, ticksNs;
  private final long originMs, originNs;
  private final ArrayDeque<Skew> skews = new ArrayDeque<>(); // the newest first
  private long lookedMs;

  /** `ms` is wall minus steady; `fromMs` is the last steady time at which another one was seen, so it began later. */
  private static final class Skew {
    final long ms, fromMs;

    Skew(long ms, long fromMs) {
      this.ms = ms;
      this.fromMs = fromMs;
    }
  }

  SteadyClock() { this(System::currentTimeMillis, System::nanoTime, ManagementFactory.getRuntimeMXBean().getUptime()); }

  /** Assumes that no event to come was stamped more than `ageMs` ago. */
  SteadyClock(LongSupplier wallMs, LongSupplier ticksNs, long ageMs) {
    this.wallMs = wallMs;
    this.ticksNs = ticksNs;
    originNs = ticksNs.getAsLong();
    originMs = wallMs.getAsLong();
    skews.add(new Skew(0, originMs - ageMs));
    lookedMs = originMs;
  }

  long nowMs() { return originMs + (ticksNs.getAsLong() - originNs) / 1_000_000; }

  /** Notices a step of the wall clock. */
  synchronized void look() {
    long now = 0, wall = 0;
    for (int i = 0; i < LOOKS; i++) { // a thread that was put aside between the two readings would see a step
      long before = ticksNs.getAsLong();
      wall = wallMs.getAsLong();
      long after = ticksNs.getAsLong();
      now = originMs + (after - originNs) / 1_000_000;
      if (after - before < LOOK_NS) break;
      if (i == LOOKS - 1) return;
    }
    long skew = wall - now;
    if (Math.abs(skew - skews.peek().ms) >= LEAST_STEP_MS) {
      skews.push(new Skew(skew, lookedMs));
      if (skews.size() > MOST_SKEWS) skews.removeLast();
    }
    lookedMs = now;
  }

  /** The steady time of something that Spark has stamped. */
  long steady(long stampMs) { return steady(stampMs, Long.MAX_VALUE); }

  /** As above, of an event known to have been at `latestMs` (steady) or before. */
  synchronized long steady(long stampMs, long latestMs) {
    look();
    long latest = Math.min(nowMs(), latestMs);
    for (Skew skew : skews) {
      long time = stampMs - skew.ms;
      if (time <= latest + ROUNDING_MS && time >= skew.fromMs - ROUNDING_MS) return Math.min(time, latest);
    }
    return latest; // under a skew that came and went between two looks
  }
}
