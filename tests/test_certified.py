"""The flag of an interval beside how often such intervals hold the truth, on small Spark tables.

Intervals reach further where a sample is skewed, so that they hold the truth of most skewed
streams, too. The flag is for what is left: few tuples, and errors that are those of a single tuple.
It sees one sample, so it cannot be right about streams whose tails samples rarely show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from penstock import functions as pf
from penstock.core.types import Floats

pytestmark = pytest.mark.spark
WINDOWS = 600
MOST_CERTIFIED_WRONGLY = 0.1
LEAST_OF_VERY_SKEWED = 0.87
"""Of the intervals of twenty tuples of a very skewed stream; Student's hold the truth of 80 %."""


def sampled(values: Floats, rates: Floats, rng: np.random.Generator) -> pd.DataFrame:
    """Returns the tuples that were kept of many windows; a row of ``values`` is a window."""
    kept = rng.random(values.shape) < rates
    window, _ = np.nonzero(kept)
    weights = np.broadcast_to(1.0 / rates, values.shape)[kept]
    return pd.DataFrame({"window": window, "x": values[kept], "_weight": weights})


def told(spark: SparkSession, frame: pd.DataFrame, which: str) -> pd.DataFrame:
    """Returns each window's interval."""
    function = {"avg": pf.avg, "sum": pf.sum, "stddev": pf.stddev_pop}[which]
    rows = spark.createDataFrame(frame).groupBy("window").agg(function("x", bounds=True).alias("a"))
    found: pd.DataFrame = rows.select("window", "a.*").toPandas().set_index("window")
    return found


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.normal(10.0, 2.0, shape)


def waits(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.exponential(1.0, shape)


def skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.lognormal(0.0, 1.5, shape)


def mildly_skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.lognormal(0.0, 1.0, shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.lognormal(0.0, 2.0, shape)


def rare(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.where(rng.random(shape) < 0.01, 100.0, 1.0)


CHANGING = np.repeat([0.9, 0.1], [200, 200])
"""The rates of a window that begins calm and ends in a burst."""
SOUND = [
    ("avg", normal, 400, 0.2),
    ("avg", normal, 100, 0.2),
    ("avg", waits, 2000, 0.3),
    ("avg", mildly_skewed, 100, 0.2),
    ("sum", normal, 400, 0.5),
    ("sum", waits, 100, 0.2),
    ("avg", normal, 400, CHANGING),
    ("stddev", normal, 4000, 0.3),
]
UNSOUND = [
    ("avg", rare, 60, 0.3),
    ("stddev", skewed, 500, 0.2),
    ("avg", normal, 8, 0.25),
]
TRUTH: dict[str, Any] = {"avg": np.mean, "sum": np.sum, "stddev": np.std}


def judged(
    spark: SparkSession, which: str, draw: Any, tuples: int, rates: float | Floats
) -> tuple[float, float]:
    """Returns how many intervals hold the truth, and how many are certified."""
    rng = np.random.default_rng(tuples)
    values = draw(rng, (WINDOWS, tuples))
    found = told(spark, sampled(values, np.asarray(rates, dtype=np.float64), rng), which)
    truth = TRUTH[which](values, axis=1)[found.index]
    covered = (found["low"] <= truth) & (truth <= found["high"])
    return float(covered.mean()), float(found["certified"].mean())


@pytest.mark.parametrize(("which", "draw", "tuples", "rates"), SOUND)
def test_an_interval_that_covers_is_certified(
    spark: SparkSession, which: str, draw: Any, tuples: int, rates: float | Floats
) -> None:
    coverage, certified = judged(spark, which, draw, tuples, rates)
    assert 0.925 <= coverage <= 0.975
    assert certified >= 0.95


@pytest.mark.parametrize(("which", "draw", "tuples", "rates"), UNSOUND)
def test_one_that_does_not_cover_is_not(
    spark: SparkSession, which: str, draw: Any, tuples: int, rates: float | Floats
) -> None:
    coverage, certified = judged(spark, which, draw, tuples, rates)
    assert coverage < 0.9
    assert certified <= MOST_CERTIFIED_WRONGLY


@pytest.mark.parametrize("which", ["avg", "sum"])
def test_of_a_very_skewed_stream_intervals_hold_the_truth_more_often_than_students(
    spark: SparkSession, which: str
) -> None:
    coverage, _ = judged(spark, which, skewed, 100, 0.2)
    assert LEAST_OF_VERY_SKEWED <= coverage <= 0.95


def test_tails_that_samples_do_not_show_are_certified(spark: SparkSession) -> None:
    """What the flag cannot do, and the documents say so."""
    coverage, certified = judged(spark, "avg", heavy_tailed, 100, 0.2)
    assert 0.78 < coverage < 0.9
    assert certified > 0.5


def test_where_nothing_was_shed_it_is_certain(spark: SparkSession) -> None:
    frame = pd.DataFrame({"window": [0, 0, 1], "x": [1.0, 2.0, 5.0], "_weight": 1.0})
    for which in TRUTH:
        found = told(spark, frame, which)
        assert found["certified"].all()
        assert found["n"].to_list() == [2.0, 1.0]


def test_the_effective_number_is_kishs(spark: SparkSession) -> None:
    frame = pd.DataFrame({"window": 0, "x": [1.0, 2.0, 3.0], "_weight": [1.0, 2.0, 3.0]})
    assert told(spark, frame, "avg")["n"].item() == pytest.approx(36 / 14)
