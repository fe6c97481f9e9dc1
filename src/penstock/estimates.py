"""Writes weighted aggregates as formulas, once for Spark's columns and for SQL.

An *algebra* builds expressions: ``penstock.spark.weighted_columns`` gives one whose expressions are
Spark columns, ``penstock.sql`` one whose expressions are nodes of a parsed query. The arithmetic is
that of ``tests.reference.estimate``, the oracle in the tests: ``w`` is one over the rate, null
where a tuple does not count; ``Σ w(w-1) f²`` is the variance of ``Σ w f`` for any influence f.

Where every weight is 1 the second-order aggregates are Spark's own, to the last digit.

An interval is Student's. A few tuples, or a few heavy ones among many light ones, say little about
the tuples that were shed. The *doubt* is one over the effective number of tuples behind a variance,
``Σ (w(w-1))² / (Σ w(w-1))²``: one over n for n tuples of one weight, and nearly 1 where a single
heavy tuple outweighs the others.

Student's interval supposes that errors are nearly normal. They are not where few tuples were kept
and the influences are skewed: then it holds the truth less often than it says. The *lean* is the
skewness of an estimate's error: ``Σ e f³ / (Σ e f²)^1.5 · √Σ e``, with ``e = w(w-1)``, times the
root of the doubt. An interval of a sum or a mean reaches further on the side to which its error
leans, by a multiple of the term by which Johnson (1978) and Hall (1992) move both its ends. The
other end stays, and the term is multiplied, since a few tuples show a part of their stream's
skewness only.

The *strain* is the squared lean; of second moments, whose interval does not reach further, it is
taken from the kurtosis. An interval is *certified* where doubt and strain are small. A sample
without its rare large values looks harmless, so that the flag is a judgement, and no proof.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations_with_replacement
from statistics import NormalDist
from typing import Any, Generic, Protocol, TypeVar


class Term(Protocol):
    """Is an expression of some algebra; arithmetic with it gives others."""

    def __add__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...


E = TypeVar("E", bound=Term)
Polynomial = Mapping[tuple[int, int], E | None]
"""The coefficients of a polynomial in x and y by powers; None is 1."""
FREQUENCY_PER_WEIGHT = 1024.0
"""Spark's percentile takes whole frequencies, so a weight is rounded to one part in so many."""

MOST_DOUBT = 1.0 / 12.0
"""An interval from fewer effective tuples than 12 is not certified."""
MOST_STRAIN = 0.8
"""Nor is one of whose error nearly all the skewness and spread is that of a single tuple."""
STRAIN_OF_SECOND_MOMENTS = 7.68
"""What a tuple adds to a variance is skewed by itself, and its interval does not reach further:
strain for each unit of what is known."""
LEAN_ONCE, LEAN_FOR_DOUBT, MOST_LEAN = 1.0, 60.0, 4.0
"""How many times Johnson's term an interval reaches further: once, and more while it is in doubt.
Of twenty tuples of a lognormal stream with σ = 1.5 it then covers nine times in ten and more, where
Student's interval covers less than eight times, and of a symmetric stream as often as it says."""
LEAN_OF_SUMS = 2.0
"""A sum's error is that of a count, which Student's interval is good for, and of how far the values
are from their mean; the skewness of that alone is small beside the spread of both."""

TAIL_OF_SECOND_MOMENTS = 4.0
"""Squares have long tails: with parts of 6 to 30 tuples, of which few came, intervals held the
truth as often as they say when a quarter of what came was counted."""

LEAST_SPREAD = 1e-9
"""Of the squares that it is the difference of: a spread below this is mostly rounding."""

JUST_ABOVE_ONE = 1.0 + 2.0**-52
"""The weight of a tuple that was sure to be admitted while others of its query were shed."""
JUST_BELOW_ONE = 1.0 - 2.0**-53
"""The most that a result says to be complete where something may have been shed."""


class Algebra(Protocol[E]):
    """Says all that formulas need to know of the expressions that they are made of."""

    def call(self, name: str, *arguments: E) -> E:
        """Calls a function of Spark SQL by its name there."""

    def literal(self, value: float | None) -> E:
        """Returns a constant; None is null."""


@dataclass(frozen=True)
class Influence(Generic[E]):
    """Says what a part adds to an estimate, to first order: coefficients times its sums."""

    terms: Sequence[tuple[E | None, E]]
    mass: E
    """The sum that says how large a part is: ``Σw``."""
    squared_scale: E | None = None
    """What squares of the influence are divided by; None is 1."""
    fitted: int = 0
    """How many estimates it is taken about: each uses up one part of those that came."""
    tail: float = 1.0
    """How many times fewer parts and tuples tell of its spread than of their mass."""


@dataclass(frozen=True)
class Weighted(Generic[E]):
    """Holds an estimate, and the variance of its error; None where no sound one is known."""

    value: E
    variance: E | None = None
    doubt: E | None = None
    """One over the degrees of freedom of the variance."""
    centre: E | None = None
    """The middle of the interval, a double, where the value has another form."""
    strain: E | None = None
    """The squared skewness of the error; 1 or more where nothing is known of it."""
    lean: E | None = None
    """The skewness of the error, where the interval reaches further on that side."""
    size: E | None = None
    """The effective number of tuples, ``(Σw)² / Σw²``: as many of one weight tell as much."""
    of_sums: E | None = None
    """The value made of sums alone, where ``value`` may be Spark's own aggregate."""
    influence: Callable[[], Influence[E]] | None = None
    """What a part adds; made when it is asked for."""


def student(z: float, doubt: E) -> E:
    """Returns Student's quantile where the normal one is z (Fisher's expansion, second order)."""
    first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    quantile: E = (doubt * second + first) * doubt + z
    return quantile


def bounds(algebra: Algebra[E], found: Weighted[E], confidence: float) -> tuple[E, E]:
    """Returns the interval that holds the truth with this confidence."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence}")
    if found.variance is None or found.doubt is None:
        raise ValueError("no sound interval is known for this aggregate")
    spread = algebra.call("greatest", found.variance, algebra.literal(0.0))
    value = algebra.call("double", found.value) if found.centre is None else found.centre
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    error = algebra.call("sqrt", spread)
    half = student(z, found.doubt) * error
    if found.lean is None:
        return value - half, value + half
    nothing = algebra.literal(0.0)
    further = found.lean * (_times(algebra, found.doubt) * ((1.0 + 2.0 * z * z) / 6.0)) * error
    low = value - half + algebra.call("least", further, nothing)
    return low, value + half + algebra.call("greatest", further, nothing)


def _times(f: Algebra[E], doubt: E) -> E:
    return f.call("least", doubt * LEAN_FOR_DOUBT + LEAN_ONCE, f.literal(MOST_LEAN))


def certified(f: Algebra[E], found: Weighted[E]) -> E:
    """Says whether an interval holds the truth about as often as its confidence says.

    It is for groups of which something was shed; in others an interval is a point, and certain.
    """
    if found.doubt is None or found.strain is None or found.size is None:
        raise ValueError("no sound interval is known for this aggregate")
    no, yes = f.literal(False), f.literal(True)
    little = f.call("if", found.strain > MOST_STRAIN, no, yes)
    some = f.call("if", found.doubt > MOST_DOUBT, no, little)
    estimated = f.call("if", found.doubt > 0.0, some, yes)
    return f.call("if", found.size > 0.0, estimated, no)


def completeness(f: Algebra[E], came: E, missing: E, most: E) -> E:
    """Estimates what share of the information was kept: ``Σs / (Σs + Σs(w-1))``.

    ``missing`` is above 0 wherever a weight is above 1, however little, since nothing is
    subtracted from it. It says by how much; that it is not nothing is certain, and so the share is
    at most ``most``, which is below 1 there.
    """
    share = f.call("try_divide", came, came + missing)
    return f.call("nvl2", share, f.call("least", share, most), f.literal(None))


def count(f: Algebra[E], w: E) -> Weighted[E]:
    """Estimates how many tuples arrived: ``Σw``, rounded to a whole number."""
    total = f.call("coalesce", f.call("round", f.call("sum", w)), f.literal(0))
    variance = f.call("coalesce", _sum(f, _extra(w)), f.literal(0.0))
    doubt = _doubt(f, w)
    found = Weighted(f.call("bigint", total), variance, doubt, strain=doubt, size=_size(f, w))
    return replace(found, influence=lambda: Influence([(None, _sum(f, w))], _sum(f, w)))


def total(f: Algebra[E], x: E, w: E) -> Weighted[E]:
    """Estimates a sum: ``Σwx``."""
    x = f.call("double", x)
    there = _where_all(f, w, x)
    doubt, second = _doubt(f, there), _sum(f, _extra(w) * x * x)
    skew = Skew(_sum(f, _extra(w) * x * x * x), second, _sum(f, _extra(there)), doubt)
    centre: E = _sum(f, w * x) / _sum(f, there)
    about = replace(skew, third=_cubes_about(f, x, _extra(w), skew.once, centre))
    found = Weighted(_sum(f, w * x), second, doubt, size=_size(f, there))
    found = replace(found, strain=_strain(f, skew), lean=_lean(f, about) * LEAN_OF_SUMS)
    return replace(found, influence=lambda: Influence([(None, _sum(f, w * x))], _sum(f, there)))


def mean(f: Algebra[E], x: E, w: E) -> Weighted[E]:
    """Estimates a mean, ``Σwx / Σw`` over tuples that have an x; an influence is ``(x-μ) / Σw``."""
    x, every, w = f.call("double", x), w, _where_all(f, w, x)
    size = _sum(f, w)
    centre: E = _sum(f, every * x) / size
    influence: Polynomial[E] = {(1, 0): None, (0, 0): _minus(f, centre)}
    spread = _spread(f, w, influence, x, x, every)
    least = _sum(f, _extra(every) * x * x) * LEAST_SPREAD
    cubes = _cubes_about(f, x, _extra(every), _sum(f, _extra(w)), centre)
    skew = Skew(cubes, spread, _sum(f, _extra(w)), _doubt(f, w), least)
    strain, lean = _strain(f, skew), _lean(f, skew)
    found = replace(_about_itself(f, w, centre, spread / (size * size), strain), lean=lean)
    return replace(found, influence=lambda: _influence(f, w, influence, x, x, size * size, every))


def covariance(f: Algebra[E], x: E, y: E, w: E, *, sample: bool = False) -> Weighted[E]:
    """Estimates ``Σw(x-μ)(y-ν) / Σw``; the influence of a tuple is ``((x-μ)(y-ν) - cov) / Σw``."""
    w = _where_all(f, w, x, y)
    x, y = f.call("double", x), f.call("double", y)
    size = _sum(f, w)
    mu, nu = _sum(f, w * x) / size, _sum(f, w * y) / size
    value: E = _sum(f, w * x * y) / size - mu * nu
    influence: Polynomial[E] = {
        (1, 1): None,
        (1, 0): _minus(f, nu),
        (0, 1): _minus(f, mu),
        (0, 0): mu * nu - value,
    }
    spread = _spread(f, w, influence, x, y)
    strain = _strain_of_second(f, w, spread, _about(f, x, w) * _about(f, y, w))
    native = f.call("covar_samp" if sample else "covar_pop", x, y)
    best = _of_sample(f, value, size) if sample else value
    found = _exact(f, w, native, best, spread / (size * size), strain)
    return replace(found, influence=lambda: _influence(f, w, influence, x, y, size * size))


def variance(f: Algebra[E], x: E, w: E, *, sample: bool = False) -> Weighted[E]:
    """Estimates the covariance of x with itself, with fewer sums."""
    every = w
    value, spread, size, w, x, influence = _moments(f, x, w)
    strain = _strain_of_second(f, w, spread * size * size, value * value)
    native = f.call("var_samp" if sample else "var_pop", x)
    found = _exact(f, w, native, _of_sample(f, value, size) if sample else value, spread, strain)
    return replace(found, influence=lambda: _influence(f, w, influence, x, x, size * size, every))


def deviation(f: Algebra[E], x: E, w: E, *, sample: bool = False) -> Weighted[E]:
    """Estimates the square root of the variance v.

    Its own variance is ``var(v) / 4v``, to first order.
    """
    every = w
    value, spread, size, w, x, influence = _moments(f, x, w)
    strain = _strain_of_second(f, w, spread * size * size, value * value)
    native = f.call("stddev_samp" if sample else "stddev_pop", x)
    scaled = _of_sample(f, value, size) if sample else value
    rooted = f.call("try_divide", spread, f.call("greatest", value, f.literal(0.0)) * 4.0)
    root = f.call("sqrt", f.call("greatest", scaled, f.literal(0.0)))
    found = _exact(f, w, native, root, f.call("coalesce", rooted, f.literal(0.0)), strain)
    scale = f.call("greatest", value, f.literal(0.0)) * 4.0 * size * size
    return replace(found, influence=lambda: _influence(f, w, influence, x, x, scale, every))


def correlation(f: Algebra[E], x: E, y: E, w: E) -> Weighted[E]:
    """Estimates ``cov(x, y) / sqrt(var(x) var(y))``, without an interval."""
    w = _where_all(f, w, x, y)
    x, y = f.call("double", x), f.call("double", y)
    joint, one, two = (_second(f, a, b, w) for a, b in ((x, y), (x, x), (y, y)))
    roots = f.call("sqrt", f.call("greatest", one * two, f.literal(0.0)))
    value = f.call("try_divide", joint, roots)
    clipped = f.call("greatest", f.call("least", value, f.literal(1.0)), f.literal(-1.0))
    return Weighted(_whole(f, w, f.call("corr", x, y), clipped), of_sums=clipped)


def percentile(
    f: Algebra[E], name: str, x: E, w: E, *arguments: E, frequency: E | None = None
) -> Weighted[E]:
    """Estimates the value below which a share of the weight lies, without an interval.

    ``name`` is Spark's function, ``arguments`` follow its first. With weights the exact percentile
    takes over, since only that one takes frequencies. A ``frequency`` of the user's own, which is
    then among the arguments, multiplies them.
    """
    share = arguments[0] if arguments else f.literal(0.5)
    exact = weighted_percentile(f, x, w, share, frequency)
    return Weighted(spark_unless_shed(f, w, x, f.call(name, x, *arguments), exact))


def weighted_percentile(f: Algebra[E], x: E, w: E, share: E, frequency: E | None = None) -> E:
    """Returns the exact percentile, a double, with each value as often as its weight says."""
    times = f.call("bigint", f.call("round", w * FREQUENCY_PER_WEIGHT))
    if frequency is not None:
        times = times * frequency
    return f.call("percentile", x, share, times)


def spark_unless_shed(f: Algebra[E], w: E, x: E, native: E, weighted: E) -> E:
    """Returns Spark's own aggregate where no tuple that has an x stands for another."""
    return _whole(f, _where_all(f, w, x), native, weighted)


# --- what they share ---------------------------------------------------------------------------


def _sum(f: Algebra[E], x: E) -> E:
    return f.call("sum", x)


def _extra(w: E) -> E:
    extra: E = w * (w - 1.0)
    return extra


def _minus(f: Algebra[E], x: E) -> E:
    negated: E = f.literal(-1.0) * x
    return negated


def _where_all(f: Algebra[E], w: E, *there: E) -> E:
    """Returns the weight of tuples that have all of these values; null for others."""
    for x in there:
        w = f.call("nvl2", x, w, f.literal(None))
    return w


def _spread(f: Algebra[E], w: E, influence: Polynomial[E], x: E, y: E, every: E | None = None) -> E:
    """Returns ``Σ w(w-1) p(x, y)²`` for a polynomial, expanded so that one pass is enough.

    ``every`` is the weight of all tuples, where only those with an x count and there is no y: a
    product with their x needs no other, since it is null where the x is.
    """
    parts: list[E] = []
    for (i, j), (k, m) in combinations_with_replacement(influence, 2):
        start = _extra(_simplest(w, every, i + k + j + m))
        part = _sum(f, _power(start, x, y, i + k, j + m))
        for coefficient in (influence[i, j], influence[k, m]):
            part = part if coefficient is None else coefficient * part
        parts.append(part if (i, j) == (k, m) else part * 2.0)
    return reduce(_plus, parts)


def _influence(
    f: Algebra[E],
    w: E,
    influence: Polynomial[E],
    x: E,
    y: E,
    scale: E,
    every: E | None = None,
) -> Influence[E]:
    """Returns what a part adds: the polynomial, summed over it; see `_spread` for ``every``.

    A mean is taken about itself, and a second moment about means too, which count for one.
    """
    terms = [
        (c, _sum(f, _power(_simplest(w, every, sum(at)), x, y, *at))) for at, c in influence.items()
    ]
    degree = max(map(sum, influence))
    tail = TAIL_OF_SECOND_MOMENTS if degree > 1 else 1.0
    return Influence(terms, _sum(f, w), scale, fitted=degree, tail=tail)


def _simplest(w: E, every: E | None, powers: int) -> E:
    return w if every is None or powers == 0 else every


def _plus(a: E, b: E) -> E:
    total: E = a + b
    return total


def _power(start: E, x: E, y: E, in_x: int, in_y: int) -> E:
    for factor in [x] * in_x + [y] * in_y:
        start = start * factor
    return start


def _second(f: Algebra[E], x: E, y: E, w: E) -> E:
    size = _sum(f, w)
    value: E = _sum(f, w * x * y) / size - (_sum(f, w * x) / size) * (_sum(f, w * y) / size)
    return value


def _moments(f: Algebra[E], x: E, w: E) -> tuple[E, E, E, E, E, Polynomial[E]]:
    """Returns the population variance, the variance of that estimate, and what they are made of."""
    x, every, w = f.call("double", x), w, _where_all(f, w, x)
    size = _sum(f, w)
    mu = _sum(f, every * x) / size
    value: E = _sum(f, every * x * x) / size - mu * mu
    influence: Polynomial[E] = {
        (2, 0): None,
        (1, 0): f.literal(-2.0) * mu,
        (0, 0): mu * mu - value,
    }
    spread = _spread(f, w, influence, x, x, every) / (size * size)
    return value, spread, size, w, x, influence


def _of_sample(f: Algebra[E], value: E, size: E) -> E:
    """Applies Bessel's correction with the estimated size."""
    return f.call("try_divide", value * size, size - 1.0)


def _whole(f: Algebra[E], w: E, native: E, weighted: E) -> E:
    """Returns Spark's own aggregate where nothing was shed."""
    shed: E = f.call("max", w) > JUST_ABOVE_ONE
    return f.call("if", shed, weighted, native)


def _exact(f: Algebra[E], w: E, native: E, weighted: E, spread: E, strain: E) -> Weighted[E]:
    found = _about_itself(f, w, _whole(f, w, native, weighted), spread, strain)
    return replace(found, of_sums=weighted)


def _size(f: Algebra[E], w: E) -> E:
    once = _sum(f, w)
    size = f.call("try_divide", once * once, _sum(f, _extra(w)) + once)
    return f.call("coalesce", size, f.literal(0.0))


@dataclass(frozen=True)
class Skew(Generic[E]):
    """Holds the sums that say how skewed an error is."""

    third: E
    second: E
    once: E
    doubt: E
    least: E | None = None
    """A second moment below this is but rounding; None is 0."""

    def known(self, f: Algebra[E], value: E, otherwise: float) -> E:
        """Returns the value where there is a spread, and else what is told ``otherwise``."""
        least, unknown = self.least, f.literal(otherwise)
        above = self.second > (f.literal(0.0) if least is None else least)
        return f.call("if", above, f.call("coalesce", value, unknown), unknown)


def _strain(f: Algebra[E], skew: Skew[E]) -> E:
    squared = skew.third * skew.third * skew.once
    cubed = skew.second * skew.second * skew.second
    return skew.known(f, f.call("try_divide", squared * skew.doubt, cubed), 1.0)


def _lean(f: Algebra[E], skew: Skew[E]) -> E:
    ratio = f.call("try_divide", skew.once * skew.doubt, skew.second)
    root = f.call("sqrt", f.call("greatest", ratio, f.literal(0.0)))  # by rounding it may be less
    return skew.known(f, f.call("try_divide", skew.third, skew.second) * root, 0.0)


def _cubes_about(f: Algebra[E], x: E, e: E, once: E, centre: E) -> E:
    """Returns ``Σ e (x-c)³``, where ``once`` is ``Σ e``; all sums but one are the spread's."""
    cubes, squares = _sum(f, e * x * x * x), _sum(f, e * x * x)
    rest = _sum(f, e * x) * 3.0 - once * centre
    about: E = cubes - squares * centre * 3.0 + rest * centre * centre
    return about


def _strain_of_second(f: Algebra[E], w: E, spread: E, squared: E) -> E:
    """Returns it for second moments, from their kurtosis: sixth powers would not be sound."""
    tail = f.call("try_divide", spread, _sum(f, _extra(w)) * squared)
    known = tail * tail * _doubt(f, w) * STRAIN_OF_SECOND_MOMENTS
    sound = f.call("if", squared > 0.0, f.call("coalesce", known, f.literal(1.0)), f.literal(1.0))
    return f.call("if", spread > 0.0, sound, f.literal(1.0))


def _about(f: Algebra[E], x: E, w: E) -> E:
    """Returns the variance of x where tuples count by ``w(w-1)``."""
    e = _extra(w)
    mu = f.call("try_divide", _sum(f, e * x), _sum(f, e))
    about: E = f.call("try_divide", _sum(f, e * x * x), _sum(f, e)) - mu * mu
    return about


def _doubt(f: Algebra[E], w: E) -> E:
    once, squared = _sum(f, _extra(w)), _sum(f, _extra(w) * _extra(w))
    return f.call("coalesce", f.call("try_divide", squared, once * once), f.literal(0.0))


def _about_itself(f: Algebra[E], w: E, value: E, spread: E, strain: E) -> Weighted[E]:
    """Corrects a spread that was taken about the estimate itself, which uses up one tuple."""
    doubt = _doubt(f, w)
    left = f.call("greatest", doubt * -1.0 + 1.0, f.literal(0.5))
    freedom = f.call("least", doubt / left, f.literal(1.0))
    return Weighted(value, spread / left, freedom, strain=strain, size=_size(f, w))
