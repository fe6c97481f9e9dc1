"""A million groups in a window, in a flood: what the driver knows stays small, latency is held.

Half of the tuples belong to a few thousand keys that come again and again; each of the others is a
group of its own, which never comes again.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.lab.bench import harness as h
from penstock.windows.concept import Concept

GROUPS_PER_WINDOW = 1_000_000
MAX_STRATA = 10_000
DRIVER_GROWTH_MEGABYTES = 64.0
"""What the driver's Python may grow by once the first window is over."""


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Measures the driver's memory and the latency with a million groups in a window."""
    can = h.heavy_throughput(spark, seconds / 3)
    rate = h.FLOOD_FACTOR * can
    bound = 2 * h.INTERVAL_SECONDS + h.source_adds(spark, rate, seconds / 4)
    # a short run is about fewer groups
    wanted = round(GROUPS_PER_WINDOW * min(seconds / h.MEANINGFUL_SECONDS / 2, 1.0))
    window = max(round(2 * wanted / rate) + 1, min(5, round(seconds)))
    calm, length = seconds / 4, max(seconds, 3.0 * window)
    seen: list[dict[str, float]] = []
    with h.gated_site(spark, policy="concept") as site:
        terms = Concept(window, time="_arrival")
        stream = site.gate(
            _many(h.flood(spark, rate, calm)),
            query="q",
            source="s",
            strata="group",
            id="_offset",
            concept=terms,
            max_strata=MAX_STRATA,
        )

        def watch() -> None:
            (gate,) = site.gates.values()
            windows = site.state.windows
            seen.append(
                {
                    "megabytes": _resident(),
                    "named": len(gate.strata.fingerprints),
                    "planned": len(site.plan.strata),
                    "learnt": 0 if windows is None else len(windows.groups),
                }
            )

        query = h.run_for(
            lambda directory: site.start(h.sink(_job(stream, window), directory), name="q"),
            calm + length,
            watch,
            f"windows of {window} s",
        )
        recorded = h.record(query, rate, h.flood_profile(calm))
    first = (calm + window) / (calm + length)  # of the flood's windows
    late = h.settled(recorded, first)
    p95 = h.p95(late)
    after_first = seen[round(len(seen) * first) :]
    grown = max(one["megabytes"] for one in after_first) - after_first[0]["megabytes"]
    most = max(max(one["named"], one["planned"]) for one in seen)
    arrived = sum(batch.arrived for batch in late)
    groups = arrived / 2 / (late[-1].newest - late[0].oldest) * window
    return {
        "can_process_per_second": can,
        "rate": rate,
        "overload": h.FLOOD_FACTOR,
        "window_seconds": window,
        "groups_a_window": groups,
        "admitted_share": sum(batch.admitted for batch in late) / arrived,
        "most_groups_by_name": most,
        "driver_megabytes_after_the_first_window": after_first[0]["megabytes"],
        "driver_grew_megabytes": grown,
        "p95_seconds": p95,
        "bound_seconds": bound,
        "driver": seen[:: max(len(seen) // 100, 1)],
        "batches": recorded.as_json(),
        "holds": {
            f"{wanted:,} groups a window": groups >= wanted,
            "the driver and the plan know at most max_strata": most <= MAX_STRATA,
            f"the driver grows by at most {DRIVER_GROWTH_MEGABYTES:.0f} MB": grown
            <= DRIVER_GROWTH_MEGABYTES,
            "p95 within two intervals and the source's": p95 <= bound,
        },
    }


def _many(stream: DataFrame) -> DataFrame:
    once = sf.format_string("once %d", "_offset")
    return stream.withColumn(
        "group", sf.when(sf.col("_offset") % 2 == 0, once).otherwise(stream.key)
    )


def _job(stream: DataFrame, window: float) -> DataFrame:
    return (
        _many(h.matched(stream))
        .withWatermark("_arrival", "0 seconds")
        .groupBy(sf.window("_arrival", f"{window} seconds"), "group")
        .agg(pf.count("*").alias("count"), pf.sic(), sf.min("distance").alias("distance"))
    )


def _resident() -> float:
    """Megabytes of this process; the JVM's are Spark's, the state of the query included."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the system does not tell how much memory a process has")
