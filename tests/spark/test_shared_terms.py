"""Formulas that share their terms: the same figures as written out, and far less to plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock import estimates
from penstock.spark.shared_terms import SharedTerm, SharedTerms, struct_of, written_out

pytestmark = pytest.mark.spark
FORMULAS: dict[str, tuple[Callable[..., estimates.Weighted[SharedTerm]], int]] = {
    "count": (estimates.count, 0),
    "total": (estimates.total, 1),
    "mean": (estimates.mean, 1),
    "variance": (estimates.variance, 1),
    "deviation": (estimates.deviation, 1),
    "covariance": (estimates.covariance, 2),
}
"""By name: the formula, and how many columns it is of."""


def answers(name: str) -> dict[str, SharedTerm]:
    """Returns all that is told of an estimate."""
    formula, columns = FORMULAS[name]
    f = SharedTerms()
    found = formula(f, *(f.given(sf.col(each)) for each in "xy"[:columns]), f.given(sf.col("w")))
    assert found.size is not None
    low, high = estimates.bounds(f, found, 0.95)
    certified = estimates.certified(f, found)
    return {"value": found.value, "low": low, "high": high, "n": found.size, "sure": certified}


def same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    return bool(one == two)


def test_what_is_shared_is_what_is_written_out(spark: SparkSession) -> None:
    """To the last bit: groups that lost tuples, that lost none, of one tuple, and of nulls."""
    rng = np.random.default_rng(1)
    rows = [
        (g, None if rng.random() < 0.1 else float(rng.normal(g, 3)), float(rng.normal()), w)
        for g, w in ((0, 1.0), (1, 4.0), (2, 1.5), (3, 1.0 + 2**-52))
        for _ in range(30)
    ]
    rows += [(4, 7.0, 1.0, 3.0), (5, None, 1.0, 3.0)]
    frame = spark.createDataFrame(rows, "g int, x double, y double, w double").coalesce(1)
    told = {name: answers(name) for name in FORMULAS}
    shared = [struct_of(each).alias(name) for name, each in told.items()]
    written = [
        sf.struct(*(written_out(term).alias(key) for key, term in each.items())).alias(f"{name}_")
        for name, each in told.items()
    ]
    found = frame.groupBy("g").agg(*shared, *written).collect()
    assert len(found) == 6
    for row in found:
        for name in FORMULAS:
            pairs = zip(row[name], row[f"{name}_"], strict=True)
            assert all(same(*pair) for pair in pairs), (row["g"], name, row)


@pytest.mark.parametrize("name", FORMULAS)
def test_each_aggregate_stands_in_a_column_once(spark: SparkSession, name: str) -> None:
    """And each term that is used again: written out, the same is many times as long."""
    del spark  # columns need a session
    told = answers(name)
    shared = str(struct_of(told))
    written = "".join(str(written_out(term)) for term in told.values())
    aggregates = [shared.count(f"{each}(") for each in ("sum", "max", "var_pop", "covar_pop")]
    assert sum(aggregates) <= 20
    assert written.count("sum(") > 4 * shared.count("sum(")


def test_equal_terms_are_one(spark: SparkSession) -> None:
    del spark  # constants need a session
    f = SharedTerms()
    x = f.given(sf.col("x"))
    assert f.call("sum", x * 2.0) is f.call("sum", x * 2.0)
    assert f.literal(True) is not f.literal(1.0)
    assert f.given(sf.col("x")) is not x  # nobody looks into a column
