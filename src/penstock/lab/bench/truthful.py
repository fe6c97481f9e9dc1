"""Compares the SIC that a site says with what was kept, and checks that intervals cover."""

import time
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.core.types import Plan, Strata, Stratum
from penstock.lab.bench import harness as h
from penstock.lab.bench.said import KeptBatch, Saying, furthest_off, in_order
from penstock.sources.generators import Keyed
from penstock.sources.replay import replay
from penstock.spark.gate.columns import Gate
from penstock.spark.gate.keys import Keys

QUERIES = 40


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares SIC and ledger with what came through the gate."""
    rate = 60_000.0
    really: dict[int, dict[Stratum, int]] = {}
    sayings: list[Saying] = []
    with h.gated_site(spark) as site:
        stream = replay(spark, generator="keyed", rate=rate, queries=QUERIES)
        gated = site.gate(stream, query=sf.col("query"), source=sf.col("source"), id="_offset")

        def slow(frame: DataFrame, batch: int) -> None:
            """Counts what really came through, and takes its time over it."""
            rows = frame.groupBy("query", "source").agg(
                sf.count("*").alias("n"), sf.max(sf.sha2(_long("value"), 512))
            )
            really[batch] = {Stratum(r["query"], r["source"]): r["n"] for r in rows.collect()}

        def watch() -> None:
            sayings.append((time.time(), site.sic()))

        query = h.run_for(
            lambda directory: site.start(
                gated.writeStream.foreachBatch(slow).option("checkpointLocation", directory + "/c"),
                name="all",
            ),
            seconds,
            watch,
            "truth",
        )
        site.report()
        entries = list(site.ledger)
        balanced = site.ledger.balanced
        stw = site.settings.stw_seconds
    told = h.batches_of(query)
    arrived = {progress.batch: _arrived(*h.tuples_of(progress)) for progress in told}
    source_count = max((stop for _, stop in map(h.tuples_of, told)), default=0)
    kept = {
        progress.batch: KeptBatch(progress.ended, arrived[progress.batch], really[progress.batch])
        for progress in told
    }
    off = furthest_off(sayings, in_order(kept), stw, h.INTERVAL_SECONDS)
    said = [value for _, sic in sayings for value in sic.values()]
    ledger_arrived = sum(entry.arrived for entry in entries)
    ledger_admitted = sum(entry.admitted for entry in entries)
    # by Spark's word: a batch that was cut off between its work and its commit was not processed
    admitted = sum(sum(really[progress.batch].values()) for progress in told)
    return {
        "queries": QUERIES,
        "times_said": len(off),
        "said_from_to": [min(said, default=0.0), max(said, default=0.0)],
        "said_furthest_off": max(off, default=1.0),
        "said_off": off,
        "ledger_arrived": ledger_arrived,
        "source_count": source_count,
        "ledger_admitted": ledger_admitted,
        "really_admitted": admitted,
        "holds": {
            "every SIC that the site said is that of what was kept, to within 0.01": bool(off)
            and max(off) <= 0.01,
            "the ledger equals the source's count": ledger_arrived == source_count,
            "the ledger equals what came through": ledger_admitted == admitted,
            "the ledger is balanced": balanced,
        },
    }


def _long(column: str) -> Any:
    return sf.repeat(sf.col(column).cast("string"), 60)


def _arrived(first: int, stop: int) -> dict[Stratum, int]:
    """Returns what a batch brought, by the generator itself."""
    made = _made()
    numbers = np.arange(first, stop) % len(made)
    keys, counts = np.unique(made[numbers], return_counts=True)
    return {Stratum(*key.split("/")): int(n) for key, n in zip(keys, counts, strict=True)}


_cache: list[Any] = []


def _made() -> Any:
    if not _cache:
        generator = Keyed(queries=QUERIES)
        blocks: list[Any] = [generator.block(number) for number in range(8)]
        tables = [block.to_pydict() for block in blocks]
        _cache.append(
            np.array(
                [f"{q}/{s}" for t in tables for q, s in zip(t["query"], t["source"], strict=True)]
            )
        )
    return _cache[0]


def run_coverage(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Windows of a stream whose strata are admitted at rates between 5 and 50 %."""
    rows_a_second, keys = 40_000, 100
    rng = np.random.default_rng(5)
    strata = [Stratum("q", "s", f"k{key:05d}") for key in range(keys)]
    rates = rng.uniform(0.05, 0.5, keys)
    stream = h.readings(spark, rows_a_second, keys=keys, skew=0.3)
    gate = Gate("penstock_covered", Keys("q", "s", (sf.col("key"),), (sf.col("_offset"),)), 1000)
    plan = Plan(1, Strata(strata), rates, np.full(keys, 1e-6), 0.2, 1e-6)

    def results(frame: DataFrame, bounds: bool) -> DataFrame:
        timed = h.parsed(frame).withColumn(
            "_arrival", (sf.col("_offset") / rows_a_second).cast("timestamp")
        )
        return (
            timed.withWatermark("_arrival", "0 seconds")
            .groupBy(sf.window("_arrival", "2 seconds"), "key")
            .agg(
                pf.avg("value", bounds=bounds).alias("mean"),
                pf.sum("value", bounds=bounds).alias("sum"),
                pf.count("*", bounds=bounds).alias("count"),
            )
        )

    found: dict[str, dict[tuple[Any, str], Any]] = {}
    for name, frame, bounds in (
        ("sampled", h.with_fixed_plan(gate, stream, plan), True),
        ("exact", h.plain(h.readings(spark, rows_a_second, keys=keys, skew=0.3)), False),
    ):
        table = f"covered_{name}"

        def start(
            directory: str, frame: DataFrame = frame, bounds: bool = bounds, table: str = table
        ) -> Any:
            return (
                results(frame, bounds)
                .writeStream.format("memory")
                .queryName(table)
                .option("checkpointLocation", directory + "/c")
                .trigger(processingTime=h.TRIGGER)
                .start()
            )

        h.run_for(start, seconds / 2, say=name, batches=h.enough_batches(seconds / 2))
        found[name] = {(r["window"]["start"], r["key"]): r for r in spark.table(table).collect()}
    both = found["sampled"].keys() & found["exact"].keys()
    covered = {
        name: float(
            np.mean([_covers(found["sampled"][at][name], found["exact"][at][name]) for at in both])
        )
        if both
        else 0.0
        for name in ("count", "sum", "mean")
    }
    return {
        "windows": len(both),
        "covered": covered,
        "holds": {
            "at least 1,000 windows": len(both) >= 1000,
            **{
                f"{name} covered in 93 to 97 %": 0.93 <= share <= 0.97
                for name, share in covered.items()
            },
        },
    }


def _covers(estimate: Any, truth: float) -> bool:
    return bool(estimate["low"] <= truth <= estimate["high"])
