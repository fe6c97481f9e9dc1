package io.penstock;

/** Texts as JSON has them. */
final class Json {
  private Json() {}

  static String text(String plain) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : plain.toCharArray()) {
      if (each == '"' || each == '\\' || each < ' ') {
        quoted.append(String.format("\\u%04x", (int) each));
      } else {
        quoted.append(each);
      }
    }
    return quoted.append('"').toString();
  }
}
