"""Compares what a result's rows say to be complete with what was really kept of them.

A site controls a job whose stream bursts for three seconds in eight, so that rates change within
every window of five seconds. Rows are windows and keys. What arrived of each is known by the
replayed stream's schedule.
"""

from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.lab.bench import harness as h
from penstock.sources.schedule import SECOND, Integers, Profile, Schedule

KEYS = 100
WINDOW_SECONDS = 5
CALM_SECONDS, BURST_SECONDS = 5.0, 3.0
FIRST_BURST_SECONDS = 20.0
BURSTS = ((3_000.0, 8.0), (300.0, 100.0))
"""Tuples a second in the calm, and how many times as many come in a burst."""
MOST_APART = 0.01
ROWS_MEANT = 1000


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares them in bursts of eight and of a hundred times what comes in the calm."""
    found = {f"{burst:g}": _compared(spark, calm, burst, seconds) for calm, burst in BURSTS}
    enough = seconds >= h.MEANINGFUL_SECONDS
    return {
        "bursts": found,
        "holds": {
            f"bursts of {burst}: {what}": bool(holds)
            for burst, figures in found.items()
            for what, holds in {
                "rows are right on average": abs(figures["mean_difference"]) < MOST_APART,
                "no row says 1 where something was shed": figures["whole_though_shed"] == 0,
                "at least 1,000 rows": figures["rows"] >= ROWS_MEANT or not enough,
            }.items()
        },
    }


def _compared(spark: SparkSession, calm: float, burst: float, seconds: float) -> dict[str, Any]:
    profile = _profile(burst, seconds)
    steps = [{"at": at, "factor": factor} for at, factor in profile]
    with h.gated_site(spark) as site:
        gated = site.gate(h.readings(spark, calm, profile=steps), query="q", id="_offset")
        rows = _rows(gated).writeStream.format("memory")
        query = h.run_for(
            lambda folder: site.start(
                rows.option("checkpointLocation", folder + "/c"), name="row_sic"
            ),
            seconds,
            say=f"bursts of {burst:g}",
        )
    told = h.batches_of(query)
    start, stop = round(h.stream_start(told[0]) * SECOND), h.tuples_of(told[-1])[1]
    arrivals = Schedule(start, calm, profile).arrival_of(np.arange(stop))
    columns = ("unix_seconds(window.start) AS start", "key", "sic", "kept", "stood_for")
    return _figures(spark.table("row_sic").selectExpr(*columns).toPandas(), arrivals)


def _profile(burst: float, seconds: float) -> Profile:
    cycle = CALM_SECONDS + BURST_SECONDS
    begins = np.arange(FIRST_BURST_SECONDS, 2 * seconds + h.MEANINGFUL_SECONDS, cycle).tolist()
    return tuple(step for at in begins for step in ((at, burst), (at + BURST_SECONDS, 1.0)))


def _rows(gated: DataFrame) -> DataFrame:
    numbered = h.matched(gated).withColumn("key", sf.col("_offset") % KEYS)
    window = sf.window("_arrival", f"{WINDOW_SECONDS} seconds")
    return (
        numbered.withWatermark("_arrival", "0 seconds")
        .groupBy(window, "key")
        .agg(
            pf.sic(),
            sf.count("*").alias("kept"),
            sf.sum("_weight").alias("stood_for"),
            sf.max("distance"),
        )
    )


def _figures(rows: pd.DataFrame, arrivals: Integers) -> dict[str, Any]:
    if rows.empty:  # of a run that is shorter than a window
        return {"rows": 0, "mean_difference": 0.0, "whole_though_shed": 0}
    places = arrivals // (WINDOW_SECONDS * SECOND)
    first = int(places.min())
    came = np.zeros((int(places.max()) - first + 1, KEYS))
    np.add.at(came, (places - first, np.arange(places.size) % KEYS), 1)
    window = (rows["start"] // WINDOW_SECONDS - first).to_numpy()
    truth = rows["kept"] / came[window, rows["key"]]
    difference, shed = rows["sic"] - truth, truth < 1.0
    by_window = difference.groupby(window).mean()
    return {
        "rows": len(rows),
        "rows_shed_from": int(shed.sum()),
        "tuples_a_row": float(came[window, rows["key"]].mean()),
        "kept": float(truth.mean()),
        "mean_difference": float(difference.mean()),
        "mean_distance": float(difference.abs().mean()),
        "mean_distance_by_weights": float((rows["kept"] / rows["stood_for"] - truth).abs().mean()),
        "furthest_window": float(by_window.abs().max()),
        "by_window": by_window.tolist(),
        "whole_though_shed": int((rows["sic"][shed] >= 1.0).sum()),
    }
