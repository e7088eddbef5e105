package org.sparkpace.bridge;

/** Prints the program that this process is taken to run; its own words stand where a driver's are. */
final class DriverProcessHarness {
  public static void main(String[] words) {
    System.out.println(DriverProcess.main());
  }
}
