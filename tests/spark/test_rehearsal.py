"""A query is tried before its stream begins, once for each Spark, and leaves nothing behind."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock import Site, replay
from penstock import functions as sf
from penstock.spark import rehearsal
from tests.spark.support import wait_until


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the tests' Spark look as if it had just started."""
    monkeypatch.setattr(rehearsal, "_warm", set())


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the names of queries that were rehearsed."""
    names: list[str] = []
    wait = rehearsal.Rehearsal._wait

    def watched(self: rehearsal.Rehearsal, query: StreamingQuery, began: float) -> None:
        names.append(str(query.name))
        wait(self, query, began)

    monkeypatch.setattr(rehearsal.Rehearsal, "_wait", watched)
    return names


def _start(site: Site, spark: SparkSession, query: str) -> StreamingQuery:
    raw = replay(spark, generator="readings", rate=2000, keys=3)
    counted = raw.transform(site.gate, query=query).groupBy("key").agg(sf.count("*").alias("n"))
    writer = counted.writeStream.format("noop").outputMode("complete").queryName(query)
    return writer.trigger(processingTime="300 milliseconds").start()


@pytest.mark.usefixtures("cold")
def test_the_first_query_is_rehearsed_and_nothing_of_it_is_counted(
    spark: SparkSession, rehearsed: list[str]
) -> None:
    site = Site(spark, interval=0.3, latency=60)
    query = _start(site, spark, "first")
    wait_until(lambda: site.report().queries != ())
    assert [name.startswith(rehearsal.NAME) for name in rehearsed] == [True]
    assert [each.name for each in spark.streams.active] == ["first"]
    query.stop()
    report = site.report()
    assert [each.id for each in report.queries] == ["first"]
    assert report.ledger_balanced
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    assert report["first"].arrived == report["first"].admitted == rows
    again = _start(site, spark, "second")
    again.stop()
    site.stop()
    assert len(rehearsed) == 1  # Spark is warm


@pytest.mark.usefixtures("cold")
def test_whoever_does_not_want_a_rehearsal_has_none(
    spark: SparkSession, rehearsed: list[str]
) -> None:
    site = Site(spark, interval=0.3, latency=60, rehearse=False)
    _start(site, spark, "only").stop()
    site.stop()
    assert rehearsed == []


@pytest.mark.usefixtures("cold")
def test_a_source_that_is_read_from_the_start_is_not_read_twice(
    spark: SparkSession, rehearsed: list[str]
) -> None:
    site = Site(spark, interval=0.3, latency=60)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    gated = source.transform(site.gate, query="numbers", id="value")
    gated.writeStream.format("noop").start().stop()
    site.stop()
    assert rehearsed == []


@pytest.mark.usefixtures("cold")
def test_a_rehearsal_that_fails_is_not_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> StreamingQuery:
        raise RuntimeError("no plan like that")

    site = Site(spark, interval=0.3, latency=60)
    monkeypatch.setattr(site._engine, "start_like", broken)
    query = _start(site, spark, "brave")
    wait_until(lambda: site.report().queries != ())
    query.stop()
    site.stop()
