"""Law 3 for rows that bear no mark of shedding: none says 1 whose tuples a batch has shed whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as sf

from penstock import Site
from penstock import functions as pf
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.spark.engine import Engine
from penstock.spark.progress import Progress
from penstock.spark.whole_rows import WholeRows
from tests.spark.support import file_stream, write_batches

WINDOW_SECONDS = 10
BATCHES = [list(range(5 * n, 5 * n + 5)) for n in range(14)]
"""The seconds of each batch's tuples: two batches fill a window."""


def progress(batch: int, newest: float | None = None, watermark: float = 0.0) -> Progress:
    return Progress("q", "r", None, batch, 0.0, 0.1, 0.0, 0.0, True, 1, {}, (), newest, watermark)


def test_rows_may_be_whole_while_nothing_is_shed() -> None:
    rows = WholeRows(span=10.0)
    for batch in range(3):
        rows.plan(batch, sheds=False)
        assert rows.may_be_whole
        rows.tell(progress(batch, newest=batch), shed=False)


def test_a_batch_that_sheds_counts_until_windows_that_it_had_tuples_of_are_over() -> None:
    rows = WholeRows(span=10.0)
    rows.plan(0, sheds=True)
    rows.plan(0, sheds=True)  # its second gate
    rows.tell(progress(0, newest=4.0), shed=True)
    rows.plan(1, sheds=False)
    assert not rows.may_be_whole
    rows.tell(progress(1, watermark=3.0), shed=False)  # nothing new came
    rows.tell(progress(2, newest=9.0, watermark=4.0), shed=False)
    rows.tell(progress(3, newest=30.0, watermark=19.0), shed=False)
    assert not rows.may_be_whole  # a window from 9 to 19 is told next
    rows.tell(progress(4, newest=31.0, watermark=19.1), shed=False)
    assert rows.may_be_whole


def test_a_plan_that_sheds_none_of_what_came_leaves_rows_whole() -> None:
    rows = WholeRows(span=10.0)
    rows.plan(0, sheds=True)
    rows.tell(progress(0, newest=4.0), shed=False)
    assert rows.may_be_whole


def test_what_a_guard_sheds_counts_though_no_plan_says_so() -> None:
    rows = WholeRows(span=10.0)
    rows.plan(0, sheds=False)
    rows.tell(progress(0, newest=4.0), shed=True)
    assert not rows.may_be_whole


def test_rows_without_an_end_are_never_whole_again() -> None:
    rows = WholeRows(span=inf)
    rows.plan(0, sheds=True)
    for batch in range(5):
        rows.tell(progress(batch, newest=1e9, watermark=1e9), shed=batch == 0)
    assert not rows.may_be_whole


def test_what_batches_shed_that_nobody_remembers_counts_as_shed() -> None:
    rows = WholeRows(span=10.0)
    rows.plan(7, sheds=False)
    assert not rows.may_be_whole
    known = WholeRows(span=10.0)
    for batch in range(8):
        known.plan(batch, sheds=False)
    going_on = replace(known, span=20.0)  # as after a restart
    going_on.plan(8, sheds=False)
    assert going_on.may_be_whole


def test_single_tuples_bear_their_own_marks() -> None:
    rows = WholeRows(span=0.0)
    rows.plan(0, sheds=True)
    assert rows.may_be_whole


# --- on Spark -------------------------------------------------------------------------------------


def windowed(frame: DataFrame, *durations: str) -> GroupedData:
    timed = frame.withColumn("ts", sf.timestamp_seconds("at")).withWatermark("ts", "0 seconds")
    return timed.groupBy(sf.window("ts", *durations), "k")


def test_how_long_a_row_reaches_is_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    engine = Engine(spark)
    folder = write_batches(tmp_path / "in", [{"at": [1], "k": [1]}])
    stream = file_stream(spark, folder)
    tumbling = windowed(stream, "10 seconds").count()
    timed = stream.select("k", sf.timestamp_seconds("at").alias("ts"))
    marked = timed.withWatermark("ts", "1 second")
    wanted: Mapping[str, tuple[DataFrame, float]] = {
        "tuples": (marked.where("k > 0"), 0.0),
        "tumbling": (tumbling, 10.0),
        "sliding": (windowed(stream, "1 minute", "10 seconds").count(), 60.0),
        "uneven": (windowed(stream, "5 seconds", "2 seconds").count(), 5.0),
        "windows of windows": (tumbling.groupBy(sf.window("window", "1 minute")).count(), 70.0),
        "by the time itself": (marked.groupBy("ts").count(), inf),
        "without an end": (stream.groupBy("k").count(), inf),
        "sessions": (marked.groupBy(sf.session_window("ts", "5 seconds"), "k").count(), inf),
        "joined": (marked.join(timed.withWatermark("ts", "1 second"), ["k", "ts"]), inf),
        "two watermarks": (
            marked.union(timed.withWatermark("ts", "2 seconds"))
            .groupBy(sf.window("ts", "5 seconds"))
            .count(),
            inf,
        ),
    }
    found = {name: engine.row_seconds(frame) for name, (frame, _) in wanted.items()}
    assert found == {name: seconds for name, (_, seconds) in wanted.items()}


@dataclass(frozen=True)
class ShedsOneBatchWhole(Controller):
    """Sheds all of the batch whose plan has this version, and nothing else."""

    version: int = 0

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        rate = float(plan.version != self.version)
        return state, replace(plan, rates=np.full(plan.rates.size, rate), default_rate=rate)


def said(spark: SparkSession, folder: Path, batch: int) -> dict[int, tuple[float, int]]:
    """By the begin of a window: what its row says, and how many tuples it has."""
    path = write_batches(folder, [{"at": seconds, "k": [1] * 5} for seconds in BATCHES])
    with Site(
        spark,
        interval="100ms",
        latency="60s",
        rehearse=False,
        controller=lambda settings: ShedsOneBatchWhole(settings, version=batch + 1),
    ) as site:
        gated = site.gate(file_stream(spark, path), query="q", source="s", id="n")
        rows = windowed(gated, f"{WINDOW_SECONDS} seconds").agg(
            pf.sic(), sf.count("*").alias("kept")
        )
        name = f"whole_rows_{batch}"
        query = site.start(rows.writeStream.format("memory"), name=name)
        query.processAllAvailable()
    columns = "unix_seconds(window.start) AS start", "sic", "kept"
    rows_of: list[Any] = spark.table(name).selectExpr(*columns).collect()
    return {row.start: (row.sic, row.kept) for row in rows_of}


@pytest.mark.parametrize("batch", [4, 5], ids=["its first half", "its second half"])
def test_law_3_a_row_that_lost_a_batch_whole_does_not_say_1(
    spark: SparkSession, tmp_path: Path, batch: int
) -> None:
    """Whether the batch that is gone came before the others of its row or after them."""
    rows = said(spark, tmp_path / "in", batch)
    assert rows[0] == (1.0, 10)  # it was told before
    assert rows[20] == (np.nextafter(1.0, 0.0), 5)
    assert rows[50] == (1.0, 10)  # it began when all that was shed was over


def test_law_3_fails_where_rows_only_have_marks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WholeRows, "may_be_whole", True)
    assert said(spark, tmp_path / "in", 4)[20] == (1.0, 5)


def test_rows_are_whole_where_batches_without_data_tell_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark runs such a batch for what the watermark has ended, and may leave the gate out."""
    folder = tmp_path / "in"
    with Site(spark, interval="100ms", latency="60s", rehearse=False) as site:
        write_batches(folder, [{"at": [0], "k": [1]}])
        gated = site.gate(file_stream(spark, str(folder)), query="q", source="s", id="n")
        rows = windowed(gated, f"{WINDOW_SECONDS} seconds").agg(pf.sic())
        query = site.start(rows.writeStream.format("memory"), name="without_data")
        query.processAllAvailable()
        for moment in (15, 35, 55):
            written = write_batches(tmp_path / str(moment), [{"at": [moment], "k": [1]}])
            Path(written, "000.parquet").rename(folder / f"{moment:03d}.parquet")
            query.processAllAvailable()
        batches = query.lastProgress
    assert batches is not None
    assert batches.batchId > 4
    assert [row.sic for row in spark.table("without_data").collect()] == [1.0] * 3
