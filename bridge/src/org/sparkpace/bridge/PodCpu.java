package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.util.List;

/** CPU that this container has used, from the kernel's own counter: Kubernetes' API does not show it. */
final class PodCpu {
  private static final List<String> V1 = List.of("cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"); // nanoseconds
  private static final String V2 = "cpu.stat", USAGE = "usage_usec ";

  /** True in a pod, whose container sees its own control group as the root. */
  static boolean isPod() { return System.getenv("KUBERNETES_SERVICE_HOST") != null; }

  /** Core-seconds since the container began; null where `root` (/sys/fs/cgroup) does not show them. */
  static Double seconds(Path root) {
    try {
      for (String name : V1) {
        Path file = root.resolve(name);
        if (Files.isReadable(file)) return Long.parseLong(Files.readString(file).trim()) / 1e9;
      }
      for (String line : Files.readAllLines(root.resolve(V2)))
        if (line.startsWith(USAGE)) return Long.parseLong(line.substring(USAGE.length()).trim()) / 1e6;
    } catch (IOException | RuntimeException e) { // a kernel without it, or a container that hides it
    }
    return null;
  }
}
