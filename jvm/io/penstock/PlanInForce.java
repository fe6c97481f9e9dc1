package io.penstock;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;

/**
 * A gate's plan for one micro-batch, decoded. `penstock.spark.gate.wire` encodes it.
 *
 * <p>The layout, all of it big-endian and eight bytes wide: the plan's version, whether the gate is
 * open, the look threshold, whether rows that come out may be whole; the table's number, its mask,
 * how many places it has, whether it follows; the number of ordinals; then, where the table follows,
 * its keys and its ordinals by place; then the thresholds and the SIC values by ordinal.
 */
final class PlanInForce {
  /** Where a version should be: no plan follows, but the reason why there is none, in UTF-8. */
  private static final long REFUSAL = Long.MIN_VALUE;

  /** A key that stands in a free place 1, where it does not belong; see `table.py`. */
  private static final long NO_KEY_OF_PLACE_1 = (1L << 32) + 1;

  /** A table of strata; the site sends it only when it has changed. */
  private record Table(long number, long mask, long[] ordinals, UnsafeArrayData keys) {}

  private final boolean open;
  private final boolean wholeRows;
  private final UnsafeArrayData version;
  private final UnsafeArrayData look;
  private final UnsafeArrayData thresholds;
  private final UnsafeArrayData sic;
  private final Table table;
  private final String refusal;

  private PlanInForce(ByteBuffer encoded, PlanInForce before) {
    refusal = null;
    version = UnsafeArrayData.fromPrimitiveArray(new long[] {encoded.getLong()});
    open = encoded.getLong() != 0;
    look = UnsafeArrayData.fromPrimitiveArray(new long[] {encoded.getLong()});
    wholeRows = encoded.getLong() != 0;
    long number = encoded.getLong();
    long mask = encoded.getLong();
    int places = (int) encoded.getLong();
    boolean tableFollows = encoded.getLong() != 0;
    int count = (int) encoded.getLong();
    if (tableFollows) {
      UnsafeArrayData keys = UnsafeArrayData.fromPrimitiveArray(longs(encoded, places));
      table = new Table(number, mask, longs(encoded, places), keys);
    } else if (before != null && before.table.number == number) {
      table = before.table;
    } else {
      throw new IllegalStateException("a plan names a table of strata that was never sent");
    }
    long[] thresholdOf = longs(encoded, count);
    double[] sicOf = new double[count];
    encoded.asDoubleBuffer().get(sicOf);
    long[] thresholdAt = new long[table.ordinals.length];
    double[] sicAt = new double[table.ordinals.length];
    for (int place = 0; place < table.ordinals.length; place++) {
      // An open gate is told of no stratum but the unknown one, whose ordinal is 0.
      int ordinal = open ? 0 : (int) table.ordinals[place];
      thresholdAt[place] = thresholdOf[ordinal];
      sicAt[place] = sicOf[ordinal];
    }
    thresholds = UnsafeArrayData.fromPrimitiveArray(thresholdAt);
    sic = UnsafeArrayData.fromPrimitiveArray(sicAt);
  }

  /** No plan: everything is admitted, unless there is a reason with which the query fails. */
  private PlanInForce(String refusal, boolean wholeRows) {
    this.refusal = refusal;
    this.wholeRows = wholeRows;
    open = true;
    version = UnsafeArrayData.fromPrimitiveArray(new long[1]);
    look = UnsafeArrayData.fromPrimitiveArray(new long[1]);
    thresholds = UnsafeArrayData.fromPrimitiveArray(new long[] {Long.MAX_VALUE, Long.MAX_VALUE});
    sic = UnsafeArrayData.fromPrimitiveArray(new double[] {1.0, 1.0});
    UnsafeArrayData keys = UnsafeArrayData.fromPrimitiveArray(new long[] {0, NO_KEY_OF_PLACE_1});
    table = new Table(0, 0, new long[2], keys);
  }

  static PlanInForce refused(String reason) {
    return new PlanInForce(reason, true);
  }

  /** What is in force where a site has never said anything in this run of a query. */
  static PlanInForce untold(boolean wholeRows) {
    return new PlanInForce(null, wholeRows);
  }

  /** Decodes a plan; `before` is the plan that the same run of the query had before, or null. */
  static PlanInForce decode(byte[] encoded, PlanInForce before) {
    ByteBuffer buffer = ByteBuffer.wrap(encoded);
    if (buffer.getLong(0) == REFUSAL) {
      return refused(new String(encoded, Long.BYTES, encoded.length - Long.BYTES, UTF_8));
    }
    return new PlanInForce(buffer, before);
  }

  /** Whether nothing was shed of what the rows are made of that come out in this batch. */
  boolean wholeRows() {
    return wholeRows;
  }

  boolean flag(String part) {
    if (part.equals("open")) {
      return open;
    }
    throw unknown(part);
  }

  long number(String part) {
    if (part.equals("mask")) {
      return table.mask;
    }
    throw unknown(part);
  }

  UnsafeArrayData longs(String part) {
    return switch (part) {
      case "version" -> versionOrFail();
      case "look" -> look;
      case "keys" -> table.keys;
      case "thresholds" -> thresholds;
      default -> throw unknown(part);
    };
  }

  /**
   * Fails where the site refused the query. No other part may: Spark keeps an expression that failed
   * inside of a condition for good as one that cannot be folded, and only the version, which is in
   * every gate's metrics, stands outside of all conditions.
   */
  private UnsafeArrayData versionOrFail() {
    if (refusal != null) {
      throw new IllegalStateException(refusal);
    }
    return version;
  }

  UnsafeArrayData doubles(String part) {
    if (part.equals("sic")) {
      return sic;
    }
    throw unknown(part);
  }

  private static IllegalArgumentException unknown(String part) {
    return new IllegalArgumentException("a plan has no part '" + part + "' of this type");
  }

  private static long[] longs(ByteBuffer encoded, int count) {
    long[] values = new long[count];
    encoded.asLongBuffer().get(values);
    encoded.position(encoded.position() + count * Long.BYTES);
    return values;
  }
}
