package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.Path;
import java.util.*;
import org.apache.spark.api.plugin.PluginContext;

/** Progress as a message to the driver's side of the plugin, with this process's identity: no port, secret or path. In a pod
 * also with its CPU, which an agent elsewhere cannot see. */
final class ProgressMessage implements ProgressTimer.Outlet {
  static final long TICK_MS = 500;
  private final PluginContext context;
  private static final Path GROUPS = Path.of("/sys/fs/cgroup");
  private final Map<String, Object> process;

  ProgressMessage(PluginContext context) throws IOException {
    this.context = context;
    process = OwnProcess.facts();
  }

  @Override public void tell(Map<String, Object> progress) throws IOException {
    Double cpuS = PodCpu.isPod() ? PodCpu.seconds(GROUPS) : null;
    if (cpuS != null) (progress = new LinkedHashMap<>(progress)).put("cpu_s", cpuS);
    context.send(Json.MAPPER.writeValueAsString(Json.object("process", process, "progress", progress)));
  }
}
