"""Takes exactly the tuples that were shed: a gate decides again, by the plans of that time.

A decision is a function of tuple and plan (law 8), so the gate's own columns are put in front of
the tuples that were read again, and the plan that was in force answers for each batch. Whether it
is the same tuples is checked by whoever counts them: the ledger has how many arrived and were shed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import count

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.jobs.inputs import identity, read, strata
from penstock.jobs.load import LoadedJob
from penstock.settle.past_query import PastQuery
from penstock.settle.reread import Rereader
from penstock.spark import arguments
from penstock.spark.engine import Engine
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys
from penstock.spark.gate.wire import Shipment

BATCH, SHED = "_batch", "_shed"
_names = count()


class PastPlans:
    """Answers for gates with the plans that were in force."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[Gate, Shipment]] = {}

    def plan(self, gate: str, query: str, run: str, batch: int) -> bytes:
        """The plan, with its table: Spark asks outside of micro-batches, and remembers nothing."""
        del query, batch
        mine, shipment = self.told[gate]
        mine.wire.forget(run)
        return mine.wire.encode(shipment, run)

    def started(self, query: str) -> None:
        """Nobody listens."""

    def progressed(self) -> None:
        """Nobody listens."""

    def ended(self, run: str) -> None:
        """Nobody listens."""


def keys_of(spark: SparkSession, loaded: LoadedJob, query: str, source: str) -> Keys:
    """Answers how the gate of a query told the tuples of a source apart."""
    entry = loaded.job.sources[source]
    stream = read(spark, entry, loaded.directory)
    columns = arguments.names_of(stream)
    chosen = strata(stream, source, loaded.job.queries[query])
    return Keys(
        query=query,
        source=source,
        strata=arguments.columns("strata", chosen, columns),
        identity=arguments.identity(identity(stream, entry), columns),
    )


@contextmanager
def decided(
    engine: Engine, keys: Keys, past: PastQuery, again: Rereader, batches: Sequence[int]
) -> Iterator[DataFrame]:
    """Gives the tuples of some batches, each with its batch and whether it was shed there.

    The frame is good within the ``with`` block.
    """
    plans, frames = PastPlans(), []
    try:
        for batch in batches:
            told = past.past[batch]
            gate = Gate(f"penstock_settle_{next(_names)}", keys, 1)
            plans.told[gate.name] = gate, told.plans[0]
            engine.answer_for(gate.name, plans)
            tuples = again.frame(told.offsets[0])
            columns = [sf.col(f"`{name}`") for name in tuples.columns]
            frames.append(
                gate.decide(tuples).select(
                    *columns, sf.lit(batch).alias(BATCH), (~sf.col("_admitted")).alias(SHED)
                )
            )
        yield reduce(DataFrame.unionByName, frames)
    finally:
        for name in plans.told:
            engine.forget(name)
