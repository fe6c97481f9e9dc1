"""What it costs to carry a new plan into every batch: planning and trigger time by strata."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.controller import Controller
from penstock.core.state import State
from penstock.core.types import Plan, Report
from penstock.lab.bench import harness as h
from penstock.spark.site import Site

BATCH_ROWS = 20_000
CASES = ((1000, 1), (5000, 1), (1000, 2))
"""Strata, and gates in the query."""
LONGEST_PLANNING_SECONDS = 0.15
"""What a batch with 5,000 strata may take to plan, of a second; a budget, not a comparison."""
WARM_UP_SHARE = 1 / 3
"""The first part of a run, in which the JVM warms up, does not count."""


class Wobbling(Controller):
    """Thins every stratum a little, and otherwise in each batch, so that every plan is new."""

    def step(self, state: State, report: Report) -> tuple[State, Plan]:
        state, plan = super().step(state, report)
        rates = 0.9 + 0.05 * np.sin(plan.version + np.arange(len(plan.strata)))
        return state, replace(plan, rates=rates, default_rate=0.9)


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Runs each case without gates and with them, one after another."""
    cases = [_case(spark, seconds / 6, strata, gates) for strata, gates in CASES]
    slowest = max(case["gated"]["planning"] for case in cases)
    return {
        "cases": cases,
        "slowest_planning_seconds": slowest,
        "holds": {
            "a new plan in every batch is planned in 150 ms": slowest <= LONGEST_PLANNING_SECONDS
        },
    }


def _case(spark: SparkSession, seconds: float, strata: int, gates: int) -> dict[str, Any]:
    streams = [_keyed(spark, strata) for _ in range(gates)]
    plain = _measured(streams, seconds, f"{gates} streams, no gate")
    with Site(spark, interval="100 milliseconds", latency="1 hour", controller=Wobbling) as site:
        gated = [
            site.gate(stream, query="q", source=f"s{n}", strata="key", id="value")
            for n, stream in enumerate(streams)
        ]
        measured = _measured(gated, seconds, f"{gates} gates, {strata} strata")
    return {"strata": strata, "gates": gates, "plain": plain, "gated": measured}


def _keyed(spark: SparkSession, strata: int) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).load()
    return source.withColumn("key", sf.col("value") % strata)


def _measured(streams: Sequence[DataFrame], seconds: float, say: str) -> dict[str, float]:
    """Medians over the batches of a stateful sum that runs as fast as it can."""
    summed = reduce(DataFrame.union, streams).groupBy("key").agg(sf.sum("value"))

    def start(directory: str) -> StreamingQuery:
        return h.sink(summed, directory).outputMode("complete").start()

    told = h.batches_of(h.run_for(start, seconds, say=say))
    counted = told[round(WARM_UP_SHARE * len(told)) :]
    return {
        "planning": float(np.median([batch.planning for batch in counted])),
        "trigger": float(np.median([batch.seconds for batch in counted])),
        "batches": len(counted),
    }
