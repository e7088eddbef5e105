package org.sparkpace.bridge;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;
import java.time.Duration;
import javax.net.ssl.SSLException;
import org.apache.spark.SparkConf;

/** HTTPS to the master: one JSON object there, one back, each in our version of the wire (controller/wire/version.py). */
final class MasterClient {
  private static final String HEADER = "Sparkpace-Wire", SPOKEN = "1";

  /** The master understood and said no (HTTP 4xx); the message is its own sentence. */
  @SuppressWarnings("serial") static final class Refused extends Exception {
    /** The master does not know this application or its token. */
    final boolean unknown;
    /** The master cannot read or keep a value that the bridge sent: the user has to mend it. */
    final boolean users;

    Refused(int status, String sentence) {
      super(sentence);
      unknown = status == 401 || status == 404;
      users = status == 400 || status == 409;
    }
  }

  final String address;
  private final URI root;
  private final Path ca;
  private final HttpClient http;

  MasterClient(String master, SparkConf conf) {
    root = URI.create(master.replaceFirst("^sparkpace", "https").replaceFirst("/$", ""));
    if (root.getHost() == null || root.getPort() < 1 || !root.getPath().isEmpty())
      throw new IllegalArgumentException("the master URL " + master + " is not of the form sparkpace://HOST:PORT");
    address = root.getAuthority();
    ca = HomeFiles.ca(conf);
    http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).proxy(HttpClient.Builder.NO_PROXY)
        .connectTimeout(Duration.ofSeconds(3)).sslContext(Pinned.to(ca)).build();
  }

  /** Opens the connection meanwhile, for the first message: TLS takes a JVM that has just started a quarter of a second. An
   * error here comes again with that message. */
  void connect() {
    http.sendAsync(HttpRequest.newBuilder(root.resolve("/v1/health")).timeout(Duration.ofSeconds(3)).build(),
        HttpResponse.BodyHandlers.discarding());
  }

  /** Throws Refused for 4xx, for 507 (the master cannot store what it would promise) and for another server than the master,
   * IOException for anything else that is not a JSON object, a missing answer included. */
  JsonNode post(String path, String token, Object message, Duration timeout) throws IOException, InterruptedException, Refused {
    HttpRequest request = HttpRequest.newBuilder(root.resolve(path)).timeout(timeout)
        .header("Authorization", "Bearer " + token).header("Content-Type", "application/json")
        .header(HEADER, SPOKEN)
        .POST(HttpRequest.BodyPublishers.ofByteArray(Json.MAPPER.writeValueAsBytes(message))).build();
    HttpResponse<byte[]> response;
    try {
      response = http.send(request, HttpResponse.BodyHandlers.ofByteArray());
    } catch (SSLException e) {
      if (!Pinned.refused(e)) throw e;
      throw new Refused(403, "what answers at " + address + " is not the master of the CA in " + ca + " (" + e.getMessage()
          + "); no request was sent to it");
    }
    int status = response.statusCode();
    boolean refused = status / 100 == 4 || status == 507;
    if (status / 100 != 2 && !refused) throw new IOException("HTTP " + status);
    check(response.headers().firstValue(HEADER).orElse(SPOKEN));
    if (refused) throw new Refused(status, sentence(status, response.body()));
    JsonNode reply = Json.MAPPER.readTree(response.body());
    if (!reply.isObject()) throw new IOException("an answer that is no JSON object");
    return reply;
  }

  /** Throws Refused if the master speaks another version. */
  private void check(String theirs) throws Refused {
    if (!theirs.equals(SPOKEN))
      throw new Refused(400, "the master at " + address + " speaks wire version '" + theirs + "', this bridge '" + SPOKEN
          + "'; install the same release of Sparkpace for both");
  }

  private String sentence(int status, byte[] body) {
    try {
      String error = Json.MAPPER.readTree(body).path("error").asText();
      if (!error.isEmpty()) return error;
    } catch (IOException e) { // the answer is not the master's, so the user does not see it
    }
    return "the Sparkpace master at " + address + " refused with HTTP " + status;
  }
}
