package io.penstock;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;

/**
 * The plans in force, by gate.
 *
 * <p>Spark's optimizer evaluates a catalog function once for each occurrence and micro-batch, on
 * the stream's own thread, after the batch's offsets are on disk and before the batch runs. The
 * first occurrence of a gate in a batch asks the site for the plan; the others get the same one.
 */
public final class Plans {
  private record Answer(String run, long batch, PlanInForce plan) {}

  private static final Map<String, PlanDriver> DRIVERS = new ConcurrentHashMap<>();
  private static final Map<String, Answer> ANSWERS = new ConcurrentHashMap<>();
  private static final Map<String, Set<String>> GATES_OF_QUERY = new ConcurrentHashMap<>();

  private Plans() {}

  /** From now on this driver answers for the gate. */
  public static void register(String gate, PlanDriver driver) {
    DRIVERS.put(gate, driver);
  }

  /** The query with this id is behind the gate. */
  public static void putBehind(String gate, String query) {
    GATES_OF_QUERY.computeIfAbsent(query, id -> ConcurrentHashMap.newKeySet()).add(gate);
  }

  /** Nobody answers for the gate any more. */
  public static void forget(String gate) {
    DRIVERS.remove(gate);
    GATES_OF_QUERY.values().forEach(gates -> gates.remove(gate));
    GATES_OF_QUERY.values().removeIf(Set::isEmpty);
    ANSWERS.keySet().removeIf(key -> key.startsWith(gate + "\n"));
  }

  static void forgetRun(String run) {
    ANSWERS.values().removeIf(answer -> answer.run().equals(run));
  }

  /** Whether rows of the batch that Spark is planning may say that nothing of them was shed. */
  static boolean rowsMayBeWhole() {
    checkOnDriver("a row's SIC");
    String query = text(SparkContext.getOrCreate().getLocalProperty("sql.streaming.queryId"));
    Set<String> gates = GATES_OF_QUERY.get(query);
    gates = gates == null ? SiteFunctions.gatesOf(query) : gates;
    return gates.stream().allMatch(gate -> get(gate).wholeRows());
  }

  private static void checkOnDriver(String what) {
    if (TaskContext.get() != null) {
      throw new IllegalStateException(
          what + " was not planned on the driver: Spark's optimizer rule"
              + " ConstantFolding must not be excluded (spark.sql.optimizer.excludedRules)");
    }
  }

  static PlanInForce get(String gate) {
    checkOnDriver("the gate " + gate);
    SparkContext context = SparkContext.getOrCreate();
    String run = text(context.getLocalProperty("spark.jobGroup.id"));
    String number = context.getLocalProperty("streaming.sql.batchId");
    long batch = number == null ? -1 : Long.parseLong(number);
    String key = gate + "\n" + run;
    Answer known = ANSWERS.get(key);
    if (known != null && known.batch() == batch && batch >= 0) {
      return known.plan();
    }
    String query = text(context.getLocalProperty("sql.streaming.queryId"));
    PlanDriver driver = DRIVERS.get(gate);
    RemoteSite remote = driver == null ? SiteFunctions.of(gate) : null;
    if (remote != null) {
      PlanInForce plan = remote.plan(gate, query, run, batch);
      ANSWERS.put(key, new Answer(run, batch, plan));
      return plan;
    }
    if (driver == null) {
      return PlanInForce.refused(
          "the site of the gate " + gate + " has stopped: make another site, and gate with that");
    }
    // No lock is held while the driver is asked: it may start a query that asks for this gate too.
    byte[] encoded = driver.plan(gate, query, run, batch);
    PlanInForce plan = PlanInForce.decode(encoded, known == null ? null : known.plan());
    ANSWERS.put(key, new Answer(run, batch, plan));
    return plan;
  }

  private static String text(String property) {
    return property == null ? "" : property;
  }
}
