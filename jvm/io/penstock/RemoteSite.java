package io.penstock;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * A site whose program is a client of Spark Connect: its questions wait here until it fetches them.
 *
 * <p>The server cannot call a client. So the client asks for what is new, again and again, in calls
 * that last until there is something ({@link #next}); the answer to the last question goes along. Of
 * whatever a call returns nothing is forgotten before a later call says that it has arrived: one
 * that is lost on the way can be made again.
 *
 * <p>A batch does not wait for a silent client for long. It runs with the plan of the batch before.
 */
final class RemoteSite {
  /** How long a batch waits for its plan, and the first of a run, when much is to be found out. */
  private static final long PATIENCE_MILLIS = 2_000;
  private static final long FIRST_PATIENCE_MILLIS = 15_000;
  /** Reports that nobody fetches: beyond so many characters the oldest are lost, and counted. */
  private static final long MOST_CHARACTERS_KEPT = 32_000_000;
  private static final int MOST_CHARACTERS_A_CALL = 4_000_000;

  private record News(long number, String json) {}

  /** A run of a query that has asked for a plan. */
  private static final class Run {
    final StreamingQuery query;
    long told = -1;

    Run(StreamingQuery query) {
      this.query = query;
    }
  }

  private static final class Question {
    final long number;
    final String json;
    PlanInForce answer;
    boolean expired;

    Question(long number, String json) {
      this.number = number;
      this.json = json;
    }
  }

  private final String name;
  private final SparkSession session;
  private final Listener listener = new Listener(this);
  private final Map<String, Run> runs = new LinkedHashMap<>();
  private final Deque<News> news = new ArrayDeque<>();
  private final Map<String, Question> questions = new LinkedHashMap<>();
  private final Map<String, PlanInForce> newest = new LinkedHashMap<>();
  private TaskTimes taskTimes;
  private long characters;
  private long numbers;
  private long lost;
  private long calls;
  private boolean silent;
  private boolean closed;

  /** The names of its gates begin with the site's. */
  RemoteSite(String name, SparkSession session) {
    this.name = name;
    this.session = session;
    session.streams().addListener(listener);
  }

  // --- what Spark's planning asks -----------------------------------------------------------------

  /** The plan for a gate in the batch that is planned. */
  PlanInForce plan(String gate, String queryId, String run, long batch) {
    String key = gate + "\n" + run;
    if (queryId.isEmpty()) {
      return PlanInForce.untold(true); // a user asks Spark to explain a plan, say
    }
    StreamingQuery query = find(queryId);
    String sources = query == null ? "[]" : QueryParts.sources(query);
    synchronized (this) {
      boolean first = query != null && meet(query);
      tellProgress();
      Question question = silent || closed ? null : ask(key, gate, queryId, run, batch, sources);
      if (question != null && await(question, first ? FIRST_PATIENCE_MILLIS : PATIENCE_MILLIS)) {
        return question.answer;
      }
      PlanInForce before = newest.get(key);
      return before == null ? PlanInForce.untold(batch == 0) : before;
    }
  }

  /** The running query of this id; null for none. */
  StreamingQuery find(String queryId) {
    return session.streams().get(UUID.fromString(queryId));
  }

  private boolean meet(StreamingQuery query) {
    return runs.putIfAbsent(query.runId().toString(), new Run(query)) == null;
  }

  private Question ask(
      String key, String gate, String query, String run, long batch, String sources) {
    long number = ++numbers;
    String json =
        "{\"number\":" + number + ",\"gate\":" + Json.text(gate) + ",\"query\":" + Json.text(query)
            + ",\"run\":" + Json.text(run) + ",\"batch\":" + batch + ",\"sources\":" + sources
            + "}";
    Question question = new Question(number, json);
    questions.put(key, question);
    notifyAll();
    return question;
  }

  /** Whether the answer has come in time. */
  private boolean await(Question question, long patience) {
    long end = System.nanoTime() + patience * 1_000_000;
    try {
      while (question.answer == null && !closed) {
        long left = (end - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
          silent = true;
          break;
        }
        wait(left);
      }
    } catch (InterruptedException stopped) { // the query is being stopped, and notices by itself
      Thread.currentThread().interrupt();
    }
    question.expired = true;
    return question.answer != null;
  }

  // --- what the client calls ----------------------------------------------------------------------

  /**
   * What is new. Everything up to {@code arrived} need not be told again; {@code answer} is that to
   * the question of this number, if it is more than 0. It waits so long for something new.
   */
  synchronized String next(long arrived, long number, byte[] answer, long waitMillis) {
    silent = false;
    while (!news.isEmpty() && news.peekFirst().number() <= arrived) {
      characters -= news.removeFirst().json().length();
    }
    if (number > 0) {
      take(number, answer);
    }
    long mine = ++calls; // a later call of the client's takes over
    long end = System.nanoTime() + waitMillis * 1_000_000;
    try {
      while (news.isEmpty() && open() == null && !closed && mine == calls) {
        long left = (end - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
          break;
        }
        wait(left);
      }
    } catch (InterruptedException cancelled) {
      Thread.currentThread().interrupt();
    }
    return told();
  }

  /** What every query has reported so far is news at once; the answer is the number of the last. */
  synchronized String catchUp() {
    tellProgress();
    add("{\"kind\":\"mark\",\"number\":" + ++numbers + "}");
    return Long.toString(numbers);
  }

  /** From now on reports say how long the tasks of their batch ran. */
  synchronized String timeTasks() {
    if (taskTimes == null) {
      taskTimes = new TaskTimes();
      SparkContext.getOrCreate().addSparkListener(taskTimes);
    }
    return "";
  }

  /** No gate is answered any more; the client fetches what is left. */
  synchronized String close() {
    tellProgress();
    closed = true;
    forgetTasks();
    session.streams().removeListener(listener);
    notifyAll();
    return "";
  }

  private void take(long number, byte[] encoded) {
    for (Map.Entry<String, Question> entry : questions.entrySet()) {
      Question question = entry.getValue();
      if (question.number == number && question.answer == null) {
        question.answer = PlanInForce.decode(encoded, newest.get(entry.getKey()));
        newest.put(entry.getKey(), question.answer); // also if it comes too late for its batch
        notifyAll();
      }
    }
  }

  private Question open() {
    for (Question question : questions.values()) {
      if (question.answer == null && !question.expired) {
        return question;
      }
    }
    return null;
  }

  private String told() {
    StringBuilder events = new StringBuilder();
    boolean all = true;
    for (News each : news) {
      all = events.length() + each.json().length() <= MOST_CHARACTERS_A_CALL || events.isEmpty();
      if (!all) {
        break;
      }
      events.append(events.isEmpty() ? "" : ",").append(each.json());
    }
    StringBuilder running = new StringBuilder();
    for (StreamingQuery query : session.streams().active()) {
      running.append(running.isEmpty() ? "" : ",").append(Json.text(query.runId().toString()));
    }
    Question question = all ? open() : null; // what has happened before it must be known first
    return "{\"news\":[" + events + "],\"running\":[" + running + "],\"lost\":" + lost
        + ",\"cores\":" + SparkContext.getOrCreate().defaultParallelism()
        + ",\"closed\":" + (closed && all) + ",\"question\":"
        + (question == null ? "null" : question.json) + "}";
  }

  // --- what queries report ------------------------------------------------------------------------

  /** Hears of the last batches, after which nobody asks for a plan. */
  private static final class Listener extends StreamingQueryListener {
    private static final long serialVersionUID = 1L;

    private final transient RemoteSite site;

    Listener(RemoteSite site) {
      this.site = site;
    }

    @Override
    public void onQueryStarted(QueryStartedEvent event) {}

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
      synchronized (site) {
        site.tellProgress();
      }
    }

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {
      site.ended(event.runId().toString());
    }
  }

  private synchronized void ended(String run) {
    tellProgress();
    if (runs.remove(run) == null) {
      return;
    }
    Plans.forgetRun(run);
    newest.keySet().removeIf(key -> key.endsWith("\n" + run));
    questions.keySet().removeIf(key -> key.endsWith("\n" + run));
    add("{\"kind\":\"ended\",\"number\":" + ++numbers + ",\"run\":" + Json.text(run) + "}");
    if (runs.isEmpty()) {
      forgetTasks(); // a client that has gone leaves nothing behind
    }
  }

  /** Every report once and in its order, also where Spark's listeners are late. */
  private void tellProgress() {
    for (Run run : runs.values()) {
      StreamingQueryProgress[] reports = run.query.recentProgress();
      int known = reports.length;
      while (known > 0 && reports[known - 1].batchId() > run.told) {
        known--;
      }
      for (int i = known; i < reports.length; i++) {
        StreamingQueryProgress report = reports[i];
        boolean ofGates =
            report.observedMetrics().keySet().stream().anyMatch(each -> each.startsWith(name));
        if (ofGates && report.batchId() > run.told) {
          run.told = report.batchId();
          String id = report.runId().toString();
          long millis = taskTimes == null ? -1 : taskTimes.take(id);
          add(
              "{\"kind\":\"progress\",\"number\":" + ++numbers + ",\"task_millis\":" + millis
                  + ",\"report\":" + report.json() + "}");
        }
      }
    }
  }

  private void add(String json) {
    news.addLast(new News(numbers, json));
    characters += json.length();
    while (characters > MOST_CHARACTERS_KEPT && news.size() > 1) {
      characters -= news.removeFirst().json().length();
      lost++;
    }
    notifyAll();
  }

  private void forgetTasks() {
    if (taskTimes != null) {
      SparkContext.getOrCreate().removeSparkListener(taskTimes);
      taskTimes = null;
    }
  }
}
