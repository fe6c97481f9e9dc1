"""Fair with costs: two queries on one site, a tuple of one ten times as dear as of the other.

Both go through one gate and one guarded function, and the load swings from the one to the other and
back. It swings smoothly: what comes can be foreseen from what came, and what it costs is the
question. (When a mix changes at once, the next batch is late under every controller.) Three
controllers:

- ``learnt costs``: the guard tells what a tuple of each query costs, and time is divided;
- ``average cost``: the published one (DISSP, equations 5.2 and 5.3). Every tuple is taken for an
  average one of the last ten batches, and so many are kept as then fit into a batch. The benchmark
  says what fails;
- ``average cost, with an eye on the clock``: the same cost in Penstock's controller, which admits
  less while tuples are late. Nothing is promised of it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.core.capacity import Capacity
from penstock.core.controller import Controller
from penstock.core.cost import DisspCost
from penstock.core.settings import Settings
from penstock.core.state import StreamState
from penstock.core.types import Upcoming
from penstock.lab.bench import harness as h
from penstock.lab.bench.guard_latency import busy
from penstock.lab.bench.guard_rivals import CORES
from penstock.spark.site import Site

QUERY_SECONDS = {"cheap": 0.0004, "dear": 0.004}
"""What a tuple of each query costs."""
OVERLOAD_FACTOR = 4.0
LATENCY_SECONDS = 3.0
KNOWLEDGE = ("learnt costs", "average cost", "average cost, with an eye on the clock")
"""What the controllers know."""
SWINGS = 2
"""So often the share of the dear query swings in the part of a run that is measured."""
LARGEST_DEAR_SHARE = 0.8
"""It swings from this to as little and back; the JVM warms up in half a swing before."""
WARM_UP_SHARE = 0.5 / (SWINGS + 0.5)
"""The part of a run that is not measured."""


def work(row: Mapping[str, Any]) -> float:
    """Works for as long as a tuple of its query costs."""
    return busy(QUERY_SECONDS[row["query"]])


@dataclass(frozen=True)
class AverageCost:
    """Is a cost model in which every tuple costs the same (DISSP, equation 5.2)."""

    average: DisspCost = field(default_factory=DisspCost)
    batches: int = 0
    spread: float = 0.0
    """Times are taken for what they are; it knows no noise."""

    @property
    def known(self) -> bool:
        """Says whether any batch was seen."""
        return self.batches > 0

    @property
    def admitting(self) -> float:
        """Returns the seconds that an admitted tuple costs."""
        return self.average.per_tuple

    def seconds(self, arrived: float, admitted: float) -> float:
        """Returns the seconds of a batch of so many tuples."""
        del arrived  # it does not tell what is shed from what costs nothing
        return self.admitting * admitted

    def update(
        self,
        seconds: float,
        arrived: float,
        admitted: float,
        overhead: float | None = None,
        span: float | None = None,
    ) -> Self:
        """Learns from a batch."""
        del arrived, overhead, span
        average = self.average.update(seconds, admitted)
        return replace(self, average=average, batches=self.batches + 1)

    def informed(self, admitting: float) -> Self:
        """Returns itself, since no guard tells costs here."""
        del admitting  # here no guard tells
        return self


class AsManyAsFit(Capacity):
    """Spends a batch's budget on its tuples, however late they are (DISSP, equation 5.3)."""

    def spare(
        self, name: str, stream: StreamState, expected: float, starting: Upcoming | None
    ) -> float:
        """Returns the part of the budget that is planned, however late tuples are."""
        del stream, expected, starting
        return self.settings.budget_of(name) * self.settings.headroom


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares three controllers that know more or less of what tuples cost."""
    rate = OVERLOAD_FACTOR * CORES / float(np.mean(list(QUERY_SECONDS.values())))
    runs = {knows: _run(spark, rate, seconds * 5 / 3, knows) for knows in KNOWLEDGE}
    learnt, average, _ = runs.values()
    fails = [name for name, good in average["good"].items() if not good]
    return {
        "rate": rate,
        "overload": OVERLOAD_FACTOR,
        "latency_seconds": LATENCY_SECONDS,
        **runs,
        "with the average cost fails": fails,
        "holds": {
            "learnt costs: SIC within 0.05 of each other": learnt["good"]["fair"],
            "learnt costs: latency held": learnt["good"]["latency"],
            "average cost: one of the two fails": bool(fails),
        },
    }


def _stream(spark: SparkSession, rate: float, seconds: float) -> DataFrame:
    """Returns a stream in which the share of either query swings about a half."""
    swings = sf.col("_offset") / (rate * seconds / (SWINGS + 0.5))
    dear = 0.5 + (LARGEST_DEAR_SHARE - 0.5) * sf.cos(swings * (2 * math.pi))
    drawn = sf.pmod(sf.xxhash64("_offset"), sf.lit(1000)) / 1000
    query = sf.when(drawn < dear, "dear").otherwise("cheap").alias("query")
    return h.readings(spark, rate).select("_arrival", "_offset", query)


def _controller(knows: str) -> Callable[[Settings], Controller]:
    """Returns what makes a controller that knows this much of what tuples cost."""
    if knows == "learnt costs":
        return Controller
    capacity = AsManyAsFit if knows == "average cost" else Capacity
    return partial(Controller, cost=AverageCost(), capacity=capacity)


def _run(spark: SparkSession, rate: float, seconds: float, knows: str) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    stream = _stream(spark, rate, seconds)
    with Site(
        spark, interval=h.INTERVAL_SECONDS, latency=LATENCY_SECONDS, controller=_controller(knows)
    ) as site:
        gated = site.gate(stream, query=sf.col("query"), source="s", id="_offset")
        gates = list(site.gates.values()) if knows == "learnt costs" else []
        # the guard itself sheds nothing here: it only says what tuples cost
        guarded = site.guards.add(gated, work, gates, key="query", wait="1h", inputs=["query"])
        query = h.run_for(
            lambda directory: site.start(h.sink(guarded, directory), name="both"),
            seconds,
            lambda: samples.append(site.sic()),
            knows,
        )
        recorded = h.record(query, rate)
    warm = samples[int(WARM_UP_SHARE * len(samples)) :]
    told = [sample for sample in warm if len(sample) == len(QUERY_SECONDS)]
    sic = {name: [each[name] for each in told] for name in QUERY_SECONDS}
    mean = {name: float(np.mean(values)) for name, values in sic.items()} if told else {}
    apart = abs(mean["cheap"] - mean["dear"]) if mean else 1.0
    # at one time the one may be ahead, at another the other
    pairs = zip(sic["cheap"], sic["dear"], strict=True)
    apart_then = float(np.mean([abs(cheap - dear) for cheap, dear in pairs])) if told else 1.0
    measured = h.settled(recorded, WARM_UP_SHARE)
    latency = h.p95(measured)
    return {
        "mean_sic": mean,
        "apart": apart,
        "apart_at_a_time": apart_then,
        "p95_seconds": latency,
        "late_share": h.later_than(LATENCY_SECONDS, measured),
        "good": {"fair": max(apart, apart_then) <= 0.05, "latency": latency <= LATENCY_SECONDS},
        "sic": sic,
        "batches": recorded.as_json(),
    }
