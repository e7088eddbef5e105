package org.sparkpace.bridge;
import java.io.IOException;
import java.nio.file.*;
import java.util.Map;

/** progress.json, for the agent that started this executor: replaced atomically. */
final class ProgressFile implements ProgressTimer.Outlet {
  static final long TICK_MS = 200;
  private final Path file, draft;

  ProgressFile(Path directory) {
    file = directory.resolve("progress.json");
    draft = directory.resolve("progress.json.draft");
  }

  @Override public void tell(Map<String, Object> progress) throws IOException {
    Files.write(draft, Json.MAPPER.writeValueAsBytes(progress));
    Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
  }
}
