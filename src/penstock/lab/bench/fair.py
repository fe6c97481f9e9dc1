"""Measures fairness between 200 queries of one keyed stream, and between jobs on one site."""

from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.core.fairness import jain
from penstock.lab.bench import harness as h
from penstock.sources.replay import replay
from penstock.spark.site import Site

QUERIES = 200
OVERLOAD_FACTOR = 5.0
SLOWEST_SOURCE_RATE = 50.0
"""In tuples a second."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares BALANCE-SIC with uniform shedding over 200 queries."""
    rate = _rate_with_slowest(SLOWEST_SOURCE_RATE)
    work = _work_for(spark, rate / OVERLOAD_FACTOR, seconds / 3)
    fair = _keyed(spark, rate, work, "balance-sic", seconds)
    even = _keyed(spark, rate, work, "uniform", seconds)
    return {
        "rate": rate,
        "overload": OVERLOAD_FACTOR,
        "rounds_of_work": work,
        "balance-sic": fair,
        "uniform": even,
        "holds": {
            "Jain at least 0.99 in every STW": fair["jain_min"] >= 0.99,
            "mean SIC above uniform's": fair["mean_sic"] > even["mean_sic"],
        },
    }


def _rate_with_slowest(slowest: float) -> float:
    """Returns the whole rate at which the slowest source has this rate."""
    from penstock.sources.generators import Keyed

    chances = Keyed(queries=QUERIES)._chances
    return float(slowest * chances.sum() / chances.min())


def _keyed_job(stream: DataFrame, work: int) -> DataFrame:
    """Aggregates by query, with ``work`` rounds of hashing as its cost."""
    digest = sf.col("value").cast("string")
    for _ in range(work):
        digest = sf.sha2(digest, 512)
    return (
        stream.withColumn("digest", digest)
        .withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", "5 seconds"), "query")
        .agg(
            pf.avg("value").alias("mean"),
            pf.count("*").alias("count"),
            pf.sic(),
            sf.max("digest"),
        )
    )


def _work_for(spark: SparkSession, target: float, seconds: float) -> int:
    """Returns the rounds of hashing at which about ``target`` tuples a second are processed."""
    speeds, rows = {}, 100_000 if seconds >= h.MEANINGFUL_SECONDS / 3 else 10_000
    for work in (1, 8):
        stream = replay(spark, generator="keyed", rate=20_000_000, maxRowsPerTrigger=rows)
        speeds[work] = h.throughput(
            _keyed_job(h.plain(stream), work), seconds / 2, f"calibration, {work} rounds"
        )
    each = (1 / speeds[8] - 1 / speeds[1]) / 7
    return max(1, round(1 + (1 / target - 1 / speeds[1]) / max(each, 1e-9)))


def _keyed(
    spark: SparkSession, rate: float, work: int, policy: str, seconds: float
) -> dict[str, Any]:
    samples: list[tuple[int, dict[str, float]]] = []
    with h.gated_site(spark, policy=policy) as site:
        stream = replay(spark, generator="keyed", rate=rate)
        gated = site.gate(stream, query=sf.col("query"), source=sf.col("source"), id="_offset")

        def watch() -> None:
            if not samples or samples[-1][0] != site.plan.version:
                samples.append((site.plan.version, site.sic()))

        query = h.run_for(
            lambda directory: site.start(h.sink(_keyed_job(gated, work), directory), name="all"),
            seconds,
            watch,
            f"{QUERIES} queries, {policy}",
        )
        recorded = h.record(query, rate)
    late = [list(sic.values()) for _, sic in samples[len(samples) // 2 :] if len(sic) >= QUERIES]
    return {
        "jain_min": min((jain(values) for values in late), default=0.0),
        "jain_median": float(np.median([jain(values) for values in late])) if late else 0.0,
        "mean_sic": float(np.mean([np.mean(values) for values in late])) if late else 0.0,
        "stws": len(late),
        "p95_seconds": h.p95(h.settled(recorded)),
        "admitted_share": sum(b.admitted for b in h.settled(recorded))
        / max(sum(b.arrived for b in h.settled(recorded)), 1),
        "batches": recorded.as_json(),
    }


def run_jobs(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Runs three streaming queries of different cost on one site, together overloaded."""
    rate = 1.5 * h.heavy_throughput(spark, seconds / 3)
    jobs = {"light": h.light, "heavy": h.heavy, "middling": _middling}
    samples: list[dict[str, float]] = []
    with Site(spark, interval=2 * h.INTERVAL_SECONDS) as site:
        last = None
        for name, job in jobs.items():
            stream = site.gate(
                h.readings(spark, rate, seed=len(name)), query=name, source="s", id="_offset"
            )
            last = (name, job, stream)
            if name != "middling":
                site.start(job(stream).writeStream.format("noop").outputMode("append"), name=name)
        assert last is not None
        name, job, stream = last
        h.run_for(
            lambda directory: site.start(h.sink(job(stream), directory), name=name),
            seconds * 1.3,
            lambda: samples.append(site.sic()),
            "three jobs",
        )
        report = site.report().to_dict()
    late = [sic for sic in samples[len(samples) // 2 :] if len(sic) == len(jobs)]
    mean = {name: float(np.mean([sic[name] for sic in late])) for name in jobs} if late else {}
    apart = max(mean.values()) - min(mean.values()) if mean else 1.0
    return {
        "rate_each": rate,
        "mean_sic": mean,
        "apart": apart,
        "report": report,
        "holds": {
            "SIC within 0.05 of each other": apart <= 0.05,
            "overloaded": bool(mean) and max(mean.values()) < 0.95,
            "none starved": bool(mean) and min(mean.values()) > 0.01,
        },
    }


def _middling(stream: DataFrame) -> DataFrame:
    score = sf.levenshtein(sf.col("note"), sf.lit(h.CATALOGUE_NOTES[0]))
    return h.windowed(h.parsed(stream).withColumn("d", score), sf.min("d").alias("d"))
