package org.sparkpace.bridge;
import java.util.ArrayList;
import java.util.List;
import scala.collection.Iterable;
import scala.collection.Iterator;

/** Differences of Scala 2.12 and 2.13, so that one jar serves Spark 3.5 and 4.x. */
final class Scala {
  /** A Seq-valued member, read by name: its declared type is collection.Seq in 2.12 and immutable.Seq in 2.13. */
  static List<Object> members(Object owner, String name) {
    try {
      return list((Iterable<?>) owner.getClass().getMethod(name).invoke(owner));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(owner.getClass().getName() + "." + name + " is not readable in this Spark", e);
    }
  }

  static List<Object> list(Iterable<?> values) {
    List<Object> list = new ArrayList<>();
    for (Iterator<?> it = values.iterator(); it.hasNext(); ) list.add(it.next());
    return list;
  }

  /** Spark's exceptions are checked for Java only; its own callers do not declare them. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable t) throws E { throw (E) t; }
}
