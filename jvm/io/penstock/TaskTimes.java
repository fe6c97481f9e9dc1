package io.penstock;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** How long the tasks of each streaming query ran, by its run: Spark's job group is the run. */
public final class TaskTimes extends SparkListener {
  private static final String JOB_GROUP = "spark.jobGroup.id";
  private static final long NOTHING_RAN = -1;

  private final Map<Integer, String> groupOfStage = new ConcurrentHashMap<>();
  private final Map<Integer, int[]> stagesOfJob = new ConcurrentHashMap<>();
  private final Map<String, Long> millisOfGroup = new ConcurrentHashMap<>();

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    String group = start.properties() == null ? null : start.properties().getProperty(JOB_GROUP);
    if (group == null) {
      return;
    }
    int[] stages = new int[start.stageInfos().size()];
    for (int i = 0; i < stages.length; i++) {
      stages[i] = start.stageInfos().apply(i).stageId();
      groupOfStage.put(stages[i], group);
    }
    stagesOfJob.put(start.jobId(), stages);
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    String group = groupOfStage.get(end.stageId());
    if (group != null && end.taskMetrics() != null) {
      millisOfGroup.merge(group, end.taskMetrics().executorRunTime(), Long::sum);
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd end) {
    int[] stages = stagesOfJob.remove(end.jobId());
    if (stages != null) {
      for (int stage : stages) {
        groupOfStage.remove(stage);
      }
    }
  }

  /** Milliseconds since the last call for this run, or -1 where no task of it has ended. */
  public long take(String run) {
    Long millis = millisOfGroup.remove(run);
    return millis == null ? NOTHING_RAN : millis;
  }
}
