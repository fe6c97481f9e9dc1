"""Latency that is measured, what waits at the sources, and read limits that hold a query back."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.errors import PenstockError
from penstock.sources.replay import replay
from penstock.spark.gate.arrival_metrics import RANKS, ArrivalSample, arrivals_of
from penstock.spark.progress import Progress, weighted_quantiles
from penstock.spark.query import BatchLatency
from penstock.spark.site import Site
from penstock.spark.site_report import LatencyReport, QueryReport
from tests.spark.support import file_stream, pa, pq, wait_until, write_batches


class Half(Controller):
    """Sheds every second tuple, whatever happens."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        return state, replace(plan, rates=np.full(len(plan.strata), 0.5), default_rate=0.5)


class Heard(Controller):
    """Keeps what it is told of the batches that start."""

    backlogs: list[tuple[float | None, bool]]

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        if report.starting is not None:
            self.backlogs.append((report.starting.backlog, report.starting.read_limited))
        return super().step(state, report)


# --- from what is observed to what is told -------------------------------------------------------


def test_ages_are_quantiles_weighted_by_the_tuples_of_their_batches() -> None:
    ranks = np.array(RANKS)
    quick = BatchLatency(1.0, 0.5, 9_000, (0.5 + ranks).astype(np.float32), 9_000)
    slow = BatchLatency(1.0, 0.5, 1_000, (4.0 + ranks).astype(np.float32), 1_000)
    told = LatencyReport.of([quick, slow])
    assert told.measured
    assert told.p50 == pytest.approx(500 + 1000 * 5 / 9, rel=0.03)
    assert told.p95 == pytest.approx(4500, rel=0.03)
    assert told.p99 == pytest.approx(4900, rel=0.03)


def test_without_arrivals_latency_is_modelled_and_says_so() -> None:
    told = LatencyReport.of([BatchLatency(1.0, 0.5, 1000)])
    assert not told.measured
    assert told.p50 == pytest.approx(1000, rel=0.03)
    assert LatencyReport.of([]) == LatencyReport(0.0, 0.0, 0.0, measured=False)


def test_of_two_gates_those_that_tell_arrivals_are_measured() -> None:
    known = BatchLatency(1.0, 0.5, 3000, np.full(len(RANKS), 7.0, dtype=np.float32), 1000)
    assert LatencyReport.of([known, BatchLatency(1.0, 0.5, 500)]).p50 == 7000


def test_a_clock_that_is_ahead_makes_nobody_younger_than_new() -> None:
    sample = ArrivalSample(np.array([90.0, 99.0, 130.0]), 3)
    assert sample.ages(100.0).tolist() == [10.0, 1.0, 0.0]


def test_a_batch_of_which_none_was_drawn_is_as_old_as_its_oldest() -> None:
    told = arrivals_of({"arrivals": None, "oldest": 90_000}, 3)
    assert told is not None
    assert (told.moments.tolist(), told.admitted) == ([90.0], 3)
    assert arrivals_of({"arrivals": None, "oldest": None}, 3) is None, "all arrivals are null"
    assert arrivals_of({}, 3) is None, "a stream that does not tell"


# --- against the truth ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("controller", "limit"),
    [(Controller, None), (Half, None), (Controller, 1000)],
    ids=["idle", "shedding", "read limit"],
)
def test_the_latency_told_is_that_of_the_rows_in_the_sink(
    spark: SparkSession, controller: type[Controller], limit: int | None
) -> None:
    arrivals: dict[int, list[int]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        arrivals[batch] = [row[0] for row in frame.select(sf.unix_millis("_arrival")).collect()]

    stream = replay(spark, generator="readings", rate=4000, maxRowsPerTrigger=limit)
    with Site(spark, interval="500ms", latency="1h", controller=controller) as site:
        gated = site.gate(stream, query="q")
        query = site.start(gated.writeStream.foreachBatch(keep))
        wait_until(lambda: query.exception() or len(ran(query)) >= 8)
        query.stop()
        told = site.report()["q"].latency_ms
    ages = [
        np.maximum(batch.ended * 1000 - np.array(arrivals[batch.batch]), 0) for batch in ran(query)
    ]
    together = np.concatenate(ages)
    truth = weighted_quantiles(together, np.ones(together.size), (0.5, 0.95, 0.99))
    assert told.measured
    assert [told.p50, told.p95, told.p99] == pytest.approx(truth, rel=0.1)


def ran(query: StreamingQuery) -> list[Progress]:
    told = [Progress.of(progress.json) for progress in query.recentProgress]
    return [progress for progress in told if progress.ran]


def test_an_arrival_is_known_measured_or_modelled(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    like_kafka = stream.selectExpr(
        "'rides' topic",
        "0 partition",
        "value offset",
        "timestamp(now() - interval 60 seconds) timestamp",
    )
    given = stream.withColumn("at", sf.expr("now() - interval 5 seconds"))
    with Site(spark, interval="200ms", latency="1h") as site:
        queries = {
            "unknown": site.gate(stream, query="unknown", id="value"),
            "kafka": site.gate(like_kafka, query="kafka"),
            "given": site.gate(given, query="given", id="value", arrival="at"),
            "null": site.gate(
                stream, query="null", id="value", arrival=sf.lit(None).cast("timestamp")
            ),
        }
        for gated in queries.values():
            site.start(gated.writeStream.format("noop"))
        wait_until(lambda: all(r.batches >= 2 for r in reports(site, queries)))
        told = {report.id: report.latency_ms for report in site.report().queries}
    assert [name for name, latency in told.items() if latency.measured] == ["given", "kafka"]
    assert 5_000 <= told["given"].p50 < 60_000 <= told["kafka"].p50


def test_of_files_the_arrival_is_when_they_were_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_batches(tmp_path / "in", [{"at": [1, 2]}, {"at": [3]}])
    an_hour_ago = time.time() - 3600
    for file in Path(folder).iterdir():
        os.utime(file, (an_hour_ago, an_hour_ago))
    with Site(spark, interval="200ms", latency="1h") as site:
        gated = site.gate(file_stream(spark, folder), query="files")
        assert "_metadata" not in gated.columns
        site.start(gated.writeStream.format("noop")).processAllAvailable()
        told = site.report()["files"].latency_ms
    assert told.measured
    assert 3_600_000 <= told.p50 < 3_700_000


def reports(site: Site, names: Iterable[str]) -> list[QueryReport]:
    told = {report.id: report for report in site.report().queries}
    return [told.get(name, QueryReport(name)) for name in names]


def test_an_arrival_that_cannot_be(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with Site(spark) as site:
        with pytest.raises(PenstockError, match=r"arrival must be a timestamp, .*got a bigint"):
            site.gate(stream, query="q", arrival="value")
        with pytest.raises(PenstockError, match=r"arrival: the stream has no column 'timestam'"):
            site.gate(stream, query="q", arrival="timestam")
        with pytest.raises(PenstockError, match=r"arrival: .*nowhere"):
            site.gate(stream, query="q", arrival=sf.col("nowhere"))


# --- backlog and read limits ---------------------------------------------------------------------


def test_a_limit_below_what_arrives_is_named_with_two_figures(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    stream = replay(spark, generator="readings", rate=4000, maxRowsPerTrigger=1000)
    Heard.backlogs = []
    with (
        caplog.at_level(logging.WARNING, "penstock"),
        Site(spark, interval="1s", latency="3s", controller=Heard) as site,
    ):
        site.start(site.gate(stream, query="q").writeStream.format("noop"))
        wait_until(lambda: site.report().queries and site.report()["q"].held_back_by)
        told = site.report()["q"]
    assert told.held_back_by == "maxRowsPerTrigger"
    assert told.backlog is not None
    assert told.backlog > 3000
    assert told.arriving_per_second == pytest.approx(4000, rel=0.2)
    assert told.let_in_per_second is not None
    assert told.let_in_per_second < 2500
    (warning,) = [text for text in caplog.messages if "holds it back" in text]
    assert warning.startswith("q: maxRowsPerTrigger holds it back, and not the machine")
    assert Heard.backlogs[-1][1]
    assert Heard.backlogs[-1][0] is not None


def test_a_limit_above_what_arrives_is_not_named(spark: SparkSession) -> None:
    stream = replay(spark, generator="readings", rate=400, maxRowsPerTrigger=100_000)
    with Site(spark, interval="500ms", latency="1h") as site:
        site.start(site.gate(stream, query="q").writeStream.format("noop"))
        wait_until(lambda: site.report().queries and site.report()["q"].batches >= 6)
        told = site.report()["q"]
    assert told.held_back_by is None
    assert (told.let_in_per_second, told.arriving_per_second) == (None, None)
    assert told.backlog is not None
    assert told.backlog < 400


@contextmanager
def files_that_come(folder: Path, first: int, a_second: float) -> Iterator[str]:
    """A folder with some files of 50 rows, to which others are added."""
    folder.mkdir()
    done = threading.Event()
    table = pa.table({"n": range(50)})

    def add(number: int) -> None:
        pq.write_table(table, folder / f".{number}")
        (folder / f".{number}").rename(folder / f"{number:05d}.parquet")

    def keep_adding() -> None:
        number = first
        while not done.wait(1 / a_second):
            add(number)
            number += 1

    for number in range(first):
        add(number)
    thread = threading.Thread(target=keep_adding)
    thread.start()
    try:
        yield str(folder)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(("most", "held"), [(1, "maxFilesPerTrigger"), (500, None)])
def test_files_that_wait(spark: SparkSession, tmp_path: Path, most: int, held: str | None) -> None:
    with (
        files_that_come(tmp_path / "in", 20, 4) as folder,
        Site(spark, interval="1s", latency="1h") as site,
    ):
        source = spark.readStream.schema("n long").option("maxFilesPerTrigger", most)
        stream = source.parquet(folder)
        arrived = stream.withColumn("at", sf.col("_metadata.file_modification_time"))
        gated = site.gate(arrived, query="q", arrival="at")
        site.start(gated.writeStream.format("noop"))
        began = time.monotonic()
        wait_until(lambda: site.report().queries and site.report()["q"].batches >= 6)
        if held is not None:
            wait_until(lambda: site.report()["q"].held_back_by)
        told = site.report()["q"]
        took = time.monotonic() - began
    assert told.held_back_by == held
    assert told.latency_ms.measured
    if held is None:
        assert told.backlog == 0
    else:
        assert told.backlog is not None
        assert told.backlog % 50 == 0
        assert told.backlog > 0
        assert told.latency_ms.p95 <= (took + 2) * 1000
