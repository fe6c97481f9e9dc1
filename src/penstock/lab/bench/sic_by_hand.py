"""Compares a query's SIC at its result with a count by hand, of a job that loses in every way.

Two sources burst at times of their own, and a site sheds from both. Behind its gates a guard fails
on every fifth tuple and skips it, every tenth comes too late for the watermark, and
``process_windows`` keeps a half of the others. What arrived is counted by the sources' offsets,
and what reached the result by the result's rows.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.lab.bench import harness as h
from penstock.lab.bench.row_sic import Bursts
from penstock.spark.site import Site
from penstock.spark.window_processor import process_windows

SOURCES = {"a": Bursts(1_000, 10), "b": Bursts(500, 20, calm_seconds=8.0, first=26.0)}
FAILS_EVERY, LATE_EVERY = 5, 10
LATE_SECONDS = 40
GROUPS = 5
KEEP = 0.5
END_SECONDS = 20.0
"""At last nearly nothing comes, so that all windows end before the count."""
END_FACTOR = 0.01
ROUNDS_OF_WORK = tuple(range(2_000))
"""Of work for each tuple: some 100 µs, so that bursts are more than two cores can do."""
MOST_APART = 0.01


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Runs the job, and compares what the site says with what is in the result."""
    with h.gated_site(spark, latency="3s", stw="10 minutes") as site:
        guarded = site.guard(
            _both(spark, site, seconds),
            _worked,
            key="source",
            wait="1h",
            inputs=["_offset"],
            on_error="skip",
        )
        rows = _windows(guarded).writeStream.format("memory")
        query = h.run_for(
            lambda folder: site.start(
                rows.option("checkpointLocation", folder + "/c"), name="result_sic"
            ),
            seconds + END_SECONDS * min(seconds / h.MEANINGFUL_SECONDS, 1.0),
            say="the SIC at the result",
        )
        report = site.report()["q"]
        balanced = site.ledger.balanced
    found: pd.DataFrame = spark.table("result_sic").toPandas()
    ends = [told.end["offset"] for told in h.batches_of(query)[-1].sources]
    arrived = dict(zip(SOURCES, ends, strict=True))
    reached = {source: float(found[source].sum()) for source in SOURCES}
    shares = {source: reached[source] / max(arrived[source], 1) for source in SOURCES}
    by_hand = sum(shares.values()) / len(SOURCES)
    told = report.sic_now or 0.0
    return {
        "arrived": arrived,
        "reached_the_result": reached,
        "shares": shares,
        "sic_by_hand": by_hand,
        "sic_told": told,
        "sic_at_gate": report.gate_sic,
        "admitted": report.admitted,
        "lost": {
            "in guards": report.lost_in_guards,
            "late": report.lost_late,
            "in windows": report.lost_in_windows,
        },
        "holds": {
            "the SIC at the result is right to 0.01": abs(told - by_hand) <= MOST_APART
            or seconds < h.MEANINGFUL_SECONDS,
            "the ledger is balanced": balanced,
        },
    }


def _both(spark: SparkSession, site: Site, seconds: float) -> DataFrame:
    gated = []
    for source, bursts in SOURCES.items():
        steps = [step for step in bursts.profile(seconds) if step[0] < seconds]
        profile = [{"at": at, "factor": factor} for at, factor in [*steps, (seconds, END_FACTOR)]]
        raw = h.readings(spark, bursts.calm, profile=profile)
        tuples = site.gate(raw, query="q", source=source, id="_offset")
        gated.append(tuples.withColumn("source", sf.lit(source)))
    return gated[0].union(gated[1])


def _worked(row: Mapping[str, Any]) -> float:
    total = 1.0
    for number in ROUNDS_OF_WORK:
        total += number * 0.5
    return total / float(row["_offset"] % FAILS_EVERY != 0)


def _windows(stream: DataFrame) -> DataFrame:
    late = sf.when(sf.col("_offset") % LATE_EVERY == 1, LATE_SECONDS).otherwise(0)
    seconds = sf.unix_micros("_arrival") / 1_000_000 - late
    timed = stream.select(
        "source",
        (sf.col("_offset") % GROUPS).alias("group_number"),
        seconds.cast("timestamp").alias("ts"),
        "_weight",
        "_sic",
    )
    return process_windows(
        timed.withWatermark("ts", "1 second"),
        _kept,
        ", ".join(f"{source} double" for source in SOURCES),
        time="ts",
        groups="group_number",
        window="5s",
        keep=KEEP,
    )


def _kept(rows: pd.DataFrame) -> dict[str, float]:
    """Counts what was kept of each source in a group of a window."""
    return {source: float((rows["source"] == source).sum()) for source in SOURCES}
