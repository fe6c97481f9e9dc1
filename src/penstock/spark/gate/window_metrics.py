"""Observes for a window what counts do not tell: the newest event time, and some values.

Counts by group come from ``approx_top_k``, which has no equal for sums. So the gate sends the
values of a few thousand admitted tuples to the driver. It chooses them by a second hash of their
identity. They are enough for means and spreads, and cost the same for any number of groups.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.core.types import Stratum
from penstock.windows.concept import Concept

VALUES_PER_BATCH = 2000
"""About how many values of a batch the gate sends to the driver."""


def look(concept: Concept, key: Column, chosen: Column) -> list[Column]:
    """Returns the columns that the metrics below are made of.

    ``key`` tells groups apart, ``chosen`` says which tuples show their value.
    """
    columns = []
    if concept.time is not None:
        columns.append(sf.expr(concept.time).cast("double").alias("_clock"))
    if concept.value is not None:
        value = sf.expr(concept.value).cast("double")
        seen = sf.when(chosen & value.isNotNull(), sf.struct(key.alias("k"), value.alias("x")))
        columns.append(seen.alias("_value"))
    return columns


def clock_metric(concept: Concept) -> Column:
    """Observes the newest event time, or null where the concept has none."""
    clock = sf.lit(None).cast("double") if concept.time is None else sf.col("_clock")
    return sf.max(clock).alias("clock")


def values_metric() -> Column:
    """Observes the values that were chosen, each with its group's key."""
    return sf.collect_list(sf.col("_value")).alias("values")


def newest(metrics: Mapping[str, Any]) -> float | None:
    """Returns the newest event time that a gate observed."""
    clock = metrics.get("clock")
    return None if clock is None else float(clock)


def values_of(
    metrics: Mapping[str, Any], strata: Mapping[int, Stratum]
) -> dict[Stratum, list[float]]:
    """Returns the values that a gate observed, by stratum."""
    found: dict[Stratum, list[float]] = {}
    for entry in metrics["values"]:
        stratum = strata.get(int(entry["k"]))
        if stratum is not None:
            found.setdefault(stratum, []).append(float(entry["x"]))
    return found
