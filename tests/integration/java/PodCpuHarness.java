package org.sparkpace.bridge;
import java.nio.file.Path;

/** Says for each folder what a container that has it as /sys/fs/cgroup has used. */
final class PodCpuHarness {
  public static void main(String[] folders) {
    for (String folder : folders) System.out.println(PodCpu.seconds(Path.of(folder)));
  }
}
