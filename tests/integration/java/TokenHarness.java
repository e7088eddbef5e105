package org.sparkpace.bridge;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkException;

/** `TokenHarness FILE`: prints the token that a driver reads from that file, or why it does not. */
final class TokenHarness {
  public static void main(String[] words) {
    try {
      System.out.println(HomeFiles.token(new SparkConf(false).set("spark.pace.token.file", words[0])));
    } catch (SparkException e) {
      System.out.println("refused: " + e.getMessage());
    }
  }
}
