package io.penstock;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Map;

/**
 * What a server of Spark Connect keeps to itself of a running query, as JSON.
 *
 * <p>The private parts of Spark on this side of the wire; `penstock.spark.engine` has those of a
 * classic session. They are looked up by name, since the classes move between Spark's packages.
 */
final class QueryParts {
  private QueryParts() {}

  /** Under which names a query observes metrics: a gate is one of them. */
  static Set<String> observed(StreamingQuery query) {
    Set<String> names = new LinkedHashSet<>();
    collect((LogicalPlan) part(execution(query), "analyzedPlan"), names);
    return names;
  }

  private static void collect(LogicalPlan plan, Set<String> names) {
    if (plan instanceof CollectMetrics metrics) {
      names.add(metrics.name());
    }
    Iterator<LogicalPlan> children = plan.children().iterator();
    while (children.hasNext()) {
      collect(children.next(), names);
    }
  }

  /** Its name, run, trigger and observed metrics. */
  static String described(StreamingQuery query) {
    Object trigger = part(execution(query), "trigger");
    String kind = trigger.getClass().getSimpleName();
    Object millis = kind.equals("ProcessingTimeTrigger") ? part(trigger, "intervalMs") : 0L;
    List<String> names = new ArrayList<>();
    observed(query).forEach(name -> names.add(Json.text(name)));
    return "{\"name\":" + (query.name() == null ? "null" : Json.text(query.name()))
        + ",\"run\":" + Json.text(query.runId().toString()) + ",\"trigger\":" + Json.text(kind)
        + ",\"millis\":" + millis + ",\"observed\":[" + String.join(",", names) + "]}";
  }

  /** How far each source is: committed, up to the end of this batch, newest; "[]" for no answer. */
  static String sources(StreamingQuery query) {
    try {
      Object execution = execution(query);
      List<Object> told = new ArrayList<>();
      for (String which : List.of("committedOffsets", "availableOffsets", "latestOffsets")) {
        told.add(part(execution, which));
      }
      List<String> states = new ArrayList<>();
      Iterator<?> sources = ((scala.collection.Seq<?>) part(execution, "sources")).iterator();
      Set<Object> seen = new LinkedHashSet<>(); // one that is read twice is listed twice
      while (sources.hasNext()) {
        Object source = sources.next();
        if (seen.add(source)) {
          List<String> offsets = new ArrayList<>();
          told.forEach(progress -> offsets.add(offset((Map<?, ?>) progress, source)));
          states.add("[" + String.join(",", offsets) + "]");
        }
      }
      return "[" + String.join(",", states) + "]";
    } catch (RuntimeException unanswered) {
      return "[]"; // bursts are then seen a batch late
    }
  }

  @SuppressWarnings("unchecked")
  private static String offset(Map<?, ?> progress, Object source) {
    Option<?> found = ((Map<Object, ?>) progress).get(source);
    return found.isDefined() ? Json.text(((Offset) found.get()).json()) : "null";
  }

  private static Object execution(StreamingQuery query) {
    return part(query, "streamingQuery");
  }

  private static Object part(Object whole, String name) {
    try {
      return whole.getClass().getMethod(name).invoke(whole);
    } catch (ReflectiveOperationException unanswered) {
      throw new IllegalStateException(
          "this Spark does not tell the " + name + " of a " + whole.getClass().getName(),
          unanswered);
    }
  }
}
