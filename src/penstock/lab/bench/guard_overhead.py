"""Measures what the guard itself costs, on a function of about 10 µs."""

import time
from collections.abc import Mapping
from importlib import import_module
from math import inf
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.lab.bench import harness as h
from penstock.lab.bench.guard_latency import KEYS
from penstock.lab.bench.turns import TurnPlan, in_turns

BATCH_ROWS = 50_000
"""The rows of a batch: what two cores do in half an interval."""
TEN_MICROSECONDS_OF_ROUNDS = tuple(range(230))
"""The work of the function takes about 10 µs on a processor of today."""


def ten_microseconds(row: Mapping[str, Any]) -> float:
    """Does real work instead of waiting, as a small scoring function does."""
    total = float(len(row["key"]))
    for number in TEN_MICROSECONDS_OF_ROUNDS:
        total += number * 0.5
    return total


def run(spark: SparkSession, seconds: float = 90.0) -> dict[str, Any]:
    """Compares the function guarded and in a plain ``mapInArrow``."""
    whole = seconds >= h.MEANINGFUL_SECONDS
    turns = TurnPlan(round(seconds / 5), 3, 5.0) if whole else TurnPlan(1, 0, seconds)
    rows = round(BATCH_ROWS * min(seconds / h.MEANINGFUL_SECONDS, 1.0))
    with h.gated_site(spark) as site:

        def start_guarded(stream: DataFrame, directory: str) -> StreamingQuery:
            frame = site.guard(
                stream.select("key"), ten_microseconds, key="key", wait="1h", inputs=["key"]
            )
            return h.sink(frame, directory).trigger(processingTime=h.TRIGGER).start()

        jobs = {"plain": _start_plain, "guarded": start_guarded}
        took = in_turns(spark, jobs, rows, turns, keys=KEYS)
    median = {name: float(np.median(each)) if each else inf for name, each in took.items()}
    overhead = median["guarded"] / median["plain"] - 1 if all(took.values()) else inf
    began = time.perf_counter()
    for _ in range(10_000):
        ten_microseconds({"key": "k"})
    return {
        "function_us": (time.perf_counter() - began) * 100,
        "rows_a_batch": rows,
        "median_us_a_tuple": median,
        "overhead": overhead,
        "raw": took,
        "holds": {"at most 15 % more than plain mapInArrow": overhead <= 0.15},
    }


def _start_plain(stream: DataFrame, directory: str) -> StreamingQuery:
    frame = stream.select("key").mapInArrow(_plainly, "key string, result double")
    return h.sink(frame, directory).trigger(processingTime=h.TRIGGER).start()


def _plainly(batches: Any) -> Any:
    """Does what a user would write without a guard."""
    arrow: Any = import_module("pyarrow")
    for batch in batches:
        results = [ten_microseconds(row) for row in batch.to_pylist()]
        column = arrow.array(results, arrow.float64())
        yield arrow.RecordBatch.from_arrays([*batch.columns, column], ["key", "result"])
