"""Fair with costs: two queries on one site, a tuple of one ten times as dear as of the other.

Both go through one gate and one guarded function, and now the one sends more, now the other. Three
controllers, which differ only in what they know of costs:

- ``learnt costs``: the guard tells what a tuple of each query costs, and time is divided;
- ``average cost``: every tuple is taken for an average one of the last ten batches, as published
  (DISSP, equation 5.2); the benchmark says what fails then;
- ``batch times``: nobody tells costs by query, but the cost model is Penstock's, which notices a
  change within a batch or two. Nothing is promised of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.bench import harness as h
from penstock.bench.guard import CORES, busy
from penstock.cost import DisspCost, ThreeTermCost
from penstock.spark.site import Site
from penstock.state import Job, State

COSTS = {"cheap": 0.0004, "dear": 0.004}
OVERLOAD = 4.0
LATENCY = 3.0
SPELLS, MOSTLY = 4, 0.8
"""In so many spells of a run, so many of the tuples are of the one query; then of the other. Nobody
knows a spell before its first batch, which is late even with learnt costs: spells are long.
"""


def work(row: Mapping[str, Any]) -> float:
    return busy(COSTS[row["query"]])


@dataclass(frozen=True)
class AverageCost(ThreeTermCost):
    """DISSP's cost of a tuple where Penstock's controller expects its own model."""

    average: DisspCost = field(default_factory=DisspCost)

    def _learnt(
        self, seconds: float, arrived: float, admitted: float, overhead: float | None
    ) -> ThreeTermCost:
        del overhead
        average = self.average.update(seconds, admitted)
        heard = replace(self, average=average, batches=self.batches + 1)
        heard = replace(heard, terms=np.array([0.0, 0.0, average.per_tuple]))
        return heard._remember(seconds, arrived, admitted)


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    rate = OVERLOAD * CORES / float(np.mean(list(COSTS.values())))
    length = seconds * 4 / 3
    learnt = _run(spark, rate, length, "learnt costs")
    average = _run(spark, rate, length, "average cost")
    batches = _run(spark, rate, length, "batch times")
    fails = [name for name, good in average["good"].items() if not good]
    return {
        "rate": rate,
        "overload": OVERLOAD,
        "latency_seconds": LATENCY,
        "learnt costs": learnt,
        "average cost": average,
        "batch times": batches,
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


def _run(spark: SparkSession, rate: float, seconds: float, knows: str) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    stream = _stream(spark, rate, seconds)
    with Site(spark, interval=h.INTERVAL, latency=LATENCY) as site:
        gated = site.gate(stream, query=sf.col("query"), source="s", id="_offset")
        gate = next(iter(site._gates.values())) if knows == "learnt costs" else None
        if knows == "average cost":
            site._state = State(jobs={"both": Job(clock=AverageCost())})
        # the guard itself sheds nothing here: it only says what tuples cost
        guarded = site._guards.add(gated, work, gate, key="query", latency="1h", inputs=["query"])
        query = h.run_for(
            lambda directory: site.start(h.sink(guarded, directory), query="both"),
            seconds,
            lambda: samples.append(site.sic()),
            knows,
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
