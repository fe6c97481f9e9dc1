"""A site with Spark: transparency, several queries, failures, reports."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import penstock as ps
from penstock import functions as pf
from penstock.spark.query import SparkJob
from tests.spark.support import file_stream, wait_until, write_batches


def numbers(spark: SparkSession, rows: int = 500) -> DataFrame:
    """An endless stream of so many rows a batch, numbered ``n``."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    return source.withColumnRenamed("value", "n")


def ran(query: StreamingQuery, batches: int) -> None:
    wait_until(lambda: query.exception() or len(query.recentProgress) >= batches)
    assert query.isActive, query.exception()


def as_text(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


def test_an_open_gate_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Law 6: the same rows, and the same windows with a SIC of exactly 1."""
    rng = np.random.default_rng(5)
    batches: list[dict[str, list[Any]]] = [
        {
            "k": [f"k{key}" for key in rng.integers(0, 7, 1000)],
            "v": [None if draw < 0.1 else float(draw) for draw in rng.random(1000)],
            "at": [60 * number + int(second) for second in rng.integers(0, 60, 1000)],
        }
        for number in range(7)
    ]
    folder = write_batches(tmp_path / "in", batches)
    stream = file_stream(spark, folder)
    with ps.Site(spark, interval="100ms", latency="60s") as site:
        rows = site.gate(stream, query="rows", strata="k", id="n")
        summed = (
            site.gate(stream, query="windows", strata="k", id="n")
            .withColumn("ts", sf.timestamp_seconds("at"))
            .withWatermark("ts", "10 minutes")
            .groupBy(sf.window("ts", "1 minute"), "k")
            .agg(
                pf.avg("v", bounds=True).alias("mean"),
                pf.sum("v").alias("sum"),
                pf.count("*").alias("count"),
                pf.sic(),
            )
        )
        first = site.start(
            rows.drop("_weight", "_sic").writeStream.format("memory"), query="open_rows"
        )
        second = site.start(
            summed.writeStream.format("memory").outputMode("complete"), query="open_windows"
        )
        for query in (first, second):
            query.processAllAvailable()
        report = site.report()

    raw = spark.read.parquet(folder)
    assert as_text(spark.table("open_rows").collect()) == as_text(raw.collect())
    found = {(r["window"]["start"], r["k"]): r for r in spark.table("open_windows").collect()}
    plain = (
        raw.withColumn("ts", sf.timestamp_seconds("at"))
        .groupBy(sf.window("ts", "1 minute"), "k")
        .agg(sf.mean("v").alias("mean"), sf.sum("v").alias("sum"), sf.count("*").alias("count"))
        .collect()
    )
    assert len(found) == len(plain) == 49
    for row in plain:
        mine = found[row["window"]["start"], row["k"]]
        assert mine["count"] == row["count"]
        assert mine["sic"] == 1.0  # exactly
        assert mine["sum"] == pytest.approx(row["sum"], rel=1e-12)
        assert tuple(mine["mean"]) == pytest.approx((row["mean"],) * 3, rel=1e-12)
    assert_documented(report)
    assert [(q["id"], q["arrived"], q["shed"], q["sic"]) for q in report["queries"]] == [
        ("rows", 7000, 0, 1.0),
        ("windows", 7000, 0, 1.0),
    ]
    assert report["ledger_balanced"]
    assert site.ledger.total("open_rows") == (7000, 7000, 0)


def assert_documented(report: dict[str, Any]) -> None:
    """The keys of ``penstock run --report`` in the design."""
    assert json.loads(json.dumps(report)) == report
    assert {"queries", "site", "ledger_balanced"} <= report.keys()
    assert {"capacity", "utilisation", "jain"} <= report["site"].keys()
    for query in report["queries"]:
        assert {"arrived", "admitted", "shed", "sic", "latency_ms", "batches"} <= query.keys()
        assert query["arrived"] == query["admitted"] + query["shed"]
        assert {"p50", "p95", "p99"} <= query["latency_ms"].keys()


def test_a_query_that_fails_takes_nobody_with_it(spark: SparkSession) -> None:
    """The other goes on, the plan forgets the dead one, and its name is free again."""
    bomb = sf.when(sf.col("n") >= 1500, sf.raise_error(sf.lit("boom"))).otherwise(sf.col("n"))
    with ps.Site(spark, interval="100ms", latency="10s", stw="1s") as site:
        good = site.gate(numbers(spark), query="good", id="n")
        bad = site.gate(numbers(spark), query="bad", id="n").withColumn("x", bomb)
        one = site.start(good.writeStream.format("noop"), query="good")
        other = site.start(bad.writeStream.format("noop"), query="bad")
        wait_until(lambda: not other.isActive, what="the failure")
        assert "boom" in str(other.exception())
        wait_until(lambda: {s.query for s in site.plan.strata} == {"good"}, what="a new plan")
        assert set(site._state.jobs) == {"good"}
        ran(one, len(one.recentProgress) + 2)
        assert site.ledger.batches("bad") == {0, 1, 2}

        again = site.gate(numbers(spark), query="bad", id="n")
        third = site.start(again.writeStream.format("noop"), query="bad", interval="300ms")
        ran(third, 3)
        wait_until(lambda: {s.query for s in site.plan.strata} == {"good", "bad"})
        assert site.settings.interval_of("bad") == 0.3
        assert site.settings.interval_of("good") == 0.1
    assert site.ledger.balanced
    assert site.ledger.total("bad")[0] == 500 * (3 + len(site.ledger.batches("bad", str(third.id))))


def test_an_interval_of_its_own_is_kept(spark: SparkSession) -> None:
    with ps.Site(spark, interval="30s") as site:
        gated = site.gate(numbers(spark), query="q", id="n")
        query = site.start(gated.writeStream.format("noop"), interval="200ms")
        ran(query, 3)  # at once, not after a minute
        assert query.name == "query-0"


def test_two_gates_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    some = write_batches(tmp_path / "a", [{"k": ["a"] * 300}] * 2)
    more = write_batches(tmp_path / "b", [{"k": ["a", "b"] * 200}] * 2)
    with ps.Site(spark, interval="100ms", latency="60s") as site:
        one = site.gate(file_stream(spark, some), query="both", source="left", id="n")
        two = site.gate(file_stream(spark, more), query="both", source="right", strata="k", id="n")
        query = site.start(one.union(two).writeStream.format("memory"), query="union")
        query.processAllAvailable()
    assert {(e.batch, e.gate, e.arrived) for e in site.ledger} >= {
        (0, "gate-0", 300),
        (0, "gate-1", 400),
        (1, "gate-0", 300),
        (1, "gate-1", 400),
    }
    assert site.ledger.balanced
    assert spark.table("union").count() == site.ledger.total("union")[0] == 1400
    groups = {(s.source, s.group) for s in site.plan.strata}
    assert groups == {("left", ""), ("right", "a"), ("right", "b")}


def test_errors_inside_stop_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Progress that cannot be read, and a listener that fails: the old plan stays in force."""

    def fail(*_: object) -> None:
        raise RuntimeError("no progress today")

    with ps.Site(spark, interval="100ms", latency="10s") as site:
        gated = site.gate(numbers(spark), query="q", id="n")
        query = site.start(gated.writeStream.format("noop"), query="fragile")
        ran(query, 2)
        with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL, "penstock"):
            broken.setattr(SparkJob, "finished", fail)
            broken.setattr(SparkJob, "outlook", fail)
            broken.setattr(site._listener, "onQueryProgress", fail)
            ran(query, len(query.recentProgress) + 3)
        before = site.plan.version
        wait_until(lambda: site.plan.version > before + 1)
        assert query.isActive


def test_an_overloaded_query_sheds_and_says_so(spark: SparkSession) -> None:
    """The closed loop, roughly: costly tuples, a third of a second for each batch."""
    with ps.Site(spark, interval="300ms", latency="600ms", stw="3s") as site:
        stream = ps.replay(spark, generator="readings", rate=20_000, keys=20)
        gated = site.gate(stream, query="q", strata="key", id="_offset")
        costly = sf.length(sf.sha2(sf.repeat("payload", 400), 512))
        out = gated.groupBy("key").agg(sf.sum(costly), pf.count("*").alias("count"), pf.sic())
        query = site.start(out.writeStream.format("memory").outputMode("complete"), query="costly")
        wait_until(lambda: site.ledger.total()[2] > 20_000, what="20,000 tuples to be shed")
        assert not site.plan.open
        # on a busy machine that was one batch, and SIC is sampled when the next one is planned
        wait_until(lambda: site.report()["queries"][0]["sic"] < 1, what="the loss to be reported")
        query.stop()
        report = site.report()
    (entry,) = report["queries"]
    assert 0 < entry["sic"] < 1
    assert entry["shed"] == site.ledger.total()[2]
    assert report["ledger_balanced"]
    rows = spark.table("costly").collect()
    last = json.loads(query.recentProgress[-1].sources[0].endOffset)["offset"]
    counted = sum(row["count"] for row in rows)
    # on a busy machine few are admitted, and an estimate from few varies
    assert counted == pytest.approx(last, rel=max(0.1, 6 / math.sqrt(entry["admitted"])))
    assert all(0 < row["sic"] < 1 for row in rows if row["count"] > 1000)
