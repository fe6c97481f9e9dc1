package io.penstock;

import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The functions of the catalog, one for each type of a plan's parts.
 *
 * <p>Arrays are data to the generated code, so that a new plan compiles nothing. Flags and numbers
 * are literals in it: what an open gate does not need is not in the code at all, and a number is
 * only used for what hardly ever changes.
 */
final class PlanFunctions {
  private PlanFunctions() {}

  /** A function of a gate's name and the name of a part. */
  abstract static class PlanFunction<R> implements UnboundFunction, ScalarFunction<R> {
    private static final long serialVersionUID = 1L;
    private static final DataType[] GATE_AND_PART = {DataTypes.StringType, DataTypes.StringType};

    private final String name;
    private final DataType type;

    PlanFunction(String name, DataType type) {
      this.name = name;
      this.type = type;
    }

    @Override
    public BoundFunction bind(StructType input) {
      return this;
    }

    @Override
    public String description() {
      return name + "(gate, part): a part of the gate's plan in force";
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
      return GATE_AND_PART.clone();
    }

    @Override
    public DataType resultType() {
      return type;
    }

    @Override
    public boolean isResultNullable() {
      return false;
    }
  }

  /** A switch of the plan. */
  public static final class Flag extends PlanFunction<Boolean> {
    private static final long serialVersionUID = 1L;

    Flag() {
      super("flag", DataTypes.BooleanType);
    }

    public static boolean invoke(UTF8String gate, UTF8String part) {
      return Plans.get(gate.toString()).flag(part.toString());
    }
  }

  /** A number of the plan that hardly ever changes. */
  public static final class Number extends PlanFunction<Long> {
    private static final long serialVersionUID = 1L;

    Number() {
      super("number", DataTypes.LongType);
    }

    public static long invoke(UTF8String gate, UTF8String part) {
      return Plans.get(gate.toString()).number(part.toString());
    }
  }

  /** Whole numbers of the plan, by place in the table of strata. */
  public static final class Longs extends PlanFunction<ArrayData> {
    private static final long serialVersionUID = 1L;

    Longs() {
      super("longs", DataTypes.createArrayType(DataTypes.LongType, false));
    }

    public static ArrayData invoke(UTF8String gate, UTF8String part) {
      return Plans.get(gate.toString()).longs(part.toString());
    }
  }

  /** Real numbers of the plan, by place in the table of strata. */
  public static final class Doubles extends PlanFunction<ArrayData> {
    private static final long serialVersionUID = 1L;

    Doubles() {
      super("doubles", DataTypes.createArrayType(DataTypes.DoubleType, false));
    }

    public static ArrayData invoke(UTF8String gate, UTF8String part) {
      return Plans.get(gate.toString()).doubles(part.toString());
    }
  }

  /**
   * What a row of a result may say at most to be complete, if it carries a mark of shedding (place
   * 0) and if it carries none (place 1). It is asked of the query and not of a gate.
   */
  public static final class Rows extends PlanFunction<ArrayData> {
    private static final long serialVersionUID = 1L;
    private static final double JUST_BELOW_ONE = Math.nextDown(1.0);
    private static final double[] WHOLE = {JUST_BELOW_ONE, 1.0};
    private static final double[] NOT_WHOLE = {JUST_BELOW_ONE, JUST_BELOW_ONE};

    Rows() {
      super("rows", DataTypes.createArrayType(DataTypes.DoubleType, false));
    }

    public static ArrayData invoke(UTF8String gate, UTF8String part) {
      return UnsafeArrayData.fromPrimitiveArray(Plans.rowsMayBeWhole() ? WHOLE : NOT_WHOLE);
    }
  }

  /** The milliseconds at which a row passes a gate; SQL's clock only knows when a batch began. */
  public static final class Passing extends PlanFunction<Long> {
    private static final long serialVersionUID = 1L;

    Passing() {
      super("passing", DataTypes.LongType);
    }

    @Override
    public boolean isDeterministic() {
      return false;
    }

    public static long invoke(UTF8String gate, UTF8String part) {
      return System.currentTimeMillis();
    }
  }

  /**
   * A number that is spread evenly over 63 bits, another for each row. Spark gives its own {@code
   * rand} a new seed in every micro-batch, which is a constant in the generated code: every batch
   * would be compiled anew.
   */
  public static final class Chance extends PlanFunction<Long> {
    private static final long serialVersionUID = 1L;

    Chance() {
      super("chance", DataTypes.LongType);
    }

    @Override
    public boolean isDeterministic() {
      return false;
    }

    public static long invoke(UTF8String gate, UTF8String part) {
      return ThreadLocalRandom.current().nextLong() >>> 1;
    }
  }
}
