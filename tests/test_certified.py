"""The flag of an interval beside how often such intervals hold the truth, on small Spark tables.

The flag sees one sample, so it cannot be right about every one: a sample of a skewed stream that
happens to lack its rare large values looks harmless. What it must do is tell streams apart.
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
MOST_CERTIFIED_WRONGLY = 0.15
"""Of windows with twenty tuples of a very skewed stream, an eighth looks harmless."""
MOST_OF_MILDER_SKEW = 0.35
"""Where the skew is milder it shows less often, and the intervals cover more."""


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


def rare(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.where(rng.random(shape) < 0.01, 100.0, 1.0)


CHANGING = np.repeat([0.9, 0.1], [200, 200])
"""The rates of a window that begins calm and ends in a burst."""
SOUND = [
    ("avg", normal, 400, 0.2),
    ("avg", normal, 100, 0.2),
    ("avg", waits, 2000, 0.3),
    ("sum", normal, 400, 0.5),
    ("avg", normal, 400, CHANGING),
    ("stddev", normal, 4000, 0.3),
]
UNSOUND = [
    ("avg", skewed, 100, 0.2),
    ("sum", skewed, 100, 0.2),
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


def test_of_milder_skew_a_third_looks_harmless(spark: SparkSession) -> None:
    """What the flag cannot do, and the documents say so."""
    coverage, certified = judged(spark, "avg", mildly_skewed, 100, 0.2)
    assert 0.8 < coverage < 0.9
    assert certified <= MOST_OF_MILDER_SKEW


def test_where_nothing_was_shed_it_is_certain(spark: SparkSession) -> None:
    frame = pd.DataFrame({"window": [0, 0, 1], "x": [1.0, 2.0, 5.0], "_weight": 1.0})
    for which in TRUTH:
        found = told(spark, frame, which)
        assert found["certified"].all()
        assert found["n"].to_list() == [2.0, 1.0]


def test_the_effective_number_is_kishs(spark: SparkSession) -> None:
    frame = pd.DataFrame({"window": 0, "x": [1.0, 2.0, 3.0], "_weight": [1.0, 2.0, 3.0]})
    assert told(spark, frame, "avg")["n"].item() == pytest.approx(36 / 14)
