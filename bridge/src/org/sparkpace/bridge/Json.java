package org.sparkpace.bridge;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;

/** JSON objects as ordered maps, written and read by the Jackson that Spark ships. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  static Map<String, Object> object(Object... namesAndValues) {
    Map<String, Object> map = new LinkedHashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) map.put((String) namesAndValues[i], namesAndValues[i + 1]);
    return map;
  }
}
