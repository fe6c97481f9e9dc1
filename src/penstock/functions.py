"""The drop-in for ``pyspark.sql.functions`` behind a gate: the same names, weighted aggregates.

A gate that sheds half of a stream stamps each tuple that it admits with a ``_weight`` of 2. Spark's
own ``count`` would then count half of what arrived. The aggregates of this module count each tuple
as often as its weight says, so that they estimate what Spark would have found in the whole stream::

    from penstock import Site, functions as sf

    fares = rides.groupBy(sf.window("pickup", "5 minutes"), "route").agg(
        sf.count("*"), sf.avg("fare", bounds=True), sf.sic()
    )

Every public name of ``pyspark.sql.functions`` is here, with Spark's parameters:

=================================================================  =================================
``count`` ``count_if`` ``sum`` ``try_sum`` ``avg`` ``mean``        **weighted**, with ``bounds=``
``try_avg`` ``var_pop`` ``var_samp`` ``variance`` ``std``          for an interval that holds the
``stddev`` ``stddev_pop`` ``stddev_samp`` ``covar_pop``            truth at a ``confidence=``
``covar_samp``
``corr`` ``median`` ``percentile`` ``percentile_approx``           **weighted**, no interval
``approx_percentile``
``sic`` ``within``                                                 **Penstock's own**
``min`` ``max`` ``first`` ``last`` ``any_value`` ``mode``          **not scaled**: Spark's own, of
``collect_*`` ``count_distinct`` ``approx_count_distinct``         the admitted tuples; a maximum
``sum_distinct`` ``bool_*`` ``bit_*`` sketches                     that was shed cannot be guessed
``skewness`` ``kurtosis`` ``regr_*`` ``histogram_numeric``         **not scaled**, and biased where
``product``                                                        tuples have different weights
all other functions                                                Spark's own
=================================================================  =================================

Where nothing was shed, a weighted aggregate has the value, the type and the name of Spark's. An
expression of several aggregates has the value and the type, but a long name: give it an ``alias``.

The stamps ``_weight`` and ``_sic`` must reach the aggregate: a ``select`` on the way keeps them.
Where it does not, and where there is no gate at all, Spark refuses the aggregate and says so. The
weighted aggregates belong into ``agg`` or ``select``; they have no ``over``, and there are none of
intervals, nor percentiles of dates and timestamps.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as _spark

from penstock import estimates as _estimates
from penstock.errors import PenstockError as _PenstockError
from penstock.spark import weighted_columns as _weighted
from penstock.spark.gate.columns import SIC as _SIC
from penstock.spark.names import counts_all as _counts_all
from penstock.spark.plain_functions import *  # noqa: F403
from penstock.units import as_share as _as_share

__all__ = ["sic", "within"]
__all__ += _spark.__all__

# What Spark keeps for old programs: public functions that its own list leaves out.
globals().update(
    {
        name: member
        for name, member in vars(_spark).items()
        if not name.startswith("_") and name not in globals()
    }
)

_Shares = Column | float | Sequence[float] | tuple[float, ...]


def count(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """How many tuples arrived, of those that have a value: ``Σw``, rounded to a whole number.

    Parameters
    ----------
    col
        A column or its name, or ``"*"`` for all tuples.
    bounds
        Whether the result is a struct of ``value``, ``low``, ``high``, ``n`` and ``certified``.
    confidence
        How likely the interval from ``low`` to ``high`` holds the truth.

    Examples
    --------
    A gate admitted two of three tuples of some kind, and stamped each with a weight of 1.5:

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 1.5D), (9, 1.5D) AS rides(fare, _weight)")
    >>> rides.agg(count("*"), count("fare")).show()
    +--------+-----------+
    |count(1)|count(fare)|
    +--------+-----------+
    |       3|          3|
    +--------+-----------+
    <BLANKLINE>
    """
    native = _spark.count(col)
    everything, x = _counts_all(native), _weighted.as_column(col)
    found = _weighted.count(lambda w: w if everything else _spark.nvl2(x, w, _spark.lit(None)))
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def count_if(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """How many tuples arrived for which a condition holds; see `count`.

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 1.5D), (9, 4.0D) AS rides(fare, _weight)")
    >>> rides.agg(count_if(col("fare") > 8)).show()
    +--------------------+
    |count_if((fare > 8))|
    +--------------------+
    |                   4|
    +--------------------+
    <BLANKLINE>
    """
    found = _weighted.count(lambda w: _spark.when(_weighted.as_column(col), w))
    return _weighted.answer(found, _spark.count_if(col), bounds=bounds, confidence=confidence)


def sum(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The sum of a column over all that arrived: ``Σwx``; see `count` for the parameters.

    It is a bigint for whole numbers, a decimal for decimals, a double otherwise, as in Spark.

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 2.0D), (9, 2.0D) AS rides(fare, _weight)")
    >>> rides.agg(sum("fare"), sum("fare", bounds=True).alias("about")).show()
    +---------+--------------------+
    |sum(fare)|               about|
    +---------+--------------------+
    |       32|{32, -30.10718741...|
    +---------+--------------------+
    <BLANKLINE>
    """
    native = _spark.sum(col)
    found = _weighted.total(_weighted.as_column(col), native)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def try_sum(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The `sum`, or null where it does not fit into its type."""
    native = _spark.try_sum(col)
    found = _weighted.total(_weighted.as_column(col), native, lenient=True)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def avg(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The average of a column over all that arrived: ``Σwx / Σw``; see `count` for the parameters.

    It is a decimal for decimals, a double otherwise, as in Spark.

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 1.0D), (9, 3.0D) AS rides(fare, _weight)")
    >>> rides.agg(avg("fare")).show()
    +---------+
    |avg(fare)|
    +---------+
    |      8.5|
    +---------+
    <BLANKLINE>
    """
    return _average(_spark.avg(col), col, bounds, confidence)


def mean(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """Another name for `avg`; Spark names the column ``avg(...)``, too."""
    return _average(_spark.mean(col), col, bounds, confidence)


def try_avg(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The `avg`, or null where it does not fit into its type."""
    return _average(_spark.try_avg(col), col, bounds, confidence, lenient=True)


def _average(
    native: Column, col: Column | str, bounds: bool, confidence: float, *, lenient: bool = False
) -> Column:
    found = _weighted.mean(_weighted.as_column(col), native, lenient=lenient)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def var_samp(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The variance of a column over all that arrived, as of a sample: divided by n - 1."""
    return _variance(_spark.var_samp(col), col, bounds, confidence)


def variance(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """Another name for `var_samp`."""
    return _variance(_spark.variance(col), col, bounds, confidence)


def var_pop(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The variance of a column over all that arrived, as of a population: divided by n."""
    return _variance(_spark.var_pop(col), col, bounds, confidence, sample=False)


def _variance(
    native: Column, col: Column | str, bounds: bool, confidence: float, *, sample: bool = True
) -> Column:
    x = _weighted.as_column(col)
    found = _weighted.estimated(_estimates.variance, x, sample=sample)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def stddev(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The square root of `var_samp`.

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 2.0D), (9, 2.0D) AS rides(fare, _weight)")
    >>> rides.agg(round(stddev("fare"), 3).alias("spread")).show()
    +------+
    |spread|
    +------+
    | 1.155|
    +------+
    <BLANKLINE>
    """
    return _deviation(_spark.stddev(col), col, bounds, confidence)


def std(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """Another name for `stddev`."""
    return _deviation(_spark.std(col), col, bounds, confidence)


def stddev_samp(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """Another name for `stddev`."""
    return _deviation(_spark.stddev_samp(col), col, bounds, confidence)


def stddev_pop(col: Column | str, *, bounds: bool = False, confidence: float = 0.95) -> Column:
    """The square root of `var_pop`."""
    return _deviation(_spark.stddev_pop(col), col, bounds, confidence, sample=False)


def _deviation(
    native: Column, col: Column | str, bounds: bool, confidence: float, *, sample: bool = True
) -> Column:
    x = _weighted.as_column(col)
    found = _weighted.estimated(_estimates.deviation, x, sample=sample)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def covar_samp(
    col1: Column | str, col2: Column | str, *, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """The covariance of two columns over all that arrived, as of a sample: divided by n - 1."""
    return _covariance(_spark.covar_samp(col1, col2), col1, col2, bounds, confidence)


def covar_pop(
    col1: Column | str, col2: Column | str, *, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """The covariance of two columns over all that arrived, as of a population: divided by n."""
    native = _spark.covar_pop(col1, col2)
    return _covariance(native, col1, col2, bounds, confidence, sample=False)


def _covariance(
    native: Column,
    col1: Column | str,
    col2: Column | str,
    bounds: bool,
    confidence: float,
    *,
    sample: bool = True,
) -> Column:
    x, y = _weighted.as_column(col1), _weighted.as_column(col2)
    found = _weighted.estimated(_estimates.covariance, x, y, sample=sample)
    return _weighted.answer(found, native, bounds=bounds, confidence=confidence)


def corr(col1: Column | str, col2: Column | str) -> Column:
    """Pearson's correlation of two columns over all that arrived; no interval is known for it."""
    x, y = _weighted.as_column(col1), _weighted.as_column(col2)
    found = _weighted.estimated(_estimates.correlation, x, y)
    return _weighted.answer(found, _spark.corr(col1, col2))


def median(col: Column | str) -> Column:
    """The median of a column over all that arrived; no interval is known for it.

    >>> rides = spark.sql("SELECT * FROM VALUES (7, 1.0D), (9, 4.0D) AS rides(fare, _weight)")
    >>> rides.agg(median("fare")).show()
    +------------+
    |median(fare)|
    +------------+
    |         9.0|
    +------------+
    <BLANKLINE>
    """
    x, weights = _weighted.as_column(col), _weighted.weight()
    found = _estimates.percentile(_weighted.SPARK, "median", x, weights)
    return _weighted.answer(_weighted.Estimate(found.value), _spark.median(col))


def percentile(col: Column | str, percentage: _Shares, frequency: Column | int = 1) -> Column:
    """The exact percentile of a column over all that arrived; no interval is known for it.

    Parameters
    ----------
    col
        A column of numbers, or its name.
    percentage
        A share from 0 to 1, or several of them for an array of percentiles.
    frequency
        How often each value counts, beside its weight.
    """
    native = _spark.percentile(col, percentage, frequency)
    times = frequency if isinstance(frequency, Column) else _spark.lit(frequency)
    x, weights = _weighted.as_column(col), _weighted.weight()
    found = _estimates.percentile(
        _weighted.SPARK, "percentile", x, weights, _share(percentage), times, frequency=times
    )
    return _weighted.answer(_weighted.Estimate(found.value), native)


def percentile_approx(
    col: Column | str, percentage: _Shares, accuracy: Column | int = 10_000
) -> Column:
    """The approximate percentile of a column over all that arrived; no interval is known for it.

    Where something was shed it is the exact `percentile`, in the type of the column: that one
    takes weights, and Spark's approximate one does not.

    Parameters
    ----------
    col
        A column of numbers, or its name.
    percentage
        A share from 0 to 1, or several of them for an array of percentiles.
    accuracy
        One over the relative error, where nothing was shed.
    """
    return _approximate(_spark.percentile_approx(col, percentage, accuracy), col, percentage)


def approx_percentile(
    col: Column | str, percentage: _Shares, accuracy: Column | int = 10_000
) -> Column:
    """Another name for `percentile_approx`."""
    return _approximate(_spark.approx_percentile(col, percentage, accuracy), col, percentage)


def _approximate(native: Column, col: Column | str, percentage: _Shares) -> Column:
    several = isinstance(percentage, list | tuple)
    x = _weighted.as_column(col)
    found = _weighted.percentile_approx(x, _share(percentage), native, several=several)
    return _weighted.answer(found, native)


def _share(percentage: _Shares) -> Column:
    if isinstance(percentage, Column):
        return percentage
    if isinstance(percentage, Sequence):
        return _spark.array(*(_spark.lit(share) for share in percentage))
    return _spark.lit(percentage)


def within(col: Column | str, *, error: float | str, confidence: float = 0.95) -> Column:
    """Whether the average of a column is known to a relative error, at a confidence.

    It tells, of each group of a query with an error target, whether the target was met.

    Parameters
    ----------
    col
        A column of numbers, or its name.
    error
        The largest error that is allowed, as a share of the average: 0.05 or ``"5%"``.
    confidence
        How likely the interval that must be within the error holds the truth.

    Examples
    --------
    >>> rides = spark.sql("SELECT * FROM VALUES (7, 1.0D), (9, 1.0D) AS rides(fare, _weight)")
    >>> rides.agg(within("fare", error="5%")).show()
    +------+
    |within|
    +------+
    |  true|
    +------+
    <BLANKLINE>
    """
    bound = _as_share("error", error)
    if not bound > 0.0:
        raise _PenstockError(f"error must be above 0, such as 0.05 or '5%'; got {error!r}")
    return _weighted.within(_weighted.as_column(col), bound, confidence)


def sic() -> Column:
    """How complete a result is: the SIC that was kept over the SIC that arrived, an estimate.

    What was kept is known, and what was shed is estimated by the weights: of n tuples at a rate of
    r the estimate is off by about ``sqrt(r(1-r)/n)``. It is exactly 1 where nothing of the query
    was shed while tuples of the result came, and below 1, if only by the last digit, where
    something was: also where the result has kept no tuple of that time.

    >>> rides = spark.sql("SELECT * FROM VALUES (0.1D, 2.0D), (0.1D, 3.0D) AS rides(_sic, _weight)")
    >>> rides.agg(sic()).show()
    +---+
    |sic|
    +---+
    |0.4|
    +---+
    <BLANKLINE>
    """
    worth = _spark.col(_SIC)
    missing = _spark.sum(worth * (_weighted.weight() - 1.0))
    return _weighted.completeness(_spark.sum(worth), missing).alias("sic")
