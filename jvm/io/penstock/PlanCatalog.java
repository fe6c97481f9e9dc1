package io.penstock;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog whose functions are the parts of a gate's plan in force; see PlanFunctions, and
 * SiteFunctions for two that only a client of Spark Connect calls.
 *
 * <p>A function with a public static {@code invoke} and constant arguments is a constant to Spark's
 * optimizer, which evaluates it anew in the planning of every micro-batch: so a running query gets
 * a new plan with each batch.
 */
public final class PlanCatalog implements FunctionCatalog {
  private static final Map<String, UnboundFunction> FUNCTIONS =
      Map.of(
          "flag", new PlanFunctions.Flag(),
          "number", new PlanFunctions.Number(),
          "longs", new PlanFunctions.Longs(),
          "doubles", new PlanFunctions.Doubles(),
          "rows", new PlanFunctions.Rows(),
          "passing", new PlanFunctions.Passing(),
          "chance", new PlanFunctions.Chance(),
          "tell", new SiteFunctions.Tell(),
          "next", new SiteFunctions.Next());

  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return FUNCTIONS.keySet().stream()
        .sorted()
        .map(function -> Identifier.of(new String[0], function))
        .toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    UnboundFunction found = FUNCTIONS.get(identifier.name());
    if (found == null) {
      throw new NoSuchFunctionException(identifier);
    }
    return found;
  }
}
