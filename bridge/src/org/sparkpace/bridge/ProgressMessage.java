package org.sparkpace.bridge;
import java.io.IOException;
import java.util.Map;
import org.apache.spark.api.plugin.PluginContext;

/** Progress as a message to the driver's side of the plugin, with which process this is: needs no port, secret or path. */
final class ProgressMessage implements ProgressTimer.Outlet {
  static final long TICK_MS = 500;
  private final PluginContext context;
  private final Map<String, Object> process;

  ProgressMessage(PluginContext context) throws IOException {
    this.context = context;
    process = OwnProcess.facts();
  }

  @Override public void tell(Map<String, Object> progress) throws IOException {
    context.send(Json.MAPPER.writeValueAsString(Json.object("process", process, "progress", progress)));
  }
}
