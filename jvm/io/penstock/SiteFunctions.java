package io.penstock;

import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The functions of the catalog by which the program of a site speaks to us through Spark Connect.
 *
 * <p>Their arguments are constants, so that Spark evaluates them in the planning of the client's
 * call, on the server and once.
 */
final class SiteFunctions {
  private static final Map<String, RemoteSite> SITES = new ConcurrentHashMap<>();

  private SiteFunctions() {}

  /** The site whose name a gate's begins with; null for none. */
  static RemoteSite of(String gate) {
    return SITES.get(gate.substring(0, gate.lastIndexOf('_') + 1));
  }

  /** The gates of a query of a client; none where there is no such query. */
  static Set<String> gatesOf(String query) {
    RemoteSite any = SITES.values().stream().findFirst().orElse(null); // all in this session
    StreamingQuery found = any == null || query.isEmpty() ? null : any.find(query);
    return found == null
        ? Set.of()
        : QueryParts.observed(found).stream()
            .filter(name -> of(name) != null)
            .collect(Collectors.toSet());
  }

  private static RemoteSite site(UTF8String name) {
    RemoteSite found = SITES.get(name.toString());
    if (found == null) {
      throw new IllegalStateException("there is no site " + name + " in this session");
    }
    return found;
  }

  /** A function that answers a text. */
  abstract static class SiteFunction implements UnboundFunction, ScalarFunction<UTF8String> {
    private static final long serialVersionUID = 1L;

    private final String name;
    private final DataType[] types;

    SiteFunction(String name, DataType... types) {
      this.name = name;
      this.types = types;
    }

    @Override
    public BoundFunction bind(StructType input) {
      return this;
    }

    @Override
    public String description() {
      return name + ": how a site speaks through Spark Connect";
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String canonicalName() {
      return "io.penstock." + name;
    }

    @Override
    public DataType[] inputTypes() {
      return types.clone();
    }

    @Override
    public DataType resultType() {
      return DataTypes.StringType;
    }

    @Override
    public boolean isResultNullable() {
      return false;
    }
  }

  /** One of the small things: ``open``, ``close``, ``catch up``, ``time tasks``, or a query. */
  public static final class Tell extends SiteFunction {
    private static final long serialVersionUID = 1L;

    Tell() {
      super("tell", DataTypes.StringType, DataTypes.StringType, DataTypes.StringType);
    }

    public static UTF8String invoke(UTF8String site, UTF8String what, UTF8String of) {
      return UTF8String.fromString(
          switch (what.toString()) {
            case "open" -> open(site.toString());
            case "close" -> site(site).close();
            case "forget" -> String.valueOf(SITES.remove(site.toString()) != null);
            case "catch up" -> site(site).catchUp();
            case "time tasks" -> site(site).timeTasks();
            case "query" -> query(of.toString());
            default -> throw new IllegalArgumentException("a site tells no " + what);
          });
    }

    private static String open(String site) {
      SITES.putIfAbsent(site, new RemoteSite(site, SparkSession.active()));
      SparkContext context = SparkContext.getOrCreate();
      return "{\"cores\":" + context.defaultParallelism() + ",\"application\":"
          + Json.text(context.applicationId()) + "}";
    }

    private static String query(String id) {
      StreamingQuery found = SparkSession.active().streams().get(UUID.fromString(id));
      return found == null ? "{}" : QueryParts.described(found);
    }
  }

  /** What is new for a site; see {@link RemoteSite#next}. */
  public static final class Next extends SiteFunction {
    private static final long serialVersionUID = 1L;

    Next() {
      super(
          "next",
          DataTypes.StringType,
          DataTypes.LongType,
          DataTypes.LongType,
          DataTypes.BinaryType,
          DataTypes.LongType);
    }

    public static UTF8String invoke(
        UTF8String site, long arrived, long question, byte[] answer, long waitMillis) {
      return UTF8String.fromString(site(site).next(arrived, question, answer, waitMillis));
    }
  }
}
