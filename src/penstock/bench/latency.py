"""Latency held and capacity used: a stream at ten times what the job can process.

A JVM gets faster for minutes, so what the controller admits is measured before and after the sweep
of fixed rates that it is compared with.
"""

from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.bench import harness as h

OVERLOAD = 10.0
CALM_SECONDS, CALM_FACTOR = 20.0, 0.03
"""A job starts up in calm, at a third of what it can process; then the flood comes."""
PROFILE = ((0.0, CALM_FACTOR), (CALM_SECONDS, 1.0))


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    backlog = h.readings(spark, 10_000_000, maxRowsPerTrigger=30_000)
    can = h.throughput(h.heavy(h.plain(backlog)), seconds / 3, "what can the job process?")
    rate = OVERLOAD * can
    source_adds = _source_alone(spark, rate, seconds / 4)
    bound = 2 * h.INTERVAL + source_adds
    gated = _gated(spark, rate, seconds + CALM_SECONDS)
    ungated = h.heavy(h.plain(_flood(spark, rate)))
    plain = h.record(h.run_plain(ungated, seconds / 2 + CALM_SECONDS, "plain job"), rate, PROFILE)
    settled = _in_the_flood(gated)
    half = len(settled) // 2
    first, second = _median(settled[:half]), _median(settled[half:])
    before = _in_the_flood(_gated(spark, rate, seconds / 2 + CALM_SECONDS))
    sweep = _sweep(spark, rate, _admitted_per_second(before) / rate, bound, seconds / 3)
    after = _in_the_flood(_gated(spark, rate, seconds / 2 + CALM_SECONDS))
    admitted = (_admitted_per_second(before) + _admitted_per_second(after)) / 2
    same_latency = 1.02 * max(h.p95(before), h.p95(after))
    held = [point for point in sweep if point["p95"] <= same_latency]
    best = max((point["admitted_per_second"] for point in held), default=0.0)
    growth = [b.worst_latency for b in plain.batches]
    return {
        "can_process_per_second": can,
        "rate": rate,
        "overload": OVERLOAD,
        "source_adds_seconds": source_adds,
        "bound_seconds": bound,
        "p95_seconds": h.p95(settled),
        "median_first_half": first,
        "median_second_half": second,
        "flat": second / first,
        "plain_latency_first": growth[0] if growth else None,
        "plain_latency_last": growth[-1] if growth else None,
        "admitted_per_second": admitted,
        "admitted_before_and_after": [_admitted_per_second(before), _admitted_per_second(after)],
        "p95_before_and_after": [h.p95(before), h.p95(after)],
        "best_fixed_per_second": best,
        "capacity_used": admitted / best if best else None,
        "sweep": sweep,
        "gated": gated.as_json(),
        "plain": plain.as_json(),
        "holds": {
            "latency is flat (at most 1.15)": second / first <= 1.15,
            "p95 within two intervals and the source's": h.p95(settled) <= bound,
            "plain grows": bool(growth) and growth[-1] > 2 * bound,
            "capacity used (at least 0.9)": bool(best) and admitted / best >= 0.9,
        },
    }


def _median(batches: list[h.BatchRecord]) -> float:
    return float(np.median(np.concatenate([batch.latencies() for batch in batches])))


def _admitted_per_second(batches: list[h.BatchRecord]) -> float:
    passed = batches[-1].ended - batches[0].started
    return sum(batch.admitted for batch in batches) / passed


def _flood(spark: SparkSession, rate: float) -> DataFrame:
    profile = [{"at": at, "factor": factor} for at, factor in PROFILE]
    return h.readings(spark, rate, profile=profile)


def _in_the_flood(recorded: h.Recorded) -> list[h.BatchRecord]:
    """From ten intervals after the flood came."""
    began = recorded.batches[0].oldest
    return [
        batch for batch in recorded.batches if batch.oldest > began + CALM_SECONDS + 10 * h.INTERVAL
    ]


def _gated(spark: SparkSession, rate: float, seconds: float) -> h.Recorded:
    with h.gated_site(spark) as site:
        stream = site.gate(_flood(spark, rate), query="q", source="s", strata="key", id="_offset")
        query = h.run_for(
            lambda directory: site.start(h.sink(h.heavy(stream), directory), query="q"),
            seconds,
            say="gated job",
        )
        return h.record(query, rate, PROFILE)


def _source_alone(spark: SparkSession, rate: float, seconds: float) -> float:
    """How much later than half an interval of waiting a tuple is out of the bare source."""
    bare = h.readings(spark, rate).select(sf.length("payload").alias("n")).groupBy().max("n")
    query = h.run_for(
        lambda directory: (
            bare.writeStream.format("noop")
            .outputMode("complete")
            .option("checkpointLocation", directory + "/c")
            .trigger(processingTime=f"{round(h.INTERVAL * 1000)} milliseconds")
            .start()
        ),
        seconds,
        say="the source alone",
    )
    batches = h.record(query, rate).batches
    return float(np.median([batch.seconds for batch in batches[len(batches) // 2 :]]))


def _sweep(
    spark: SparkSession, rate: float, around: float, bound: float, seconds: float
) -> list[dict[str, float]]:
    """Fixed rates about the controller's own, until one is far beyond its latency."""
    points = []
    for factor in (0.8, 0.9, 1.0, 1.1, 1.2, 1.35):
        share = min(around * factor, 1.0)
        frame = h.heavy(h.fixed_gate(spark, h.readings(spark, rate), share))
        recorded = h.record(h.run_plain(frame, seconds, f"fixed rate {share:.4f}"), rate)
        late = recorded.batches[len(recorded.batches) // 2 :]
        if len(late) < 2:
            break
        point = {
            "share": share,
            "p95": h.p95(late),
            "admitted_per_second": _admitted_per_second(late),
        }
        points.append(point)
        if point["p95"] > 1.5 * bound:
            break
    return points
