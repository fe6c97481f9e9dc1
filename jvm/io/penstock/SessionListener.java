package io.penstock;

import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Tells a site that a query begins, has finished a batch or has ended; the reports themselves stay here.
 *
 * <p>PySpark's own listener reads every report into Python, with the counts of all strata: tens of
 * milliseconds a batch, just while the next one is planned.
 */
public final class SessionListener extends StreamingQueryListener {
  private static final long serialVersionUID = 1L;

  private final transient PlanDriver driver;

  public SessionListener(PlanDriver driver) {
    this.driver = driver;
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    driver.started(event.id().toString());
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    driver.progressed();
  }

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {
    String run = event.runId().toString();
    Plans.forgetRun(run);
    driver.ended(run);
  }
}
