"""Fair with costs: two queries on one site, a tuple of one ten times as dear as of the other.

Both go through one gate and one guarded function, and now the one sends more, now the other. With
learnt costs the guard tells the controller what a tuple of each query costs, and it divides time.
With the average cost it is told nothing and has only the times of whole batches, which it divides
by tuples; the benchmark says what fails then.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.bench import harness as h
from penstock.bench.guard import CORES, busy
from penstock.spark.site import Site

COSTS = {"cheap": 0.0004, "dear": 0.004}
OVERLOAD = 4.0
LATENCY = 3.0
SPELLS, MOSTLY = 4, 0.8
"""In so many spells of a run, so many of the tuples are of the one query; then of the other. Nobody
knows a spell before its first batch, which is late even with learnt costs: spells are long.
"""


def work(row: Mapping[str, Any]) -> float:
    return busy(COSTS[row["query"]])


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    rate = OVERLOAD * CORES / float(np.mean(list(COSTS.values())))
    learnt, average = (_run(spark, rate, seconds * 4 / 3, learnt) for learnt in (True, False))
    fails = [name for name, good in average["good"].items() if not good]
    return {
        "rate": rate,
        "overload": OVERLOAD,
        "latency_seconds": LATENCY,
        "learnt costs": learnt,
        "average cost": average,
        "with the average cost fails": fails,
        "holds": {
            "learnt costs: SIC within 0.05 of each other": learnt["good"]["fair"],
            "learnt costs: latency held": learnt["good"]["latency"],
            "average cost: one of the two fails": bool(fails),
        },
    }


def _stream(spark: SparkSession, rate: float, seconds: float) -> DataFrame:
    """Half of all tuples are of either query, but they come in spells."""
    spell = sf.floor(sf.col("_offset") / (rate * seconds / SPELLS)) % 2
    dear = sf.when(spell == 0, MOSTLY).otherwise(1 - MOSTLY)
    drawn = sf.pmod(sf.xxhash64("_offset"), sf.lit(1000)) / 1000
    query = sf.when(drawn < dear, "dear").otherwise("cheap").alias("query")
    return h.readings(spark, rate).select("_arrival", "_offset", query)


def _run(spark: SparkSession, rate: float, seconds: float, learnt: bool) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    stream = _stream(spark, rate, seconds)
    with Site(spark, interval=h.INTERVAL, latency=LATENCY) as site:
        gated = site.gate(stream, query=sf.col("query"), source="s", id="_offset")
        gate = next(iter(site._gates.values())) if learnt else None
        # the guard itself sheds nothing here: it only says what tuples cost
        guarded = site._guards.add(gated, work, gate, key="query", latency="1h", inputs=["query"])
        query = h.run_for(
            lambda directory: site.start(h.sink(guarded, directory), query="both"),
            seconds,
            lambda: samples.append(site.sic()),
            "learnt costs" if learnt else "average cost",
        )
        recorded = h.record(query, rate)
    late = [sic for sic in samples[len(samples) // 2 :] if len(sic) == len(COSTS)]
    mean = {name: float(np.mean([sic[name] for sic in late])) for name in COSTS} if late else {}
    apart = abs(mean["cheap"] - mean["dear"]) if mean else 1.0
    latency = h.p95(h.settled(recorded, 1 / SPELLS))
    return {
        "mean_sic": mean,
        "apart": apart,
        "p95_seconds": latency,
        "good": {"fair": apart <= 0.05, "latency": latency <= LATENCY},
        "batches": recorded.as_json(),
    }
