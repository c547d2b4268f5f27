package io.headwater.spark.sidecar;

/**
 * An error that Python raised, or the death of the process that should have answered.
 *
 * <p>The message begins with the Python error's own type and text, because that is what a user
 * of the Table Spec API knows and can look up.
 */
public final class SidecarException extends RuntimeException {
  private final String type;
  private final String summary;

  SidecarException(String type, String message, String details) {
    super(type + ": " + message + (details == null || details.isEmpty() ? "" : "\n" + details));
    this.type = type;
    this.summary = type + ": " + message;
  }

  SidecarException(String type, String message, Throwable cause) {
    super(type + ": " + message, cause);
    this.type = type;
    this.summary = type + ": " + message;
  }

  /** The Python error's class name, such as {@code TableNotFound}. */
  public String type() {
    return type;
  }

  /** The error in a sentence, without Python's traceback. */
  public String summary() {
    return summary;
  }

  /** Whether the process went away, as opposed to answering with an error. */
  boolean isDeath() {
    return type.equals("SidecarDied");
  }

  @Override
  public String toString() {
    return getMessage();
  }
}
