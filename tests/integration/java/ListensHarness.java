package org.sparkpace.bridge;
import java.net.*;

/** Says of three ports if this process listens there: its own, the given one of another process, its own once it is closed. */
final class ListensHarness {
  public static void main(String[] ports) throws Exception {
    ServerSocket own = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    int port = own.getLocalPort();
    System.out.println(OwnProcess.listens(port));
    System.out.println(OwnProcess.listens(Integer.parseInt(ports[0])));
    own.close();
    System.out.println(OwnProcess.listens(port));
  }
}
