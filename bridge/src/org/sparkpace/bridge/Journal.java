package org.sparkpace.bridge;
import java.util.*;

/** The numbered events that the master has not acknowledged, and the active jobs, stages and executors. A master whose disk is
 * full takes events in that it does not acknowledge: they are kept, and sent again when it asks for them. When numbers are lost
 * (overflow, a master that forgot) the active ones go as a snapshot and numbering goes on behind it. */
final class Journal {
  private static final int CAPACITY = 50_000;
  private final ArrayDeque<Map<String, Object>> pending = new ArrayDeque<>();
  private final Map<String, Map<String, Object>> active = new LinkedHashMap<>();
  private long next = 1, taken; // the master has the events up to `taken`
  private boolean lost;
  private Map<String, Object> last;

  synchronized void add(Map<String, Object> event) {
    pending.add(Json.object("seq", next++, "event", event));
    if (pending.size() > CAPACITY) {
      pending.remove();
      lost = taken + 1 < first();
    }
  }

  /** Adds an event that makes something active under `key`. */
  synchronized void begin(String key, Map<String, Object> event) { active.put(key, event); add(event); }

  /** Adds the event that ends the activity under `key`. */
  synchronized void end(String key, Map<String, Object> event) { active.remove(key); add(event); }

  /** The application's end; later calls do nothing. */
  synchronized void finish(Map<String, Object> event) {
    if (last != null) return;
    last = event;
    add(event);
    notifyAll();
  }

  /** Waits until `finish` was called, `ms` at most. */
  synchronized void awaitFinish(long ms) throws InterruptedException {
    long end = System.nanoTime() + ms * 1_000_000;
    while (last == null && System.nanoTime() < end) wait(Math.max(1, (end - System.nanoTime()) / 1_000_000));
  }

  synchronized boolean waiting() { return lost || taken + 1 < next; }
  synchronized boolean fits(int most) { return lost || next - 1 - taken <= most; }

  /** The journal's part of a message: `most` events, or a snapshot (else null) with the number behind it. */
  synchronized Map<String, Object> take(int most) {
    List<Object> events = new ArrayList<>(), snapshot = null;
    if (lost) {
      snapshot = new ArrayList<>(active.values());
      if (last != null) snapshot.add(last);
      pending.clear();
    }
    pending.stream().skip(Math.max(0, taken + 1 - first())).limit(most).forEach(events::add);
    return Json.object("events", events, "snapshot", snapshot, "next_seq", first());
  }

  /** The master has stored what goes up to `number`, and has what goes up to `upTo`. Throws IllegalArgumentException if that was
   * never sent. */
  synchronized void acknowledge(long number, long upTo) {
    if (number < 0 || upTo < number || upTo >= next)
      throw new IllegalArgumentException("event " + number + " acknowledged, " + upTo + " taken of " + (next - 1));
    while (!pending.isEmpty() && first() <= number) pending.remove();
    taken = upTo;
    lost = taken + 1 < first();
  }

  private long first() { return next - pending.size(); }
}
