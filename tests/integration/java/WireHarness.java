package org.sparkpace.bridge;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import org.apache.spark.SparkConf;

/** `WireHarness MASTER TIMES CA`: posts an empty object so often and tells each time in one line how it went. */
final class WireHarness {
  public static void main(String[] words) throws Exception {
    MasterClient master = new MasterClient(words[0], new SparkConf(false).set("spark.pace.ca.file", words[2]));
    for (int i = 0; i < Integer.parseInt(words[1]); i++) {
      try {
        JsonNode answer = master.post("/v1/any", "token", Json.object(), Duration.ofSeconds(60));
        System.out.println("answer " + answer);
      } catch (MasterClient.Refused e) {
        System.out.println("refused " + e.unknown + " " + e.getMessage());
      } catch (java.io.IOException e) {
        System.out.println("failed " + e.getMessage());
      }
    }
  }
}
