"""What a gate looks at for a window, beyond counts: the newest event time, and some values.

Counts by group come from ``approx_top_k``; there is no such thing for sums. So a few thousand of
the admitted tuples, chosen by a second hash of their identity, show their value to the driver,
which is enough for means and spreads and costs the same for any number of groups.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.core.types import Stratum
from penstock.windows.concept import Concept

MOST_VALUES = 2000
"""Values that are looked at in a batch, about."""


def look(concept: Concept, key: Column, chosen: Column) -> list[Column]:
    """Columns for the metrics below.

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
    clock = sf.lit(None).cast("double") if concept.time is None else sf.col("_clock")
    return sf.max(clock).alias("clock")


def values_metric() -> Column:
    return sf.collect_list(sf.col("_value")).alias("values")


def newest(metrics: Mapping[str, Any]) -> float | None:
    clock = metrics.get("clock")
    return None if clock is None else float(clock)


def values_of(
    metrics: Mapping[str, Any], strata: Mapping[int, Stratum]
) -> dict[Stratum, list[float]]:
    found: dict[Stratum, list[float]] = {}
    for entry in metrics["values"]:
        stratum = strata.get(int(entry["k"]))
        if stratum is not None:
            found.setdefault(stratum, []).append(float(entry["x"]))
    return found
