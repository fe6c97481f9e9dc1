"""Carries a plan into a running query.

Spark analyses a streaming query once, so a rate that changes must come in as data; and it plans
every micro-batch anew, after the batch's offsets are known and before it runs. The wire uses
both. Two things go into the query's plan:

- the **tick**: a scalar subquery over a one-row relation whose only expression is a function of
  this process. Spark's optimizer evaluates it, on the driver, once a micro-batch: that is the
  moment at which the site is told that a batch with so many tuples is about to start, and
  publishes the plan *for this very batch*. No news is ever a batch late.
- the **plan**: a literal, a row whose value the wire replaces. The optimizer folds it after the
  tick, so the arrays in it become constants of the batch. Constant arrays are data to the
  generated code: a new plan compiles nothing. The switch in it is a constant too, and when the
  gate stands open, hash, look-up and comparison are not in the generated code at all.

No file system, no broker: executors get the plan with their tasks. It needs the JVM in this
process's reach (classic PySpark), not Spark Connect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np
from pyspark import java_gateway
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from penstock.core.types import Floats, Ints
from penstock.errors import PenstockError
from penstock.spark.gate.table import Table

ALWAYS = 2**63 - 1
"""The threshold of rate 1: every hash, shifted to 63 bits, is at most this."""
_FIELDS = (
    "open boolean, timed boolean, version array<bigint>, mask bigint, keys array<bigint>, "
    "thresholds array<bigint>, sic array<double>, look array<bigint>"
)
TICKED = 1
_numbers = count()


@dataclass(frozen=True)
class Shipment:
    """A plan in the gate's terms: by place in its table; place 0 is for strata it does not know."""

    version: int
    open: bool
    timed: bool
    """Whether the tuples' passing is timed, which only tells something where none is shed."""
    table: Table
    thresholds: Ints
    sic: Floats
    look: int = ALWAYS
    """Of the admitted tuples, those below are looked at; see ``look``."""


def thresholds(rates: Floats) -> Ints:
    """A tuple is admitted if its hash is at most this; rate 0 admits one in 2⁶³."""
    scaled = np.minimum(rates, 1.0) * 2.0**63
    small = np.where(rates < 1.0, scaled, 0.0).astype(np.int64)
    return np.where(rates < 1.0, np.maximum(small - 1, 0), ALWAYS)


class Wire:
    """One for each gate; ``next_plan`` is called on a thread of its own, once a micro-batch."""

    def __init__(self, spark: SparkSession, next_plan: Callable[[], Shipment]) -> None:
        try:
            context: Any = spark.sparkContext
        except Exception:
            raise PenstockError(
                "a gate needs a classic SparkSession (SparkSession.builder.master(...)); this is "
                "a Spark Connect session, whose driver is out of reach"
            ) from None
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        start_callbacks: Any = java_gateway.ensure_callback_server_started
        start_callbacks(self._gateway)
        self._next_plan = next_plan
        self._expressions: Any = self._jvm.org.apache.spark.sql.catalyst.expressions
        self._buffers: Any = self._jvm.java.nio.ByteBuffer  # a name costs several trips to the JVM
        self._arrays: Any = self._expressions.UnsafeArrayData
        self._table: tuple[Table, Any] | None = None
        """The table that was sent last, and its keys in the JVM."""
        self._in_force, self._literal = self._mutable_literal()
        self._tick_name = f"penstock_tick_{next(_numbers)}"
        self._ticker = _Ticker(self)
        kind = self._jvm.org.apache.spark.sql.types.DataType.fromDDL("int")
        session: Any = spark._jsparkSession
        session.udf().register(self._tick_name, self._ticker, kind)

    def plan(self, field: str) -> Column:
        """A part of the plan in force: a constant, as far as a micro-batch can see."""
        return self._literal["plan"][field]

    @property
    def is_open(self) -> Column:
        return self.plan("open")

    def version(self) -> Column:
        """Of the plan in force; evaluating it is what asks for the plan.

        The tick answers the same whatever happens: a number that changes would be in the text of
        the generated code, and Spark would compile it anew for every batch.
        """
        tick = sf.expr(f"(SELECT {self._tick_name}() FROM VALUES (1) AS once(x))")
        return sf.when(tick == TICKED, sf.get(self.plan("version"), sf.lit(0)))

    def publish(self, shipment: Shipment) -> None:
        """Puts a plan in force for the batch that is being planned.

        An open gate reads no rates, so there is nothing to send but the switch.
        """
        version = self._array(np.array([shipment.version]))
        sent = self._in_force.get(0, None)
        if shipment.open and sent is not None:
            sent.update(0, True)
            sent.update(2, version)
            return
        row = self._new_row(8)
        row.update(0, shipment.open)
        row.update(1, shipment.timed)
        row.update(2, version)
        row.setLong(3, shipment.table.mask)  # an update would pass a small number as a Java int
        row.update(4, self._keys(shipment.table))
        row.update(5, self._array(shipment.thresholds))
        row.update(6, self._array(shipment.sic))
        row.update(7, self._array(np.array([shipment.look])))
        self._in_force.update(0, row)

    def clock(self) -> Column:
        """The milliseconds at which a tuple passes; SQL only knows when its batch began."""
        system = self._jvm.java.lang.Class.forName("java.lang.System")
        kind = self._jvm.org.apache.spark.sql.types.DataType.fromDDL("bigint")
        nothing = self._jvm.PythonUtils.toSeq([])
        deterministic, absent = False, self._jvm.scala.Option.empty()
        call = self._expressions.objects.StaticInvoke(
            system, kind, "currentTimeMillis", nothing, nothing, True, False, deterministic, absent
        )
        return self._column(call)

    def _mutable_literal(self) -> tuple[Any, Column]:
        row = self._new_row(1)
        kind = self._jvm.org.apache.spark.sql.types.DataType.fromDDL(f"plan struct<{_FIELDS}>")
        return row, self._column(self._expressions.Literal(row, kind))

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        utilities = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        return ClassicColumn(utilities.column(expression))

    def _new_row(self, fields: int) -> Any:
        values = self._gateway.new_array(self._jvm.java.lang.Object, fields)
        return self._expressions.GenericInternalRow(values)

    def _keys(self, table: Table) -> Any:
        if self._table is None or self._table[0] is not table:
            self._table = table, self._array(table.keys)
        return self._table[1]

    def _array(self, values: Ints | Floats) -> Any:
        """As one block of bytes: element by element would take a second for 100,000 strata."""
        real = values.dtype.kind == "f"
        data = values.astype(">f8" if real else ">i8").tobytes()
        buffer = self._buffers.wrap(data)
        kind = self._jvm.double if real else self._jvm.long
        array = self._gateway.new_array(kind, values.size)
        (buffer.asDoubleBuffer() if real else buffer.asLongBuffer()).get(array)
        return self._arrays.fromPrimitiveArray(array)


class _Ticker:
    """What the JVM calls: a Java ``UDF0`` that is implemented here."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def call(self) -> int:
        self._wire.publish(self._wire._next_plan())
        return TICKED

    class Java:
        implements: ClassVar[list[str]] = ["org.apache.spark.sql.api.java.UDF0"]
