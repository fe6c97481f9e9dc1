"""The estimates of ``penstock.estimates`` as Spark columns: what ``penstock.functions`` calls.

Three things stand between a formula and a column that behaves as Spark's own.

* **The value is Spark's where nothing was shed.** Sums of whole numbers and of decimals are exact
  in Spark, and a formula over doubles is not. So Spark's aggregate is computed beside the weighted
  one, which is used where some weight is above 1. Where Spark's result is a double the two agree to
  the last bit, and the optimizer drops the second.
* **The type is Spark's.** A column does not know its type before Spark analyses it; ``typeof``
  does, and ``variant_get`` accepts a type that is computed.
* **The name is Spark's**; see ``penstock.spark.names``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from penstock import estimates
from penstock.errors import PenstockError
from penstock.estimates import JUST_ABOVE_ONE, JUST_BELOW_ONE, Weighted
from penstock.spark.engines import engine_of
from penstock.spark.gate.columns import SIC, WEIGHT
from penstock.spark.gate.wire import most_of_a_row
from penstock.spark.names import name_of
from penstock.spark.shared_terms import (
    SharedTerm,
    SharedTerms,
    aggregates_of,
    struct_of,
    written_out,
)

LOST_STAMPS = (
    f"the columns here: keep {WEIGHT} and {SIC} in every select between the gate and this "
    "aggregate, or use the functions of pyspark where there is no gate"
)
"""What Spark says after "No such struct field `_weight` in"."""


class SparkAlgebra:
    """Formulas as columns."""

    def call(self, name: str, *arguments: Column) -> Column:
        return sf.call_function(name, *arguments)

    def literal(self, value: float | None) -> Column:
        return sf.lit(value)


SPARK = SparkAlgebra()


def as_column(column: Column | str) -> Column:
    return sf.col(column) if isinstance(column, str) else column


def weight() -> Column:
    """The weight that a gate stamped, or an error in words where a ``select`` has lost it.

    Spark alone would say that it knows no column ``_weight``, which is not a name that the user
    wrote. So the column stands behind a null whose type is looked up in a struct: Spark evaluates
    a type while it analyses, and complains of the struct's only field, which is the message. Where
    the weight is there, the optimizer leaves nothing of this but the column.
    """
    stamped = sf.rlike(sf.lower(sf.typeof(sf.struct("*"))), sf.lit(f"[<,]{WEIGHT}:"))
    field = sf.when(stamped, sf.lit(WEIGHT)).otherwise(sf.lit(LOST_STAMPS))
    looked_up = sf.call_function("named_struct", field, sf.lit(1.0))[WEIGHT]
    nothing = sf.lit(None).cast("variant")
    return sf.coalesce(_as_type_of(nothing, looked_up), sf.col(WEIGHT))


@dataclass(frozen=True)
class Estimate:
    """Holds the column of an estimate, and the formulas of its interval where one is known."""

    value: Column
    interval: Weighted[SharedTerm] | None = None


Formula = Callable[..., Weighted[SharedTerm]]
"""Takes the algebra, the columns that an estimate is of, and the weight."""


def estimated(
    formula: Formula,
    *of: Column,
    weights: Callable[[Column], Column] = lambda w: w,
    **options: bool,
) -> Estimate:
    """Returns what a formula gives for the weight that a gate stamped; ``weights`` leaves some out.

    The value looks whether the stamp is there, in one of its aggregates: Spark would take the
    check out of each of them again in every batch.
    """
    f = SharedTerms()
    w = f.given(weights(sf.col(WEIGHT)))
    found = formula(f, *map(f.given, of), w, **options)
    first = next(each for each in aggregates_of(found.value) if each.rests_on(w))
    checked = written_out(first, {w: weights(weight())})
    return Estimate(written_out(found.value, {first: checked}), found)


def answer(
    found: Estimate, native: Column, *, bounds: bool = False, confidence: float = 0.95
) -> Column:
    """The estimate under the name of Spark's aggregate; with its interval, where one is wanted."""
    if not isinstance(bounds, bool):
        raise PenstockError(
            f"bounds must be True or False, such as bounds=True; got {bounds!r} "
            "(how sure an interval is goes by confidence=)"
        )
    if not 0.0 < confidence < 1.0:
        raise PenstockError(f"confidence must be between 0 and 1, such as 0.95; got {confidence!r}")
    name = name_of(native)
    if not bounds:
        return found.value.alias(name)
    assert found.interval is not None
    assert found.interval.size is not None
    f = found.interval.value.terms
    low, high = estimates.bounds(f, found.interval, confidence)
    shed = f.call("max", f.given(sf.col(WEIGHT))) > JUST_ABOVE_ONE
    trusted = f.call("if", shed, estimates.certified(f, found.interval), f.literal(True))
    told = {"value": f.given(found.value), "low": low, "high": high}
    return struct_of({**told, "n": found.interval.size, "certified": trusted}).alias(name)


def within(x: Column, error: float, confidence: float) -> Column:
    """Says whether half of a mean's interval is at most this share of the mean."""
    found = mean(x.cast("double"), sf.avg(x.cast("double")))
    assert found.interval is not None
    f = found.interval.value.terms
    value, (_, high) = f.given(found.value), estimates.bounds(f, found.interval, confidence)
    wide = (high - value) > f.call("abs", value) * error
    return struct_of({"within": f.call("not", wide)})["within"].alias("within")


def completeness(came: Column, missing: Column) -> Column:
    """The share of the SIC that was kept; the gates of the query say what it is at most.

    They say it through a function of the catalog, which a session without a site lacks.
    """
    try:
        engine_of(SparkSession.active()).install()
    except (
        PenstockError,
        PySparkException,
    ):  # no session, or one that takes no jar: there are no gates
        most = sf.when(missing > 0.0, sf.lit(JUST_BELOW_ONE)).otherwise(sf.lit(1.0))
    else:
        most = most_of_a_row(missing > 0.0)
    return estimates.completeness(SPARK, came, missing, most)


def count(weights: Callable[[Column], Column]) -> Estimate:
    """A count is never null, and Spark's type says so; ``weights`` leaves tuples out."""
    found = estimated(estimates.count, weights=weights)
    return replace(found, value=sf.coalesce(found.value, sf.lit(0)))


def total(x: Column, native: Column, *, lenient: bool = False) -> Estimate:
    """A sum; of whole numbers it is a whole number."""
    found = estimated(estimates.total, x)
    whole = sf.typeof(native) == "bigint"
    rounded = sf.when(whole, sf.round(found.value)).otherwise(found.value)
    value = _spark_where_nothing_was_shed(rounded, native, lenient=lenient)
    return replace(found, value=value)


def mean(x: Column, native: Column, *, lenient: bool = False) -> Estimate:
    """An average; of decimals it is a decimal."""
    found = estimated(estimates.mean, x)
    value = _spark_where_nothing_was_shed(found.value, native, lenient=lenient)
    return replace(found, value=value)


def percentile_approx(x: Column, share: Column, native: Column, *, several: bool) -> Estimate:
    """A percentile in the type of Spark's; the weighted one is exact, and a double."""
    weights = weight()
    exact = estimates.weighted_percentile(SPARK, x, weights, share)
    typed = _as_type_of(exact.cast("variant"), native)
    value = estimates.spark_unless_shed(
        SPARK, weights, x, native, sf.array_compact(typed) if several else typed
    )
    return Estimate(value)


def _spark_where_nothing_was_shed(
    weighted: Column, native: Column, *, lenient: bool = False
) -> Column:
    """``weighted`` in the type of ``native``, or ``native`` where that is a different number.

    Of doubles it never is: the sum of ``1.0 * x`` is the sum of x, whatever x is.
    """
    use_weights = (sf.typeof(native) == "double") | (sf.max(WEIGHT) > JUST_ABOVE_ONE)
    typed = _as_type_of(weighted.cast("variant"), native, lenient=lenient)
    return sf.when(use_weights, typed).otherwise(native)


def _as_type_of(value: Column, example: Column, *, lenient: bool = False) -> Column:
    """A variant in the type of another column; ``lenient`` makes null of what does not fit."""
    function = "try_variant_get" if lenient else "variant_get"
    return sf.call_function(function, value, sf.lit("$"), sf.typeof(example))
