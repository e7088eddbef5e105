package org.sparkpace.bridge;

/** Says which program this process is taken to run; its own words stand where a driver's are. */
final class DriverProcessHarness {
  public static void main(String[] words) {
    System.out.println(DriverProcess.main());
  }
}
