"""Several results of one query: Spark queries behind one gate."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import Site
from penstock.core.declared import DeclaredSources
from penstock.core.types import Batch, Count, Plan, Strata, Stratum
from penstock.spark.fan_out import ResultNames
from tests.spark.support import file_stream, wait_until, write_batches
from tests.spark.test_sic import HalfOfAll

ROWS_A_BATCH = 6_000
STEPS = 4_000
"""Of arithmetic for each tuple: together the results want more than twice what two cores can do."""
SAMPLE_SECONDS = 0.5


def test_names_are_translated_there_and_back() -> None:
    names, mine = ResultNames("nine"), Stratum("q", "s", "g")
    (theirs,) = names.batch(Batch("nine", 0, 0.0, 1.0, {mine: Count(2, 1)})).counts
    assert theirs.query == "q"
    assert theirs.source != "s"
    plan = Plan(3, Strata([mine, theirs]), np.array([0.1, 0.2]), np.array([0.01, 0.02]), 0.5)
    told = names.plan(plan)
    assert (list(told.strata), told.rates.tolist(), told.sic.tolist()) == ([mine], [0.2], [0.02])
    assert (told.version, told.default_rate) == (3, 0.5)
    assert ResultNames().plan(plan) is plan
    declared = DeclaredSources(frozenset({"s"}), 2)
    assert names.declared(declared) == DeclaredSources(frozenset({theirs.source}), 2)


def test_two_streams_behind_one_gate_shed_alike_and_are_counted_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_batches(tmp_path / "in", [{"k": list(range(1000))} for _ in range(6)])
    with Site(spark, interval="100ms", latency="60s", controller=HalfOfAll) as site:
        gated = site.gate(file_stream(spark, folder), query="q", source="s", id=["n"])
        for name in ("first", "second"):
            query = site.start(gated.writeStream.format("memory"), name=name)
            query.processAllAvailable()
        report = site.report()["q"]
        totals = [site.ledger.total(name)[:2] for name in ("first", "second")]
        kept = [{row.n for row in spark.table(name).collect()} for name in ("first", "second")]
        assert site.sic()["q"] == pytest.approx(report.admitted / report.arrived, abs=0.05)
    assert [arrived for arrived, _ in totals] == [6000, 6000]
    assert report.arrived == 12_000
    assert report.admitted == sum(admitted for _, admitted in totals)
    assert all(0 < admitted < 6000 for _, admitted in totals)
    assert [len(rows) for rows in kept] == [admitted for _, admitted in totals]
    always_half = 1.0 / len(kept)
    assert len(kept[0] & kept[1]) > always_half * max(map(len, kept))  # by the same draw


def worked(frame: DataFrame) -> DataFrame:
    steps = f"aggregate(sequence(1, {STEPS}), double(value), (a, i) -> sqrt(a + i))"
    return frame.withColumn("x", sf.expr(steps)).where("x > 0").drop("value")


def a_stream(spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format("rate-micro-batch")
    return reader.option("rowsPerBatch", ROWS_A_BATCH).option("numPartitions", 2).load()


@pytest.mark.alone
@pytest.mark.parametrize("results", [9])
def test_a_user_with_many_results_has_the_sic_of_one_with_a_single(
    spark: SparkSession, results: int
) -> None:
    with Site(spark, interval="1s", latency="4s", stw="20s") as site:
        many = site.gate(a_stream(spark), query="many", id="value")
        single = site.gate(a_stream(spark), query="single", id="value")
        site.start(worked(single).writeStream.format("noop"), name="only")
        for number in range(results):
            site.start(worked(many).writeStream.format("noop"), name=f"result-{number}")

        def settled() -> bool:
            told = {each.id: each for each in site.report().queries}
            return len(told) == 2 and all(each.batches >= 5 for each in told.values())

        wait_until(settled, 120, "both to shed")
        seen, until = [], time.monotonic() + 25
        while time.monotonic() < until:
            seen.append(site.sic())
            time.sleep(SAMPLE_SECONDS)
        latency = site.report()["many"].latency_ms
        many_sic, single_sic = (
            float(np.mean([s[name] for s in seen])) for name in ("many", "single")
        )
        shed = {each.id: each.shed for each in site.report().queries}
    assert min(shed.values()) > 0
    assert single_sic < 0.95
    assert latency.p95 is not None
    assert many_sic == pytest.approx(single_sic, abs=0.1)
