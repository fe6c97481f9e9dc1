"""Measures a burst: factor 1, then 8, then 1 again."""

import time
from typing import Any

from pyspark.sql import SparkSession

from penstock.lab.bench import harness as h

SOURCE_ADDS_SECONDS = 0.1
"""What reading adds to the latency at these rates."""
CALM_SHARE_OF_CAPACITY = 0.3
"""What arrives in calm; the burst is eight times as much."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Measures how soon latency and rates are back after a burst begins and ends."""
    can = h.heavy_throughput(spark, seconds / 3)
    rate, third = CALM_SHARE_OF_CAPACITY * can, seconds / 3
    profile = ((0.0, 1.0), (third, 8.0), (2 * third, 1.0))
    opened: list[tuple[float, bool]] = []
    with h.gated_site(spark) as site:
        stream = h.readings(
            spark, rate, profile=[{"at": at, "factor": factor} for at, factor in profile]
        )
        gated = site.gate(stream, query="q", source="s", strata="key", id="_offset")
        query = h.run_for(
            lambda directory: site.start(h.sink(h.heavy(gated), directory), name="q"),
            seconds,
            watch=lambda: opened.append((time.time(), site.plan.open)),
            say="calm, burst, calm",
        )
        recorded = h.record(query, rate, profile)
    began = h.stream_start(h.batches_of(query)[-1])
    bound = 2 * h.INTERVAL_SECONDS + SOURCE_ADDS_SECONDS
    changes = {"burst": began + third, "calm": began + 2 * third}
    back = {name: _back(recorded, at, at + third, bound) for name, at in changes.items()}
    closed = [at for at, is_open in opened if not is_open and at > changes["calm"]]
    reopened = (max(closed, default=changes["calm"]) - changes["calm"]) / h.INTERVAL_SECONDS
    return {
        "can_process_per_second": can,
        "calm_rate": rate,
        "burst_rate": 8 * rate,
        "bound_seconds": bound,
        "intervals_until_latency_is_back": back,
        "intervals_until_all_rates_are_1": reopened,
        "batches": recorded.as_json(),
        "holds": {
            **{f"latency back within 3 intervals of {name}": x <= 3 for name, x in back.items()},
            "all rates are 1 within 3 intervals of its end": reopened <= 3,
        },
    }


def _back(recorded: h.Recorded, change: float, until: float, bound: float) -> float:
    """Returns the intervals from a change until the end of the last batch that was too late."""
    late = [
        batch.ended
        for batch in recorded.batches
        if change < batch.ended <= until and batch.worst_latency > bound
    ]
    return (max(late) - change) / h.INTERVAL_SECONDS if late else 0.0
