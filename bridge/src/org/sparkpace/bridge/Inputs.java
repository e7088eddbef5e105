package org.sparkpace.bridge;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;

/** Bytes of the application's input on each host, by Hadoop's API, for the paths in `spark.pace.placement.input`. */
final class Inputs {
  private static final int MOST_FILES = 100_000;

  /** Bytes by address (by name where it has none); empty if the setting names no path. Throws for a path that cannot be read. */
  static Map<String, Long> hosts(String paths, Configuration hadoop) throws IOException {
    Map<String, Long> bytes = new TreeMap<>();
    Map<String, String> addresses = new HashMap<>(); // a lookup without an answer takes long, and there are many blocks
    int files = 0;
    for (String text : paths.split(",")) {
      if (text.isBlank()) continue;
      Path path = new Path(text.trim());
      FileSystem system = path.getFileSystem(hadoop);
      FileStatus[] found = system.globStatus(path);
      if (found == null || found.length == 0) throw new IOException(text.trim() + " does not exist");
      for (FileStatus root : found)
        for (RemoteIterator<LocatedFileStatus> it = system.listFiles(root.getPath(), true); it.hasNext() && files < MOST_FILES; files++)
          for (BlockLocation block : it.next().getBlockLocations())
            for (String host : block.getHosts())
              // a plain file system has no hosts and says this
              if (!host.equals("localhost")) bytes.merge(addresses.computeIfAbsent(host, Inputs::address), block.getLength(), Long::sum);
    }
    return bytes;
  }

  private static String address(String host) {
    try {
      return InetAddress.getByName(host).getHostAddress();
    } catch (UnknownHostException e) {
      return host;
    }
  }
}
