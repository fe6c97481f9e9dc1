"""SIC at a query's result: sources that fall silent, and what is lost behind the gate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import Site, process_windows
from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from tests.spark.support import file_stream, is_admitted, wait_until, write_batches

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")
SEND_SECONDS = 0.2


class Sender:
    """Writes a file of readings whenever it is asked; a stream reads the files as they come."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._folder, self._numbers, self._sent = folder, count(), 0.0
        folder.mkdir()
        self.stream = spark.readStream.schema("n bigint, s string").parquet(str(folder))

    def send(self, sources: str, each: int = 10) -> None:
        number = next(self._numbers)
        size = each * len(sources)
        table = pa.table(
            {"n": range(number * size, number * size + size), "s": list(sources) * each}
        )
        hidden = self._folder / f".{number}"  # Spark does not read such a file
        pq.write_table(table, hidden)
        hidden.rename(self._folder / f"{number:05d}.parquet")
        self._sent = time.monotonic()

    def until(self, true: Callable[[], bool], sources: str, what: str) -> None:
        """Sends on and on until something holds."""

        def holds() -> bool:
            if time.monotonic() > self._sent + SEND_SECONDS:
                self.send(sources)
            return true()

        wait_until(holds, 60, what)


def test_a_source_that_stops_lowers_the_sic_by_its_share_until_it_is_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Where it is one of a column's, and where each source has a gate; no other query notices."""
    sender = Sender(spark, tmp_path / "in")
    with Site(spark, interval="100ms", latency="60s", stw="2s") as site:
        column = site.gate(sender.stream, query="column", source=sf.col("s"), sources=3, id="n")
        gates = [
            site.gate(sender.stream.where(sf.col("s") == name), query="gates", source=name, id="n")
            for name in "abc"
        ]
        seen = site.gate(sender.stream, query="seen", source=sf.col("s"), id="n")
        for frame in (column, gates[0].union(gates[1]).union(gates[2]), seen):
            site.start(frame.writeStream.format("noop"))
        declared = ("column", "gates")

        def are(sic: float) -> bool:
            now = site.sic()
            assert now.get("seen", 1.0) == 1.0
            return all(now.get(query) == pytest.approx(sic) for query in declared)

        sender.until(lambda: are(1.0), "abc", "three sources")
        sender.until(lambda: are(2 / 3), "ab", "two thirds")
        assert site.report()["gates"].sic_now == pytest.approx(2 / 3)
        sender.until(lambda: are(1.0), "abc", "the third to be back")
        wait_until(lambda: are(0.0), 60, "all of them to be silent")


@dataclass(frozen=True)
class HalfOfAll(Controller):
    """Admits half of whatever comes."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        return state, replace(plan, rates=np.full(plan.rates.size, 0.5), default_rate=0.5)


def four_of_five(row: Mapping[str, Any]) -> float:
    return 1.0 / float(row["n"] % 5 != 0)


def test_law_3_the_sic_at_the_result_is_what_a_count_by_hand_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The gate sheds, a guard skips, tuples come late, and windows keep a part of the rest."""
    rng = np.random.default_rng(3)
    moments = [
        [*rng.integers(60 * minute, 60 * minute + 60, 1000).tolist(), *[5] * 300 * (minute > 0)]
        for minute in range(6)
    ]
    closing = [9999] * 20  # the last window of those before ends with them
    folder = write_batches(tmp_path / "in", [{"at": some} for some in (*moments, closing)])
    with Site(
        spark, interval="100ms", latency="60s", stw="10 minutes", controller=HalfOfAll
    ) as site:
        gated = site.gate(file_stream(spark, folder), query="q", source="s", id="n")
        guarded = site.guard(gated, four_of_five, key="n", wait="1h", inputs=["n"], on_error="skip")
        timed = guarded.withColumn("ts", sf.timestamp_seconds("at"))
        windows = process_windows(
            timed.withWatermark("ts", "0 seconds"),
            lambda rows: {"n": float(len(rows))},
            "n double",
            time="ts",
            window="1m",
            keep=0.6,
        )
        query = site.start(windows.writeStream.format("memory"), name="by_hand")
        query.processAllAvailable()
        report = site.report()["q"]
        found: pd.DataFrame = spark.table("by_hand").toPandas()
    assert len(found) == 6
    kept, entered = int(found["kept"].sum()), int(found["arrived"].sum())
    assert report.arrived == 7520
    assert report.sic_now == pytest.approx(kept / report.arrived, abs=0.01)
    assert report.gate_sic == pytest.approx(0.5, abs=0.03)
    assert report.lost_in_guards == pytest.approx(report.admitted / 5, abs=60)
    late = report.admitted - report.lost_in_guards - entered  # or in the window that is still open
    assert 400 < late - len(closing) <= report.lost_late <= late
    assert report.lost_in_windows == pytest.approx(entered - kept, abs=30)
    lost = site.ledger.lost("by_hand")
    assert {name: round(tuples) for name, tuples in lost.items()} == {
        "guards": report.lost_in_guards,
        "late": report.lost_late,
        "windows": report.lost_in_windows,
    }


def test_only_the_source_whose_windows_are_thinned_loses_by_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of two sources of a query, one goes through ``process_windows`` and the other does not."""
    minutes = [[60 * minute + n % 60 for n in range(600)] for minute in range(4)]
    windowed, plain = (
        file_stream(spark, write_batches(tmp_path / name, [{"at": some} for some in batches]))
        for name, batches in (("a", [*minutes, [9999] * 20]), ("b", [list(range(3000))] * 4))
    )
    with Site(
        spark, interval="100ms", latency="60s", stw="10 minutes", controller=HalfOfAll
    ) as site:
        a = site.gate(windowed, query="q", source="a", id="n")
        timed = a.withColumn("ts", sf.timestamp_seconds("at")).withWatermark("ts", "0 seconds")
        windows = process_windows(
            timed,
            lambda rows: {"n": float(len(rows))},
            "n double",
            time="ts",
            window="1m",
            keep=0.25,
        )
        b = site.gate(plain, query="q", source="b", id="n").select(sf.lit(None).alias("kept"))
        result = windows.select("kept").union(b)
        query = site.start(result.writeStream.format("memory"), name="one_of_two")
        query.processAllAvailable()
        report = site.report()["q"]
        kept = sum(row.kept or 0 for row in spark.table("one_of_two").collect())
    admitted = sum(is_admitted(n, 0.5, "b") for n in range(12_000))
    assert kept > 0
    counted = (kept / 2420 + admitted / 12_000) / 2
    assert report.sic_now == pytest.approx(counted, abs=0.01)
