"""Carries a plan into a running query.

Spark analyses a streaming query once, so a rate that changes must come in as data; and it plans
every micro-batch anew, after the batch's offsets are known and before it runs. The parts of a plan
are functions of a catalog (``jvm/io/penstock``), which Spark's optimizer takes for constants and
evaluates on the driver, in the planning of each batch. The first of them asks the site for the plan
*for this very batch*; no news is ever a batch late.

Arrays are data to the generated code, so that a new plan compiles nothing. The switch is a literal:
when the gate stands open, hash, look-up and comparison are not in the generated code at all.

No file system, no broker: executors get the plan with their tasks.
"""

from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.core.types import Bools, Floats, Ints
from penstock.spark.engine import CATALOG
from penstock.spark.gate.table import Table

ALWAYS = 2**63 - 1
"""The threshold of rate 1: every draw, which has 63 bits, is at most this."""
SURE = ALWAYS - 1
"""The threshold of rate 1 while others of the same query are shed; no rate below 1 comes near."""
REFUSAL = -(2**63)
"""Stands where a plan's version would: the reason follows why a query cannot have a plan."""


@dataclass(frozen=True)
class Shipment:
    """A plan in a gate's terms, by ordinal; ordinal 0 is for strata that the table lacks."""

    version: int
    open: bool
    table: Table
    thresholds: Ints
    sic: Floats
    look: int = ALWAYS
    """Of the admitted tuples, those with a draw up to this show their value and their arrival."""
    whole_rows: bool = True
    """Whether nothing was shed of what the rows are made of that come out in this batch."""


def thresholds(rates: Floats, whole: Bools | bool = True) -> Ints:
    """A tuple is admitted if its draw is at most this; rate 0 admits one in 2⁶³.

    ``whole`` says of which strata the query is admitted as a whole, the others of it included.
    """
    scaled = np.minimum(rates, 1.0) * 2.0**63
    small = np.where(rates < 1.0, scaled, 0.0).astype(np.int64)
    return np.where(rates < 1.0, np.maximum(small - 1, 0), np.where(whole, ALWAYS, SURE))


def refusal(reason: str) -> bytes:
    """In place of a plan: the query fails with this reason."""
    return np.array([REFUSAL], dtype=">i8").tobytes() + reason.encode()


def nowhere() -> Column:
    """Returns place 0 in a form that the optimizer does not see through.

    A constant place in an array would make what stands there a constant in the generated code,
    which Spark would compile anew whenever it changes.
    """
    return sf.spark_partition_id() * 0


def most_of_a_row(bears_a_mark: Column) -> Column:
    """The most that a row of a result may say to be complete, by the gates of its query.

    It is 1 for a row without a mark of shedding, unless something was shed in a batch that the
    row may have lost all its tuples in (see ``penstock.spark.whole_rows``). The place in the array
    is computed, so that nothing is compiled anew when that changes.
    """
    place = sf.when(bears_a_mark, sf.lit(0)).otherwise(sf.lit(1))
    return sf.get(sf.expr(f"{CATALOG}.rows('', 'most')"), place)


class Wire:
    """One gate's plan: as columns of its query, and encoded for the JVM."""

    def __init__(self, gate: str) -> None:
        self._gate = gate
        self._sent: dict[str, Table] = {}
        """By run of a query: the table that the JVM has."""

    # --- in the query -------------------------------------------------------------------------

    @property
    def is_open(self) -> Column:
        return self._part("flag", "open")

    @property
    def mask(self) -> Column:
        return self._part("number", "mask")

    @property
    def keys(self) -> Column:
        return self._part("longs", "keys")

    @property
    def thresholds(self) -> Column:
        return self._part("longs", "thresholds")

    @property
    def sic(self) -> Column:
        return self._part("doubles", "sic")

    @property
    def look(self) -> Column:
        return sf.get(self._part("longs", "look"), nowhere())

    def version(self) -> Column:
        """The version of the plan in force, among aggregates over the batch.

        The place in its array is 0 in words that the optimizer does not see through: a number that
        changes with every batch would be compiled into the code of every batch.
        """
        place = sf.pmod(sf.count(sf.lit(1)), sf.lit(1)).cast("int")
        return sf.get(self._part("longs", "version"), place)

    def passing(self) -> Column:
        """The milliseconds at which a tuple passes; SQL only knows when its batch began."""
        return self._part("passing", "now")

    def looks(self) -> Column:
        """Whether a tuple is drawn by chance, with the probability that ``look`` stands for."""
        return self._part("chance", "draw") <= self.look

    def _part(self, function: str, part: str) -> Column:
        return sf.expr(f"{CATALOG}.{function}('{self._gate}', '{part}')")

    # --- to the JVM ---------------------------------------------------------------------------

    def encode(self, shipment: Shipment, run: str) -> bytes:
        """The shipment as ``PlanInForce`` in ``jvm/`` decodes it, for a run of a query.

        A table goes along only when the JVM does not have it. An open gate reads no rates, so that
        there is nothing to send but the switch and what an unknown tuple is worth.
        """
        table, known = shipment.table, self._sent.get(run)
        if shipment.open and known is not None:
            table = known
        follows = known is None or known.number != table.number
        listed = 1 if shipment.open else shipment.thresholds.size
        head = [
            shipment.version,
            shipment.open,
            shipment.look,
            shipment.whole_rows,
            table.number,
            table.mask,
            table.keys.size,
            follows,
            listed,
        ]
        parts = [np.array(head, dtype=">i8")]
        if follows:
            parts += [table.keys.astype(">i8"), table.ordinals.astype(">i8")]
            self._sent[run] = table
        parts.append(shipment.thresholds[:listed].astype(">i8"))
        return b"".join(
            [*(part.tobytes() for part in parts), shipment.sic[:listed].astype(">f8").tobytes()]
        )

    def forget(self, run: str) -> None:
        """A run has ended, and with it what the JVM knew of it."""
        self._sent.pop(run, None)
