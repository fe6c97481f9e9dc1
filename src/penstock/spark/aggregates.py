"""Weighted aggregates for results of a gated stream, and how wrong they can be.

They take the place of ``sf.count`` and the like behind a gate. With ``bounds=True`` an aggregate
is a struct of ``value``, ``low`` and ``high``; see ``penstock.estimates`` for the formulas. Where
nothing was shed all three are equal, and equal to what the plain aggregate gives.
"""

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock import estimates as weighted
from penstock.errors import PenstockError
from penstock.estimates import Weighted
from penstock.spark.gate.columns import SIC, WEIGHT
from penstock.units import as_share


class SparkAlgebra:
    """Formulas as columns."""

    def call(self, name: str, *arguments: Column) -> Column:
        return sf.call_function(name, *arguments)

    def literal(self, value: float | None) -> Column:
        return sf.lit(value)


SPARK = SparkAlgebra()


def _weight() -> Column:
    return sf.col(WEIGHT)


def _column(column: Column | str) -> Column:
    return sf.col(column) if isinstance(column, str) else column


def _answer(found: Weighted[Any], name: str, bounds: bool, confidence: float) -> Column:
    value: Column = found.value
    if not isinstance(bounds, bool):
        raise ValueError(f"bounds is True or False, not {bounds!r}; see confidence")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is a share such as 0.95, not {confidence}")
    if not bounds:
        return value.alias(name)
    low, high = weighted.bounds(SPARK, found, confidence)
    return sf.struct(value.alias("value"), low.alias("low"), high.alias("high")).alias(name)


def count(
    condition: Column | None = None, *, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """How many tuples arrived (that meet a condition): ``Σw``, rounded to a whole number."""
    weight = _weight() if condition is None else sf.when(condition, _weight())
    return _answer(weighted.count(SPARK, weight), "count", bounds, confidence)


def sum(column: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The sum of a column over all that arrived: ``Σwx``."""
    return _answer(weighted.total(SPARK, _column(column), _weight()), "sum", bounds, confidence)


def mean(column: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The mean of a column over all that arrived, nulls left out: ``Σwx / Σw``."""
    return _answer(weighted.mean(SPARK, _column(column), _weight()), "mean", bounds, confidence)


def var(
    column: Column | str, *, sample: bool = True, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """The variance of a column over all that arrived; of the population if not ``sample``."""
    found = weighted.variance(SPARK, _column(column), _weight(), sample=sample)
    return _answer(found, "var", bounds, confidence)


def stddev(
    column: Column | str, *, sample: bool = True, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """The square root of the variance."""
    found = weighted.deviation(SPARK, _column(column), _weight(), sample=sample)
    return _answer(found, "stddev", bounds, confidence)


def covar(
    one: Column | str,
    two: Column | str,
    *,
    sample: bool = True,
    bounds: bool = False,
    confidence: float = 0.95,
) -> Column:
    """The covariance of two columns over all that arrived."""
    found = weighted.covariance(SPARK, _column(one), _column(two), _weight(), sample=sample)
    return _answer(found, "covar", bounds, confidence)


def corr(one: Column | str, two: Column | str) -> Column:
    """Pearson's correlation of two columns over all that arrived."""
    return weighted.correlation(SPARK, _column(one), _column(two), _weight()).value.alias("corr")


def percentile(column: Column | str, share: float, accuracy: int = 10_000) -> Column:
    """The value below which a share of all that arrived lies; approximate."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share lies between 0 and 1; it is {share}")
    found = weighted.percentile(
        SPARK,
        "percentile_approx",
        _column(column),
        _weight(),
        sf.lit(share),
        sf.lit(accuracy),
    )
    return found.value.alias("percentile")


def within(column: Column | str, *, error: float | str, confidence: float = 0.95) -> Column:
    """Whether the mean of a column is known to this relative error, at this confidence.

    What a query with an error target says where its target could not be met.
    """
    bound = as_share("error", error)
    if not bound > 0.0:
        raise PenstockError(f"error: a share such as 0.05, not {error}")
    known = mean(column, bounds=True, confidence=confidence)
    half = known["high"] - known["value"]
    return (half <= sf.lit(bound) * sf.abs(known["value"])).alias("within")


def sic() -> Column:
    """How complete this result is: the SIC that reached it over the SIC that was meant for it.

    1 exactly where nothing was shed.
    """
    worth = sf.col(SIC)
    return sf.try_divide(sf.sum(worth), sf.sum(worth * _weight())).alias("sic")
