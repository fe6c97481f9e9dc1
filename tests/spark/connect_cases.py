"""What has to hold through a server of Spark Connect; ``test_connect`` runs it in a process of its
own, since PySpark's functions are those of one kind of session in the whole of a process.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import PenstockError, Site
from penstock import functions as pf
from penstock.lab.bench import connect_job, harness
from penstock.sources.replay import replay
from tests.spark import test_gate, test_programs
from tests.spark.support import QUICK, file_stream, wait_until, write_batches

data = test_programs.data
test_plans_are_in_force_in_their_own_batch = (
    test_gate.test_counts_are_exact_and_each_plan_is_in_force_in_its_own_batch
)
test_one_stratum = test_gate.test_a_gate_of_one_stratum_switches_between_open_and_shut
test_a_gated_program_is_the_plain_one = test_programs.test_a_gated_program_is_the_plain_one

USUAL = "calibrated at the site, batch 500000000 of the autumn series"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A client, in place of the classic session that the other tests share."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a client cannot change what the server begins with
        session = builder.getOrCreate()
    yield session
    session.stop()


def costly(gated: DataFrame) -> DataFrame:
    """What two cores cannot do for 50,000 readings a second."""
    parsed = (
        gated.withColumn("reading", sf.from_json("payload", "value DOUBLE, note STRING"))
        .withColumn("errors", sf.levenshtein("reading.note", sf.lit(USUAL)))
        .withWatermark("_arrival", "1 second")
    )
    return parsed.groupBy(sf.window("_arrival", "1 second"), "key").agg(
        pf.avg("errors"), pf.count("*").alias("n"), pf.sic()
    )


def read(query: Any) -> int:
    """How many rows a query has read from its source."""
    return sum(progress.numInputRows for progress in query.recentProgress)


def test_the_session_is_one_of_connect(spark: SparkSession) -> None:
    assert type(spark).__module__.startswith("pyspark.sql.connect")


def test_a_gate_sheds_under_overload_and_the_ledger_is_that_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Site(spark, interval="500ms", latency="2s", directory=tmp_path / "site") as site:
        raw = replay(spark, generator="readings", rate=50_000, keys=5)
        results = costly(raw.transform(site.gate, query="readings"))
        writer = results.writeStream.format("memory").queryName("overloaded")
        query = writer.trigger(processingTime="500 milliseconds").start()
        wait_until(lambda: query.exception() or site.report().queries)
        wait_until(lambda: query.exception() or site.report()["readings"].shed > 20_000)
        shed_from = "SELECT * FROM overloaded WHERE sic < 1"
        wait_until(lambda: query.exception() or spark.sql(shed_from).collect())
        query.stop()
        assert query.exception() is None
        report = site.report()["readings"]
        assert report.latency_ms.measured
        assert 0 < report.sic < 1
        arrived, admitted, shed = site.ledger.total()
        assert arrived == admitted + shed == read(query)
        assert site.ledger.balanced
        assert (report.arrived, report.shed) == (arrived, shed)
    versions = [entry.version for entry in site.ledger]
    assert len(set(versions)) == len(versions), "each batch has a plan of its own"


def test_two_gates_two_queries_and_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folders = [write_batches(tmp_path / n, [{"k": ["a", "b"] * 50}] * 4) for n in "xy"]
    with Site(spark, latency="10 minutes", directory=tmp_path / "site") as site:
        x, y = (
            file_stream(spark, folder).transform(site.gate, query="both", source=name)
            for folder, name in zip(folders, "xy", strict=True)
        )
        single = file_stream(spark, folders[0]).transform(site.gate, query="one", strata="k")

        def started(frame: DataFrame, name: str) -> Any:
            writer = frame.writeStream.format("noop").queryName(name)
            checkpoint = str(tmp_path / f"checkpoint-{name}")
            return writer.option("checkpointLocation", checkpoint).start()

        both, one = started(x.union(y), "both"), started(single, "one")
        both.processAllAvailable()
        one.processAllAvailable()
        one.stop()
        assert site.ledger.total("both") == (800, 800, 0)
        assert site.ledger.total("one") == (400, 400, 0)
        assert {(e.gate, e.arrived) for e in site.ledger if e.job == "both" and e.batch == 0} == {
            ("gate-0", 100),
            ("gate-1", 100),
        }
        write_batches(tmp_path / "more", [{"k": ["c"] * 10}])
        (tmp_path / "more" / "000.parquet").rename(tmp_path / "x" / "004.parquet")
        again = started(single, "one")
        again.processAllAvailable()
        assert site.ledger.total("one") == (410, 410, 0)
        assert site.ledger.batches("one") == {0, 1, 2, 3, 4}
        assert site.ledger.balanced
        assert {query.id for query in site.report().queries} == {"both", "one"}
    assert not both.isActive
    assert not again.isActive


def test_a_client_that_falls_silent_stops_no_query_and_loses_no_tuple(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site(spark, interval="200ms", latency="1 minute") as site:
        raw = replay(spark, generator="readings", rate=1000, keys=5)
        gated = raw.transform(site.gate, query="readings")
        writer = gated.writeStream.format("noop").trigger(processingTime="200 milliseconds")
        query: Any = writer.start()
        wait_until(lambda: query.exception() or len(list(site.ledger)) >= 3)
        silent, speaks = threading.Event(), threading.Event()
        plan = site._loop.plan

        def slow(*asked: Any) -> bytes:
            silent.set()
            assert speaks.wait(120)
            return plan(*asked)

        monkeypatch.setattr(site._loop, "plan", slow)
        assert silent.wait(60)
        before = query.lastProgress["batchId"]
        wait_until(lambda: query.exception() or query.lastProgress["batchId"] >= before + 6)
        monkeypatch.undo()
        speaks.set()
        heard = len(list(site.ledger))
        wait_until(lambda: query.exception() or len(list(site.ledger)) >= heard + 3)
        query.stop()
        assert query.exception() is None
        assert site.ledger.total() == (read(query), read(query), 0)
        assert site.ledger.balanced
        versions = [entry.version or 0 for entry in sorted(site.ledger, key=lambda e: e.batch)]
        assert versions == sorted(versions)
        assert len(versions) - len(set(versions)) >= 5, "silent batches had the plan before"


def test_the_benchmark_runs_and_the_ledger_is_that_of_the_source(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "INTERVAL_SECONDS", harness.INTERVAL_SECONDS)  # it sets both
    monkeypatch.setattr(harness, "TRIGGER", harness.TRIGGER)
    spec = connect_job.ConnectSpec("connect", 20_000, 1.0, 2.0, 0.75, 0.25)
    told = connect_job.run(spark, spec)
    assert told["balanced"]
    assert told["arrived"] == told["admitted"] + told["shed"] == told["source_tuples"]
    assert told["plain"]
    assert told["batches"]


def test_what_needs_a_classic_session_is_refused_with_the_reason(spark: SparkSession) -> None:
    with Site(spark) as site:
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        gated = stream.transform(site.gate, query="q", id="value")
        with pytest.raises(PenstockError, match=r"site\.guard needs a classic session.*accumul"):
            site.guard(gated, len, key="value", wait="1s")
        with pytest.raises(PenstockError, match=r"site\.start needs a classic session.*start\(\)"):
            site.start(gated.writeStream.format("noop"))


def test_a_gate_of_a_site_that_has_stopped_fails_with_the_reason(spark: SparkSession) -> None:
    site = Site(spark)
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    gated = stream.transform(site.gate, query="q", id="value")
    site.stop()
    query = gated.writeStream.format("noop").start()
    wait_until(lambda: query.exception() is not None)
    assert "has stopped: make another site" in str(query.exception())
