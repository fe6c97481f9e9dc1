"""A gated job that ends between what its sink has and what Spark knows of it, and runs again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import Site
from tests.spark.clusters.features import LETTERS, ByName
from tests.spark.support import file_stream, write_batches

BATCHES = 3
LAST = BATCHES - 1


def in_two_lives(
    spark: SparkSession,
    folder: Path,
    sink: Callable[[DataFrame], DataStreamWriter],
    died: Callable[[], None] = lambda: None,
) -> list[int]:
    """Runs the last batch a second time, since the driver died before Spark had committed it.

    ``died`` takes away what the sink had not done by then. Answers what the gate admitted, by n.
    """
    write_batches(folder / "in", [{"k": LETTERS * 25}] * BATCHES)
    ledgers, admitted = [], list[int]()
    for life in range(2):
        if life:
            for file in (folder / "checkpoint" / "commits").glob(f"*{LAST}*"):
                file.unlink()
            died()
        with Site(spark, interval="100ms", directory=folder / "site", controller=ByName) as site:
            gated = site.gate(file_stream(spark, str(folder / "in")), query="q", strata="k", id="n")
            query = site.start(sink(gated.select("n")), checkpoint=folder / "checkpoint")
            query.processAllAvailable()
            assert query.exception() is None, query.exception()
        ledgers.append(sorted((e.batch, e.arrived, e.admitted) for e in site.ledger))
        admitted = [batch[2] for batch in ledgers[-1]]
    assert ledgers[0] == ledgers[1]  # decided alike, and counted once
    assert len(ledgers[0]) == BATCHES
    return admitted
