"""Weighted aggregates in Spark against the arithmetic in ``tests.reference.estimate``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock import functions as pf
from penstock.errors import PenstockError
from tests.reference.estimate import Estimate, Sample

ROWS = [
    (0, 2.0, 4.0, 0.1),
    (0, -3.0, 1.0, 0.1),
    (0, 8.5, 10.0, 0.3),
    (0, None, 2.0, 0.1),
    (1, 5.0, 1.0, 0.25),
    (1, 7.0, 1.0, 0.25),
    (2, None, 3.0, 0.5),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "g int, x double, _weight double, _sic double").cache()


def sample(group: int) -> Sample:
    known = [(x, w) for g, x, w, _ in ROWS if g == group and x is not None]
    x, w = np.array(known).reshape(-1, 2).T
    return Sample().update(x, weight=w)


def close(found: Any, expected: Estimate) -> None:
    assert tuple(found)[:3] == pytest.approx(tuple(expected), rel=1e-12)


def close_but_for_its_lean(found: Any, expected: Estimate) -> None:
    """One end is Student's, the other at least as far out; ``test_estimates`` says how far."""
    assert found["value"] == pytest.approx(expected.value, rel=1e-12)
    ends = [(found["low"], expected.low), (found["high"], expected.high)]
    assert any(mine == pytest.approx(students, rel=1e-12) for mine, students in ends)
    assert found["low"] <= expected.low + 1e-9
    assert found["high"] >= expected.high - 1e-9


@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_values_and_bounds(rows: DataFrame, confidence: float) -> None:
    grouped = rows.groupBy("g").agg(
        pf.sum("x", bounds=True, confidence=confidence).alias("sum"),
        pf.mean(sf.col("x"), bounds=True, confidence=confidence).alias("average"),
        pf.count("x", bounds=True, confidence=confidence).alias("count"),
        pf.count("*").alias("all"),
        pf.sum("x").alias("plain"),
        pf.sic(),
    )
    found = {row["g"]: row for row in grouped.collect()}
    for group in (0, 1):
        truth = sample(group)
        close_but_for_its_lean(found[group]["sum"], truth.sum(confidence))
        close_but_for_its_lean(found[group]["average"], truth.mean(confidence))
        close(found[group]["count"], truth.count(confidence))
        assert found[group]["plain"] == found[group]["sum"]["value"]
    assert [found[group]["all"] for group in range(3)] == [17, 2, 3]
    assert found[0]["sic"] == pytest.approx(0.6 / (0.4 + 0.1 + 3.0 + 0.2))
    assert found[1]["sic"] == 1.0  # exactly
    assert found[1]["sum"] == (12.0, 12.0, 12.0, 2.0, True)
    assert found[1]["average"] == (6.0, 6.0, 6.0, 2.0, True)
    assert tuple(found[2]["sum"])[:3] == (None, None, None)
    assert tuple(found[2]["average"])[:3] == (None, None, None)
    assert tuple(found[2]["count"]) == (0, 0.0, 0.0, 0.0, False)  # others of it were shed


def test_nothing_at_all(rows: DataFrame) -> None:
    """Like Spark's own: a count of 0, and no sum, mean or SIC."""
    row = (
        rows.where("g > 5")
        .agg(pf.count("*", bounds=True), pf.sum("x"), pf.mean("x"), pf.sic())
        .collect()[0]
    )
    assert tuple(row["count(1)"]) == (0, 0.0, 0.0, 0.0, True)
    assert tuple(row)[1:] == (None, None, None)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, -0.1])
def test_a_confidence_is_a_share(spark: SparkSession, confidence: float) -> None:
    del spark  # columns need a session
    for aggregate in (pf.count, pf.sum, pf.mean):
        with pytest.raises(PenstockError, match=r"^confidence must be .*, such as 0\.95; got "):
            aggregate("x", bounds=True, confidence=confidence)


def test_intervals_cover_the_truth_in_95_percent_of_windows(spark: SparkSession) -> None:
    """Law 7: 2,000 windows of 1,500 skewed tuples, sampled by their hash, at 5 to 50 %."""
    windows, size = 2000, 1500
    tuples = spark.range(windows * size).select(
        (sf.col("id") % windows).alias("g"),
        sf.exp(0.6 * sf.randn(7)).alias("x"),
        (0.05 + 0.45 * (sf.col("id") % windows) / windows).alias("rate"),
        (sf.shiftrightunsigned(sf.xxhash64(sf.lit(1), "id"), 1) / 2.0**63).alias("luck"),
    )
    kept = sf.col("luck") < sf.col("rate")
    weighed = tuples.withColumns(
        {"_weight": sf.when(kept, 1 / sf.col("rate")), "_x": sf.when(kept, sf.col("x"))}
    )
    estimated = weighed.groupBy("g").agg(
        sf.sum("x").alias("true_sum"),
        sf.mean("x").alias("true_mean"),
        pf.count_if(kept, bounds=True).alias("count"),
        pf.sum("_x", bounds=True).alias("sum"),
        pf.mean("_x", bounds=True).alias("mean"),
    )

    def covered(name: str, truth: str) -> Any:
        inside = sf.expr(f"{name}.low <= {truth} AND {truth} <= {name}.high")
        return sf.mean(inside.cast("int")).alias(name)

    share = estimated.agg(
        covered("count", str(size)),
        covered("sum", "true_sum"),
        covered("mean", "true_mean"),
        (sf.mean("sum.value") / sf.mean("true_sum")).alias("bias"),
    ).collect()[0]
    assert share["bias"] == pytest.approx(1.0, abs=0.01)
    assert 0.93 <= share["count"] <= 0.97
    assert 0.93 <= share["sum"] <= 0.97
    assert 0.93 <= share["mean"] <= 0.97
