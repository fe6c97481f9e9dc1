"""Weighted aggregates for results of a gated stream, and how wrong they can be.

They take the place of ``sf.count`` and the like behind a gate. With ``bounds=True`` an aggregate
is a struct of ``value``, ``low`` and ``high``; see ``penstock.estimate`` for the arithmetic. Where
nothing was shed all three are equal, and equal to what the plain aggregate gives.
"""

from statistics import NormalDist

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.spark.gate import SIC, WEIGHT


def _weight() -> Column:
    return sf.col(WEIGHT)


def _number(column: Column | str) -> Column:
    return (sf.col(column) if isinstance(column, str) else column).cast("double")


def _with_bounds(
    value: Column, variance: Column, name: str, bounds: bool, confidence: float
) -> Column:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is a share such as 0.95, not {confidence}")
    if not bounds:
        return value.alias(name)
    half = sf.lit(NormalDist().inv_cdf(0.5 + confidence / 2)) * sf.sqrt(
        sf.greatest(variance, sf.lit(0.0))
    )
    low, high = value.cast("double") - half, value.cast("double") + half
    return sf.struct(value.alias("value"), low.alias("low"), high.alias("high")).alias(name)


def count(
    condition: Column | None = None, *, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """How many tuples arrived (that meet a condition): ``Σw``, rounded to a whole number."""
    weight = _weight() if condition is None else sf.when(condition, _weight())
    total = sf.coalesce(sf.round(sf.sum(weight)), sf.lit(0)).cast("bigint")
    variance = sf.coalesce(sf.sum(weight * (weight - 1)), sf.lit(0.0))
    return _with_bounds(total, variance, "count", bounds, confidence)


def sum(column: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The sum of a column over all that arrived: ``Σwx``."""
    x, w = _number(column), _weight()
    return _with_bounds(sf.sum(w * x), sf.sum(w * (w - 1) * x * x), "sum", bounds, confidence)


def mean(column: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The mean of a column over all that arrived, nulls left out: ``Σwx / Σw``."""
    x = _number(column)
    weight = sf.when(x.isNotNull(), _weight())
    total = sf.sum(weight)
    value = sf.sum(weight * x) / total
    extra = weight * (weight - 1)
    # Σ w(w-1)(x - mean)², expanded so that one pass is enough
    spread = sf.sum(extra * x * x) - 2 * value * sf.sum(extra * x) + value * value * sf.sum(extra)
    return _with_bounds(value, spread / (total * total), "mean", bounds, confidence)


def sic() -> Column:
    """How complete this result is: the SIC that reached it over the SIC that was meant for it.

    1 exactly where nothing was shed.
    """
    worth = sf.col(SIC)
    return sf.try_divide(sf.sum(worth), sf.sum(worth * _weight())).alias("sic")
