"""Fair with costs: two queries on one site, a tuple of one ten times as dear as of the other.

Both go through one gate and one guarded function. With learnt costs the guard tells the controller
what a tuple of each query costs, and it divides time. With the average cost it is told nothing and
has only the times of whole batches, which it divides by tuples; the benchmark says what fails then.
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


def work(row: Mapping[str, Any]) -> float:
    return busy({"cheap": 0.0004, "dear": 0.004}[row["query"]])


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    rate = OVERLOAD * CORES / float(np.mean(list(COSTS.values())))
    learnt = _run(spark, rate, seconds * 0.6, learnt=True)
    average = _run(spark, rate, seconds * 0.6, learnt=False)
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


def _stream(spark: SparkSession, rate: float) -> DataFrame:
    query = sf.when(sf.col("_offset") % 2 == 0, "dear").otherwise("cheap").alias("query")
    return h.readings(spark, rate).select("_arrival", "_offset", query)


def _run(spark: SparkSession, rate: float, seconds: float, learnt: bool) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    with Site(spark, interval=h.INTERVAL, latency=LATENCY) as site:
        gated = site.gate(_stream(spark, rate), query=sf.col("query"), source="s", id="_offset")
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
    latency = h.p95(h.settled(recorded, 0.4))
    return {
        "mean_sic": mean,
        "apart": apart,
        "p95_seconds": latency,
        "good": {"fair": apart <= 0.05, "latency": latency <= LATENCY},
        "batches": recorded.as_json(),
    }
