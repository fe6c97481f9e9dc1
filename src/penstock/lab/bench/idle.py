"""Measures what the README's whole job costs while nothing is shed.

Four jobs have tuples in turns: the plain one; the same behind an open gate; with weighted
aggregates and SIC; and with an interval around the mean. All are old and warm when they are timed.
"""

from math import ceil
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock import functions as pf
from penstock.lab.bench import harness as h
from penstock.lab.bench.turns import Start, TurnPlan, in_turns
from penstock.spark.site import Site

ROWS = 100_000
"""The tuples of a batch: enough that a batch is made of tuples, not of planning."""
KEYS = 5
WARM_TURNS = 3
BATCHES_PER_TURN = 3
PARTS = 3
"""The turns that count are told in so many parts, whose ratios show the spread."""
USUAL_NOTE = "calibrated at the site, batch 500000000 of the autumn series"
LEAST = {"gate": 0.95, "weighted": 0.90, "bounds": 0.90}
"""The least share of the plain job's throughput that each has to have."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares the throughput of four jobs in turns within one run."""
    size = round(ROWS * min(seconds / h.MEANINGFUL_SECONDS, 1.0))  # a short run has small batches
    backlog = h.readings(spark, 10_000_000, maxRowsPerTrigger=size, keys=KEYS)
    can = h.throughput(_plain(backlog), seconds / 4, "calibration")
    interval = float(ceil(1.5 * size / can))
    meant = seconds >= h.MEANINGFUL_SECONDS
    turns = TurnPlan(
        count=max(round(seconds / 9), 1),
        warm=WARM_TURNS if meant else 0,
        seconds=BATCHES_PER_TURN * interval,
        pause=interval + 2.0,
        interval=interval,
    )
    with Site(spark, interval=interval, latency="1h") as site:
        took = in_turns(spark, _jobs(site, interval), size, turns, keys=KEYS)
    shares = {name: _share(took, name) for name in LEAST}
    return {
        "rows_a_batch": size,
        "interval_seconds": interval,
        "throughput_of_plain": shares,
        "spread": {name: _by_part(took, name) for name in LEAST},
        "turns": took,
        "holds": {
            f"{name}: at least {least} of the plain job's throughput": shares[name] >= least
            for name, least in LEAST.items()
        },
    }


def _share(took: dict[str, list[float]], name: str) -> float:
    """Divides throughputs by means, not medians, since some batches of a gate count strata."""
    return float(np.mean(took["plain"]) / np.mean(took[name])) if all(took.values()) else 0.0


def _by_part(took: dict[str, list[float]], name: str) -> list[float]:
    parts = {each: np.array_split(took[each], PARTS) for each in ("plain", name)}
    return [
        float(plain.mean() / other.mean())
        for plain, other in zip(parts["plain"], parts[name], strict=True)
        if plain.size and other.size
    ]


def _jobs(site: Site, interval: float) -> dict[str, Start]:
    trigger = f"{interval:g} seconds"

    def start_plain(stream: DataFrame, directory: str) -> StreamingQuery:
        return h.sink(_plain(stream), directory).trigger(processingTime=trigger).start()

    def started(name: str, functions: Any, **options: Any) -> Start:
        def start(stream: DataFrame, directory: str) -> StreamingQuery:
            gated = site.gate(stream, query=name)
            return site.start(h.sink(_job(gated, functions, **options), directory), name=name)

        return start

    return {
        "plain": start_plain,
        "gate": started("gate", sf),
        "weighted": started("weighted", pf),
        "bounds": started("bounds", pf, bounds=True),
    }


def _plain(stream: DataFrame) -> DataFrame:
    return _job(stream, sf)


def _job(stream: DataFrame, functions: Any, **options: Any) -> DataFrame:
    """Is the README's job, with the functions of Spark or of Penstock."""
    parsed = (
        stream.withColumn("reading", sf.from_json("payload", "value DOUBLE, note STRING"))
        .withColumn("errors", sf.levenshtein("reading.note", sf.lit(USUAL_NOTE)))
        .withWatermark("_arrival", "1 second")
    )
    complete = [functions.sic()] if functions is pf else []
    return parsed.groupBy(sf.window("_arrival", "10 seconds"), "key").agg(
        functions.avg("reading.value", **options),
        functions.avg("errors"),
        functions.count("*"),
        *complete,
    )
