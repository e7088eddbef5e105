package org.sparkpace.bridge;
import java.io.*;
import java.nio.file.*;
import java.util.*;

/** Facts about this JVM's own process, from /proc: its number, its user, its start. */
final class OwnProcess {
  /** Field 22 of /proc/self/stat, in clock ticks since boot; the second field may hold blanks and brackets. */
  static long startTicks() throws IOException {
    String stat = Files.readString(Path.of("/proc/self/stat"));
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[22 - 3]);
  }

  static String bootId() throws IOException { return Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).trim(); }

  /** The permissions that files of this process lack; null where the kernel does not show them (before Linux 4.7). */
  static Integer umask() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status")))
      if (line.startsWith("Umask:")) return Integer.parseInt(line.substring(6).trim(), 8);
    return null;
  }

  /** The namespace of process numbers; empty where the kernel does not show it. */
  static String pidNamespace() {
    try {
      return Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
    } catch (IOException e) {
      return "";
    }
  }

  /** Milliseconds since `uptime` ("SECONDS@BOOT_ID", seconds as in /proc/uptime); -1 for another boot and for an unreadable text. */
  static long sinceUptimeMs(String uptime) throws IOException {
    String[] then = uptime.split("@", 2);
    if (then.length < 2 || !then[1].equals(bootId()) || !then[0].matches("[0-9]{1,12}([.][0-9]{1,9})?")) return -1;
    double nowS = Double.parseDouble(Files.readString(Path.of("/proc/uptime")).split(" ")[0]);
    return Math.round(1000 * (nowS - Double.parseDouble(then[0])));
  }

  /** `attribute` is "uid" or "gid". */
  static int owner(String attribute) throws IOException { return (Integer) Files.getAttribute(Path.of("/proc/self"), "unix:" + attribute); }

  /** True if this process itself listens on the TCP port, at any address. */
  static boolean listens(int port) throws IOException {
    String at = String.format(":%04X", port);
    Set<String> sockets = new HashSet<>();
    for (String table : List.of("tcp", "tcp6")) {
      Path file = Path.of("/proc/self/net", table);
      for (String line : Files.exists(file) ? Files.readAllLines(file) : List.<String>of()) {
        String[] fields = line.trim().split("\\s+"); // [1]: local address, [3]: state (0A: listens), [9]: inode
        if (fields.length > 9 && fields[1].endsWith(at) && fields[3].equals("0A"))
          sockets.add("socket:[" + fields[9] + "]");
      }
    }
    File[] open = sockets.isEmpty() ? null : new File("/proc/self/fd").listFiles();
    if (open == null) return false;
    for (File one : open) {
      try {
        if (sockets.contains(Files.readSymbolicLink(one.toPath()).toString())) return true;
      } catch (IOException e) {
        // closed meanwhile
      }
    }
    return false;
  }

  /** The wire's `ExecutorProcess`. */
  static Map<String, Object> facts() throws IOException {
    return Json.object("pid", ProcessHandle.current().pid(), "start_ticks", startTicks(), "boot_id", bootId(),
        "pid_namespace", pidNamespace(), "uid", owner("uid"));
  }
}
