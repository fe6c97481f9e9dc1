"""Latency held and capacity used: a stream at ten times what the job can process.

A JVM gets faster for minutes, so what the controller admits is measured before and after each sweep
of the fixed rates that it is compared with.
"""

from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from scipy.optimize import isotonic_regression

from penstock.bench import harness as h
from penstock.types import Floats

OVERLOAD = 10.0
CALM_SECONDS, CALM_FACTOR = 20.0, 0.03
"""A job starts up in calm, at a third of what it can process; then the flood comes."""
ROUNDS = 3
SWEEP = (0.95, 1.05, 1.15, 1.3)
"""Fixed rates, in what the controller admits."""
FURTHER, MOST_FURTHER = 1.2, 4
"""Steps beyond these, and how many at most, until they enclose the latency of the controller."""
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
    rounds = _capacity(spark, rate, seconds)
    used = float(np.median([found["used"] for found in rounds]))
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
        "capacity_used": used,
        "capacity_used_each_round": [found["used"] for found in rounds],
        "rounds": rounds,
        "gated": gated.as_json(),
        "plain": plain.as_json(),
        "holds": {
            "latency is flat (at most 1.15)": second / first <= 1.15,
            "p95 within two intervals and the source's": h.p95(settled) <= bound,
            "plain grows": bool(growth) and growth[-1] > 2 * bound,
            "capacity used (at least 0.9)": used >= 0.9,
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
            .trigger(processingTime=h.TRIGGER)
            .start()
        ),
        seconds,
        say="the source alone",
    )
    batches = h.record(query, rate).batches
    return float(np.median([batch.seconds for batch in batches[len(batches) // 2 :]]))


def _capacity(spark: SparkSession, rate: float, seconds: float) -> list[dict[str, Any]]:
    """In rounds: what the controller admits before and after a sweep of fixed rates about its own,
    over what a fixed rate of the same latency admits.
    """
    rounds: list[dict[str, Any]] = []
    last = _in_the_flood(_gated(spark, rate, seconds / 2 + CALM_SECONDS))
    for _ in range(ROUNDS):
        sweep = [
            _fixed(spark, rate, factor * _admitted_per_second(last) / rate, seconds / 4)
            for factor in SWEEP
        ]
        before, last = last, _in_the_flood(_gated(spark, rate, seconds / 2 + CALM_SECONDS))
        admitted = (_admitted_per_second(before) + _admitted_per_second(last)) / 2
        p95 = (h.p95(before) + h.p95(last)) / 2
        _enclose(spark, rate, seconds / 4, sweep, p95)
        best = best_fixed(sweep, p95)
        rounds.append(
            {
                "used": admitted / best,
                "admitted": admitted,
                "best_fixed": best,
                "p95": p95,
                "sweep": sweep,
            }
        )
    return rounds


def _enclose(
    spark: SparkSession, rate: float, seconds: float, sweep: list[dict[str, float]], p95: float
) -> None:
    """Tries more rates, up or down, until their latencies enclose this one."""
    for _ in range(MOST_FURTHER):
        shares = [run["share"] for run in sweep]
        _, latency = curve(sweep)
        if p95 > latency[-1] and max(shares) < 1.0:
            share = min(max(shares) * FURTHER, 1.0)
        elif p95 < latency[0]:
            share = min(shares) / FURTHER
        else:
            return
        sweep.append(_fixed(spark, rate, share, seconds))


def curve(sweep: list[dict[str, float]]) -> tuple[Floats, Floats]:
    """What each fixed rate admitted, and its latency, which rises with the rate.

    Where it seems to fall, one of two runs had luck, and both count as their mean: else the
    luckiest of all runs would be taken for what the job can do.
    """
    runs = sorted((run["admitted_per_second"], run["p95"]) for run in sweep)
    admitted, latency = np.array(runs).T
    return admitted, np.asarray(isotonic_regression(latency).x)


def best_fixed(sweep: list[dict[str, float]], p95: float) -> float:
    """What a fixed rate of this latency admits, by a straight line between those that were tried.

    Without end where all of them are faster: what was not found is not claimed.
    """
    admitted, latency = curve(sweep)
    return float(np.interp(p95, latency, admitted, right=np.inf))


def _fixed(spark: SparkSession, rate: float, share: float, seconds: float) -> dict[str, float]:
    frame = h.heavy(h.fixed_gate(spark, h.readings(spark, rate), min(share, 1.0)))
    recorded = h.record(h.run_plain(frame, seconds, f"fixed rate {share:.4f}", batches=6), rate)
    late = recorded.batches[len(recorded.batches) // 2 :]
    return {
        "share": share,
        "p95": h.p95(late),
        "admitted_per_second": _admitted_per_second(late),
    }
