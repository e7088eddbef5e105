package org.sparkpace.bridge;

/** Lines for the user: the driver's stderr, recognisable by their prefix. Never a token or an environment value. */
final class Terminal {
  static void say(String line) { System.err.println("sparkpace: " + line); }
}
