package io.penstock;

/** What a site in the driver's Python process implements; the JVM calls it through py4j. */
public interface PlanDriver {
  /** The plan for one gate in the micro-batch that Spark is planning, encoded; see PlanInForce. */
  byte[] plan(String gate, String query, String run, long batch);

  /** A query of the session is about to begin; Spark waits for the answer. */
  void started(String query);

  /** A query of the session has finished a micro-batch. */
  void progressed();

  /** A run of a query has ended, whether it was stopped or failed. */
  void ended(String run);
}
