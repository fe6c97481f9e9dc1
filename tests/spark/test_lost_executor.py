"""What Spark 4.2 counts twice when an executor is lost; ``clusters`` kills one in earnest."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import Site
from penstock.spark.engine import Engine
from penstock.spark.progress import Progress
from penstock.spark.query import SparkQuery
from tests.spark.clusters.features import LETTERS, ByName, account
from tests.spark.support import file_stream, is_admitted, write_batches


@pytest.mark.parametrize("lost", [True, False])
def test_a_batch_that_lost_an_executor_is_counted_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """Spark is made to count all tuples twice, and executors to come and go with each look."""
    unread, looks = SparkQuery.unread, count()

    def twice(self: SparkQuery) -> Progress | None:
        progress = unread(self)
        if progress is None:
            return None
        told = {
            name: {**metrics, **{each: 2 * metrics[each] for each in ("arrived", "admitted")}}
            for name, metrics in progress.observed.items()
        }
        return replace(progress, observed=told)

    monkeypatch.setattr(SparkQuery, "unread", twice)
    monkeypatch.setattr(Engine, "on_one_machine", False)
    monkeypatch.setattr(Engine, "cores", 7)
    monkeypatch.setattr(Engine, "counts_once", lambda _: False)
    monkeypatch.setattr(
        Engine, "executors", lambda _: frozenset({f"host:{next(looks) if lost else 0}"})
    )
    write_batches(tmp_path / "in", [{"k": LETTERS * 25}] * 3)
    with Site(spark, interval="100ms", directory=tmp_path / "site", controller=ByName) as site:
        stream = file_stream(spark, str(tmp_path / "in"))
        gated = site.gate(stream, query="q", strata="k", id="n")
        writer = gated.writeStream.format("noop")
        query = site.start(writer, checkpoint=tmp_path / "checkpoint")
        query.processAllAvailable()
        assert site.settings.cores == 7
    first = sum(is_admitted(n, 0.4, "source") for n in range(100))
    factor = 1 if lost else 2
    assert [row[1] for row in account(site)] == [100 * factor] * 3
    assert account(site)[0][2] == first * factor
    assert site.ledger.balanced
