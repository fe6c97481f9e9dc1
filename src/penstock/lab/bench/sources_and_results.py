"""Watches the SIC of queries with several sources, and with several results.

One of a query's three sources stops for a while, beside another query. And a user with nine results
of one stream shares an overloaded site with a user who has one.
"""

import time
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.lab.bench import harness as h
from penstock.spark.site import Site

STW_SECONDS = 10.0
STOPS_AT, BACK_AT, ENDS_AT = 3.0, 6.0, 8.0
"""In STWs."""
RATE_OF_SOURCE = 1_000.0
NEAR = 0.01
MOST_STWS = 1.0
RESULTS = 9
ROWS_A_BATCH, STEPS = 6_000, 1_500
"""Of arithmetic for each tuple: together the results want some times what two cores can do."""
MOST_APART = 0.05
SAMPLE_SECONDS = 0.25

Samples = list[tuple[float, dict[str, float]]]


def run_silent(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Says how long it takes until the SIC shows that a source is gone, and that it is back."""
    stw = STW_SECONDS * min(max(seconds / h.MEANINGFUL_SECONDS, 0.08), 1.0)
    samples: Samples = []
    pause = [{"at": STOPS_AT * stw, "factor": 0.0}, {"at": BACK_AT * stw, "factor": 1.0}]
    with h.gated_site(spark, latency="1h", stw=stw) as site:
        streams = [h.readings(spark, RATE_OF_SOURCE + n) for n in range(2)]
        streams.append(h.readings(spark, RATE_OF_SOURCE, profile=pause))
        gated = [site.gate(each, query="three", source=f"s{n}") for n, each in enumerate(streams)]
        other = site.gate(h.readings(spark, RATE_OF_SOURCE + 2), query="other")
        site.start(other.writeStream.format("noop"), name="other")
        query = h.run_for(
            lambda folder: site.start(
                h.sink(gated[0].union(gated[1]).union(gated[2]), folder), name="three"
            ),
            ENDS_AT * stw,
            lambda: samples.append((time.time(), site.sic())),
            "three sources, of which one stops",
        )
    told = h.batches_of(query)[-1].sources[2]
    began = float(told.end["start"])
    stopped, back = began + STOPS_AT * stw, began + BACK_AT * stw
    down = _first(samples, stopped, 2 / 3)
    up = _first(samples, back, 1.0)
    silent = [sic for at, sic in samples if stopped + MOST_STWS * stw < at < back]
    within = [sic["three"] for sic in silent if "three" in sic]
    others = [sic["other"] for at, sic in samples if at > stopped and "other" in sic]
    return {
        "stw_seconds": stw,
        "two_thirds_after_stws": (down - stopped) / stw,
        "one_again_after_stws": (up - back) / stw,
        "sic_while_silent": [min(within, default=0.0), max(within, default=0.0)],
        "other_query": [min(others, default=0.0), max(others, default=0.0)],
        "holds": {
            "two thirds within an STW of the stop": down - stopped <= MOST_STWS * stw,
            "1 again within an STW": up - back <= stw,
            "the other query is not touched": min(others, default=0.0) == 1.0,
        },
    }


def _first(samples: Samples, since: float, sic: float) -> float:
    """Returns when the query first had this SIC, and infinity where it never had."""
    near = (at for at, told in samples if at > since and abs(told.get("three", 9.0) - sic) < NEAR)
    return next(near, float("inf"))


def run_results(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares the SIC of a user with nine results with that of a user with one."""
    many: list[float] = []
    single: list[float] = []
    whole = seconds >= h.MEANINGFUL_SECONDS
    results = RESULTS if whole else 2
    with Site(spark, interval=h.INTERVAL_SECONDS, latency="4s", stw=2 * STW_SECONDS) as site:
        nine = site.gate(_stream(spark), query="nine", id="value")
        one = site.gate(_stream(spark), query="one", id="value")
        for number in range(results):
            site.start(_worked(nine).writeStream.format("noop"), name=f"result {number}")

        def watch() -> None:
            sic = site.sic()
            if len(sic) == 2:
                many.append(sic["nine"])
                single.append(sic["one"])

        h.run_for(
            lambda folder: site.start(h.sink(_worked(one), folder), name="only"),
            seconds,
            watch,
            f"{results} results beside one",
        )
    late = slice(len(many) // 3, None)
    apart = np.abs(np.array(many[late]) - np.array(single[late]))
    means = float(np.mean(many[late] or [0.0])), float(np.mean(single[late] or [0.0]))
    return {
        "results": results,
        "sic": {"nine": means[0], "one": means[1]},
        "apart_at_a_time": float(apart.mean()) if apart.size else 0.0,
        "holds": {
            "the same SIC for both": abs(means[0] - means[1]) <= MOST_APART or not whole,
            "both are shed from": max(means) < 1.0 or not whole,
        },
    }


def _stream(spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format("rate-micro-batch")
    return reader.option("rowsPerBatch", ROWS_A_BATCH).option("numPartitions", h.CORES).load()


def _worked(frame: DataFrame) -> DataFrame:
    steps = f"aggregate(sequence(1, {STEPS}), double(value), (a, i) -> sqrt(a + i))"
    return frame.withColumn("x", sf.expr(steps)).where("x > 0").drop("value")
