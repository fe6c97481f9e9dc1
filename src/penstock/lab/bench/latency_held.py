"""Measures the latency of a stream at ten times what the job can process."""

from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from penstock.lab.bench import harness as h

SETTLING_SECONDS = 10 * h.INTERVAL_SECONDS
"""The time after the flood came that does not count."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares the latency of a gated job with that of a plain one."""
    can = h.heavy_throughput(spark, seconds / 3)
    rate, calm = h.FLOOD_FACTOR * can, min(20.0, seconds)
    source_adds = h.source_adds(spark, rate, seconds / 4)
    bound = 2 * h.INTERVAL_SECONDS + source_adds
    gated = _gated(spark, rate, calm, seconds)
    ungated = h.heavy(h.plain(h.flood(spark, rate, calm)))
    query = h.run_plain(ungated, seconds / 2 + calm, "plain job", batches=0)
    plain = h.record(query, rate, h.flood_profile(calm))
    began = gated.batches[0].oldest + calm + min(SETTLING_SECONDS, seconds / 2)
    settled = [batch for batch in gated.batches if batch.oldest > began]
    half = len(settled) // 2
    first, second = _median(settled[:half]), _median(settled[half:])
    growth = [b.worst_latency for b in plain.batches]
    return {
        "can_process_per_second": can,
        "rate": rate,
        "overload": h.FLOOD_FACTOR,
        "source_adds_seconds": source_adds,
        "bound_seconds": bound,
        "p95_seconds": h.p95(settled),
        "median_first_half": first,
        "median_second_half": second,
        "flat": second / first,
        "plain_latency_first": growth[0] if growth else None,
        "plain_latency_last": growth[-1] if growth else None,
        "gated": gated.as_json(),
        "plain": plain.as_json(),
        "holds": {
            "latency is flat (at most 1.15)": second / first <= 1.15,
            "p95 within two intervals and the source's": h.p95(settled) <= bound,
            "plain grows": bool(growth) and growth[-1] > 2 * bound,
        },
    }


def _median(batches: list[h.BatchRecord]) -> float:
    if not batches:
        return float("nan")
    return float(np.median(np.concatenate([batch.latencies() for batch in batches])))


def _gated(spark: SparkSession, rate: float, calm: float, seconds: float) -> h.Recorded:
    with h.gated_site(spark) as site:
        stream = h.flood(spark, rate, calm)
        gated = site.gate(stream, query="q", source="s", strata="key", id="_offset")
        query = h.run_for(
            lambda directory: site.start(h.sink(h.heavy(gated), directory), name="q"),
            calm + seconds,
            say="gated job",
        )
        return h.record(query, rate, h.flood_profile(calm))
