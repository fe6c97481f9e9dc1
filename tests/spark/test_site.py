"""A site with Spark: transparency, several queries, failures, reports."""

from __future__ import annotations

import json
import logging
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock import PenstockError, Site, replay
from penstock import functions as pf
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.spark.gate.codec import PlanCodec
from penstock.spark.query import SparkQuery
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
    with Site(spark, interval="100ms", latency="60s") as site:
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
            rows.drop("_weight", "_sic").writeStream.format("memory"), name="open_rows"
        )
        second = site.start(
            summed.writeStream.format("memory").outputMode("complete"), name="open_windows"
        )
        for query in (first, second):
            query.processAllAvailable()
        report = site.report().to_dict()

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
        assert tuple(mine["mean"])[:3] == pytest.approx((row["mean"],) * 3, rel=1e-12)
        assert mine["mean"]["certified"]
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
        assert {"p50", "p95", "p99", "measured"} == query["latency_ms"].keys()


def test_a_query_that_fails_takes_nobody_with_it(spark: SparkSession) -> None:
    """The other goes on, the plan forgets the dead one, and its name is free again."""
    bomb = sf.when(sf.col("n") >= 1500, sf.raise_error(sf.lit("boom"))).otherwise(sf.col("n"))
    with Site(spark, interval="100ms", latency="10s", stw="1s") as site:
        good = site.gate(numbers(spark), query="good", id="n")
        bad = site.gate(numbers(spark), query="bad", id="n").withColumn("x", bomb)
        one = site.start(good.writeStream.format("noop"), name="good")
        other = site.start(bad.writeStream.format("noop"), name="bad")
        wait_until(lambda: not other.isActive, what="the failure")
        assert "boom" in str(other.exception())
        wait_until(lambda: {s.query for s in site.plan.strata} == {"good"}, what="a new plan")
        ran(one, len(one.recentProgress) + 2)
        assert site.ledger.batches("bad") == {0, 1, 2}

        again = site.gate(numbers(spark), query="bad", id="n")
        third = site.start(again.writeStream.format("noop"), name="bad", interval="300ms")
        ran(third, 3)
        wait_until(lambda: {s.query for s in site.plan.strata} == {"good", "bad"})
        assert site.settings.interval_of("bad") == 0.3
        assert site.settings.interval_of("good") == 0.1
    assert site.ledger.balanced
    assert site.ledger.total("bad")[0] == 500 * (3 + len(site.ledger.batches("bad", str(third.id))))


def test_an_interval_of_its_own_is_kept(spark: SparkSession) -> None:
    with Site(spark, interval="30s") as site:
        gated = site.gate(numbers(spark), query="q", id="n")
        query = site.start(gated.writeStream.format("noop"), interval="200ms")
        ran(query, 3)  # at once, not after a minute
        assert query.name == "q"  # as its gate calls it


def test_two_gates_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    some = write_batches(tmp_path / "a", [{"k": ["a"] * 300}] * 2)
    more = write_batches(tmp_path / "b", [{"k": ["a", "b"] * 200}] * 2)
    with Site(spark, interval="100ms", latency="60s") as site:
        one = site.gate(file_stream(spark, some), query="both", source="left", id="n")
        two = site.gate(file_stream(spark, more), query="both", source="right", strata="k", id="n")
        query = site.start(one.union(two).writeStream.format("memory"), name="union")
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

    with Site(spark, interval="100ms", latency="10s") as site:
        gated = site.gate(numbers(spark), query="q", id="n")
        query = site.start(gated.writeStream.format("noop"), name="fragile")
        ran(query, 2)
        with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL, "penstock"):
            broken.setattr(SparkQuery, "unread", fail)
            broken.setattr(SparkQuery, "upcoming", fail)
            ran(query, len(query.recentProgress) + 3)
        before = site.plan.version
        wait_until(lambda: site.plan.version > before + 1)
        assert query.isActive


def test_an_overloaded_query_sheds_and_says_so(spark: SparkSession) -> None:
    """The closed loop, roughly: costly tuples, a third of a second for each batch."""
    with Site(spark, interval="300ms", latency="600ms", stw="3s") as site:
        stream = replay(spark, generator="readings", rate=20_000, keys=20)
        gated = site.gate(stream, query="q", strata="key", id="_offset")
        costly = sf.length(sf.sha2(sf.repeat("payload", 400), 512))
        out = gated.groupBy("key").agg(sf.sum(costly), pf.count("*").alias("count"), pf.sic())
        query = site.start(out.writeStream.format("memory").outputMode("complete"), name="costly")
        wait_until(lambda: site.ledger.total()[2] > 20_000, what="20,000 tuples to be shed")
        assert not site.plan.open
        # on a busy machine that was one batch, and SIC is sampled when the next one is planned
        wait_until(lambda: site.report()["q"].sic < 1, what="the loss to be reported")
        query.stop()
        report = site.report()
    (entry,) = report.queries
    assert 0 < entry.sic < 1
    assert entry.shed == site.ledger.total()[2]
    assert report.ledger_balanced
    rows = spark.table("costly").collect()
    last = json.loads(query.recentProgress[-1].sources[0].endOffset)["offset"]
    counted = sum(row["count"] for row in rows)
    # on a busy machine few are admitted, and an estimate from few varies
    assert counted == pytest.approx(last, rel=max(0.1, 6 / math.sqrt(entry.admitted)))
    assert all(0 < row["sic"] < 1 for row in rows if row["count"] > 1000)


def test_a_query_that_the_user_starts_is_found_at_its_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its own trigger, name and checkpoint are respected, and the site stops it with the others."""
    with Site(spark, interval="100ms", latency="10s") as site:
        gated = numbers(spark).transform(site.gate, query="fares", id="n")
        writer = gated.writeStream.format("noop").queryName("mine")
        query = (
            writer.trigger(processingTime="300 milliseconds")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        ran(query, 3)
        assert site.settings.interval_of("mine") == 0.3
        wait_until(lambda: len(site.ledger.batches("mine", str(query.id))) >= 3)
        assert site.report()["fares"].arrived >= 1500
        assert (tmp_path / "checkpoint" / "offsets").exists()

        unnamed = numbers(spark).transform(site.gate, query="rides", id="n")
        other = unnamed.writeStream.format("noop").start()
        wait_until(lambda: site.ledger.batches("rides"), what="a query that is called by its gate")
    assert not query.isActive
    assert not other.isActive
    assert site.ledger.balanced


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ({"continuous": "1 second"}, "no micro-batches"),
        ({"realTime": "5 minutes"}, "a batch lasts for minutes"),
    ],
)
def test_triggers_without_micro_batches_are_refused(
    spark: SparkSession, trigger: dict[str, str], reason: str
) -> None:
    with Site(spark) as site:
        source = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        gated = source.transform(site.gate, query="q", id="value")
        writer = gated.writeStream.format("noop").outputMode("update").trigger(**trigger)
        with pytest.raises(PenstockError, match=reason):
            site.start(writer)


def test_a_gate_is_shared_only_by_streams_that_have_no_other(spark: SparkSession) -> None:
    with Site(spark, interval="100ms", latency="10s") as site:
        gated = numbers(spark).transform(site.gate, query="q", source="a", id="n")
        other = numbers(spark).transform(site.gate, query="q", source="b", id="n")
        first = gated.writeStream.format("noop").start()
        ran(first, 1)
        second = gated.union(other).writeStream.format("noop").start()
        wait_until(lambda: second.exception() is not None, what="the refusal")
        assert "belongs to another query already" in str(second.exception())
        ran(first, len(first.recentProgress) + 2)


def test_a_query_outlives_no_site(spark: SparkSession) -> None:
    """A gate whose site has stopped says so."""
    site = Site(spark)
    gated = numbers(spark).transform(site.gate, query="q", id="n")
    site.stop()
    query = gated.writeStream.format("noop").start()
    wait_until(lambda: query.exception() is not None, what="the refusal")
    assert "has stopped" in str(query.exception())


def test_counts_that_cannot_be_read_are_in_the_ledger(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 1: the ledger goes by raw metrics, whatever becomes of the counts by stratum."""

    def forgotten(*_: object) -> None:
        raise KeyError("a version of long ago")

    with Site(spark, interval="100ms", latency="10s") as site:
        gated = numbers(spark).transform(site.gate, query="q", strata=sf.col("n") % 3, id="n")
        query = site.start(gated.writeStream.format("noop"), name="blind")
        ran(query, 2)
        with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL, "penstock"):
            broken.setattr(PlanCodec, "decode", forgotten)
            wait_until(lambda: len(site.ledger.batches("blind")) >= 6)
        wait_until(lambda: len(site.ledger.batches("blind")) >= 8)
        query.stop()
        report = site.report()["q"]
    batches = site.ledger.batches("blind")
    assert batches == set(range(max(batches) + 1))
    assert report.arrived == site.ledger.total("blind")[0] == 500 * len(batches)


class Stingy(Controller):
    """Admits a quarter, whatever there is time for."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        return state, Plan(plan.version, default_rate=0.25)


def test_another_controller_can_be_passed_in(spark: SparkSession) -> None:
    with Site(spark, interval="100ms", latency="10s", controller=Stingy) as site:
        gated = numbers(spark, 4000).transform(site.gate, query="q", id="n")
        query = gated.writeStream.format("noop").start()
        wait_until(lambda: len(site.ledger.batches("q")) >= 3)
        query.stop()
    arrived, admitted, _ = site.ledger.total()
    assert admitted == pytest.approx(0.25 * arrived, rel=0.1)


def test_a_gated_frame_can_be_explained(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody looks at a plan, and no query is running."""
    with Site(spark) as site:
        numbers(spark).transform(site.gate, query="q", id="n").explain()
    assert "CollectMetrics penstock_gate" in capsys.readouterr().out


def test_a_spark_that_folds_no_constants_is_told_so(spark: SparkSession) -> None:
    """The plan's functions are for the driver; on an executor they fail and name the setting."""
    excluded = "spark.sql.optimizer.excludedRules"
    spark.conf.set(excluded, "org.apache.spark.sql.catalyst.optimizer.ConstantFolding")
    try:
        with Site(spark) as site:
            gated = numbers(spark).transform(site.gate, query="q", id="n")
            query = gated.writeStream.format("noop").start()
            wait_until(lambda: query.exception() is not None, what="the refusal")
            assert "ConstantFolding must not be excluded" in str(query.exception())
    finally:
        spark.conf.unset(excluded)


def test_a_query_that_is_started_again_goes_on_in_the_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In one driver: no batch of the first run is missed, and what was learnt is kept."""
    with Site(spark, interval="100ms", latency="10s") as site:
        gated = numbers(spark).transform(site.gate, query="q", id="n")
        writer = (
            gated.writeStream.format("noop")
            .queryName("again")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )

        def counted(batches: int) -> bool:
            return len(site.ledger.batches("again", str(query.id))) >= batches

        for batches_so_far in (2, 4, 6):
            query = writer.start()
            wait_until(partial(counted, batches_so_far), what="two more batches")
            query.stop()
        wait_until(lambda: site.ledger.balanced, what="the last batch to be counted")
        batches = site.ledger.batches("again", str(query.id))
        assert site.state.streams["again"].clock.known
    assert batches == set(range(max(batches) + 1))
    assert len(batches) >= 6


def test_a_job_group_of_the_users_own_changes_nothing(spark: SparkSession) -> None:
    """Spark names a run by its job group, and a program may set another in ``foreachBatch``."""

    def labelled(frame: DataFrame, batch: int) -> None:
        frame.sparkSession.sparkContext.setJobGroup("mine", f"batch {batch}")
        frame.write.format("noop").mode("append").save()

    with Site(spark, interval="100ms", latency="10s") as site:
        gated = numbers(spark).transform(site.gate, query="q", id="n")
        query = gated.writeStream.foreachBatch(labelled).start()
        ran(query, 4)
    assert site.ledger.balanced


def test_a_site_that_was_stopped_makes_no_gate(spark: SparkSession) -> None:
    site = Site(spark)
    site.stop()
    with pytest.raises(PenstockError, match="this site was stopped"):
        numbers(spark).transform(site.gate, query="q", id="n")
