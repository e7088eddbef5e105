import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.spark.SparkEnv;

/** Local files as if they lay on the hosts of a cluster: `hosted:///DIR/HOST/FILE` has its block on HOST, and
 * `hosted:///DIR/HOST_HOST/FILE` on both. An executor of another host reads it no faster than `hosted.remote.mbit` (megabits a
 * second; 0 or missing: as fast as it can), all its tasks together. */
public class HostedFileSystem extends RawLocalFileSystem {
  private static final Object LINK = new Object();
  private static long freeNs;

  @Override public void initialize(URI uri, Configuration conf) throws IOException {
    super.initialize(uri, conf);
    setConf(conf);
  }

  @Override public URI getUri() { return URI.create("hosted:///"); }
  @Override public String getScheme() { return "hosted"; }

  /** The parent's own kind of status insists on the scheme "file". */
  private static FileStatus plain(FileStatus s) {
    return new FileStatus(s.getLen(), s.isDirectory(), 1, s.getBlockSize(), s.getModificationTime(), s.getPath());
  }

  @Override public FileStatus getFileStatus(Path path) throws IOException { return plain(super.getFileStatus(path)); }

  @Override public FileStatus[] listStatus(Path path) throws IOException {
    return Arrays.stream(super.listStatus(path)).map(HostedFileSystem::plain).toArray(FileStatus[]::new);
  }

  @Override public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) {
    String[] hosts = hosts(file.getPath());
    return new BlockLocation[] {new BlockLocation(hosts, hosts, 0, file.getLen())};
  }

  @Override public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    FSDataInputStream plain = super.open(path, bufferSize);
    double mbit = getConf().getDouble("hosted.remote.mbit", 0);
    SparkEnv env = SparkEnv.get();
    boolean driver = env == null || env.executorId().equals("driver");
    if (mbit <= 0 || driver || Arrays.asList(hosts(path)).contains(env.blockManager().blockManagerId().host())) return plain;
    return new FSDataInputStream(new Remote(plain, mbit * 1e6 / 8));
  }

  private static String[] hosts(Path file) { return file.getParent().getName().split("_"); }

  /** Waits for its turn on the one link that this process has. */
  private static final class Remote extends FilterInputStream implements Seekable, PositionedReadable {
    private final FSDataInputStream from;
    private final double bytesPerS;

    Remote(FSDataInputStream from, double bytesPerS) {
      super(from);
      this.from = from;
      this.bytesPerS = bytesPerS;
    }

    @Override public int read() throws IOException {
      int found = from.read();
      if (found >= 0) carry(1);
      return found;
    }

    @Override public int read(byte[] buffer, int offset, int length) throws IOException {
      int found = from.read(buffer, offset, Math.min(length, 1 << 16));
      if (found > 0) carry(found);
      return found;
    }

    private void carry(int bytes) throws IOException {
      long until;
      synchronized (LINK) {
        freeNs = Math.max(freeNs, System.nanoTime()) + (long) (bytes / bytesPerS * 1e9);
        until = freeNs;
      }
      try {
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime())
          Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
    }

    @Override public void seek(long position) throws IOException { from.seek(position); }
    @Override public long getPos() throws IOException { return from.getPos(); }
    @Override public boolean seekToNewSource(long position) throws IOException { return from.seekToNewSource(position); }
    @Override public int read(long position, byte[] buffer, int offset, int length) throws IOException {
      int found = from.read(position, buffer, offset, length);
      if (found > 0) carry(found);
      return found;
    }
    @Override public void readFully(long position, byte[] buffer, int offset, int length) throws IOException {
      from.readFully(position, buffer, offset, length);
      carry(length);
    }
    @Override public void readFully(long position, byte[] buffer) throws IOException { readFully(position, buffer, 0, buffer.length); }
  }
}
